"""The command `pbcore import`: makes a full run, with samples and questions, of run folders of the
benchmark's 2026 rewrite, for reports, comparisons and `pbcore rescore`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from pbcore.base.check import LoadError, dump_json
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable, shown
from pbcore.base.tabular import Table, Value, terminal
from pbcore.extras.paper import published
from pbcore.extras.paper.published import NAMES, RESULTS_FILE, TASKS, sampler_name
from pbcore.extras.paper.rewrite.questions import samples_file
from pbcore.models.base import Generation
from pbcore.report.files import write_all
from pbcore.results.build import build_cell, length_text
from pbcore.results.environment import versions
from pbcore.results.questions import DATA, write_questions
from pbcore.results.record import CellRecord, Conditions, Statistics
from pbcore.results.rundir import RunDir, StoredCell, create, new_name, write_atomic
from pbcore.tasks.base import Task
from pbcore.tasks.files import read_json_lines
from pbcore.tasks.naming import REWRITE, short
from pbcore.tasks.registry import load_task
from pbcore.tasks.scoring import Scored

# Scores of a sample's row → ours. Its ROUGE-L is without stemmer.
SCORES = {
    theirs: "rouge_l_unstemmed" if ours == "rouge_l" else ours
    for theirs, ours in published.SCORES.items()
}
ORDER = ("dec_order_kendall", "dec_order_spearman")
MOST = 10**6  # forwards or tokens of an answer
NO_TIME = "an imported run: the rewrite's samples files have no times"


@dataclass(frozen=True, slots=True)
class Imported:
    """One imported cell, the score that the folder's results file publishes for it (in [0, 1]), if
    any, and its questions as text.
    """

    stored: StoredCell
    published: float | None
    file: Path
    task: Task
    questions: str


def import_runs(folder: Path, target: Path | None = None) -> tuple[RunDir, list[Imported]]:
    """Imports a run folder of the rewrite (`<model>/<method>/<param>/<date>_all/`), or all below a
    folder, as one run directory (default: reports/<date-time>).

    Scores, NFE and tokens are those that the rows have; what they lack (times, steps, confidences,
    conditions) is null, with the reason. The questions are kept in the run, so that it can be
    scored again anywhere. Raises LoadError naming file and line for rows that can't be read,
    InputError for a folder without samples files and for two runs of one model and sampler,
    RunDirError if the target exists.
    """
    results: list[Imported] = []
    for run_folder in _run_folders(folder):
        results.extend(_run_folder(run_folder))
    origins: dict[str, Path] = {}
    for imported in results:
        cell_id = imported.stored.cell.id
        origin = imported.file.parent
        if origins.setdefault(cell_id, origin) != origin:
            raise InputError(
                f"{printable(cell_id)} is in {origins[cell_id]} and {origin}; import one of the two"
            )
    path = target or Path("reports") / new_name()
    run = create(path.parent, path.name)
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    facts = {"from": str(folder), "source": REWRITE, "imported": now, "versions": versions()}
    run.write_run({"command": ["pbcore", "import", str(folder)], "seeds": [0], "imported": facts})
    for imported in results:
        task = imported.task
        write_atomic(run.path / DATA / task.data_hash[:12] / imported.file.name, imported.questions)
        write_questions(run, task)
        run.write_cell(imported.stored.cell, imported.stored.samples)
    write_all(run)
    return run, results


def _run_folders(folder: Path) -> list[Path]:
    """The folders with samples files, of a folder and all below it. Raises InputError without
    any.
    """
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {problem}; give a run folder")
    files = sorted(folder.rglob("samples_parallelbench_*.jsonl"))
    if not files:
        hint = "give a run folder"
        if list(folder.rglob(RESULTS_FILE)):
            hint = "its results alone: pbcore report reads them"
        raise InputError(
            f"{folder} has no samples_parallelbench_*.jsonl, so there are no answers to import;"
            f" {hint}"
        )
    return list(dict.fromkeys(file.parent for file in files))


def _run_folder(folder: Path) -> Iterator[Imported]:
    """The cells of one run folder."""
    parts = folder.resolve().parts[-4:]
    model, method, param = parts[:3] if len(parts) == 4 else ("unknown", "unknown", "unknown")
    options = {"method": method, "param": param, "folder": folder.resolve().name}
    scores = _published(folder)
    for name in NAMES:
        file = samples_file(folder, name)
        if file.is_file():
            task = load_task(name, data_dir=folder)
            rows = {row["doc_id"]: row for _, row in read_json_lines(file)}
            stored = _cell(
                file, task, rows, model.replace("__", "/"), sampler_name(method, param), options
            )
            questions = ""
            for index in sorted(rows):
                questions += dump_json({"doc_id": index, "doc": rows[index]["doc"]}) + "\n"
            yield Imported(stored, scores.get(name), file, task, questions)


def _cell(
    file: Path,
    task: Task,
    rows: Mapping[int, Mapping[str, Any]],
    model: str,
    sampler: str,
    options: dict[str, Any],
) -> StoredCell:
    """The cell of a samples file. `rows` are by `doc_id`; `load_task` has checked that each has one
    of its own.
    """
    answers = []
    scored = []
    missing = {"seconds": NO_TIME}
    for sample in task.samples:
        where = f"{file}, doc_id {sample.index}"
        answers.append(_answer(rows[sample.index], where, sample.max_new_tokens))
        scored.append(Scored(_scores(rows[sample.index], task.headline, where)))
    metrics = dict.fromkeys(chain.from_iterable(answer.scores for answer in scored))
    for metric in metrics:
        if any(metric not in answer.scores for answer in scored):
            missing[metric] = f"not in every row of {file.name}"
    if any(answer.nfe is None for answer in answers):
        answers = [replace(answer, nfe=None) for answer in answers]
        missing["nfe"] = f"not in every row of {file.name}"
    decoding: Statistics = {}
    for name in ORDER:
        numbers = [_number(row.get(name)) for row in rows.values()]
        measured = [number for number in numbers if number is not None]
        if measured:
            decoding[name] = fmean(measured)
    facts = CellRecord(
        f"{model}/{short(task.name)}/{sampler}",
        model,
        task.name,
        sampler,
        Conditions.unknown(
            data_source=REWRITE,
            data_hash=task.data_hash,
            dummy=False,
            options={**options, "generation": _generation(next(iter(rows.values())))},
            model_info={"source": "imported"},
        ),
        length=length_text(task.options.get("lengths") or ()),
        headline=task.headline,
        decoding=decoding,
    )
    try:
        indices = [sample.index for sample in task.samples]
        cell, samples = build_cell(
            facts, answers, scored, rounds=[], indices=indices, absent=missing
        )
    except ValueError as error:
        raise LoadError(f"{file}: {error}") from error
    return StoredCell(cell, tuple(samples))


def _answer(row: Mapping[str, Any], where: str, room: int) -> Generation:
    """Text, forwards and tokens of a row. Its tokens per step are canvas tokens / NFE, which gives
    the canvas; without them the canvas is the room of the task's answers. The tokens' ids are not
    known, only their number.
    """
    answers = row.get("resps")
    text = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
    text = text[0] if isinstance(text, list) and len(text) == 1 else text
    if not isinstance(text, str):
        raise LoadError(
            f"{where}: field resps is {shown(row.get('resps'))}; it should be [[answer]], one text"
        )
    nfe = _count(row.get("nfe"))
    rate = _number(row.get("tokens_per_step"))
    canvas = room if nfe is None or rate is None or rate <= 0 else round(min(rate * nfe, MOST))
    return Generation(text, (0,) * canvas, nfe, _count(row.get("output_length")))


def _scores(row: Mapping[str, Any], headline: str, where: str) -> dict[str, float]:
    """A row's scores under our names; `score` is the rewrite's headline, which is also ours."""
    scores = {}
    for theirs, ours in {"score": headline, **SCORES}.items():
        value = _number(row.get(theirs))
        if value is None:
            continue
        if not 0 <= value <= 1:
            raise LoadError(
                f"{where}: field {theirs} is {shown(row[theirs])}; it should be between 0 and 1"
            )
        scores[ours] = value
    return scores


def _generation(row: Mapping[str, Any]) -> dict[str, Any]:
    """The generation settings that a row names, without those that a record can't hold, such as
    NaN.
    """
    arguments: Any = row
    for name in ("arguments", "gen_args_0", "arg_1"):
        arguments = arguments.get(name) if isinstance(arguments, Mapping) else None
    if not isinstance(arguments, Mapping):
        return {}
    settings = {}
    for name, value in arguments.items():
        with suppress(ValueError):
            dump_json(value)
            settings[name] = value
    return settings


def _published(folder: Path) -> dict[str, float]:
    """Task → the score of the folder's results file; empty without one."""
    file = folder / RESULTS_FILE
    if not file.is_file():
        return {}
    try:
        results = json.loads(file.read_text(encoding="utf-8"))["results"].items()
        named = [
            (TASKS.get(name.removeprefix("parallelbench_")), row.get("score,none"))
            for name, row in results
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(
            f"{file} is not a results file of the rewrite: {type(error).__name__}: {error}"
        ) from error
    values = [(task, _number(value)) for task, value in named if task is not None]
    return {task: value / 100 for task, value in values if value is not None}


def _number(value: Any) -> float | None:
    """A finite number, or None: rows have NaN, null or nothing where something was not measured."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


def _count(value: Any) -> int | None:
    """A whole positive number up to a million; a mean over a batch, which need not be whole, is no
    sample's own.
    """
    number = _number(value)
    if number is None or not 0 < number <= MOST or number != int(number):
        return None
    return int(number)


def imported_text(results: Sequence[Imported]) -> str:
    """A row per cell: its answers, their mean score, and the score that the results file
    publishes.
    """
    rows: list[list[Value]] = []
    for imported in results:
        cell = imported.stored.cell
        score = cell.scores.get(cell.headline)
        mean = None if score is None else 100 * score.mean
        theirs = None if imported.published is None else 100 * imported.published
        same = theirs is None or (mean is not None and abs(mean - theirs) < 0.05)
        remark = "" if same else "the folder's samples are not those of its results file"
        rows.append([printable(cell.id), cell.n_samples, cell.headline, mean, theirs, remark])
    heads = ["cell", "answers", "score", "mean (%)", "published (%)", ""]
    return terminal(Table(heads, rows, forms=".1f"))


def run(args: argparse.Namespace) -> int:
    """Exit status 0; 2 for unusable input (raised as InputError)."""
    made, results = import_runs(args.folder, args.out)
    answers = sum(len(imported.stored.samples) for imported in results)
    print(imported_text(results))
    print(f"{counted(len(results), 'cell')} with {counted(answers, 'answer')}: {made.path}")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    out = "the new run directory (default: reports/<date-time>)"
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="run folder, or a folder above several"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=out)
