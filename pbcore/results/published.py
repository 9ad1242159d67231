"""Published results in our columns: run folders and the table of the 2026 rewrite, and Tables 5–7 of the paper."""

from __future__ import annotations

import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.errors import InputError
from pbcore.tasks.lists import OPERATIONS
from pbcore.tasks.naming import REWRITE, category

if TYPE_CHECKING:
    import pandas as pd

# Our task → the rewrite's name of it.
NAMES = {
    **{f"waiting_line/{operation}": f"waiting_line_{operation}" for operation in OPERATIONS},
    **{f"text_writing/w2s_{level}": f"text_writing_words_to_sentence_{level}" for level in ("easy", "medium", "hard")},
    "text_writing/summarization": "text_writing_summarization",
    "text_writing/paraphrasing": "text_writing_paraphrasing",
    "puzzle/latin_square": "puzzles_latin_square_n4",
    "puzzle/sudoku": "puzzles_sudoku_n4",
}
TASKS = {published: own for own, published in NAMES.items()}
SCORES = {
    "score_strict": "accuracy_strict",
    "grammar": "grammar",
    "grammar_score": "grammar",
    "inclusion": "inclusion",
    "inclusion_score": "inclusion",
    "rougeL": "rouge_l",
    "rougeL_score": "rouge_l",
    "bertscore": "bertscore",
    "bertscore_score": "bertscore",
    "inv_bleu": "inv_bleu",
    "inv_bleu_score": "inv_bleu",
}
RESULTS_FILE = "results_parallelbench.json"
_TOP_K = {
    "confidence_topk": "confidence",
    "topk_margin": "margin",
    "entropy_topk": "entropy",
    "left_to_right": "left_to_right",
    "random": "random",
}


def read(path: Path) -> pd.DataFrame | None:
    """Rows of published results at `path`, or None if it contains no known kind.

    Known kinds: a run folder of the 2026 rewrite or any folder above such folders
    (`<model>/<method>/<param>/<date>_all/`), its table as CSV (columns model, method, param, task, score …), and the
    paper's tables as CSV (columns table, model, task, metric, value_percent). Scores are converted to [0, 1]; NaN and
    empty values become NaN. Column `prompts` names the source of the questions, since the rewrite's differ from the
    paper's (v1).
    """
    import pandas as pd

    if path.is_dir() and not (path / "cells").is_dir() and not (path / "results.json").exists():
        found = sorted(path.rglob(RESULTS_FILE))
        return pd.concat([_run_folder(file) for file in found], ignore_index=True) if found else None
    if path.suffix == ".csv" and path.exists():
        table = pd.read_csv(path)
        if {"method", "param", "task", "score"} <= set(table.columns):
            return _v2_table(table)
        if {"table", "metric", "value_percent"} <= set(table.columns):
            return _paper_tables(table)
        raise InputError(
            f"{path}: unknown columns {list(table.columns)}; known tables have method, param, task, score or table, "
            "metric, value_percent"
        )
    return None


def figures() -> pd.DataFrame:
    """The published figures that come with the package, in the columns of `read`: Tables 5–7 of the paper (arXiv
    2510.04767) and the public runs of the 2026 rewrite, as their CSV files have them, arranged by model and task."""
    import pandas as pd

    folder = files("pbcore.results").joinpath("figures")
    with folder.joinpath("paper.csv").open(encoding="utf-8") as stream:
        paper = pd.read_csv(stream).melt(["table", "task", "metric"], var_name="model", value_name="value_percent")
    with folder.joinpath("rewrite.csv").open(encoding="utf-8") as stream:
        wide = pd.read_csv(stream).melt(["model", "method", "param", "measure"], var_name="task")
    runs = wide.pivot(index=["model", "method", "param", "task"], columns="measure", values="value").reset_index()
    runs = runs[runs["score"].notna()]
    grammar = runs["score"].where(runs["task"].str.startswith("text_writing"))
    setting = "dLLMs: k=2, no semi-AR"
    of_lists = paper["task"].str.startswith("waiting_line/").map({True: f"n=15; {setting}", False: setting})
    tables = [_paper_tables(paper.assign(setting=of_lists)), _v2_table(runs.assign(grammar=grammar))]
    return pd.concat(tables, ignore_index=True)


def sampler_name(method: str, param: str) -> str:
    """Our name for a method and parameter folder of the rewrite, e.g. (`confidence_threshold`, `t0.7`) →
    `threshold-0.7`.

    `confidence_factor` becomes `factor-…-ref`, since the rewrite uses the reference code's rule. Methods without a
    counterpart keep their own name, joined with the parameter so that it can be part of a node id.
    """
    if method in _TOP_K and re.fullmatch(r"k\d+", param):
        return f"{_TOP_K[method]}-{param}"
    if method == "confidence_threshold":
        return f"threshold-{param.removeprefix('t')}"
    if method == "confidence_factor":
        return f"factor-{param.removeprefix('f')}-ref"
    if method == "klass" and (match := re.match(r"conf_threshold([\d.]+)_", param)):
        return f"klass-{match[1]}"
    return f"{method}-{param}"


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)


def _run_folder(file: Path) -> pd.DataFrame:
    model, method, param = file.parts[-5:-2] if len(file.parts) >= 5 else ("unknown", "unknown", "unknown")
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    rows = []
    for name, values in results.items():
        task = TASKS.get(name.removeprefix("parallelbench_"))
        if task is not None:
            plain = {key.removesuffix(",none"): value for key, value in values.items() if key.endswith(",none")}
            rows.append(_row(model, method, param, task, plain) | {"run": file.parent.name})
    return _frame(rows)


def _v2_table(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for entry in table.to_dict("records"):
        task = TASKS.get(str(entry["task"]))
        if task is not None:
            values = {str(key): value for key, value in entry.items()}
            rows.append(
                _row(values["model"], values["method"], values["param"], task, values) | {"run": values.get("run", "")}
            )
    return _frame(rows)


def _row(model: str, method: str, param: str, task: str, values: dict[str, Any]) -> dict[str, Any]:
    """One row in our columns.

    The rewrite's `score` is accuracy for lists and puzzles, grammar alone for text.
    """
    text = task.startswith("text_writing/")
    headline = "grammar" if text else "accuracy"
    sampler, short = sampler_name(method, param), model.replace("__", "/")
    scores = {SCORES[key]: _share(value) for key, value in values.items() if key in SCORES}
    scores[headline] = _share(values.get("score"))
    return {
        "id": f"{short}/{task.split('/', 1)[1]}/{sampler}",
        "model": short,
        "task": task,
        "category": category(task),
        "sampler": sampler,
        "status": "ok",
        "prompts": REWRITE,
        "headline": headline,
        "score": scores[headline],
        **scores,
        **dict.fromkeys(("nfe", "rows"), _number(values.get("nfe"))),
        **dict.fromkeys(("tokens_per_step", "tokens_per_row"), _number(values.get("tokens_per_step"))),
        "output_length": _number(values.get("output_length")),
        "data_source": "published",
        "dummy": False,
        "shared_device": False,
    }


def _paper_tables(table: pd.DataFrame) -> pd.DataFrame:
    """Tables 5–7 of the paper: a row per model and task, a column per metric; headline as for the rewrite. The tables
    have one setting per model (column `setting`), so the sampler is called `as-published`."""
    names = table["task"].map(lambda name: TASKS.get(str(name), str(name)))
    wide = (
        table.assign(task=names, value=table["value_percent"] / 100)
        .pivot_table(index=["table", "model", "task", "setting"], columns="metric", values="value", sort=False)
        .reset_index()
        .rename_axis(columns=None)
    )
    text = wide["task"].str.startswith("text_writing/")
    return wide.assign(
        id=wide["model"] + "/" + wide["task"].str.split("/").str[1] + "/as-published",
        category=wide["task"].map(category),
        sampler="as-published",
        prompts="v1",
        headline=text.map({True: "grammar", False: "accuracy"}),
        score=wide["grammar"].where(text, wide["accuracy"]),
        data_source="published",
        status="ok",
        dummy=False,
        shared_device=False,
    )


def _share(percent: Any) -> float:
    return _number(percent) / 100


def _number(value: Any) -> float:
    """A published number; NaN for a missing value and for text such as N/A."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
