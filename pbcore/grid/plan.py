"""The plan of a run: models × tasks × samplers, checked before anything runs, without what a model can't run."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from itertools import product
from typing import Any

from pbcore.decoding import resolve
from pbcore.errors import InputError
from pbcore.grid import capabilities
from pbcore.grid.cellid import CellName, bracketed, parse
from pbcore.grid.levels import at, levels
from pbcore.grid.profiles import Profile, profiles
from pbcore.grid.settings import PROFILES, Settings
from pbcore.models import model_names, resolve_model
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName, canonical
from pbcore.names import parse as parse_sampler
from pbcore.tasks import TaskNameError, add_tasks_file, all_task_names, load_task, task_names, task_spec
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.lists import MASK
from pbcore.tasks.naming import category, short
from pbcore.tasks.scenes import WORD_COUNTS
from pbcore.tasks.spec import MORE, WAYS, asked_by

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
        entry = resolve_model(model)
        if entry.served:
            numbers = next((part.at_once for part in self.settings.parts if part.at_once), ())
        else:
            numbers = () if entry.family in capabilities.OWN_BATCHES else self.settings.batch_size
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
        give = "give the one that holds waiting_line/, puzzle/ …"
        raise InputError(f"--data-dir {settings.data_dir}: no such folder; {give}")
    wanted: Sequence[str] = settings.task
    for part in settings.parts:
        wanted = part.tasks(wanted, arguments)
    known = all_task_names()
    tasks = _tasks_of(wanted, known) if settings.task else [*_tasks_of(profile.tasks, known), *own]
    texts = filter(None, map(bracketed, arguments))  # of node ids; those of other tests pass by
    named = [name for text in texts if (name := parse(text, known)) is not None]
    models = settings.model or tuple(model for model in profile.models if model in model_names())
    for model in {*settings.model, *(name.model for name in named)}:
        _check_model(model)
    samplers = tuple(dict.fromkeys(_sampler_of(text, models) for text in settings.sampler)) or None
    named = [replace(name, sampler=_sampler_of(name.sampler, [name.model])) for name in named]
    for level in (*levels(settings.factor), *(name.level for name in named)):
        _check_loading(at(settings, level))
    if settings.gpu and not any(part.elsewhere for part in settings.parts):  # there, the nodes need it
        _check_gpu()
    whole = Plan(settings, profile, tuple(dict.fromkeys(models)), tuple(dict.fromkeys(tasks)), samplers, tuple(named))
    drilled = settings.per_sample or whole.numbered or (exit_first and not settings.gated)
    plan = replace(whole, drilled=drilled)
    if settings.cot_answer is not None and not any("cot_answer" in plan.asked(name) for name in plan.tasks):
        raise InputError("--cot-answer: no task of this run asks for steps; add --cot, or leave it out")
    if settings.n or settings.data_dir or settings.sample or settings.shots is not None or settings.max_new_tokens:
        # Unusable lengths, folders and samples are reported before anything runs.
        for task in plan.tasks:
            numbers = [sample.index for sample in plan.task(task).samples]
            if missing := set(settings.sample) - set(numbers):
                raise InputError(f"--sample {min(missing)}: {task} has samples {numbers[0]} to {numbers[-1]}")
    return plan


def _tasks_of(patterns: Iterable[str], known: list[str]) -> list[str]:
    """The tasks among `known` that names, short names or patterns match. Raises InputError with close matches."""
    tasks: list[str] = []
    for pattern in patterns:
        matching = [task for task in known if fnmatchcase(task, pattern) or short(task) == pattern]
        if not matching:
            near = get_close_matches(pattern, [short(task) for task in known], n=3)
            advice = f"no task {pattern!r}; did you mean {', '.join(near)}?" if near else str(TaskNameError(pattern))
            raise InputError(f"--task: {advice}")
        tasks += matching
    return tasks


def _check_model(name: str, option: str = "--model") -> None:
    """Raises InputError, which begins with the option, for a model that can't be had."""
    try:
        resolve_model(name)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{option}: {error}") from error


def _check_loading(settings: Settings) -> None:
    """Raises InputError for a draft, an adapter, options of loading or a dtype that can't be used."""
    if settings.draft is not None:
        _check_model(settings.draft, "--draft")
    if settings.adapter is not None:
        _check_model(f"{settings.model[0]}+{settings.adapter}", "--adapter")
    try:
        LoadOptions.of(settings.load_options)
        if settings.device == "mps":
            from pbcore.models.device import network_device

            network_device("mps")
        if settings.dtype is not None:
            import torch

            from pbcore.models.device import find_dtype

            find_dtype(settings.dtype, torch.device(settings.place))
    except ModelError as error:
        raise InputError(str(error)) from error


def _sampler_of(text: str, models: Iterable[str]) -> str:
    """The canonical spelling of a sampler. A name that the loop doesn't know passes if a model may decode by itself."""
    try:
        return str(resolve(text))
    except ValueError as error:
        try:
            if any(map(capabilities.may_decode_itself, models)):
                return canonical(text)
        except ValueError:
            pass  # no model can read it, and the first error says more
        raise InputError(f"--sampler: {error}") from error


def _check_gpu() -> None:
    """Raises InputError where no GPU can be used, with what was found."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"--gpu: no usable GPU (torch {torch.__version__}, CUDA of its build: {torch.version.cuda or 'none'}, "
            f"devices seen: {torch.cuda.device_count()}); drop --gpu to run on the CPU, or install a CUDA build and "
            "check `nvidia-smi`"
        )
