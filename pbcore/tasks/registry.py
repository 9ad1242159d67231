"""Tasks by name: `load_task`, `generate`, and the user's own tasks files."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from inspect import signature
from itertools import islice
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.base.source import source_of
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.files import read_text
from pbcore.tasks.generators import Order, ShotQuestion
from pbcore.tasks.naming import PAPER_TASKS
from pbcore.tasks.official import official_rows, own_rows
from pbcore.tasks.scoring import SCORERS, FunctionScorer, Scorer, score_all
from pbcore.tasks.spec import (
    GENERATORS,
    TaskSpec,
    asked_by,
    check_lengths,
    folders_of,
    read_spec,
    read_specs,
    with_headline,
)

# Shots, whether steps are asked for, tokens, what is scored then: as `TaskSpec.with_ways` takes.
Ways = tuple[int | None, bool, int | None, str | None]

_ADDED: dict[str, TaskSpec] = {}
_FILES: dict[str, Path] = {}  # where the added tasks were read


class TaskNameError(InputError):
    """An unknown task name; `matches` holds the closest known names."""

    def __init__(self, name: object) -> None:
        official = {spec.official: spec.name for spec in _specs().values() if spec.official}
        close = get_close_matches(str(name), [*all_task_names(), *official], n=3, cutoff=0.5)
        self.matches = list(dict.fromkeys(official.get(match, match) for match in close))
        hint = "close matches:" if self.matches else "the tasks are"
        super().__init__(
            f"no task named {name!r}; {hint} {', '.join(self.matches or all_task_names())}"
        )


@lru_cache(maxsize=1)
def _built_in() -> dict[str, TaskSpec]:
    return read_specs(
        files("pbcore.tasks").joinpath("data/tasks.yaml").read_text(encoding="utf-8"), "tasks.yaml"
    )


def _specs() -> dict[str, TaskSpec]:
    return {**_built_in(), **_ADDED}


def task_names() -> list[str]:
    """The 17 tasks of the paper, by category."""
    return list(PAPER_TASKS)


def all_task_names() -> list[str]:
    """All tasks: the 17 of the paper, `list_ops/*`, and those added by `add_tasks_file`."""
    return list(_specs())


def task_spec(name: str) -> TaskSpec:
    """The declaration of a task. Raises TaskNameError (a ValueError) with close matches."""
    try:
        return _specs()[name]
    except (KeyError, TypeError):
        raise TaskNameError(name) from None


def tasks_file(name: str) -> Path | None:
    """The user's file that a task was read from; None for any other task."""
    return _FILES.get(name) if name in _ADDED else None


def add_tasks_file(path: str | Path) -> list[str]:
    """Adds the tasks of a user's YAML file and returns their names; docs/tasks.md shows an example.
    Paths in the file are relative to it. Adding the same file again reads it again. Raises
    ValueError that names file, task and key for any invalid entry, and both files for a name that
    another file has given; FileNotFoundError for a missing file.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no tasks file {file}; give a YAML file with one entry per task")
    read = read_specs(read_text(file), str(file), file.parent)
    added = {name: with_headline(spec, f"{file}, task {name}") for name, spec in read.items()}
    for name, spec in added.items():
        owner: str | Path | None = None
        if name in _built_in():
            owner = "pbcore's tasks.yaml"
        elif name in _ADDED:
            owner = _FILES.get(name)
        if owner is not None and owner != file.resolve():
            raise InputError(
                f"{file}: a task named {name!r} exists already in {owner}; choose another name"
            )
        _probe(spec, f"{file}, task {name}")
    _ADDED.update(added)
    _FILES.update(dict.fromkeys(added, file.resolve()))
    return list(added)


def register_task(
    name: str,
    questions: Iterable[object],
    *,
    scorer: str | Scorer | Callable[[str, Sample], float],
    prompt: str = "{question}",
    max_new_tokens: int = 32,
    headline: str = "",
) -> None:
    """Adds a task from Python, for example in a conftest.py; it is then run by `--task NAME`.
    Registering the same name again replaces it.

    Args:
        name: `category/name`.
        questions: pairs of a question and its answer, or rows of the official layout: a mapping
            with `input`, the values of the prompt, and `answer`.
        scorer: a registered scorer's name, a scorer, or a function of an answer's text and its
            sample that gives a number from 0 to 1, which becomes the score `accuracy`.
        prompt: filled with the values of a question.
        max_new_tokens: the canvas length in tokens.
        headline: the score shown in tables; by default the scorer's first.

    Raises:
        InputError: for an invalid value, for a name that pbcore's tasks or a tasks file has, and
            for a question whose own answer is wrong under the scorer.
    """
    where = f"register_task({name!r})"
    if name in _built_in() or name in _FILES:
        raise InputError(f"{where}: there is a task of that name; choose another")
    rows = tuple(_row(question) for question in questions)
    if not rows:
        raise InputError(f"{where}: no questions; give at least one")
    entry = {
        "prompt": prompt,
        "scorer": scorer if isinstance(scorer, str) else name,
        "max_new_tokens": max_new_tokens,
        "samples": "questions",
        **({"headline": headline} if headline else {}),
    }
    own = None if isinstance(scorer, str) else _scorer(scorer, where)
    with SCORERS.restored():  # of a task that is refused nothing stays
        if own is not None:
            SCORERS.replace(name, own)
        declared = replace(read_spec(name, entry, where), rows=None, questions=rows)
        spec = with_headline(declared, where)
        _probe(spec, where)
    if own is not None:
        SCORERS.replace(name, own)
    _ADDED[name] = spec


def _scorer(scorer: Scorer | Callable[[str, Sample], float], where: str) -> Scorer:
    if not callable(scorer):
        return scorer
    try:
        signature(scorer).bind("", None)
    except TypeError as error:
        raise InputError(
            f"{where}: the scorer is called with an answer's text and its sample ({error})"
        ) from None
    except ValueError:  # a function of C may not tell what it takes
        pass
    return FunctionScorer(scorer)


def _row(question: object) -> object:
    """A question in the official layout."""
    if isinstance(question, tuple | list) and len(question) == 2:
        asked, answer = question
        return {"input": {"question": asked}, "answer": answer}
    return question


def add_specs(specs: Iterable[TaskSpec]) -> list[str]:
    """Adds the tasks of a neighbour and returns their names."""
    added = {spec.name: spec for spec in specs}
    _ADDED.update(added)
    return list(added)


def _probe(spec: TaskSpec, where: str) -> None:
    """Raises ValueError unless the samples of a user's task can be created and their labels score
    1.
    """
    try:
        if spec.drawn:
            samples = list(_generated(spec, None, "test", 0, len(spec.lengths or (0,))))
        else:
            samples = list(_samples(spec, own_rows(spec), "own"))
    except KeyError as error:
        raise InputError(
            f"{where}: the prompt needs {error}, which {spec.kind} does not provide"
        ) from None
    except ValueError as error:
        raise InputError(f"{where}: {error}" if spec.drawn else str(error)) from None
    if "accuracy" not in SCORERS[spec.scorer].metrics:
        return
    for sample in samples:
        if sample.answer is None:
            continue
        try:
            [scored] = score_all(spec.scorer, [sample.answer], [sample], frozenset({"accuracy"}))
        except ValueError as error:
            raise InputError(f"{where}: {error}; choose another scorer") from None
        if scored.scores.get("accuracy") != 1:
            reason = scored.details.get("why", "no reason given")
            raise InputError(
                f"{where}, sample {sample.index}: its own label {sample.answer!r} is wrong under"
                f" the scorer {spec.scorer} ({reason}); correct the label or choose another scorer"
            )


def load_task(
    name: str,
    data_dir: str | Path | None = None,
    n: int | Sequence[int] | None = None,
    limit: int | None = None,
    seed: int = 0,
    split: str = "test",
    shots: int | None = None,
    cot: bool = False,
    max_new_tokens: int | None = None,
    cot_answer: str | None = None,
) -> Task:
    """A task with its samples: generated by seed, or read from files.

    The first k samples are the same for every limit.

    Args:
        name: the task's name, such as `waiting_line/shuffle`.
        data_dir: a folder of official rows, or a run folder of the 2026 rewrite; None: own data.
        n: the length, or several lengths that alternate.
        limit: the number of samples, which for generated data may exceed the default.
        seed: decides the generated samples.
        split: `test` or `train`, which have no list, puzzle or text in common.
        shots: the number of solved examples before a list or puzzle question (default: the task's,
            one); the questions stay the same.
        cot: whether questions ask for steps before a final answer (`pbcore.tasks.cot`).
        max_new_tokens: the canvas length in tokens (default: the task's, or more if n or steps need
            it).
        cot_answer: what is scored with `cot`: what follows "The answer is:" (`marked`, the default)
            or the `whole` text.

    Raises:
        TaskNameError: for an unknown name.
        InputError: for invalid arguments, and for a selection without samples.
        FileNotFoundError: for missing files.
    """
    ways = (shots, cot, max_new_tokens, cot_answer)
    spec = task_spec(name).with_ways(*ways)
    _check_integer("limit", limit, 1)
    _check_integer("seed", seed, 0)
    lengths = None if n is None else check_lengths(name, spec.kind, n)
    source = asked_by(spec.name)
    if source is not None:
        task = source.load(spec, limit)
        return replace(
            task,
            data_hash=data_hash(task.samples),
            options=dict(spec.settings),
            identity=identity(spec),
        )
    samples: Iterable[Sample]
    drawn = data_dir is None and spec.drawn
    if data_dir is not None:
        _check_folder(data_dir, split)
        samples = _from_folder(spec, Path(data_dir), lengths, shots)
    elif name in task_names():
        samples = _of_the_paper(name, lengths, split, seed, limit or spec.count, ways)
    elif drawn:
        samples = _generated(spec, lengths, split, seed, limit or spec.count)
    else:
        samples = _of_rows(spec, n, split)
    following = iter(samples)
    taken = tuple(islice(following, limit))
    if not taken:
        raise InputError(
            f"{name} has no samples in {data_dir or spec.rows or 'its generator'}; give a source"
            " with at least one"
        )
    present: set[int] = set()
    if spec.lengths:
        present = {sample.length for sample in taken if sample.length is not None}
    return Task(
        name=spec.name,
        kind=spec.kind,
        samples=taken,
        scorer=spec.scorer,
        headline=spec.headline,
        source=taken[0].source,
        data_hash=data_hash(taken),
        options={"split": split, "seed": seed, "lengths": sorted(present), **spec.settings},
        identity=identity(spec),
        cot=spec.cot,
        cot_answer=spec.cot_answer,
        available=None if drawn else len(taken) + _number_of(following),
    )


def _of_rows(spec: TaskSpec, n: int | Sequence[int] | None, split: str) -> Iterable[Sample]:
    """The samples of a task with questions of its own. Raises InputError for other splits and
    lengths than it has.
    """
    if split != "test" or n is not None:
        raise InputError(
            f"{spec.name} has questions of its own: it has only the split test, and no n"
        )
    return _samples(spec, own_rows(spec), "own")


def _number_of(samples: Iterator[Sample]) -> int:
    """How many samples follow, up to a row that can't be read: beyond it no run gets any."""
    number = 0
    with suppress(InputError, KeyError):
        for _ in samples:
            number += 1
    return number


def _check_folder(data_dir: object, split: str) -> None:
    """Raises InputError for what is no folder's path, and for a split that official data lacks."""
    if not isinstance(data_dir, str | Path):
        raise InputError(
            f"data_dir {data_dir!r}: give the path of the folder that contains waiting_line/,"
            " puzzle/ …"
        )
    if split != "test":
        raise InputError(
            f"split {split!r}: the official data has only a test split; omit data_dir for"
            f" {split} data"
        )


@lru_cache(maxsize=128)
def drawn_questions(
    name: str,
    most: int,
    n: tuple[int, ...] | None = None,
    seed: int = 0,
    shots: int | None = None,
    cot: bool = False,
    max_new_tokens: int | None = None,
    cot_answer: str | None = None,
) -> int:
    """How many different questions of a task with a generator there are, counted up to `most`; the
    other arguments and the errors are those of `load_task`.
    """
    spec = task_spec(name).with_ways(shots, cot, max_new_tokens, cot_answer)
    lengths = None if n is None else check_lengths(name, spec.kind, n)
    number = 0
    with suppress(ValueError):  # questions are used up
        for _ in _generated(spec, lengths, "test", seed, most):
            number += 1
    return number


def generate(
    name: str, split: str = "train", seed: int = 0, n: int | Sequence[int] | None = None
) -> Iterator[Sample]:
    """Generated samples of a task, without end; samples may repeat, those of `load_task` don't.

    Args:
        name: the task's name.
        split: `train` or `test`.
        seed: decides the samples.
        n: the length, or several lengths that alternate.

    Raises:
        ValueError: when a text task's grammar is exhausted, with the number of samples; other
            errors are those of `load_task`, raised before the first sample is drawn.
    """
    spec = task_spec(name)
    _check_integer("seed", seed, 0)
    if spec.generator is None:
        raise InputError(
            f"{name} has questions of its own; only tasks with a generator can produce more"
        )
    lengths = None if n is None else check_lengths(name, spec.kind, n)
    return _generated(spec, lengths, split, seed, None)


def identity(spec: TaskSpec) -> str:
    """A digest of a task's declaration (prompts, lengths, settings …), its headline, its scorer's
    scores and the scorer's code. The samples have their own digest, so the location of a file of
    rows and the number of samples are not part of it.
    """
    left_out = {"rows", "questions", "count", "wanted", "official", "canvas", "asked_by"}
    if not spec.cot:
        left_out |= {"cot", "cot_answer"}
    declared = {name: value for name, value in asdict(spec).items() if name not in left_out}
    chosen = SCORERS[spec.scorer]
    facts = {**declared, "metrics": list(chosen.metrics), "scorer code": source_of(chosen)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def data_hash(samples: Iterable[Sample]) -> str:
    """sha256 over the data of a run: messages, labels, canvases and lengths, in order."""
    digest = hashlib.sha256()
    for sample in samples:
        row = [
            sample.task,
            sample.index,
            sample.messages,
            sample.label,
            sample.max_new_tokens,
            sample.canvas,
        ]
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()


def _check_integer(name: str, given: object, least: int) -> None:
    if given is not None and (type(given) is not int or given < least):
        raise InputError(f"{name} {given!r}: give an integer of at least {least}")


def _generated(
    spec: TaskSpec, lengths: tuple[int, ...] | None, split: str, seed: int, count: int | None
) -> Iterator[Sample]:
    """`count` different questions of a task, or (None) a stream without end."""
    order = Order(spec.name, spec.settings, lengths or spec.lengths, spec.shots, split, seed, count)
    questions = enumerate(islice(GENERATORS[spec.kind].stream(order), count))
    return _samples(spec, questions, "own", seed=seed)


@lru_cache(maxsize=128)  # a process may plan many runs, and each plan draws the same questions
def _of_the_paper(
    name: str, lengths: tuple[int, ...] | None, split: str, seed: int, count: int, ways: Ways
) -> tuple[Sample, ...]:
    spec = task_spec(name).with_ways(*ways)
    return tuple(islice(_generated(spec, lengths, split, seed, count), count))


def _from_folder(
    spec: TaskSpec, folder: Path, lengths: tuple[int, ...] | None, shots: int | None
) -> Iterable[Sample]:
    other = folders_of(folder)
    if other is None:
        return _samples(spec, official_rows(spec, folder, lengths), "official", shots)
    if shots is not None or spec.cot:
        raise InputError(
            f"{spec.name}: the questions in {folder} are whole chats; drop shots and cot"
        )
    return other.samples(spec, folder, lengths)


def _samples(
    spec: TaskSpec,
    rows: Iterable[tuple[int, ShotQuestion]],
    source: str,
    most: int | None = None,
    seed: int = 0,
) -> Iterator[Sample]:
    """The samples of numbered questions.

    Args:
        spec: the task.
        rows: the questions.
        source: where they come from.
        most: the number of shots, the first ones; None: all.
        seed: of generated questions.

    Raises:
        InputError: for too few shots.
    """
    for index, question in rows:
        item = question.item
        shots = question.shots
        if most is not None and most > len(shots):
            raise InputError(
                f"{spec.name}, row {index}: shots = {most}, but the row has {len(shots)} solved"
                " examples; ask for fewer"
            )
        yield Sample(
            task=spec.name,
            index=index,
            messages=spec.messages(item, shots[:most]),
            input=item.input,
            label=item.label,
            max_new_tokens=spec.tokens(item.length),
            length=item.length,
            canvas=item.canvas,
            source=source,
            limited=spec.canvas is not None,
            seed=seed,
        )
