"""`pbcore check scores`: checks a copy of the official files against this package's tasks and
scorers (`--data-dir DIR`), and counts the answers of a run on which official and corrected scores
differ (`--run RUN`).
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from pbcore.analysis.score_differences import differences
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.base.tabular import Table, Value, terminal
from pbcore.base.text import terminal_width
from pbcore.results.load import load_cells, load_samples
from pbcore.tasks import Sample, Task, TaskSpec, load_task, task_names, task_spec
from pbcore.tasks.files import UnreadableFile, read_text, read_yaml
from pbcore.tasks.lists import formatted, operate, parse_context
from pbcore.tasks.official import official_place, official_rows
from pbcore.tasks.puzzles import rows as lines
from pbcore.tasks.puzzles import solutions

# By scorer: the score that is 1 for a correct answer; the corrected score, and the inconsistency of
# the official one that it shows.
RIGHT = {"words_to_sentence": "inclusion", "summarization": "rouge_l"}
CORRECTED = {
    "list_sort": (
        "accuracy_as_asked",
        "labels are in the order of the whole names, not by last name as asked",
    ),
    "latin_square": ("accuracy_as_asked", "labels have a row with an extra cell"),
    "words_to_sentence": (
        "inclusion_any_case",
        "examples start with a word that the inclusion score misses in upper case",
    ),
}
EXAMPLES = 3  # of answers that two scores count differently, per task and score


@dataclass(slots=True)
class Checked:
    """The checks of one official file: `right` of the `labels` scored are 1; `notes` name
    inconsistencies.
    """

    task: str
    n: int | None
    samples: int = 0
    labels: int = 0
    right: int = 0
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def verify(data_dir: str | Path) -> list[Checked]:
    """Checks every official file of a folder: the 17 tasks, and other sizes there
    (`waiting_line_n15` …). Raises FileNotFoundError for a folder that doesn't exist or contains
    none of the groups.
    """
    folder = Path(data_dir)
    groups = sorted({official_place(task_spec(name), None).split("/")[0] for name in task_names()})
    named = ", ".join(f"{group}/" for group in groups)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}; give the folder that contains {named}")
    if not any((folder / group).is_dir() for group in groups):
        raise FileNotFoundError(f"{folder} is not the official data: it contains none of {named}")
    checked = []
    for name in task_names():
        for n in (None, *_other_sizes(name, folder)):
            checked.append(_check(task_spec(name), n, folder))
    return checked


def _other_sizes(name: str, folder: Path) -> list[int]:
    """The values of n for which the folder has further files of a task."""
    group, file = official_place(task_spec(name), None).split("/")
    places = [*folder.glob(f"{group}_n*/{file}.jsonl"), *folder.glob(f"{group}/{file}_n*.jsonl")]
    sizes = (re.search(r"_n(\d+)(?:/|\.jsonl)", str(place.relative_to(folder))) for place in places)
    return sorted({int(size[1]) for size in sizes if size})


def _check(spec: TaskSpec, n: int | None, folder: Path) -> Checked:
    checked = Checked(spec.name, n)
    try:
        task = load_task(spec.name, data_dir=folder, n=n)
    except (ValueError, FileNotFoundError) as error:
        checked.errors.append(str(error))
        return checked
    checked.samples = len(task.samples)
    if checked.samples != spec.count:
        checked.notes.append(f"{checked.samples} samples, officially {spec.count}")
    _check_prompt(spec, n, folder, checked)
    _check_labels(task, folder, checked)
    return checked


def _check_prompt(spec: TaskSpec, n: int | None, folder: Path, checked: Checked) -> None:
    group, file = official_place(spec, n).split("/")
    config = folder / group / "task_config.yaml"
    if not config.is_file():
        checked.notes.append(f"no {group}/task_config.yaml: prompt not compared")
        return
    try:
        prompt = read_yaml(read_text(config), str(config))[f"{group}/{file}"]["prompt"]
    except UnreadableFile as error:
        checked.errors.append(str(error))
    except (KeyError, TypeError) as error:
        checked.errors.append(f"{config}: no prompt of {group}/{file} ({error})")
    else:
        if prompt != spec.prompt_of(n):
            checked.errors.append(
                f"{config}: the prompt of {group}/{file} differs from this package's"
            )


def _check_labels(task: Task, folder: Path, checked: Checked) -> None:
    """Every label that is an answer must score 1 and follow from its question, and so must the
    answers of the shots.
    """
    right = RIGHT.get(task.scorer, "accuracy")
    corrected, inconsistency = CORRECTED.get(task.scorer, ("", ""))
    metrics = {right, corrected} if corrected else {right}
    missed = 0
    for sample in task.samples:
        if sample.answer is None:
            continue
        scores = task.score(sample.answer, sample, metrics)
        checked.labels += 1
        if corrected and scores[corrected] != scores[right]:
            missed += 1
        if scores[right] != 1:
            checked.errors.append(
                f"sample {sample.index}: its label scores {scores[right]:g} ({right})"
            )
            continue
        checked.right += 1
        if not follows(task, sample):
            checked.errors.append(
                f"sample {sample.index}: its label is not the answer to its question"
            )
    _check_shots(task, folder, right, checked)
    if corrected and checked.labels:
        checked.notes.append(f"{missed} of {checked.labels} {inconsistency}")
    if checked.labels < checked.samples:
        checked.notes.append(
            f"{checked.samples - checked.labels} samples have no label that is an answer"
        )


def _check_shots(task: Task, folder: Path, right: str, checked: Checked) -> None:
    """The answers of all worked examples must score 1 and follow from their questions.

    Args:
        task: with the file's samples.
        folder: the official data.
        right: the score that is 1 for a right answer.
        checked: gets the errors.
    """
    lengths = None if checked.n is None else (checked.n,)
    questions = official_rows(task_spec(task.name), folder, lengths)
    for sample, (_, question) in zip(task.samples, questions, strict=True):
        for item in question.shots:
            shot = replace(sample, input=item.input, label=item.label)
            if (
                shot.answer is None
                or task.score(shot.answer, shot, {right})[right] != 1
                or not follows(task, shot)
            ):
                checked.errors.append(
                    f"sample {shot.index}: the answer of its worked example is wrong"
                )


def follows(task: Task, sample: Sample) -> bool:
    """Whether a list's or puzzle's label is the answer to its question alone, for sort also in the
    order of whole names. Text labels belong to any question.
    """
    values = sample.input
    label = sample.label
    if task.kind == "sudoku":
        answers = [lines(grid) for grid in solutions(values["sudoku"].replace("\n", ""))]
        return len(answers) == 1 and task.score(answers[0], sample, {"accuracy"})["accuracy"] == 1
    if task.kind == "latin_square":
        symbols = label["symbols"]
        return bool(
            values["symbols"] == f"[{', '.join(symbols)}]" and values["size"] == len(symbols)
        )
    if "context" not in values:
        return True
    line = parse_context(values["context"])
    if not isinstance(label, str):
        return bool(label["input"] == line and label.get("word") == values.get("word"))
    answers = [formatted(operate(task.kind, line, values.get("index", 0), values.get("word"), ()))]
    if task.kind == "sort":
        answers.append(formatted(sorted(line)))
    return any(task.score(answer, sample, {"accuracy"})["accuracy"] == 1 for answer in answers)


def verified_table(checked: list[Checked], width: int) -> str:
    """The checks as text of at most `width` columns: a row per file, its remarks under it where
    they don't fit beside it, then all faults.
    """
    rows: list[list[str | int]] = []
    faults = []
    for file in checked:
        right = f"{file.right} of {file.labels}" if file.labels else "–"
        verdict = "FAULT" if file.errors else "ok"
        n = "default" if file.n is None else file.n
        rows.append([file.task, n, file.samples, right, verdict])
        faults += [f"{file.task}: {error}" for error in file.errors]
    heads = ["task", "n", "samples", "labels score 1", ""]
    text = terminal(Table(heads, rows, "lrrll"), width, notes=[file.notes for file in checked])
    samples = sum(file.samples for file in checked)
    labels = sum(file.labels for file in checked)
    verdict = f"faults: {len(faults)}" if faults else "no fault"
    totals = (
        f"{counted(len(checked), 'file')}, {counted(samples, 'sample')}, {labels} labels scored;"
        f" {verdict}"
    )
    return "\n".join([text, "", *faults, totals])


def run_text(path: Path, width: int) -> str:
    """Official and corrected scores of a run by task, with examples; the table has at most `width`
    columns. Raises LoadError or RunDirError.
    """
    samples = load_samples(path)
    compared = differences(load_cells(path), samples)
    total = sum(map(len, samples.values()))
    if not compared:
        return f"{path}: answers: {total}, none with a corrected score beside the official one"
    heads = [
        "task",
        "answers",
        "official score",
        "corrected score",
        "differ",
        "corrected higher",
        "lower",
    ]
    rows: list[list[Value]] = []
    examples = []
    differ = set()
    for pair in compared:
        rows.append(
            [
                pair.task,
                pair.answers,
                pair.official,
                pair.score,
                pair.count,
                len(pair.higher),
                len(pair.lower),
            ]
        )
        answers = (*pair.higher, *pair.lower)
        differ |= {(cell, *answer.place) for cell, answer in answers}
        for cell, answer in answers[:EXAMPLES]:
            names = (pair.official, pair.score)
            scores = ", ".join(f"{name} {answer.scores[name]:g}" for name in names)
            seed = f", seed {answer.seed}" if answer.seed else ""
            why = answer.details.get("why", "no remark")
            examples.append(f"{cell}, sample {answer.index}{seed}: {scores}; {why}")
    verdict = (
        f"{path}: answers: {total}, cells: {sum(map(bool, samples.values()))}, scored differently:"
        f" {len(differ)}"
    )
    return "\n".join([terminal(Table(heads, rows), width), "", *examples, verdict])


def run(args: argparse.Namespace) -> int:
    """Prints the checks; 1 with faults, which scores that differ are not. Raises InputError for
    unusable arguments.
    """
    if args.data_dir is None and not args.runs:
        raise InputError("give --data-dir DIR, --run RUN, or both")
    faults = False
    if args.data_dir is not None:
        checked = verify(args.data_dir)
        print(verified_table(checked, terminal_width()))
        faults = any(file.errors for file in checked)
    for number, path in enumerate(args.runs):
        if number or args.data_dir is not None:
            print()
        print(run_text(path, terminal_width()))
    return 1 if faults else 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--data-dir", metavar="DIR", help="the folder that contains waiting_line/, puzzle/ …"
    )
    runs = "run directories, such as reports/…"
    parser.add_argument(
        "--run", dest="runs", nargs="+", type=Path, default=[], metavar="RUN", help=runs
    )
