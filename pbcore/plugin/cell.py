"""Runs one cell: times decoding, scores the answers, writes the record before the next cell starts and attaches it to
the report.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pbcore.grid.cellid import CellName
from pbcore.grid.levels import at, factors_of
from pbcore.grid.settings import Settings
from pbcore.plugin import drilldown
from pbcore.plugin.answered import Answered
from pbcore.plugin.rundir import run_dir
from pbcore.plugin.sharing import ABSENT, UNTIMED, Shared, shared_forwards
from pbcore.plugin.state import drilled, hands_out, plan, settings
from pbcore.plugin.theory import theory_of

if TYPE_CHECKING:
    from pbcore.decoding.sharing import ForwardStore
    from pbcore.models.base import Generation, Model
    from pbcore.models.memory import Peak
    from pbcore.plugin.hookspecs import Asked
    from pbcore.results.record import Conditions, SampleRecord
    from pbcore.results.rundir import StoredCell
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.scoring import Scored

RECORDED = pytest.StashKey[bool]()  # of an item: its record is written


class Decoded(NamedTuple):
    """The answers of a cell and how they came about.

    `asked` of a model that answers elsewhere, `shared` with shared forwards.
    """

    answers: list[Answered]
    peak: Peak | None = None
    asked: Asked | None = None
    shared: Shared | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What the fixture `cell` hands to a test."""

    name: CellName
    item: pytest.Item
    settings: Settings

    @property
    def id(self) -> str:
        return self.name.cell_id

    def measure(self, model: Model, task: Task, benchmark: Any) -> list[Scored]:
        """Decodes under the clock, scores off it, records. Returns the scores: those of the first seed in the order of
        the samples, then the next seed's.

        In the drill-down nothing is recorded: the test fails at the first wrong answer.
        """
        benchmark.extra_info["cell"] = self.id
        decoded, rounds = self._timed(model, task.samples, benchmark)
        answers = decoded.answers
        self._install(task)
        scored = task.score_many([self._text(one.answer) for one in answers], [one.sample for one in answers])
        if drilled(self.item.config):
            drilldown.judge(self.item, model, task, answers, scored)
        else:
            self._record(model, task, decoded, scored, rounds, benchmark)
        return scored

    def key(self, model: Model, task: Task) -> str:
        """Digest of all that decides the outcome; equal keys mean that a finished cell need not be run again."""
        from pbcore.results.resume import cell_key, user_code

        return cell_key(
            model=self.name.model,
            model_identity=dict(model.info),
            task=task.name,
            data_hash=task.data_hash,
            sampler=self.name.sampler,
            settings={
                "rounds": self.settings.rounds,
                **({"official_text": True} if self.settings.official_text else {}),
                **({"max_new_tokens": self.settings.max_new_tokens} if self.settings.max_new_tokens else {}),
                **({"level": factors_of(self.name.level)} if self.name.level else {}),
                **self.settings.load_options,
            },
            dtype=str(model.info.get("dtype", self.settings.dtype or "")),
            seeds=self.settings.seed,
            task_identity=task.identity,
            own_code=user_code(self.name.model, model, self.name.sampler),
        )

    def rescored(self, task: Task, stored: StoredCell) -> StoredCell:
        """A stored cell whose scores lacked a tool that is here now is scored again and written; any other is returned
        as it is. Its answers and seconds stay.
        """
        from pbcore.metrics.text import TextScorer, now_measurable
        from pbcore.results.questions import scored_again
        from pbcore.tasks.scoring import scorer

        if not stored.cell.absent or not isinstance(scorer(task.scorer), TextScorer):
            return stored
        self._install(task)
        if not now_measurable(stored.cell):
            return stored
        again = scored_again(stored, task)
        run_dir(self.item.config).write_cell(again.cell, again.samples)
        return again

    def _install(self, task: Task) -> None:
        """Downloads the grammar checker if the task needs it and it is missing, with its progress on the terminal."""
        from pbcore.metrics import grammar
        from pbcore.metrics.text import TextScorer
        from pbcore.tasks.scoring import scorer

        if isinstance(scorer(task.scorer), TextScorer):
            capture = self.item.config.pluginmanager.getplugin("capturemanager")
            with capture.global_and_fixture_disabled() if capture else nullcontext():
                grammar.available()

    def _timed(self, model: Model, samples: Sequence[Sample], benchmark: Any) -> tuple[Decoded, list[float]]:
        """The answers, and the seconds of each round; none where forwards are shared."""
        for module in ("pbcore.decoding", "pbcore.models.memory"):  # nothing is imported under the clock
            import_module(module)
        shared = shared_forwards(self.item.config, model, self.name)
        if shared is not None:
            self.item.stash[UNTIMED] = True
            with shared.counted() as store:
                return self._decode(model, samples, store)._replace(shared=shared), []
        # A second round would pay a server twice.
        rounds = 1 if drilled(self.item.config) or served(model) else self.settings.rounds
        decoded: Decoded = benchmark.pedantic(self._decode, args=(model, samples), rounds=rounds)
        return decoded, benchmark.stats["data"] if decoded.asked is None else decoded.asked.rounds()

    def _decode(self, model: Model, samples: Sequence[Sample], store: ForwardStore | None = None) -> Decoded:
        """Every sample's answer by every seed, and the peak memory; returns when the device has finished, so that the
        clock is right.
        """
        if served(model):
            with self.item.ihook.pytest_pbcore_asking(item=self.item, cell_id=self.id, model=model) as asked:
                return Decoded(self._answers(model, samples), asked=asked)
        import torch

        from pbcore.models.memory import peak_memory

        device = getattr(model, "device", torch.device(self.settings.place))
        with peak_memory(device) as peak:
            return Decoded(self._answers(model, samples, store), peak)

    def _answers(self, model: Model, samples: Sequence[Sample], store: ForwardStore | None = None) -> list[Answered]:
        from pbcore.decoding import decode

        record, size = drilled(self.item.config), self.settings.rows
        answers: list[Answered] = []
        for seed in self.settings.seed:
            decoded = decode(model, samples, self.name.sampler, seed=seed, record=record, batch_size=size, store=store)
            answers += [Answered(sample, seed, answer) for sample, answer in zip(samples, decoded, strict=True)]
        return answers

    def _text(self, answer: Generation | SampleRecord) -> str:
        """What is scored: the answer up to the first EOS, or with --official-text the whole canvas."""
        return (self.settings.official_text and answer.official_text) or answer.text

    def _record(
        self,
        model: Model,
        task: Task,
        decoded: Decoded,
        scored: Sequence[Scored],
        rounds: Sequence[float],
        benchmark: Any,
    ) -> None:
        from pbcore.analysis.decoding import exploration, order_statistics
        from pbcore.metrics.answer_law import answer_law
        from pbcore.models.token_text import pieces
        from pbcore.report.junit import figures_line
        from pbcore.results import questions
        from pbcore.results.build import build_cell, generated, length_text
        from pbcore.results.record import CellRecord
        from pbcore.results.table_row import properties

        config = self.item.config
        answers, peak, asked, shared = decoded
        facts = CellRecord(
            self.id,
            self.name.model,
            task.name,
            self.name.sampler,
            replace(
                conditions(config, self.name, model, task),
                key=self.key(model, task),
                peak_memory_is=None if peak is None else peak.kind,
            ),
            length=length_text(task.options.get("lengths") or ()),
            headline=task.headline,
            peak_memory_bytes=None if peak is None or shared is not None else peak.reported,
            seconds_estimated=None if shared is None else shared.seconds,
            forwards_shared=None if shared is None else shared.shared,
            forwards_computed=None if shared is None else shared.computed,
            **({} if asked is None else asked.rates()),
        )
        cell, samples = build_cell(
            facts,
            [one.answer for one in answers],
            scored,
            rounds=rounds,
            absent=({} if asked is None else asked.absent()) | (ABSENT if shared is not None else {}),
            indices=[one.sample.index for one in answers],
            seeds=[one.seed for one in answers],
            pieces=pieces(model),
        )
        cell = replace(
            cell,
            decoding=order_statistics(samples)
            | generated([one.answer for one in answers])
            | exploration(samples, task.headline)
            | answer_law(task, [(one.sample, self._text(one.answer)) for one in answers]),
            served=None if asked is None else asked.part(samples),
            **theory_of(config, model, task, self.name.sampler, answers),
        )
        questions.keep(run_dir(config), task)
        run_dir(config).write_cell(cell, samples)
        self.item.user_properties.extend(properties(cell))
        self.item.add_report_section("call", "stdout", f"{figures_line(cell)}\n")
        benchmark.extra_info.update(properties(cell))
        self.item.stash[RECORDED] = True


def conditions(config: pytest.Config, name: CellName, model: Model | None, task: Task | None) -> Conditions:
    """What the run knows of a cell's conditions; a cell that failed early may lack its model or its task."""
    from pbcore.names import parse
    from pbcore.results.facts import versions
    from pbcore.results.json_values import plain
    from pbcore.results.record import Conditions

    requested = at(settings(config), name.level)
    known: dict[str, Any] = {
        "options": {"limit": plan(config).limit(name.model), **plan(config).recorded(name.task)},
        "versions": versions(),
        "seeds": list(requested.seed),
        "level": factors_of(name.level) or None,
        "at_once": parse(name.sampler).at_once or None,
    }
    worker = getattr(config, "workerinput", {})
    if worker or not hands_out(config):
        known |= {
            "worker": str(worker.get("workerid", "")),
            "shared_device": bool(worker.get("pbcore_shared", False)),
        }
    if task is not None:
        known |= {"data_source": task.source, "data_hash": task.data_hash}
    if model is not None:
        known |= _of_model(model, requested, known["at_once"])
    return Conditions.unknown(**plain(known, "conditions"))


def _of_model(model: Model, requested: Settings, at_once: int | None) -> dict[str, Any]:
    """What only a loaded model tells."""
    import torch

    from pbcore.decoding.run import default_batch
    from pbcore.results.json_values import plain

    info = plain(dict(model.info), f"info of model {model.name}")
    if served(model):  # whose device, dtype and batches are the server's
        return {"dummy": False, "model_info": info, "shared_device": False}
    device = str(info.get("computes_on") or getattr(model, "device", requested.place))
    return {
        "device": device,
        "dtype": str(model.info.get("dtype", requested.dtype or "")),
        "batch_size": at_once or requested.rows or default_batch(model),
        "threads": torch.get_num_threads(),
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default").lower(),
        "dummy": bool(model.info.get("dummy", False)),
        "model_info": info,
    }


def served(model: Model) -> bool:
    """Whether a model answers elsewhere, as its entry says before it is loaded (`ModelEntry.served`)."""
    return getattr(model, "served", False)
