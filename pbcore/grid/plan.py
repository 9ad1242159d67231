"""The plan of a run: models × tasks × samplers, checked before anything runs, without the combinations that a model
can't run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from pbcore.errors import InputError
from pbcore.grid.cellid import CellName
from pbcore.grid.levels import at, levels
from pbcore.grid.named import (
    cells_named,
    check_gpu,
    check_loading,
    check_model,
    default_models,
    sampler_of,
    tasks_of,
)
from pbcore.grid.profiles import Profile, profiles
from pbcore.grid.settings import PROFILES, Settings

if TYPE_CHECKING:
    from pbcore.names import SamplerName
    from pbcore.tasks.base import Sample, Task

LISTS = ("waiting_line", "list_ops")
WORD_SETS = "text_writing/w2s_"


@dataclass(frozen=True, slots=True)
class Plan:
    """The grid of a run. `samplers` None: the profile's, by canvas. `named`: cells that node ids on the command line
    name.

    `drilled`: samples are items of their own. Tasks are loaded once, when their samples are first needed.
    """

    settings: Settings
    profile: Profile
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    samplers: tuple[str, ...] | None
    named: tuple[CellName, ...] = ()
    drilled: bool = False
    _loaded: dict[tuple[str, int | None], Task] = field(default_factory=dict)
    _items: dict[str, CellName] = field(default_factory=dict)
    _unread: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _targets: dict[tuple[str, str], set[int]] = field(default_factory=dict)  # masked tokens of the samples

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
        from pbcore.tasks.naming import category

        return {category(task) for task in (*self.tasks, *(name.task for name in self.named))}

    def items(self) -> dict[str, CellName]:
        """Item id → cell (or sample, in the drill-down): those of the grid, models outermost, then those that node ids
        name.
        """
        if not self._items:
            grid = (cell for cell, reason in self.grid(self.categories) if reason is None)
            items = (item for cell in grid for item in (self._samples(cell) if self.drilled else [cell]))
            self._items.update({name.item_id: name for name in (*items, *self.named)})
        return self._items

    def left_out(self, categories: Iterable[str]) -> Counter[str]:
        """Reason → number of the combinations that a model can't run."""
        return Counter(reason for _, reason in self.grid(categories) if reason is not None)

    def grid(self, categories: Iterable[str]) -> Iterator[tuple[CellName, str | None]]:
        """Each combination of the tasks in `categories`, and why the model can't run it (None: it is a cell)."""
        from pbcore.grid.capabilities import (
            no_factor,
            no_infilling,
            not_so_asked,
            otherwise_asked,
            own_samplers,
            why_not,
        )
        from pbcore.tasks.naming import category

        wanted = set(categories)
        for model in self.models:
            for task in self.tasks:
                if category(task) not in wanted or not (self.settings.task or self.profile.has_task(model, task)):
                    continue
                own = own_samplers(model) if self.samplers is None else ()
                for sampler in own or self._samplers(task):
                    if self.samplers is None and not own and not self.profile.has_sampler(model, sampler):
                        continue
                    reason = (
                        why_not(model, task, sampler)
                        or not_so_asked(model, task, self.settings.cot, self.settings.max_new_tokens)
                        or no_infilling(model, partial(self.task, task))
                        or self._lacks_words(model, task)
                        or self._odd_blocks(model, task, sampler)
                        or otherwise_asked(partial(self.task, task), task, sampler)
                    )
                    for name, level in product(self._at_once(model, sampler), levels(self.settings.factor)):
                        why = reason or self._too_few(model, task, name) or no_factor(model, level)
                        yield CellName(model, task, str(name), level=level), why

    def task(self, name: str, model: str = "") -> Task:
        """A task with the samples of this run for a model. A sample selected by number is there whatever the limit.

        Raises InputError.
        """
        limit = None if self.numbered else self.limit(model)
        if (name, limit) not in self._loaded:
            from pbcore.tasks import load_task, task_names

            folder = self.settings.data_dir if name in task_names() else None  # the others have no official data
            try:
                task = load_task(
                    name, folder, self.lengths(name), limit, seed=self.settings.data_seed, **self.asked(name)
                )
            except (ValueError, OSError) as error:
                raise InputError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error
            self._loaded[name, limit] = task
        return self._loaded[name, limit]

    def lengths(self, task: str) -> tuple[int, ...] | None:
        """The requested n of lists and word sets; None for a task that has none to choose, or uses its own.

        A profile's word sets keep their usual number beside lists of an n that no word set has; those that --task names
        don't.
        """
        from pbcore.tasks.naming import category

        requested = self.settings.n
        if requested and task.startswith(WORD_SETS):
            from pbcore.tasks.scenes import WORD_COUNTS

            return requested if self.settings.task or set(requested) <= set(WORD_COUNTS) else None
        return requested if category(task) in LISTS else None

    def asked(self, task: str) -> dict[str, Any]:
        """The run's prompt options for a task (those of WAYS that it has), as options of `load_task`."""
        from pbcore.tasks.registry import task_spec

        return task_spec(task).asked(self.settings.recorded)

    def recorded(self, task: str) -> dict[str, Any]:
        """The settings that a record of this task keeps, without ways of asking that the task doesn't have."""
        from pbcore.tasks.spec import WAYS

        kept = {name: value for name, value in self.settings.recorded.items() if name not in WAYS}
        return {**kept, **self.asked(task)}

    def _samples(self, cell: CellName) -> Iterator[CellName]:
        # A sample that a node id names may lie beyond the limit; the task then has all of them.
        samples = self.task(cell.task, cell.model).samples[: self.limit(cell.model)]
        numbers = [sample.index for sample in samples]
        yield from (replace(cell, sample=i) for i in self.settings.sample or numbers)

    def _lacks_words(self, model: str, task: str) -> str | None:
        """Why a model can't read the prompts of data that don't ship with the package; None if it can."""
        from pbcore.grid.capabilities import lacks_words
        from pbcore.tasks.registry import task_spec
        from pbcore.tasks.sources import asked_by
        from pbcore.tasks.spec import MORE

        own = task_spec(task).kind in MORE  # asked in words that the paper's tasks lack
        if not (own or asked_by(task) or self.settings.data_dir or self.settings.tasks or self.settings.cot):
            return None
        if (model, task) not in self._unread:
            self._unread[model, task] = lacks_words(model, self.task(task, model))
        return self._unread[model, task]

    def _odd_blocks(self, model: str, task: str, sampler: str) -> str | None:
        """Why a sampler's blocks don't fit the task's answers; None if they do."""
        from pbcore.names import parse as parse_sampler

        block = parse_sampler(sampler).block
        if block is None:
            return None
        if (model, task) not in self._targets:
            self._targets[model, task] = {masked_tokens(sample) for sample in self.task(task, model).samples}
        if all(count % block == 0 for count in self._targets[model, task]):
            return None
        return f"{task.split('/')[0]} × +b{block}: blocks of {block} don't divide the answers' length"

    def _at_once(self, model: str, sampler: str) -> Iterable[SamplerName]:
        """A sampler at each number of rows or requests at a time, where the run has several."""
        from pbcore.grid.capabilities import own_batches, served
        from pbcore.names import parse as parse_sampler

        name = parse_sampler(sampler)
        if served(model):
            levels = next((part.at_once for part in self.settings.parts if part.at_once), ())
        else:
            levels = () if own_batches(model) else self.settings.batch_size
        if self.drilled or name.at_once or len(levels) < 2:
            return [name]
        return [replace(name, at_once=level) for level in levels]

    def _too_few(self, model: str, task: str, name: SamplerName) -> str | None:
        """Why a cell can't have so many rows at a time; None if it can."""
        if not name.at_once:
            return None
        count = len(self.task(task, model).samples)
        return None if name.at_once <= count else f"{task} × +x{name.at_once}: it has {count} samples (--limit)"

    def _samplers(self, task: str) -> Iterable[str]:
        if self.samplers is not None:
            return self.samplers
        canvas = min(sample.max_new_tokens for sample in self.task(task).samples) if self.profile.sweeps else 0
        return self.profile.sampler_names(canvas)


def masked_tokens(sample: Sample) -> int:
    """How many tokens a sample's answer has to decode: its canvas, or the masks of a canvas that is given in part."""
    from pbcore.tasks.lists import MASK

    return sample.max_new_tokens if sample.canvas is None else sample.canvas.count(MASK)


def make_plan(settings: Settings, arguments: Sequence[str] = (), exit_first: bool = False) -> Plan:
    """The plan for these settings and pytest arguments (paths and node ids).

    Samples are items if that is requested, or with `exit_first` (-x) unless the run is judged as a whole.
    Raises InputError for what doesn't exist or can't be used, with close matches.
    """
    from pbcore.tasks import add_tasks_file, all_task_names

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
    named = list(cells_named(arguments, known))
    models = settings.model or default_models(profile)
    for model in {*settings.model, *(name.model for name in named)}:
        check_model(model)
    samplers = tuple(dict.fromkeys(sampler_of(text, models) for text in settings.sampler)) or None
    named = [replace(name, sampler=sampler_of(name.sampler, [name.model])) for name in named]
    for level in (*levels(settings.factor), *(name.level for name in named)):
        check_loading(at(settings, level))
    if settings.gpu and not any(part.elsewhere for part in settings.parts):  # there, the nodes need it
        check_gpu()
    numbered = bool(settings.sample) or any(name.sample is not None for name in named)
    drilled = settings.per_sample or numbered or (exit_first and not settings.gated)
    plan = Plan(
        settings, profile, tuple(dict.fromkeys(models)), tuple(dict.fromkeys(tasks)), samplers, tuple(named), drilled
    )
    if settings.cot_answer is not None and not any("cot_answer" in plan.asked(name) for name in plan.tasks):
        raise InputError("--cot-answer: no task of this run asks for steps; add --cot, or leave it out")
    if settings.n or settings.data_dir or settings.sample or settings.shots is not None or settings.max_new_tokens:
        # Unusable lengths, folders and samples are reported before anything runs.
        for name in plan.tasks:
            _check_samples(plan.task(name), settings.sample)
    return plan


def _check_samples(task: Task, requested: Sequence[int]) -> None:
    numbers = [sample.index for sample in task.samples]
    missing = set(requested) - set(numbers)
    if missing:
        raise InputError(f"--sample {min(missing)}: {task.name} has samples {numbers[0]} to {numbers[-1]}")
