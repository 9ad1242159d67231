"""Published results in our columns: run folders and the table of the 2026 rewrite, the official
site's points, and Tables 5–7 of the paper.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.base.check import LoadError
from pbcore.base.printable import printable, shown
from pbcore.extras.paper import official_site
from pbcore.tasks.lists import OPERATIONS
from pbcore.tasks.naming import REWRITE, category

if TYPE_CHECKING:
    import pandas as pd

# Our task → the rewrite's name of it.
NAMES = {
    **{f"waiting_line/{operation}": f"waiting_line_{operation}" for operation in OPERATIONS},
    **{
        f"text_writing/w2s_{level}": f"text_writing_words_to_sentence_{level}"
        for level in ("easy", "medium", "hard")
    },
    "text_writing/summarization": "text_writing_summarization",
    "text_writing/paraphrasing": "text_writing_paraphrasing",
    "puzzle/latin_square": "puzzles_latin_square_n4",
    "puzzle/sudoku": "puzzles_sudoku_n4",
}
TASKS = {published: own for own, published in NAMES.items()}
# The rewrite's name of a score → ours.
SCORES = {
    "score_strict": "accuracy_strict",
    "grammar": "grammar",
    "grammar_score": "grammar",
    "inclusion": "inclusion",
    "inclusion_score": "inclusion",
    "bertscore": "bertscore",
    "bertscore_score": "bertscore",
    "inv_bleu": "inv_bleu",
    "inv_bleu_score": "inv_bleu",
    "rougeL": "rouge_l",
    "rougeL_score": "rouge_l",
}
_ALL: dict[str, Any] = {
    "status": "ok",
    "data_source": "published",
    "dummy": False,
    "shared_device": False,
}
RESULTS_FILE = "results_parallelbench.json"
_TOP_K = {
    "confidence_topk": "confidence",
    "topk_margin": "margin",
    "entropy_topk": "entropy",
    "left_to_right": "left_to_right",
    "random": "random",
}


def read_published(path: Path) -> pd.DataFrame | None:
    """Rows of published results at `path`, or None if it contains no known kind: a run folder of
    the 2026 rewrite or any folder above such folders (`<model>/<method>/<param>/<date>_all/`), its
    table as CSV (columns model, method, param, task, score …), the official site's points as CSV
    (columns model, strategy, task, tokens_per_step, score_percent), or the paper's tables as CSV
    (columns table, model, task, metric, value_percent). Scores are in [0, 1]; NaN and empty values
    become NaN. Column `prompts` names the source of the questions: the rewrite's differ from the
    paper's.
    """
    import pandas as pd

    if path.is_dir() and not (path / "cells").is_dir() and not (path / "results.json").exists():
        runs = sorted(path.rglob(RESULTS_FILE))
        if not runs:
            return None
        return pd.concat([_run_folder(file) for file in runs], ignore_index=True)
    if path.suffix == ".csv" and path.exists():
        return _table(path)
    return None


def _table(path: Path) -> pd.DataFrame:
    """The rows of a CSV file of one of these kinds. Raises LoadError for another one."""
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except ValueError as error:  # bytes that are no text, rows of several lengths, nothing at all
        raise LoadError(f"{path} is not a CSV table ({printable(str(error).strip())})") from error
    columns = set(table.columns)
    if {"model", "method", "param", "task", "score"} <= columns:
        return _rows(table.to_dict("records"))
    if {"table", "model", "task", "setting", "metric", "value_percent"} <= columns:
        return _paper_tables(table)
    if {"model", "strategy", "task", "tokens_per_step", "score_percent"} <= columns:
        points = table.groupby(["model", "strategy", "task"]).cumcount() + 1
        return _site_rows(table.assign(point=points))
    raise LoadError(
        f"{path}: unknown columns {shown(list(table.columns))}; known tables have model,"
        " method, param, task, score, or model, strategy, task, tokens_per_step, score_percent, or"
        " table, model, task, setting, metric, value_percent"
    )


def figures() -> pd.DataFrame:
    """The published figures that come with the package, in the columns of `read_published`: Tables
    5–7 of the paper (arXiv 2510.04767), the public runs of the 2026 rewrite, and the points of the
    official site that are none of these runs, as their CSV files have them, arranged by model and
    task.
    """
    import pandas as pd

    paper = _packaged_table("paper.csv")
    paper = paper.melt(["table", "task", "metric"], var_name="model", value_name="value_percent")
    setting = "dLLMs: k=2, no semi-AR"
    is_list = paper["task"].str.startswith("waiting_line/")
    settings = is_list.map({True: f"n=15; {setting}", False: setting})

    runs = _packaged_table("rewrite.csv")
    runs = runs.melt(["model", "method", "param", "measure"], var_name="task")
    runs = runs.pivot(
        index=["model", "method", "param", "task"], columns="measure", values="value"
    ).reset_index()
    runs = runs[runs["score"].notna()]
    grammar = runs["score"].where(runs["task"].str.startswith("text_writing"))
    rewrite = _rows(runs.assign(grammar=grammar).to_dict("records"))
    site = _site_rows(official_site.site_points())
    known = set(rewrite["id"])  # with more scores than the site shows
    tables = [
        _paper_tables(paper.assign(setting=settings)),
        rewrite,
        site[~site["id"].isin(known)],
    ]
    return pd.concat(tables, ignore_index=True)


def _site_rows(points: pd.DataFrame) -> pd.DataFrame:
    """The site's points whose sampler is certain. Their questions are the rewrite's."""
    named = official_site.named_points(points)
    tasks = named["task"].map(official_site.TASKS)
    headline = tasks.map(_headline)
    score = named["score_percent"] / 100
    return named[["model", "sampler", "tokens_per_step"]].assign(
        id=named["model"] + "/" + tasks.str.split("/").str[1] + "/" + named["sampler"],
        task=tasks,
        category=tasks.map(category),
        prompts=REWRITE,
        published_by="official site",
        headline=headline,
        score=score,
        accuracy=score.where(headline == "accuracy"),
        grammar=score.where(headline == "grammar"),
        **_ALL,
    )


def _packaged_table(name: str) -> pd.DataFrame:
    """A CSV file of published figures that comes with the package."""
    import pandas as pd

    file = files("pbcore.extras.paper").joinpath("data", name)
    return pd.read_csv(io.StringIO(file.read_text(encoding="utf-8")))


def sampler_name(method: str, param: str) -> str:
    """Our name for a method and parameter folder of the rewrite: (`confidence_threshold`, `t0.7`) →
    `threshold-0.7`, `confidence_factor` → `factor-…-ref` (the reference code's rule). Methods
    without a counterpart keep their names, joined with the parameter so that it can be part of a
    node id.
    """
    if method in _TOP_K and re.fullmatch(r"k\d+", param):
        return f"{_TOP_K[method]}-{param}"
    if method == "confidence_threshold":
        return f"threshold-{param.removeprefix('t')}"
    if method == "confidence_factor":
        return f"factor-{param.removeprefix('f')}-ref"
    if method == "klass":
        match = re.match(r"conf_threshold([\d.]+)_", param)
        if match:
            return f"klass-{match[1]}"
    return f"{method}-{param}"


def _run_folder(file: Path) -> pd.DataFrame:
    """The rows of one run: a file `<model>/<method>/<param>/<date>_all/results_….json`."""
    model = method = param = "unknown"
    if len(file.parts) >= 5:
        model, method, param = file.parts[-5:-2]
    names = {"model": model, "method": method, "param": param, "run": file.parent.name}
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    entries = []
    for name, values in results.items():
        entry: dict[str, Any] = {}
        for key, value in values.items():
            if key.endswith(",none"):
                entry[key.removesuffix(",none")] = value
        entries.append({**entry, **names, "task": name.removeprefix("parallelbench_")})
    return _rows(entries)


def _rows(entries: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """The rows of entries with model, method, param, task and scores, those of tasks that we
    have.
    """
    import pandas as pd

    rows = []
    for entry in entries:
        if entry["task"] in TASKS:
            rows.append({**_row(entry), "run": entry.get("run", "")})
    return pd.DataFrame(rows)


def _row(values: Mapping[Any, Any]) -> dict[str, Any]:
    """One row in our columns. The rewrite's `score` is accuracy for lists and puzzles, grammar
    alone for text.
    """
    task = TASKS[values["task"]]
    headline = _headline(task)
    sampler = sampler_name(values["method"], values["param"])
    short = values["model"].replace("__", "/")
    scores = {SCORES[key]: _number(value) / 100 for key, value in values.items() if key in SCORES}
    scores[headline] = _number(values.get("score")) / 100
    forwards = _number(values.get("nfe"))
    tokens_per_forward = _number(values.get("tokens_per_step"))
    return {
        "id": f"{short}/{task.split('/', 1)[1]}/{sampler}",
        "model": short,
        "task": task,
        "category": category(task),
        "sampler": sampler,
        "prompts": REWRITE,
        "headline": headline,
        "score": scores[headline],
        **scores,
        "nfe": forwards,
        "rows": forwards,
        "tokens_per_step": tokens_per_forward,
        "tokens_per_row": tokens_per_forward,
        "output_length": _number(values.get("output_length")),
        **_ALL,
    }


def _paper_tables(table: pd.DataFrame) -> pd.DataFrame:
    """Tables 5–7 of the paper: a row per model and task. They have one setting per model: sampler
    `as-published`.
    """
    names = table["task"].map(lambda name: TASKS.get(str(name), str(name)))
    wide = (
        table.assign(task=names, value=table["value_percent"] / 100)
        .pivot_table(
            index=["table", "model", "task", "setting"],
            columns="metric",
            values="value",
            sort=False,
        )
        .reset_index()
        .rename_axis(columns=None)
    )
    headline = wide["task"].map(_headline)
    scores = wide.reindex(columns=["accuracy", "grammar"])
    return wide.assign(
        id=wide["model"] + "/" + wide["task"].str.split("/").str[1] + "/as-published",
        category=wide["task"].map(category),
        sampler="as-published",
        prompts="v1",
        headline=headline,
        score=scores["grammar"].where(headline == "grammar", scores["accuracy"]),
        **_ALL,
    )


def _headline(task: str) -> str:
    return "grammar" if task.startswith("text_writing/") else "accuracy"


def _number(value: Any) -> float:
    """A published number; NaN for a missing value and for text such as N/A."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return math.nan


class PaperResults:
    """What the paper, the 2026 rewrite and the official site published."""

    read = staticmethod(read_published)


RESULTS = PaperResults()
