"""The plan of a run: models × tasks × samplers, checked before anything runs, without what a model can't run."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Any

from pbcore.errors import InputError
from pbcore.grid import capabilities
from pbcore.grid.cellid import CellName
from pbcore.grid.levels import at, levels
from pbcore.grid.named import cells_named, check_gpu, check_loading, check_model, sampler_of, tasks_of
from pbcore.grid.profiles import Profile, profiles
from pbcore.grid.settings import PROFILES, Settings
from pbcore.models import model_names
from pbcore.names import SamplerName
from pbcore.names import parse as parse_sampler
from pbcore.tasks import add_tasks_file, all_task_names, load_task, task_names, task_spec
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.lists import MASK
from pbcore.tasks.naming import category
from pbcore.tasks.scenes import WORD_COUNTS
from pbcore.tasks.sources import asked_by
from pbcore.tasks.spec import MORE, WAYS

LISTS = ("waiting_line", "list_ops")
WORD_SETS = "text_writing/w2s_"


@dataclass(frozen=True)
class Plan:
    """The grid of a run. `samplers` None: the profile's, by canvas. `named`: cells that node ids on the command line
    name. `drilled`: samples are items of their own. Tasks are loaded once, when their samples are first needed."""

    settings: Settings
    profile: Profile
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    samplers: tuple[str, ...] | None
    named: tuple[CellName, ...] = ()
    drilled: bool = False
    _loaded: dict[tuple[str, int | None], Task] = field(default_factory=dict)

    def limit(self, model: str) -> int | None:
        """The most samples a task for this model; None: all."""
        return self.settings.limit or self.profile.limit_of(model)

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
        """Item id → cell (or sample, in the drill-down): the grid's, models outermost, then those of node ids."""
        grid = (cell for cell, reason in self._grid if reason is None)
        items = (item for cell in grid for item in (self._samples(cell) if self.drilled else [cell]))
        return {name.item_id: name for name in (*items, *self.named)}

    def left_out(self, categories: Collection[str]) -> Counter[str]:
        """Reason → number of the combinations of tasks in these categories that a model can't run."""
        return Counter(reason for cell, reason in self._grid if reason is not None and cell.category in categories)

    @cached_property
    def _grid(self) -> list[tuple[CellName, str | None]]:
        """Each combination, and why the model can't run it (None: it is a cell)."""
        pairs = ((model, task) for model in self.models for task in self.tasks)
        asked = (pair for pair in pairs if self.settings.task or self.profile.has_task(*pair))
        return [found for model, task in asked for found in self._combinations(model, task)]

    def _combinations(self, model: str, task: str) -> Iterator[tuple[CellName, str | None]]:
        load, factors = partial(self.task, task), levels(self.settings.factor)

        @cache  # asked when the first sampler has passed
        def of_all_samplers() -> str | None:
            unasked = capabilities.not_so_asked(model, task, self.settings.cot, self.settings.max_new_tokens)
            return unasked or capabilities.no_infilling(model, load) or self._lacks_words(model, task)

        @cache
        def targets() -> set[int]:
            return {masked_tokens(sample) for sample in load(model).samples}

        def odd_blocks(block: int | None) -> str | None:
            if block is None or all(count % block == 0 for count in targets()):
                return None
            return f"{category(task)} × +b{block}: blocks of {block} don't divide the answers' length"

        def too_few(at_once: int) -> str | None:
            if not at_once or at_once <= len(load(model).samples):
                return None
            return f"{task} × +x{at_once}: it has {len(load(model).samples)} samples (--limit)"

        for sampler in self._samplers(model, task):
            name = parse_sampler(sampler)
            reason = capabilities.why_not(model, task, sampler) or of_all_samplers() or odd_blocks(name.block)
            reason = reason or capabilities.otherwise_asked(load, task, sampler)
            for one, level in product(self._at_once(model, name), factors):
                why = reason or too_few(one.at_once) or capabilities.no_factor(model, level)
                yield CellName(model, task, str(one), level=level), why

    def _samplers(self, model: str, task: str) -> Iterable[str]:
        if self.samplers is not None:
            return self.samplers
        if own := capabilities.own_samplers(model):
            return own
        canvas = min(sample.max_new_tokens for sample in self.task(task).samples) if self.profile.sweeps else 0
        return (name for name in self.profile.sampler_names(canvas) if self.profile.has_sampler(model, name))

    def _at_once(self, model: str, name: SamplerName) -> list[SamplerName]:
        """A sampler at each number of rows or requests at a time, where the run has several."""
        if capabilities.served(model):
            numbers = next((part.at_once for part in self.settings.parts if part.at_once), ())
        else:
            numbers = () if capabilities.own_batches(model) else self.settings.batch_size
        if self.drilled or name.at_once or len(numbers) < 2:
            return [name]
        return [replace(name, at_once=number) for number in numbers]

    def task(self, name: str, model: str = "") -> Task:
        """A task with this run's samples for a model, one selected by number whatever the limit. Raises InputError."""
        limit = None if self.numbered else self.limit(model)
        if (name, limit) not in self._loaded:
            folder = self.settings.data_dir if name in task_names() else None  # the others have no official data
            seed, asked = self.settings.data_seed, self.asked(name)
            try:
                self._loaded[name, limit] = load_task(name, folder, self.lengths(name), limit, seed=seed, **asked)
            except (ValueError, OSError) as error:
                raise InputError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error
        return self._loaded[name, limit]

    def lengths(self, task: str) -> tuple[int, ...] | None:
        """The requested n of lists and word sets; None for a task that has none to choose, or uses its own. A profile's
        word sets keep their usual number beside lists of an n that no word set has; those that --task names don't."""
        requested = self.settings.n
        if requested and task.startswith(WORD_SETS):
            return requested if self.settings.task or set(requested) <= set(WORD_COUNTS) else None
        return requested if category(task) in LISTS else None

    def asked(self, task: str) -> dict[str, Any]:
        """The run's prompt options for a task (those of WAYS that it has), as options of `load_task`."""
        return task_spec(task).asked(self.settings.recorded)

    def recorded(self, task: str) -> dict[str, Any]:
        """The settings that a record of this task keeps, without ways of asking that the task doesn't have."""
        kept = {name: value for name, value in self.settings.recorded.items() if name not in WAYS}
        return {**kept, **self.asked(task)}

    def _samples(self, cell: CellName) -> Iterator[CellName]:
        # A sample that a node id names may lie beyond the limit; the task then has all of them.
        samples = self.task(cell.task, cell.model).samples[: self.limit(cell.model)]
        numbers = [sample.index for sample in samples]
        yield from (replace(cell, sample=i) for i in self.settings.sample or numbers)

    def _lacks_words(self, model: str, task: str) -> str | None:
        """Why a model can't read the prompts of data that don't ship with the package; None if it can."""
        own = task_spec(task).kind in MORE  # asked in words that the paper's tasks lack
        if not (own or asked_by(task) or self.settings.data_dir or self.settings.tasks or self.settings.cot):
            return None
        return capabilities.lacks_words(model, self.task(task, model))


def masked_tokens(sample: Sample) -> int:
    """How many tokens a sample's answer has to decode: its canvas, or the masks of a canvas that is given in part."""
    return sample.max_new_tokens if sample.canvas is None else sample.canvas.count(MASK)


def make_plan(settings: Settings, arguments: Sequence[str] = (), exit_first: bool = False) -> Plan:
    """The plan for these settings and pytest arguments (paths and node ids).

    Samples are items if that is requested, or with `exit_first` (-x) unless the run is judged as a whole. Raises
    InputError for what doesn't exist or can't be used, with close matches."""
    if settings.profile not in profiles():
        raise InputError(f"unknown profile {settings.profile!r}; there are {', '.join(PROFILES)}")
    profile = profiles()[settings.profile]
    try:
        own = [name for file in settings.tasks for name in add_tasks_file(file)]
    except (OSError, ValueError) as error:
        raise InputError(f"--tasks: {error}") from error
    for part in settings.parts:
        part.prepare()
    if settings.data_dir is not None and not settings.data_dir.is_dir():
        raise InputError(
            f"--data-dir {settings.data_dir}: no such folder; give the one that holds waiting_line/, puzzle/ …"
        )
    wanted: Sequence[str] = settings.task
    for part in settings.parts:
        wanted = part.tasks(wanted, arguments)
    known = all_task_names()
    tasks = tasks_of(wanted, known) if settings.task else [*tasks_of(profile.tasks, known), *own]
    named = cells_named(arguments, known)
    models = settings.model or tuple(model for model in profile.models if model in model_names())
    for model in {*settings.model, *(name.model for name in named)}:
        check_model(model)
    samplers = tuple(dict.fromkeys(sampler_of(text, models) for text in settings.sampler)) or None
    named = [replace(name, sampler=sampler_of(name.sampler, [name.model])) for name in named]
    for level in (*levels(settings.factor), *(name.level for name in named)):
        check_loading(at(settings, level))
    if settings.gpu and not any(part.elsewhere for part in settings.parts):  # there, the nodes need it
        check_gpu()
    whole = Plan(settings, profile, tuple(dict.fromkeys(models)), tuple(dict.fromkeys(tasks)), samplers, tuple(named))
    drilled = settings.per_sample or whole.numbered or (exit_first and not settings.gated)
    plan = replace(whole, drilled=drilled)
    if settings.cot_answer is not None and not any("cot_answer" in plan.asked(name) for name in plan.tasks):
        raise InputError("--cot-answer: no task of this run asks for steps; add --cot, or leave it out")
    if settings.n or settings.data_dir or settings.sample or settings.shots is not None or settings.max_new_tokens:
        # Unusable lengths, folders and samples are reported before anything runs.
        for name in plan.tasks:
            numbers = [sample.index for sample in plan.task(name).samples]
            if missing := set(settings.sample) - set(numbers):
                raise InputError(f"--sample {min(missing)}: {name} has samples {numbers[0]} to {numbers[-1]}")
    return plan


def shard_of(cells: Sequence[CellName], number: int, shards: int) -> set[CellName]:
    """The cells of shard `number` (1-based) of `shards`.

    While there are models enough, each model goes whole to the shard with the fewest cells so far, biggest model first;
    with fewer models than shards, every model gets a fair number of shards of its own, which take its cells in
    turns."""
    by_model: dict[str, list[CellName]] = {}
    for cell in cells:
        by_model.setdefault(cell.model, []).append(cell)
    models = sorted(by_model, key=lambda model: (-len(by_model[model]), model))
    if not models:
        return set()
    if len(models) >= shards:
        loads: list[list[CellName]] = [[] for _ in range(shards)]
        for model in models:
            min(loads, key=len).extend(by_model[model])
        return set(loads[number - 1])
    parts = dict.fromkeys(models, 1)
    for _ in range(shards - len(models)):
        parts[max(models, key=lambda model: len(by_model[model]) / parts[model])] += 1
    places = [(model, part) for model in models for part in range(parts[model])]
    model, part = places[number - 1]
    return set(by_model[model][part :: parts[model]])
