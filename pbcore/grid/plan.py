"""The plan of a run: models × tasks × samplers, checked before anything runs, without what a model
can't run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import product

from pbcore.base.errors import InputError
from pbcore.base.rules import why_not
from pbcore.decoding.samplers import Sampler, resolve, sampler_of
from pbcore.grid.capabilities import Capabilities, forms_batches
from pbcore.grid.cellid import CellName, CellText, bracketed, parse_cell_name
from pbcore.grid.levels import at, factor_levels
from pbcore.grid.needs import Use, acts, takes_length
from pbcore.grid.option import OptionValues, numbers_of
from pbcore.grid.profiles import Profile, profiles
from pbcore.grid.rules import RULES, Combination, PlannedTask
from pbcore.grid.settings import PROFILES, Settings
from pbcore.grid.validate_settings import check_gpu
from pbcore.models import model_names, resolve_model
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.registry import model_label
from pbcore.models.tokenizer import COPY_TOKENIZER, has_tokenizer
from pbcore.tasks import (
    TaskNameError,
    add_tasks_file,
    all_task_names,
    load_task,
    task_names,
    task_spec,
)
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.lists import MASK
from pbcore.tasks.naming import category, short
from pbcore.tasks.registry import data_hash, drawn_questions, tasks_file
from pbcore.tasks.spec import WAYS

LISTS = ("waiting_line", "list_ops")
MOST_DRAWN = 500  # questions that are counted, for a record to say whether they end


@dataclass(frozen=True)
class Plan:
    """The grid of a run. `samplers` None: the profile's, by canvas. `named`: cells that node ids on
    the command line name. `drilled`: samples are items of their own. `respelled`: samplers whose
    names are spelled in another way, by these. Tasks are loaded once, when their samples are
    first needed.
    """

    settings: Settings
    profile: Profile
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    samplers: tuple[Sampler, ...] | None
    named: tuple[CellName, ...] = ()
    drilled: bool = False
    respelled: Mapping[str, Sampler] = field(default_factory=dict)
    _loaded: dict[tuple[str, int | None], Task] = field(default_factory=dict)
    _chosen: dict[str, Task] = field(default_factory=dict)
    _levels: dict[str, Plan] = field(default_factory=dict)
    _by_text: dict[str, Sampler] = field(default_factory=dict)

    def at(self, level: str) -> Plan:
        """The plan with the settings of a level of its factors. Tasks that are asked in the same
        way are loaded once for all.
        """
        if level not in self._levels:
            settings = at(self.settings, level)
            same = all(getattr(settings, way) == getattr(self.settings, way) for way in WAYS)
            loaded = self._loaded if same else {}
            chosen = self._chosen if same else {}
            there = replace(self, settings=settings, _loaded=loaded, _chosen=chosen, _levels={})
            self._levels[level] = there if settings is not self.settings else self
        return self._levels[level]

    def task_of(self, cell: CellName) -> Task:
        """A cell's task with its samples, as it is asked at the cell's level."""
        return self.at(cell.level).task(cell.task, cell.model)

    def limit(self, model: str, task: str) -> int | None:
        """The most samples of a task for a model, the same for all its samplers; None: all, or
        those of --questions.
        """
        if self.settings.questions:
            return None
        if self.settings.limit:
            return self.settings.limit
        own = self.profile.of(model)
        for pattern, number in own.limits.items():
            if fnmatchcase(task, pattern):
                return number
        if tasks_file(task) is not None and task_spec(task).wanted is not None:
            return task_spec(task).wanted  # a user's task says how many
        return own.limit or self.profile.limit

    @property
    def numbered(self) -> bool:
        """Whether samples are selected by number: by --sample, or in a node id."""
        return bool(self.settings.sample) or any(name.sample is not None for name in self.named)

    @property
    def categories(self) -> set[str]:
        """The categories of all tasks of this run, those of named cells included."""
        return {category(task) for task in (*self.tasks, *(name.task for name in self.named))}

    @cached_property
    def items(self) -> dict[str, CellName]:
        """Item id → cell (or sample, in the drill-down): the grid's, models outermost, then those
        of node ids.
        """
        names: list[CellName] = []
        for cell, reason in self.combinations:
            if reason is not None:
                continue
            if self.drilled:
                names.extend(self._samples(cell))
            else:
                names.append(cell)
        names.extend(self.named)
        return {name.item_id: name for name in names}

    def left_out(self, categories: Collection[str]) -> Counter[str]:
        """Reason → number of the combinations of tasks in these categories that a model can't
        run.
        """
        return Counter(
            reason
            for cell, reason in self.combinations
            if reason is not None and cell.category in categories
        )

    def refuses(self, cell: CellName) -> str | None:
        """Why a model can't run a cell that a node id names; None if it can."""
        if cell not in self.named:
            return None
        asked = self.at(cell.level)._asked(Capabilities(cell.model), cell.task)
        at_once = cell.sampler.name.at_once
        return why_not(RULES, Combination(asked, cell.sampler, at_once, cell.level))

    @cached_property
    def combinations(self) -> list[tuple[CellName, str | None]]:
        """Each combination, and why the model can't run it (None: it is a cell)."""
        combinations: list[tuple[CellName, str | None]] = []
        for model, task in product(self.models, self.tasks):
            patterns = self.profile.of(model).tasks
            if self.settings.task or any(fnmatchcase(task, pattern) for pattern in patterns):
                combinations.extend(self._combinations(model, task))
        return combinations

    def _combinations(self, model: str, task: str) -> Iterator[tuple[CellName, str | None]]:
        can = Capabilities(model)
        levels = factor_levels(self.settings.factor)
        asked = {level: self.at(level)._asked(can, task) for level in levels}
        for named in self._samplers(can, task):
            for sampler, level in product(self._at_once(can.entry, named), levels):
                combination = Combination(asked[level], named, sampler.name.at_once, level)
                yield CellName(model, task, sampler, level=level), why_not(RULES, combination)

    def _asked(self, can: Capabilities, task: str) -> PlannedTask:
        """A task as this run asks it of a model."""
        return PlannedTask(
            can,
            task,
            self.settings,
            self.lengths(task) or task_spec(task).lengths or (),
            partial(self.task, task),
            partial(self._tokens, task, can.model),
        )

    def _samplers(self, can: Capabilities, task: str) -> Iterable[Sampler]:
        if self.samplers is not None:
            return self.samplers
        if can.own_samplers:
            return map(self._sampler, can.own_samplers)
        shortest = 0
        if self.profile.sweeps:
            shortest = min(sample.max_new_tokens for sample in self._each_length(task))
        names = self.profile.sampler_names(shortest)
        allowed = self.profile.of(can.model).samplers
        return [self._sampler(name) for name in names if allowed is None or name in allowed]

    def _sampler(self, text: str) -> Sampler:
        """A sampler of a profile or of a model, read once."""
        if text not in self._by_text:
            self._by_text[text] = sampler_of(text)
        return self._by_text[text]

    def _at_once(self, entry: ModelEntry, sampler: Sampler) -> list[Sampler]:
        """A sampler at each number of rows or requests at a time, where the run has several."""
        if entry.served:
            numbers = next((part.at_once for part in self.settings.parts if part.at_once), ())
        elif forms_batches(entry):
            numbers = ()
        else:
            numbers = self.settings.batch_size
        if self.drilled or sampler.name.at_once or len(numbers) < 2:
            return [sampler]
        return [sampler.but(at_once=number) for number in numbers]

    def task(self, name: str, model: str = "") -> Task:
        """A task with this run's samples for a model, one selected by number whatever the limit.
        Raises InputError.
        """
        numbers = () if self.numbered else self.questions(name)
        if not numbers:
            return self._load(name, None if self.numbered else self.limit(model, name))
        if name not in self._chosen:
            endless = task_spec(name).generator is not None and self.settings.data_dir is None
            whole = self._load(name, numbers[-1] + 1 if endless else None)
            by_number = {sample.index: sample for sample in whole.samples}
            missing = [number for number in numbers if number not in by_number]
            if missing:
                raise InputError(
                    f"--questions {missing[0]}: {name} has questions {min(by_number)} to"
                    f" {max(by_number)}"
                )
            samples = tuple(by_number[number] for number in numbers)
            self._chosen[name] = replace(whole, samples=samples, data_hash=data_hash(samples))
        return self._chosen[name]

    def available(self, task: str, model: str = "") -> int | None:
        """How many questions a task's data has; None if they are drawn and don't end within
        `MOST_DRAWN`.
        """
        known = self.task(task, model).available
        # The package's tasks have over 2,000 questions of their usual lengths.
        usual = tasks_file(task) is None and self.lengths(task) is None
        if known is not None or usual:
            return known
        number = self.drawn(task, MOST_DRAWN)
        return number if number < MOST_DRAWN else None

    def drawn(self, task: str, most: int) -> int:
        """How many different questions of a task with a generator there are, up to `most`."""
        seed = self.settings.data_seed
        return drawn_questions(task, most, self.lengths(task), seed, **self.asked(task))

    def questions(self, task: str) -> tuple[int, ...]:
        """The questions of a task that --questions names, rising; empty where it names none."""
        chosen = ""
        for text in self.settings.questions:
            name, _, numbers = text.rpartition("=")
            if name in (task, short(task)) or not (name or chosen):
                chosen = numbers
        return numbers_of(chosen) if chosen else ()

    def _each_length(self, name: str, model: str = "") -> tuple[Sample, ...]:
        """Samples of a task with answers of every length that its samples' answers have. Of a task
        of the paper as it is these are the first ones, and drawing the others would take longer
        than all the rest of a plan.
        """
        settings = self.settings
        chosen = settings.n or settings.data_dir or settings.limit or settings.questions
        if chosen or name not in task_names():
            return self.task(name, model).samples
        lengths = task_spec(name).lengths or (0,)
        return self._load(name, len(lengths)).samples

    def _tokens(self, name: str, model: str) -> set[int]:
        """The numbers of tokens that the answers to a task have to decode."""
        return {masked_tokens(sample) for sample in self._each_length(name, model)}

    def _load(self, name: str, limit: int | None) -> Task:
        if (name, limit) not in self._loaded:
            # Tasks beside the paper's have no official data.
            folder = self.settings.data_dir if name in task_names() else None
            seed = self.settings.data_seed
            asked = self.asked(name)
            lengths = self.lengths(name)
            generator = task_spec(name).generator
            if lengths and (generator is None or generator.lengths is None):
                raise InputError(
                    f"--n {','.join(map(str, lengths))}: the questions of {name} have no n; leave"
                    " --n out, or choose other tasks by --task"
                )
            try:
                self._loaded[name, limit] = load_task(
                    name, folder, lengths, limit, seed=seed, **asked
                )
            except (ValueError, OSError) as error:
                raise InputError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error
        return self._loaded[name, limit]

    def lengths(self, task: str) -> tuple[int, ...] | None:
        """The requested n of a task that has one; None for a task that uses its own. Lists take it
        as it is, and so do all tasks that --task names, so that one which can't have it is refused.
        Other tasks of a profile keep their usual n beside lists of an n that they can't have.
        """
        requested = self.settings.n
        if not requested:
            return None
        named = bool(self.settings.task) and task in self.tasks
        if named or category(task) in LISTS or takes_length(task_spec(task), requested):
            return requested
        return None

    def asked(self, task: str) -> OptionValues:
        """The run's prompt options for a task (those of WAYS that it has), as options of
        `load_task`.
        """
        return task_spec(task).asked(self.settings.recorded)

    def recorded(self, cell: CellName) -> OptionValues:
        """The settings that a cell's record keeps: of those given the ones that act on it."""
        settings = at(self.settings, cell.level)
        use = Use.of(settings, cell, self.drilled)
        kept = {}
        for name, value in settings.recorded.items():
            if name == "rounds":
                kept[name] = value if acts(name, use) else 1
            elif name not in WAYS and acts(name, use):
                kept[name] = value
        return kept | self.at(cell.level).asked(cell.task)

    def _samples(self, cell: CellName) -> Iterator[CellName]:
        # A sample that a node id names may lie beyond the limit; the task then has all of them.
        samples = self.task_of(cell).samples[: self.limit(cell.model, cell.task)]
        for number in self.settings.sample or [sample.index for sample in samples]:
            yield replace(cell, sample=number)


def masked_tokens(sample: Sample) -> int:
    """How many tokens a sample's answer has to decode: its canvas, or the masks of a canvas that is
    given in part.
    """
    return sample.max_new_tokens if sample.canvas is None else sample.canvas.count(MASK)


def longest_canvas(sample: Sample) -> int:
    """The most tokens that a sample's canvas can have, given ones included: of text one a
    character.
    """
    return sample.max_new_tokens if sample.canvas is None else len(sample.canvas)


def add_own_tasks(settings: Settings) -> list[str]:
    """Reads the user's tasks files (`--tasks`) and returns the tasks' names.

    Raises:
        InputError: for a file that can't be read.
    """
    names: list[str] = []
    try:
        for file in settings.tasks:
            names.extend(add_tasks_file(file))
        return names
    except (OSError, ValueError) as error:
        raise InputError(f"--tasks: {error}") from error


def make_plan(settings: Settings, arguments: Sequence[str] = (), exit_first: bool = False) -> Plan:
    """The plan of a run.

    Args:
        settings: of the command line, ini files and defaults.
        arguments: pytest's paths and node ids.
        exit_first: True (-x) makes samples items unless the run is judged as a whole; so do
            settings that ask for it.

    Raises:
        InputError: for what doesn't exist or can't be used, with close matches.
    """
    settings = replace(settings, model=tuple(map(model_label, settings.model)))
    if settings.profile not in profiles():
        raise InputError(f"unknown profile {settings.profile!r}; there are {', '.join(PROFILES)}")
    profile = profiles()[settings.profile]
    own_tasks = add_own_tasks(settings)
    for part in settings.parts:
        part.prepare()
    folder = settings.data_dir
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"--data-dir {folder}: no such folder; give the one that holds waiting_line/, puzzle/ …"
        )
    wanted: Sequence[str] = settings.task
    for part in settings.parts:
        wanted = part.tasks(wanted, arguments)
    task_list = all_task_names()
    if settings.task:
        tasks = _tasks_of(wanted, task_list)
    else:
        tasks = [*_tasks_of(profile.tasks, task_list), *own_tasks]
    written = _named_cells(arguments, task_list)
    models = settings.model or tuple(model for model in profile.models if model in model_names())
    for model in {*settings.model, *(cell.model for cell in written)}:
        _check_model(model)
    samplers = [_sampler_of(text, models) for text in settings.sampler]
    typed = zip(settings.sampler, samplers, strict=True)
    respelled = {text: sampler for text, sampler in typed if str(sampler) != text}
    named = [_read(cell) for cell in written]
    for level in (*factor_levels(settings.factor), *(name.level for name in named)):
        _check_loading(at(settings, level))
    # On a cluster the nodes need a GPU, and an estimate needs none.
    elsewhere = settings.estimate or any(part.elsewhere for part in settings.parts)
    if settings.gpu and not elsewhere:
        check_gpu()
    plan = Plan(
        settings,
        profile,
        tuple(dict.fromkeys(models)),
        tuple(dict.fromkeys(tasks)),
        tuple(dict.fromkeys(samplers)) or None,
        tuple(named),
        respelled=respelled,
    )
    drilled = settings.per_sample or plan.numbered or (exit_first and not settings.gated)
    plan = replace(plan, drilled=drilled)
    _check_asking(plan)
    _check_samples(plan)
    return plan


def _named_cells(arguments: Iterable[str], task_list: list[str]) -> list[CellText]:
    """The cells that node ids name; those of other tests pass by."""
    cells = []
    for argument in arguments:
        text = bracketed(argument)
        cell = parse_cell_name(text, task_list) if text else None
        if cell is not None:
            cells.append(replace(cell, model=model_label(cell.model)))
    return cells


def _read(cell: CellText) -> CellName:
    """A cell with its sampler read. Raises InputError for one that can't be used."""
    sampler = _sampler_of(cell.sampler, [cell.model])
    return CellName(cell.model, cell.task, sampler, cell.sample, cell.level)


def respelled_ids(arguments: Iterable[str]) -> list[str]:
    """Pytest's paths and node ids, with the samplers of cells as their ids have them: `0.9` for
    `0.90`. Names that aren't known stay.
    """
    tasks = all_task_names()
    ids = []
    for argument in arguments:
        text = bracketed(argument)
        cell = parse_cell_name(text, tasks) if text else None
        if text and cell is not None:
            with suppress(ValueError):
                own = replace(cell, sampler=str(resolve(cell.sampler)))
                if own != cell:
                    argument = f"{argument.removesuffix(f'{text}]')}{own.item_id}]"
        ids.append(argument)
    return ids


def _check_asking(plan: Plan) -> None:
    """Raises InputError for --cot-answer and --questions that none of the tasks takes."""
    settings = plan.settings
    levels = map(plan.at, factor_levels(settings.factor))
    in_steps = settings.cot_answer is None or any(
        "cot_answer" in there.asked(task) for there, task in product(levels, plan.tasks)
    )
    if not in_steps:
        raise InputError(
            "--cot-answer: no task of this run asks for steps; add --cot, or leave it out"
        )
    for text in settings.questions:
        of_task = text.rpartition("=")[0]
        if of_task and not any(of_task in (task, short(task)) for task in plan.tasks):
            raise InputError(f"--questions {text}: this run has no task {of_task}")


def _check_samples(plan: Plan) -> None:
    """Raises InputError for unusable lengths, folders and samples, where some are given."""
    settings = plan.settings
    chosen = (
        settings.n
        or settings.questions
        or settings.data_dir
        or settings.sample
        or settings.shots is not None
        or settings.max_new_tokens
    )
    if not chosen:
        return
    for task in plan.tasks:
        numbers = [sample.index for sample in plan.task(task).samples]
        missing = set(settings.sample) - set(numbers)
        if missing:
            raise InputError(
                f"--sample {min(missing)}: {task} has samples {numbers[0]} to {numbers[-1]}"
            )


def _tasks_of(patterns: Iterable[str], task_list: list[str]) -> list[str]:
    """The tasks among `task_list` that names, short names or patterns match. Raises InputError with
    close matches.
    """
    tasks: list[str] = []
    for pattern in patterns:
        matching = [
            task for task in task_list if fnmatchcase(task, pattern) or short(task) == pattern
        ]
        if not matching:
            near = get_close_matches(pattern, [short(task) for task in task_list], n=3)
            advice = str(TaskNameError(pattern))
            if near:
                advice = f"no task {pattern!r}; did you mean {', '.join(near)}?"
            raise InputError(f"--task: {advice}")
        tasks += matching
    return tasks


def _check_model(name: str, option: str = "--model") -> None:
    """Raises InputError, which begins with the option, for a model that can't be had."""
    try:
        entry = resolve_model(name)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{option}: {error}") from error
    if entry.folder is not None and not has_tokenizer(entry.folder):
        raise InputError(
            f"{option} {name}: {entry.folder} has no tokenizer files (tokenizer.json, or vocab.json"
            f" and merges.txt), so it can't read the tasks' questions; {COPY_TOKENIZER}"
        )


def _check_loading(settings: Settings) -> None:
    """Raises InputError for a draft, an adapter, options of loading or a dtype that can't be
    used.
    """
    if settings.draft is not None:
        _check_model(settings.draft, "--draft")
    if settings.adapter is not None:
        _check_model(f"{settings.model[0]}+{settings.adapter}", "--adapter")
    try:
        LoadOptions.of(settings.load_options)
        if settings.device == "mps" and not settings.estimate:
            from pbcore.models.device import network_device

            network_device("mps")
        if settings.dtype is not None:
            import torch

            from pbcore.models.device import find_dtype

            find_dtype(settings.dtype, torch.device(settings.place))
    except ModelError as error:
        raise InputError(str(error)) from error


def _sampler_of(text: str, models: Iterable[str]) -> Sampler:
    """The sampler of a text. One that the loop doesn't know passes if a model may decode by
    itself.
    """
    try:
        return resolve(text)
    except ValueError as error:
        with suppress(ValueError):  # no model can read it, and the first error says more
            if any(Capabilities(model).may_decode_itself for model in models):
                return sampler_of(text)
        raise InputError(f"--sampler: {error}") from error
