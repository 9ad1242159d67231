"""Tasks as data: the entries of tasks.yaml, or of a user's own tasks file, read and checked; and
the tasks and folders of questions that neighbours bring.
"""

import string
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from pbcore.base.check import Must, Packed, checked, validated, wrong
from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown
from pbcore.base.registry import Registry
from pbcore.names import SamplerName
from pbcore.tasks import cot
from pbcore.tasks.base import Message, Sample, Task
from pbcore.tasks.files import check_keys, check_value, only, read_yaml
from pbcore.tasks.generators import Generator, Question
from pbcore.tasks.lists import LIST_GENERATORS, QUESTION_GENERATORS
from pbcore.tasks.naming import category
from pbcore.tasks.puzzles import PUZZLE_GENERATORS, WALK_GENERATORS
from pbcore.tasks.scenes import TEXT_GENERATORS
from pbcore.tasks.scoring import SCORERS

MORE = {**QUESTION_GENERATORS, **WALK_GENERATORS}  # not of the paper
GENERATORS: Mapping[str, Generator] = {
    **LIST_GENERATORS,
    **PUZZLE_GENERATORS,
    **TEXT_GENERATORS,
    **MORE,
}
ROWS = Generator(lambda order: iter(()), {})  # of questions from a file
WITH_SHOTS = (*LIST_GENERATORS, *PUZZLE_GENERATORS, *QUESTION_GENERATORS)
WAYS = ("shots", "cot", "cot_answer", "max_new_tokens")  # how a run may ask a task's questions
DEFAULT_SAMPLES = 100
SAMPLES = range(1, 1_000_001)
TOKENS = range(1, 65_537)
SHOTS = range(101)


def _rows_or_number(given: Any) -> Any:
    return given if isinstance(given, str) else only(SAMPLES).unpack(given)


Text = Annotated[str, only(str)]
OFFICIAL = Must(lambda place: place.count("/") == 1, "`folder/file`, such as waiting_line/copy")


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """The keys of a task in a tasks file (docs/tasks.md). The generator checks its `settings` and
    `lengths`.
    """

    generator: Annotated[str, only(GENERATORS)] = ""
    prompt: Text
    scorer: Text
    max_new_tokens: Annotated[int, only(TOKENS)]
    samples: Annotated[int | str | None, Packed(Any, _rows_or_number)] = None
    settings: Any = field(default_factory=dict)
    lengths: Any = ()
    shots: Annotated[int, only(SHOTS)] = 0
    headline: Text = ""
    official: Annotated[Text, OFFICIAL] = ""
    prompt_single: Text = ""
    cot: Annotated[bool, only(bool)] = False


KEYS = tuple(sorted(key.name for key in fields(TaskEntry)))
REQUIRED = ("prompt", "scorer", "max_new_tokens")


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task as declared. Questions come from `generator` (`count` of them), from the rows of the
    file `rows`, or are the rows `questions` of a task made in Python.

    `kind` is the generator's name, or `rows`; `lengths` the default values of n; `official` the
    location of the official rows, `folder/file` without `.jsonl`; `prompt_single` replaces `prompt`
    for n = 1; with `cot` the question asks for steps, and `cot_answer` says what of the answer is
    scored; `canvas` is the canvas length in tokens where a run gives it; `asked_by` names who asks
    and scores it in its own way.
    """

    name: str
    kind: str
    prompt: str
    scorer: str
    headline: str
    max_new_tokens: int
    settings: Mapping[str, Any]
    count: int
    shots: int = 0
    lengths: tuple[int, ...] | None = None
    rows: Path | None = None
    official: str | None = None
    prompt_single: str | None = None
    cot: bool = False
    wanted: int | None = None  # the `samples` that its file states
    canvas: int | None = None
    cot_answer: str = "marked"
    asked_by: str | None = None
    questions: tuple[Any, ...] | None = None

    @property
    def category(self) -> str:
        return category(self.name)

    @property
    def generator(self) -> Generator | None:
        return GENERATORS.get(self.kind)

    @property
    def drawn(self) -> bool:
        """Whether its questions come from a generator."""
        return self.rows is None and self.questions is None

    @property
    def infills(self) -> bool:
        """Whether its answers are given in part."""
        return bool(self.settings.get("infill"))

    @property
    def fixed(self) -> str | None:
        """Why this task supports neither chain of thought nor another canvas; None if it does."""
        if self.infills:
            return "its canvas is given in part"
        return None if self.asked_by is None else f"{self.asked_by} asks it in its own way"

    def asked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of a run's WAYS that apply to this task, as options of `load_task`; empty for the
        task's defaults.
        """
        chosen: dict[str, Any] = {}
        if options.get("shots") is not None and self.kind in WITH_SHOTS:
            chosen["shots"] = options["shots"]
        if self.fixed is None:
            chosen |= {
                name: options[name] for name in ("cot", "max_new_tokens") if options.get(name)
            }
        if self.cot or chosen.get("cot"):
            chosen["cot_answer"] = options.get("cot_answer") or self.cot_answer
        return chosen

    def with_ways(
        self, shots: int | None, asks_steps: bool, tokens: int | None, answer: str | None
    ) -> "TaskSpec":
        """The task asked in another way.

        Args:
            shots: the number of solved examples; None: as declared.
            asks_steps: whether steps are requested before the answer.
            tokens: the canvas length in tokens; None: as declared.
            answer: what is scored where steps are requested.

        Raises:
            InputError: where the task can't have them.
        """
        if self.fixed is not None and (asks_steps or tokens is not None):
            raise InputError(f"{self.name}: {self.fixed}; drop cot and max_new_tokens")
        if tokens is not None:
            check_value("max_new_tokens", tokens, TOKENS)
        if shots is not None:
            check_value("shots", shots, SHOTS)
            if self.kind not in WITH_SHOTS:
                raise InputError(
                    f"{self.name}: shots = {shots}, but only list operations and puzzles have shots"
                    " to choose"
                )
        if answer is not None:
            check_value("cot_answer", answer, cot.ANSWERS)
            if not (self.cot or asks_steps):
                raise InputError(
                    f"{self.name}: cot_answer = {answer}, but its questions don't ask for steps;"
                    " add cot"
                )
        return replace(
            self,
            shots=self.shots if shots is None else shots,
            canvas=tokens or self.canvas,
            cot=self.cot or asks_steps,
            cot_answer=answer or self.cot_answer,
        )

    def tokens(self, length: int | None) -> int:
        """Canvas length of a question in tokens: as given, else `max_new_tokens`, or more if n or
        steps need it.
        """
        if self.canvas is not None:
            return self.canvas
        room = (
            self.generator.room(length)
            if self.generator and length is not None and self.lengths
            else 0
        )
        return max(self.max_new_tokens, room, cot.NEW_TOKENS if self.cot else 0)

    def prompt_of(self, length: int | None) -> str:
        """The prompt template for questions of one length."""
        return self.prompt_single if length == 1 and self.prompt_single else self.prompt

    def filled(self, values: Mapping[str, Any], length: int | None) -> str:
        """The prompt of one question; a literal backslash-n becomes a newline. Raises KeyError for
        a missing value.
        """
        text = self.prompt_of(length).format(**values).replace("\\n", "\n")
        return cot.stepwise_prompt(text) if self.cot else text

    def messages(self, item: Question, shots: tuple[Question, ...]) -> tuple[Message, ...]:
        """The chat: for each shot a user turn and the assistant's answer, then the question."""
        turns: list[Message] = []
        for shot in shots:
            answer = (
                shot.label
                if isinstance(shot.label, str)
                else shot.label.get("example", shot.label.get("summary"))
            )
            if answer is None:
                raise InputError(
                    f"{self.name}: a shot needs an answer; its label has only "
                    f"{', '.join(sorted(shot.label)) or 'nothing'}, "
                    "give a text, or an object with example or summary"
                )
            solved = cot.worked(self.kind, shot, str(answer)) if self.cot else str(answer)
            turns.append({"role": "user", "content": self.filled(shot.input, shot.length)})
            turns.append({"role": "assistant", "content": solved})
        return (*turns, {"role": "user", "content": self.filled(item.input, item.length)})


def read_specs(text: str, where: str, folder: Path | None = None) -> dict[str, TaskSpec]:
    """The tasks of a YAML text.

    Args:
        text: the YAML.
        where: names it in errors.
        folder: what paths of `samples` are relative to.

    Raises:
        ValueError: names the task, the key, the given value and the allowed ones.
    """
    loaded = read_yaml(text, where)
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(
            f"{where}: give one entry per task, `category/name:` with its keys below it"
        )
    return {
        str(name): read_spec(str(name), entry, f"{where}, task {printable(str(name))}", folder)
        for name, entry in loaded.items()
    }


def read_spec(name: str, entry: Any, where: str, folder: Path | None = None) -> TaskSpec:
    """A task of its entry in a tasks file; the parameters and errors are those of `read_specs`."""
    if name.count("/") != 1 or not all(
        part.replace("_", "").replace("-", "").isalnum() for part in name.split("/")
    ):
        raise InputError(
            f"{where}: a task's name must be `category/name` in letters, digits, _ and -"
        )
    if not isinstance(entry, dict):
        raise InputError(
            f"{where}: give the keys of the task, such as generator, scorer and prompt"
        )
    check_keys(entry, KEYS, where)
    if missing := [key for key in REQUIRED if key not in entry]:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    if isinstance(entry.get("samples"), str) == ("generator" in entry):
        raise InputError(f"{where}: give either a generator or samples: FILE with rows, not both")
    read = validated(TaskEntry, entry, where)
    rows = (folder or Path()) / read.samples if isinstance(read.samples, str) else None
    for prompt in (read.prompt, read.prompt_single):
        _check_prompt(prompt, f"{where}, prompt")
    kind = read.generator or "rows"
    generator = GENERATORS.get(kind, ROWS)
    if generator.lengths is not None and read.lengths == ():
        raise InputError(
            f"{where}: {kind} needs lengths, such as lengths: [{generator.lengths[1]}]"
            f" ({generator.what})"
        )
    settings = _settings(where, kind, read.settings)
    lengths = None if read.lengths == () else check_lengths(f"{where}, lengths", kind, read.lengths)
    wanted = None if isinstance(read.samples, str) else read.samples
    return TaskSpec(
        name=name,
        kind=kind,
        prompt=read.prompt,
        scorer=read.scorer,
        headline=read.headline,
        max_new_tokens=read.max_new_tokens,
        settings=settings,
        count=(wanted or DEFAULT_SAMPLES) if rows is None else 0,
        wanted=wanted,
        shots=read.shots,
        lengths=lengths,
        rows=rows,
        official=read.official or None,
        prompt_single=read.prompt_single or None,
        cot=read.cot,
    )


def with_headline(spec: TaskSpec, where: str) -> TaskSpec:
    """The task with its headline score filled in, by default the scorer's first. Raises InputError
    if the scorer is not registered or lacks that score.
    """
    check_value(f"{where}: scorer", spec.scorer, SCORERS.all())
    metrics = SCORERS[spec.scorer].metrics
    headline = spec.headline or metrics[0]
    check_value(f"{where}: headline", headline, metrics)
    return replace(spec, headline=headline)


def check_lengths(where: str, kind: str, given: Any) -> tuple[int, ...]:
    """`n` or `lengths`, one integer or several, as a sorted tuple.

    Args:
        where: names the place in errors.
        kind: the generator's name.
        given: the value.

    Raises:
        InputError: for lengths that the generator doesn't support.
    """
    generator = GENERATORS.get(kind, ROWS)
    if generator.lengths is None:
        raise InputError(f"{where}: n = {shown(given)}, but {kind} has no n; omit it")
    values = list(given) if isinstance(given, list | tuple | range | set) else [given]
    one = given[0] if isinstance(given, tuple) and len(given) == 1 else given  # of a command line
    low = generator.lengths[0]
    high = generator.lengths[-1]
    if not values or any(
        type(value) is not int or value not in generator.lengths for value in values
    ):
        raise wrong(
            f"{where}: n =",
            one,
            f"an integer from {low} to {high} ({generator.what}), or a list of them",
        )
    return tuple(sorted(set(values)))


def _settings(where: str, kind: str, given: Any) -> Mapping[str, Any]:
    generator = GENERATORS.get(kind, ROWS)
    if not isinstance(given, dict) or set(given) - set(generator.settings):
        listed = ", ".join(sorted(generator.settings)) or "none"
        raise InputError(f"{where}: settings {shown(given)}; the settings of {kind} are: {listed}")
    settings = {**generator.settings, **given}
    try:
        generator.check(settings)
    except ValueError as error:
        raise InputError(f"{where}, {error}") from None
    return settings


def _check_prompt(prompt: str, where: str) -> None:
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(prompt) if name is not None]
    except ValueError as error:
        raise InputError(f"{where}: {error}; write a literal brace twice: {{{{ or }}}}") from None
    for name in names:
        if not name.isidentifier():
            given = shown("{" + name + "}")
            raise InputError(
                f"{where}: {given} is not the name of a value; write a literal brace twice: {{{{ or"
                " }}"
            )


class TaskSource(Protocol):
    """The tasks of a neighbour (group `pbcore.task_sources`): `name` in messages, `prefix` of its
    tasks' names. `load` gives a task with its first `limit` samples; `refuses` says why a sampler
    can't answer its questions, or None.
    """

    name: str
    prefix: str

    def load(self, spec: TaskSpec, limit: int | None) -> Task: ...
    def refuses(self, task: Task, sampler: SamplerName) -> str | None: ...


class Folders(Protocol):
    """Folders in another layout than the official one, for `--data-dir` (group `pbcore.folders`).
    `samples` gives the questions of a task, those of these lengths, and raises InputError, RowError
    or FileNotFoundError.
    """

    def reads(self, folder: Path) -> bool: ...
    def samples(
        self, spec: TaskSpec, folder: Path, lengths: tuple[int, ...] | None
    ) -> list[Sample]: ...


SOURCES: Registry[TaskSource] = Registry("source of tasks", "pbcore.task_sources")
FOLDERS: Registry[Folders] = Registry("kind of folder", "pbcore.folders")


def folders_of(folder: Path) -> Folders | None:
    """What reads this folder; None for one in the official layout."""
    return next((one for one in FOLDERS.all().values() if one.reads(folder)), None)


def asked_by(task: str) -> TaskSource | None:
    """The source of a task by its name; None for a task of ours, or without the neighbour."""
    return next((one for one in SOURCES.all().values() if task.startswith(one.prefix)), None)
