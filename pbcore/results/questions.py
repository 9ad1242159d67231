"""A run's questions: stored beside its cells, so that answers can be read without the source data,
and loaded again from that data, checked by their digest, to score a cell again. One file per task
and data, written once by whichever process comes first:

    RUN/questions/<task>-<digest>.json   {"schema": 2, "task": …, "data_hash": …, "questions":
    [{"index": 0, …}, …]}
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from pbcore.base.check import (
    LoadError,
    RecordedCount,
    check_schema,
    checked,
    plain,
    read_json,
    validated,
)
from pbcore.base.errors import InputError
from pbcore.base.printable import printable
from pbcore.results.build import with_scores
from pbcore.results.record import SCHEMA, CellRecord
from pbcore.results.rundir import RunDir, RunFacts, StoredCell, cell_file, write_json
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.naming import PAPER_TASKS
from pbcore.tasks.registry import add_tasks_file, all_task_names, load_task, task_spec
from pbcore.tasks.spec import asked_by
from pbcore.theory.answers import RANDOM_LISTS
from pbcore.theory.distributions import SCORERS

FOLDER = "questions"


@checked
@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """One sample's question: `prompt` without its `shots`; `answer` one correct answer (None if the
    label has none), the only one if `only`; `length` the n of a list. Where several answers are
    correct, `rule` says which, as `theory.answers` names them, of `items` and `word`; the rule
    `answers` has the answers as items.
    """

    index: RecordedCount
    prompt: str
    answer: str | None = None
    only: bool = True
    length: RecordedCount | None = None
    shots: RecordedCount = 0
    rule: str = ""
    items: list[str] = field(default_factory=list)
    word: str | None = None


@checked
@dataclass(frozen=True, slots=True)
class _File:
    schema: int
    task: str
    data_hash: str
    questions: list[StoredQuestion]


Key = tuple[str, str]  # task, digest of its samples


def write_questions(run: RunDir, task: Task) -> Path:
    """Writes a task's questions into a run directory, unless they are there; returns their file."""
    path = run.path / FOLDER / cell_file(f"{task.name}-{task.data_hash}")
    if path.exists():
        return path
    data = asdict(
        _File(
            SCHEMA, task.name, task.data_hash, [stored_question(sample) for sample in task.samples]
        )
    )
    return write_json(path, plain(data, f"questions of {task.name}"))


def stored_question(sample: Sample) -> StoredQuestion:
    """A sample as a reader of answers needs it."""
    question = StoredQuestion(
        sample.index,
        sample.prompt,
        sample.answer,
        isinstance(sample.label, str),
        sample.length,
        sum(message["role"] == "assistant" for message in sample.messages),
    )
    rule, items = _right_answers(sample)
    if not items:
        return question
    word = sample.label.get("word")
    return replace(question, rule=rule, items=items, word=None if word is None else str(word))


def _right_answers(sample: Sample) -> tuple[str, list[str]]:
    """The rule of a question with several right answers, and its items; no items where it has one
    or no rule names them.
    """
    label = sample.label
    if not isinstance(label, Mapping):
        return "", []
    if isinstance(label.get("answers"), list):
        return "answers", list(map(str, label["answers"]))
    try:
        rule = SCORERS.get(task_spec(sample.task).scorer)
    except InputError:
        return "", []  # a task of a file that isn't loaded
    items = label.get("symbols" if rule == "latin_square" else "input")
    listed = rule == "latin_square" or rule in RANDOM_LISTS
    if rule is None or not listed or not isinstance(items, list):
        return "", []
    return rule, list(map(str, items))


def read_questions(run: RunDir) -> dict[Key, dict[int, StoredQuestion]]:
    """The questions of a run by task and digest, then by index. Files that can't be read count as
    absent.
    """
    questions: dict[Key, dict[int, StoredQuestion]] = {}
    for path in sorted((run.path / FOLDER).glob("*.json")):
        try:
            file = validated(_File, check_schema(read_json(path), SCHEMA, str(path)), str(path))
        except LoadError:
            continue
        by_index = {question.index: question for question in file.questions}
        questions[file.task, file.data_hash] = by_index
    return questions


def key(cell: CellRecord) -> Key:
    """Where a cell's questions are in what `read_questions` gives."""
    return cell.task, cell.conditions.data_hash or ""


def gather(sources: Iterable[RunDir], target: RunDir) -> None:
    """Copies the questions of runs into one that was merged from them."""
    for source in sources:
        for path in sorted((source.path / FOLDER).glob("*.json")):
            copy = target.path / FOLDER / path.name
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


DATA = "data"  # of a run directory: questions that came with an imported run


class Questions:
    """The questions of the cells of one run. `data_dir` and `tasks` override what run.json
    (`facts`) names.
    """

    def __init__(
        self,
        run: Path,
        facts: RunFacts,
        data_dir: Path | None = None,
        tasks: tuple[Path, ...] = (),
    ) -> None:
        """Adds the tasks files. Raises the errors of `add_tasks_file`."""
        settings = facts.get("settings")
        self._settings: Mapping[str, Any] = settings if isinstance(settings, Mapping) else {}
        self._facts = facts
        self._run = run
        self._data_dir = data_dir
        self._loaded: dict[Key, Task] = {}
        named = self._settings.get("tasks")
        for file in tasks or tuple(map(Path, named if isinstance(named, list) else ())):
            add_tasks_file(file)

    def of(self, cell: CellRecord) -> Task:
        """The cell's task with the samples that it answered. Raises InputError, saying what to
        give.
        """
        try:
            if key(cell) not in self._loaded:
                self._loaded[key(cell)] = self._load(cell)
        except InputError as error:
            raise InputError(
                f"cell {printable(cell.id)}: its questions can't be had: {error}"
            ) from error
        return self._loaded[key(cell)]

    def _load(self, cell: CellRecord) -> Task:
        digest = cell.conditions.data_hash
        options = cell.conditions.options
        other = asked_by(cell.task)
        if other is not None:  # a task's files can hold code, so a record's path doesn't load them
            raise InputError(f"{other.name} asked and scored; measure the cell again")
        if cell.task not in all_task_names():
            raise InputError(f"no task named {printable(cell.task)}; give its file with --tasks")
        if not digest:
            raise InputError("its record has no digest of its data")
        folder = self._folder(cell, digest)
        seed = options.get("data_seed", self._facts.get("data_seed")) or 0
        ways = task_spec(cell.task).asked(options)
        # The task's default n, then those requested for the run, then those of the record.
        requested = self._settings.get("n")
        given_lengths = (
            tuple(requested)
            if isinstance(requested, list) and all(type(n) is int for n in requested)
            else ()
        )
        errors: list[str] = []
        for lengths, limit in product(
            (None, *filter(None, (given_lengths, lengths_of(cell.length)))), (cell.n_samples, None)
        ):
            try:
                task = load_task(cell.task, folder, lengths, limit, seed=seed, **ways)
            except (ValueError, OSError) as error:
                errors.append(str(error))
                continue
            if task.data_hash == digest:
                return task
        source = f"in {folder}" if folder else f"made with --data-seed {seed}"
        why = (
            errors[0]
            if errors
            else f"those {source} are other ones (digest {digest[:8]} is recorded)"
        )
        raise InputError(f"{why}; give the folder that the run had with --data-dir")

    def _folder(self, cell: CellRecord, digest: str) -> Path | None:
        """The folder of the data: as given, inside the run, or as the run had it; None for
        generated data.
        """
        if cell.conditions.data_source == "own" or cell.task not in PAPER_TASKS:
            return None
        inside = self._run / DATA / digest[:12]
        if self._data_dir is not None or inside.is_dir():
            return self._data_dir or inside
        named = cell.conditions.options.get("data_dir") or self._facts.get("data_dir")
        if not isinstance(named, str):
            raise InputError(
                f"they are {cell.conditions.data_source} data, and the run doesn't say from where;"
                " give the folder with --data-dir"
            )
        return Path(named)


def scored_again(stored: StoredCell, task: Task) -> StoredCell:
    """A cell whose kept answers are scored again; its answers, seconds and key stay. Raises
    InputError for an answer to a sample that the task lacks.
    """
    samples = {sample.index: sample for sample in task.samples}
    missing = next((answer.index for answer in stored.samples if answer.index not in samples), None)
    if missing is not None:
        raise InputError(f"{task.name} has no sample {missing}, which an answer names")
    official = bool(stored.cell.conditions.options.get("official_text"))
    texts = [(official and answer.official_text) or answer.text for answer in stored.samples]
    scored = task.score_many(texts, [samples[answer.index] for answer in stored.samples])
    record, again = with_scores(
        replace(stored.cell, headline=task.headline), stored.samples, scored
    )
    return StoredCell(record, tuple(again))


def redrawn(
    task: str, length: str, count: int, options: Mapping[str, Any], digest: str | None
) -> Task | None:
    """The samples of a record of generated data, drawn again.

    Args:
        task: the task's full name.
        length: the record's values of n, such as `3-6`.
        count: how many samples it has.
        options: the settings of its conditions, with the seed of its data.
        digest: that of its samples.

    Returns:
        The task with these samples; None if they differ now or can't be drawn.
    """
    try:
        ways = task_spec(task).asked(options)
        drawn = load_task(
            task,
            n=lengths_of(length) or None,
            limit=count,
            seed=options.get("data_seed") or 0,
            **ways,
        )
    except (ValueError, OSError):
        return None
    return drawn if drawn.data_hash == digest else None


def lengths_of(text: str) -> tuple[int, ...]:
    """`3-6`, `15` or `5,10,20` as numbers; empty for other text."""
    first, dash, last = text.partition("-")
    if dash and first.isdecimal() and last.isdecimal():
        return tuple(range(int(first), int(last) + 1))
    parts = text.split(",")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()
