"""What to measure: models × tasks × samplers as asked for, checked, and what of it can't be measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

from pbcore.plugin import cellname
from pbcore.plugin.cellname import CellName, CellNameError
from pbcore.plugin.grid import Profile, profiles
from pbcore.plugin.options import PROFILES, Settings, settings

if TYPE_CHECKING:
    from pbcore.tasks.base import Sample, Task

LISTS = ("waiting_line", "list_ops")
WORD_SETS = "text_writing/w2s_"
_PLAN = pytest.StashKey["Plan"]()


@dataclass(frozen=True, slots=True)
class Plan:
    """The grid of a run. `samplers` None: the profile's, by canvas. `named`: cells that node ids on the command line ask for.

    `left_out` counts by reason what a model can't do; it fills at collection.
    """

    settings: Settings
    profile: Profile
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    samplers: tuple[str, ...] | None
    paper: frozenset[str]
    named: tuple[CellName, ...] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    _loaded: dict[str, Task] = field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        return self.settings.limit or self.profile.limit

    def drilled(self, exit_first: bool) -> bool:
        """Whether samples are items: asked for, or implied by -x unless the run is judged as a whole (DESIGN.md, decision 6)."""
        return self.settings.per_sample or self.numbered or (exit_first and not self.settings.gated)

    @property
    def numbered(self) -> bool:
        """Whether samples are asked for by number: by --sample, or in a node id."""
        return bool(self.settings.sample) or any(name.sample is not None for name in self.named)

    def task(self, name: str) -> Task:
        """A task with the samples of this run, loaded once. A sample asked for by number is found whatever the limit."""
        if name not in self._loaded:
            from pbcore.tasks import load_task

            limit = None if self.numbered else self.limit
            folder = self.settings.data_dir if name in self.paper else None  # the others have no official data
            try:
                self._loaded[name] = load_task(name, folder, self.lengths(name), limit, seed=self.settings.data_seed)
            except (ValueError, OSError) as error:
                raise pytest.UsageError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error
        return self._loaded[name]

    def lengths(self, task: str) -> tuple[int, ...] | None:
        """The n asked for, of lists and word sets; None where the task has none to choose, or has its own.

        A profile's word sets keep their usual number beside lists of an n that no word set has; those that --task names don't.
        """
        asked = self.settings.n
        if asked and task.startswith(WORD_SETS):
            from pbcore.tasks.scenes.words import WORD_COUNTS

            return asked if self.settings.task or set(asked) <= set(WORD_COUNTS) else None
        return asked if task.split("/")[0] in LISTS else None

    @property
    def categories(self) -> set[str]:
        """The categories of all tasks of this run, those of named cells included."""
        return {task.split("/")[0] for task in (*self.tasks, *(name.task for name in self.named))}

    def cells(self, categories: Iterable[str]) -> Iterator[CellName]:
        """The cells of the tasks in `categories`, models outermost."""
        return (cell for cell, reason in self.grid(categories) if reason is None)

    def grid(self, categories: Iterable[str]) -> Iterator[tuple[CellName, str | None]]:
        """Each combination of the tasks in `categories`, and why the model can't run it (None: it is a cell)."""
        from pbcore.plugin.ability import why_not

        wanted = set(categories)
        for model in self.models:
            for task in self.tasks:
                if task.split("/")[0] not in wanted or not (self.settings.task or self.profile.has_task(model, task)):
                    continue
                for sampler in self._samplers(task):
                    if self.samplers is None and not self.profile.has_sampler(model, sampler):
                        continue
                    reason = why_not(model, task, sampler) or self._odd_blocks(task, sampler)
                    yield CellName(model, task, sampler), reason

    def _odd_blocks(self, task: str, sampler: str) -> str | None:
        """Why a sampler's blocks don't fit the task's answers; None where they do."""
        from pbcore.names import parse

        block = parse(sampler).block
        if block is None:
            return None
        if all(asked_tokens(sample) % block == 0 for sample in self.task(task).samples):
            return None
        return f"{task.split('/')[0]} × +b{block}: blocks of {block} don't divide the answers' length"

    def _samplers(self, task: str) -> Iterable[str]:
        if self.samplers is not None:
            return self.samplers
        canvas = min(sample.max_new_tokens for sample in self.task(task).samples) if self.profile.sweeps else 0
        return self.profile.sampler_names(canvas)


def plan(config: pytest.Config) -> Plan:
    """The plan of this run, made and checked at first use. Raises pytest.UsageError that names close matches."""
    found = config.stash.get(_PLAN, None)
    if found is None:
        found = config.stash[_PLAN] = _make(settings(config), config.args)
    return found


def asked_tokens(sample: Sample) -> int:
    """How many tokens a sample asks for: its canvas, or what is masked of a canvas that is given in part."""
    return sample.max_new_tokens if sample.canvas is None else sample.canvas.count("[MASK]")


def planned(config: pytest.Config) -> bool:
    """Whether this process has made a plan."""
    return config.stash.get(_PLAN, None) is not None


def left_out(config: pytest.Config) -> Counter[str]:
    """How many cells could not be, by reason; empty where no plan was made."""
    found = config.stash.get(_PLAN, None)
    return Counter() if found is None else found.left_out


def _make(asked: Settings, arguments: Sequence[str]) -> Plan:
    import pbcore.metrics  # noqa: F401  registers the scorers that tasks name
    from pbcore.tasks import add_tasks_file, all_task_names, task_names

    if asked.profile not in profiles():
        raise pytest.UsageError(f"unknown profile {asked.profile!r}; there are {', '.join(PROFILES)}")
    profile = profiles()[asked.profile]
    try:
        own = [name for file in asked.tasks for name in add_tasks_file(file)]
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--tasks: {error}") from error
    if asked.data_dir is not None and not asked.data_dir.is_dir():
        raise pytest.UsageError(
            f"--data-dir {asked.data_dir}: no such folder; give the one that holds waiting_line/, puzzle/ …"
        )
    paper, known = frozenset(task_names()), all_task_names()
    tasks = _tasks(asked.task, known, paper) if asked.task else [*_tasks(profile.tasks, known, paper), *own]
    named = list(_named(arguments, known, paper))
    models = asked.model or _default_models(profile)
    for model in {*asked.model, *(name.model for name in named)}:
        _check_model(model)
    _check_loading(asked)
    samplers = tuple(dict.fromkeys(_sampler(text, models) for text in asked.sampler)) or None
    named = [CellName(name.model, name.task, _sampler(name.sampler, [name.model]), name.sample) for name in named]
    if asked.gpu:
        _check_gpu()
    found = Plan(
        asked, profile, tuple(dict.fromkeys(models)), tuple(dict.fromkeys(tasks)), samplers, paper, tuple(named)
    )
    if (
        asked.n or asked.data_dir or asked.sample
    ):  # lengths, folders and samples that don't serve are told before anything runs
        for task in found.tasks:
            _check_samples(found.task(task), asked.sample)
    return found


def _check_samples(task: Task, asked: Sequence[int]) -> None:
    numbers = [sample.index for sample in task.samples]
    missing = set(asked) - set(numbers)
    if missing:
        raise pytest.UsageError(f"--sample {min(missing)}: {task.name} has samples {numbers[0]} to {numbers[-1]}")


def _tasks(patterns: Iterable[str], known: list[str], paper: frozenset[str]) -> list[str]:
    from pbcore.tasks.registry import TaskNameError

    found: list[str] = []
    for pattern in patterns:
        matching = [task for task in known if fnmatchcase(task, pattern) or cellname.short(task, paper) == pattern]
        if not matching:
            near = get_close_matches(pattern, [cellname.short(task, paper) for task in known], n=3)
            raise pytest.UsageError(
                f"--task: no task {pattern!r}; did you mean {', '.join(near)}?"
                if near
                else f"--task: {TaskNameError(pattern)}"
            )
        found += matching
    return found


def _named(arguments: Iterable[str], known: list[str], paper: frozenset[str]) -> Iterator[CellName]:
    """The cells that node ids among the arguments name; ids of other tests pass by."""
    for argument in arguments:
        text = cellname.bracketed(argument)
        if text is not None:
            try:
                yield cellname.parse(text, known, paper)
            except CellNameError:
                continue


def _default_models(profile: Profile) -> tuple[str, ...]:
    """The profile's models that this installation has."""
    from pbcore.models import model_names

    known = set(model_names())
    return tuple(model for model in profile.models if model in known)


def _check_model(name: str) -> None:
    from pbcore.models.registry import resolve_model

    try:
        resolve_model(name)
    except (ValueError, RuntimeError) as error:
        raise pytest.UsageError(f"--model: {error}") from error


def _check_loading(asked: Settings) -> None:
    from pbcore.models.entry import LoadOptions
    from pbcore.models.errors import ModelError

    try:
        LoadOptions.of(asked.load_options)
        if asked.dtype is not None:
            import torch

            from pbcore.models.loading import find_dtype

            find_dtype(asked.dtype, torch.device(asked.device))
    except ModelError as error:
        raise pytest.UsageError(str(error)) from error


def _sampler(text: str, models: Iterable[str]) -> str:
    """The canonical spelling of a sampler. One that the loop doesn't have is taken where a model may decode by itself, whose word it is."""
    from pbcore.decoding import resolve
    from pbcore.names import canonical
    from pbcore.plugin.ability import may_decode_itself

    try:
        return str(resolve(text))
    except ValueError as error:
        try:
            if any(map(may_decode_itself, models)):
                return canonical(text)
        except ValueError:
            pass  # no model can read it, and the first error says more
        raise pytest.UsageError(f"--sampler: {error}") from error


def _check_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        raise pytest.UsageError(
            f"--gpu: no usable GPU (torch {torch.__version__}, CUDA of its build: {torch.version.cuda or 'none'}, "
            f"devices seen: {torch.cuda.device_count()}); drop --gpu to run on the CPU, or install a CUDA build and check `nvidia-smi`"
        )
