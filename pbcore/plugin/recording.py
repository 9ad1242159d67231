"""One cell's work: decode under the clock, then put its record on disk before the next cell starts, and on the test's report."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Generator as Yields
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.plugin import drilldown
from pbcore.plugin.cellname import CellName
from pbcore.plugin.collection import cell_name, drilled
from pbcore.plugin.memory import PeakMemory
from pbcore.plugin.options import Settings, settings
from pbcore.plugin.plan import plan
from pbcore.plugin.rundir import run_dir, versions

if TYPE_CHECKING:
    from pbcore.models.base import Generation, Model
    from pbcore.results.record import CellRecord, Conditions
    from pbcore.results.rundir import StoredCell
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.scoring import Scored

_RECORDED = pytest.StashKey[bool]()
_ERRORS = pytest.StashKey[dict[str, str]]()
_BEFORE = pytest.StashKey["dict[str, tuple[str, StoredCell]]"]()


@dataclass(slots=True)
class Cell:
    """What the fixture `cell` hands to a test: decodes a task's samples, and records the outcome."""

    name: CellName
    item: pytest.Item
    settings: Settings
    _memory: PeakMemory | None = field(default=None, init=False)

    @property
    def id(self) -> str:
        return self.name.cell_id(plan(self.item.config).paper)

    @property
    def rounds(self) -> int:
        """How often to decode for timing."""
        return 1 if drilled(self.item.config) else self.settings.rounds

    def measure(self, model: Model, task: Task, benchmark: Any) -> list[Scored]:
        """Decodes under the clock, scores off it, records. Returns the scores, in the order of the task's samples.

        In the drill-down nothing is recorded: the test fails at the first wrong answer.
        """
        answers = benchmark.pedantic(self.decode, args=(model, task.samples), rounds=self.rounds)
        scored = task.score_many([self._text(answer) for answer in answers], task.samples)
        self.record(model, task, answers, scored, benchmark)
        return scored

    def _text(self, answer: Generation) -> str:
        """What is scored: the answer up to the first EOS, or with --official-text the whole canvas."""
        return (self.settings.official_text and answer.official_text) or answer.text

    def asked(self, task: Task) -> Task:
        """The task with the samples that this item asks: all of them, those of --sample, or the one in its name; once for each seed."""
        wanted = self.settings.sample if self.name.sample is None else (self.name.sample,)
        if wanted:
            samples = tuple(sample for sample in task.samples if sample.index in wanted)
            if len(samples) < len(set(wanted)):
                raise pytest.UsageError(f"{task.name} has samples 0 to {task.samples[-1].index}, not {max(wanted)}")
            task = replace(task, samples=samples, data_hash="")
        return replace(task, samples=task.samples * len(self.settings.seed))

    def decode(self, model: Model, samples: Sequence[Sample]) -> list[Generation]:
        """The samples' answers, the first part of them by the first seed, and so on; returns when the device has finished, so that the
        caller's clock is right."""
        import torch

        from pbcore.decoding import decode

        device = getattr(model, "device", torch.device(self.settings.device))
        self._memory = PeakMemory.start(device)
        seeds = self.settings.seed
        size = len(samples) // len(seeds)
        answers = [
            answer
            for number, seed in enumerate(seeds)
            for answer in decode(
                model, samples[number * size : (number + 1) * size], self.name.sampler, seed=seed,
                record=drilled(self.item.config), batch_size=self.settings.batch_size,
            )
        ]  # fmt: skip
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return answers

    def record(
        self, model: Model, task: Task, answers: Sequence[Generation], scored: Sequence[Scored], benchmark: Any
    ) -> None:
        """Writes the cell's record, whole and at once, and puts it on the test's report.

        `benchmark` is the fixture that timed `decode`. In the drill-down nothing is written: the test fails at the first wrong answer.
        """
        benchmark.extra_info["cell"] = self.id
        if drilled(self.item.config):
            drilldown.judge(self.item, model, task, answers, scored)
            return
        from pbcore.analysis.decoding_order import order_statistics
        from pbcore.results.build import build_cell
        from pbcore.results.flat import properties

        if benchmark.stats is None:
            raise pytest.UsageError(
                "pytest-benchmark is switched off (--benchmark-disable), and cells are timed by it; drop that option"
            )
        facts, indices = self._facts(model, task), [sample.index for sample in task.samples]
        seeds = self.settings.seeds_of(len(answers))
        cell, samples = build_cell(facts, answers, scored, rounds=benchmark.stats["data"], indices=indices, seeds=seeds)
        cell = replace(cell, decoding=order_statistics(samples))
        run_dir(self.item.config).write_cell(cell, samples)
        self.item.user_properties.extend(properties(cell))
        benchmark.extra_info.update(properties(cell))
        self.item.stash[_RECORDED] = True

    def key(self, model: Model, task: Task) -> str:
        """Digest of all that decides the outcome; equal keys mean that a finished cell need not be run again."""
        from pbcore.results.resume import cell_key

        return cell_key(
            model=self.name.model,
            model_identity=dict(model.info),
            task=task.name,
            data_hash=task.data_hash,
            sampler=self.name.sampler,
            settings={
                "rounds": self.settings.rounds,
                "policy": policy_code(self.name.sampler),
                **({"official_text": True} if self.settings.official_text else {}),
                **self.settings.load_options,
            },
            dtype=str(model.info.get("dtype", self.settings.dtype or "")),
            seeds=self.settings.seed,
        )

    def _facts(self, model: Model, task: Task) -> CellRecord:
        from pbcore.results.record import CellRecord

        return CellRecord(
            self.id,
            self.name.model,
            task.name,
            self.name.sampler,
            conditions(self.item.config, model, task, key=self.key(model, task), memory=self._memory),
            length=_span(task.options.get("lengths") or ()),
            headline=task.headline,
            peak_memory_bytes=self._memory.read() if self._memory else 0,
        )


def conditions(
    config: pytest.Config,
    model: Model | None,
    task: Task | None,
    key: str | None = None,
    memory: PeakMemory | None = None,
) -> Conditions:
    """What the run knows of a cell's conditions; a cell that failed early may lack its model or its task."""
    from pbcore.results.plain import plain
    from pbcore.results.record import Conditions

    requested = settings(config)
    worker = getattr(config, "workerinput", None)
    known: dict[str, Any] = {
        "options": _options(config),
        "versions": versions(),
        "seeds": list(requested.seed),
        "key": key,
    }
    if worker is not None or not config.pluginmanager.hasplugin("dsession"):
        known |= {
            "worker": str((worker or {}).get("workerid", "")),
            "shared_device": bool((worker or {}).get("pbcore_shared", False)),
        }
    if task is not None:
        known |= {"data_source": task.source, "data_hash": task.data_hash}
    if model is not None:
        known |= _of_model(model, requested)
    if memory is not None:
        known["peak_memory_is"] = memory.kind
    return Conditions.unknown(**plain(known, "conditions"))


def _options(config: pytest.Config) -> dict[str, Any]:
    """The settings that decide what is measured and how; what was not given is left to the model or the profile."""
    requested = settings(config)
    given = {
        "dtype": requested.dtype,
        "data_dir": requested.data_dir,
        "official_text": requested.official_text,
        **requested.load_options,
    }
    return {
        "limit": plan(config).limit,
        "data_seed": requested.data_seed,
        "device": requested.device,
        "rounds": requested.rounds,
        **{name: value for name, value in given.items() if value},
    }


def _of_model(model: Model, requested: Settings) -> dict[str, Any]:
    """What only a loaded model tells."""
    import torch

    from pbcore.decoding.run import DEFAULT_BATCH
    from pbcore.results.plain import plain

    device = str(getattr(model, "device", requested.device))
    return {
        "device": device,
        "dtype": str(model.info.get("dtype", requested.dtype or "")),
        "batch_size": requested.batch_size or DEFAULT_BATCH.get(device.split(":")[0], 0),
        "threads": torch.get_num_threads(),
        "dummy": bool(model.info.get("dummy", False)),
        "model_info": plain(dict(model.info), f"info of model {model.name}"),
    }


def _span(lengths: Sequence[int]) -> str:
    """`15`, `3-6` or `5,10,20`."""
    ordered = sorted(lengths)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))


@cache
def policy_code(sampler: str) -> str:
    """Digest of a policy's source where it is the user's own: the package's code is in every key already."""
    from pbcore.decoding.policies.registry import policies
    from pbcore.names import parse

    cls = policies().get(parse(sampler).policy)
    if cls is None or cls.__module__.startswith("pbcore."):
        return ""
    return hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()[:16]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """--resume: a cell that is on disk under the same key is reported as it is, and its test is not run."""
    asked = settings(pyfuncitem.config)
    if asked.resume is None or cell_name(pyfuncitem) is None:
        return None
    from pbcore.results.flat import properties

    built: dict[str, Any] = pyfuncitem.funcargs
    cell: Cell = built["cell"]
    key, stored = _finished(pyfuncitem.config).get(cell.id, ("", None))
    if stored is None or key != cell.key(built["model"], built["task"]):
        return None
    pyfuncitem.user_properties.extend([*properties(stored.cell), ("pbcore_resumed", True)])
    return True


def _finished(config: pytest.Config) -> dict[str, tuple[str, StoredCell]]:
    """What the resumed run had finished before this process began."""
    from pbcore.results.resume import finished

    found = config.stash.get(_BEFORE, None)
    if found is None:
        found = config.stash[_BEFORE] = finished(run_dir(config).path)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Yields[None, pytest.TestReport, pytest.TestReport]:
    """A cell that could not be run leaves a record of its error, so that the report shows what is missing and why."""
    report = yield
    name = cell_name(item)
    if name is None or not report.failed or item.stash.get(_RECORDED, False) or drilled(item.config):
        return report
    assert call.excinfo is not None
    error = f"{call.excinfo.typename}: {call.excinfo.value}"
    first = item.config.stash.setdefault(_ERRORS, {}).setdefault(error, item.nodeid)
    if first != item.nodeid:
        # A model that can't be loaded fails all its cells; one traceback says it.
        report.longrepr = f"{error}\n(the same error as in {first}, which has the traceback)"
    fixtures: dict[str, Any] = getattr(item, "funcargs", {})
    report.user_properties.extend(record_error(item.config, name, error, fixtures.get("model"), fixtures.get("task")))
    item.stash[_RECORDED] = True
    return report


def record_error(
    config: pytest.Config, name: CellName, error: str, model: Model | None = None, task: Task | None = None
) -> list[tuple[str, Any]]:
    """Writes the record of a cell that failed, and returns it as report properties; a full disk must not hide the first error.

    `model` and `task` are what the cell had loaded by then.
    """
    from pbcore.results.build import error_cell
    from pbcore.results.flat import properties
    from pbcore.results.record import CellRecord

    facts = CellRecord(
        name.cell_id(plan(config).paper), name.model, name.task, name.sampler, conditions(config, model, task)
    )
    cell = error_cell(facts, error)
    pairs = properties(cell)
    try:
        run_dir(config).write_cell(cell, ())
    except OSError as full:
        pairs.append(("pbcore_unwritten", f"{type(full).__name__}: {full}"))
    return pairs
