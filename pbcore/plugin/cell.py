"""Runs one cell: times decoding, scores the answers, and writes the record before the next cell
starts.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from pbcore.analysis.decoding import exploration, order_statistics
from pbcore.ceilings.ceiling import Ceilings, mean_bits_lost
from pbcore.decoding.run import batch_of, decode
from pbcore.decoding.samplers import policy
from pbcore.decoding.sharing import GIB, ForwardStore, shareable
from pbcore.grid.cellid import CellName
from pbcore.grid.levels import factors_of
from pbcore.grid.settings import Settings
from pbcore.metrics import grammar
from pbcore.metrics.answer_law import answer_law
from pbcore.metrics.text import TextScorer, now_measurable
from pbcore.models.base import Generation, Model
from pbcore.models.memory import Peak, peak_memory
from pbcore.models.tokenizer import pieces
from pbcore.names import parse
from pbcore.plugin.hookspecs import Asked
from pbcore.plugin.options import rerun
from pbcore.plugin.rundir import RECORDED, run_dir, show
from pbcore.plugin.state import UNTIMED, conditions, drilled, rows_of
from pbcore.report.answer_trace import story, wrong
from pbcore.results import questions
from pbcore.results.build import build_cell, generated, length_text, sample_record
from pbcore.results.questions import scored_again
from pbcore.results.record import CellRecord
from pbcore.results.resume import cell_key, user_code
from pbcore.results.rundir import StoredCell
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.scoring import Scored, scorer

_CEILINGS = pytest.StashKey[Ceilings]()
# A model's store, and by task, since lengths differ, the forwards that it computed and their
# seconds.
_HELD = pytest.StashKey[tuple[ForwardStore, dict[str, tuple[int, float]]]]()
NO_TIME = "decoded with shared forwards (--share-forwards)"


class Answered(NamedTuple):
    """One sample's answer by one seed."""

    sample: Sample
    seed: int
    answer: Generation


class Decoded(NamedTuple):
    """The answers of a cell and how they came about: `asked` of a model that answers elsewhere,
    with shared forwards (`shared`: fields of the record), `rounds` in seconds, `batch` rows at
    once.
    """

    answers: list[Answered]
    peak: Peak | None = None
    asked: Asked | None = None
    shared: dict[str, Any] | None = None
    rounds: Sequence[float] = ()
    batch: int | None = None


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
        """Decodes under the clock, scores off it, records. Returns the scores: those of the first
        seed in the order of the samples, then the next seed's. In the drill-down nothing is
        recorded: the test fails at the first wrong answer.
        """
        benchmark.extra_info["cell"] = self.id
        decoded = self._timed(model, task.samples, benchmark)
        answers = decoded.answers
        self._prepare_scorer(task)
        scored = task.score_many(
            [self._text(one.answer) for one in answers], [one.sample for one in answers]
        )
        if drilled(self.item.config):
            self._judge(model, task, answers, scored)
        else:
            self._record(model, task, decoded, scored, benchmark)
        return scored

    def key(self, model: Model, task: Task) -> str:
        """Digest of all that decides the outcome; equal keys mean that a finished cell need not be
        run again.
        """
        requested = self.settings
        more: dict[str, Any] = {
            "official_text": requested.official_text,
            "level": factors_of(self.name.level),
        }
        more |= {"max_new_tokens": requested.max_new_tokens, **requested.load_options}
        return cell_key(
            model=self.name.model,
            model_identity=dict(model.info),
            task=task.name,
            data_hash=task.data_hash,
            sampler=self.name.sampler,
            settings={
                "rounds": requested.rounds,
                **{name: value for name, value in more.items() if value},
            },
            dtype=str(model.info.get("dtype", requested.dtype or "")),
            seeds=requested.seed,
            task_identity=task.identity,
            own_code=user_code(self.name.model, model, self.name.sampler),
        )

    def rescored(self, task: Task, stored: StoredCell) -> StoredCell:
        """A stored cell, scored again and written if its scores lacked a tool that is here now."""
        cell = stored.cell
        if (
            not cell.absent
            or not self._prepare_scorer(task)
            or not now_measurable(cell.absent, cell.scores)
        ):
            return stored
        again = scored_again(stored, task)
        run_dir(self.item.config).write_cell(again.cell, again.samples)
        return again

    def _prepare_scorer(self, task: Task) -> bool:
        """Downloads the grammar checker for a task whose texts are scored, and says whether it is
        such a task.
        """
        if not isinstance(scorer(task.scorer), TextScorer):
            return False
        capture = self.item.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            grammar.available()
        return True

    def _timed(self, model: Model, samples: Sequence[Sample], benchmark: Any) -> Decoded:
        """The answers under the clock, under which nothing is imported; forwards that are shared
        have none.
        """
        store = self._store(model)
        if store is not None:
            self.item.stash[UNTIMED] = True
            return self._shared(model, samples, store)
        batch = self._batch(model, samples)
        # A second round would pay a server twice.
        rounds = (
            1
            if drilled(self.item.config) or getattr(model, "served", False)
            else self.settings.rounds
        )
        decoded: Decoded = benchmark.pedantic(
            self._decode, args=(model, samples, batch), rounds=rounds
        )
        return decoded._replace(
            rounds=decoded.asked.rounds() if decoded.asked else benchmark.stats["data"]
        )

    def _store(self, model: Model) -> ForwardStore | None:
        """The store for this cell; None if forwards are not shared in this run, or can't be for
        model and sampler.
        """
        stash = self.item.config.stash
        if not self.settings.sharing or not getattr(model, "deterministic", False):
            return None  # those that decode by themselves have samplers which the loop lacks
        sampler = parse(self.name.sampler)
        if not shareable(model, policy(sampler), sampler):
            return None
        if _HELD not in stash or not stash[_HELD][0].holds(model):
            stash[_HELD] = ForwardStore(model, int(self.settings.share_memory * GIB)), {}
        return stash[_HELD][0]

    def _shared(self, model: Model, samples: Sequence[Sample], store: ForwardStore) -> Decoded:
        """The answers with shared forwards. The cell's seconds are all its forwards × seconds per
        forward of this model and task, None before the first one.
        """
        shared = store.shared
        computed = store.computed
        seconds = store.seconds
        decoded = self._decode(model, samples, self._batch(model, samples), store)
        shared = store.shared - shared
        computed = store.computed - computed
        by_task = self.item.config.stash[_HELD][1]
        forwards, spent = by_task.get(self.name.task, (0, 0.0))
        forwards, spent = by_task[self.name.task] = (
            forwards + computed,
            spent + (store.seconds - seconds),
        )
        estimate = (shared + computed) * spent / forwards if forwards else None
        rates = {
            "forwards_shared": shared,
            "forwards_computed": computed,
            "seconds_estimated": estimate,
        }
        return decoded._replace(shared=rates)

    def _batch(self, model: Model, samples: Sequence[Sample]) -> int | None:
        """The rows decoded together: as many as asked for, else as the device holds; None for a
        model that answers elsewhere.
        """
        if getattr(model, "served", False):
            return None
        workers = getattr(self.item.config, "workerinput", {}).get("pbcore_on_device", 1)
        rows = rows_of(self.item.config, self.settings, self.name)
        return rows or batch_of(model, samples, self.name.sampler, workers=workers)

    def _decode(
        self,
        model: Model,
        samples: Sequence[Sample],
        batch: int | None,
        store: ForwardStore | None = None,
    ) -> Decoded:
        """Every sample's answer by every seed, and the peak memory, once the device has
        finished.
        """
        if getattr(model, "served", False):
            with self.item.ihook.pytest_pbcore_asking(
                item=self.item, cell_id=self.id, model=model
            ) as asked:
                return Decoded(self._answers(model, samples, batch), asked=asked)
        import torch

        device = getattr(model, "device", torch.device(self.settings.place))
        with peak_memory(device) as peak:
            return Decoded(self._answers(model, samples, batch, store), peak, batch=batch)

    def _answers(
        self,
        model: Model,
        samples: Sequence[Sample],
        batch: int | None,
        store: ForwardStore | None = None,
    ) -> list[Answered]:
        record = drilled(self.item.config)
        answers: list[Answered] = []
        for seed in self.settings.seed:
            decoded = decode(
                model,
                samples,
                self.name.sampler,
                seed=seed,
                record=record,
                batch_size=batch,
                store=store,
            )
            answers += [
                Answered(sample, seed, answer)
                for sample, answer in zip(samples, decoded, strict=True)
            ]
        return answers

    def _text(self, answer: Generation) -> str:
        """What is scored: the answer up to the first EOS, or with --official-text the whole
        canvas.
        """
        return (self.settings.official_text and answer.official_text) or answer.text

    def _judge(
        self, model: Model, task: Task, answers: Sequence[Answered], scored: Sequence[Scored]
    ) -> None:
        """The drill-down: fails at the first wrong answer, and shows how it came about and the
        command that runs it again (right ones with -rP); skips if the headline score could not be
        measured.
        """
        for (sample, seed, answer), result in zip(answers, scored, strict=True):
            if task.headline not in result.scores:
                why = result.details.get("absent", {}).get(task.headline, "no reason given")
                pytest.skip(f"sample {sample.index}: {task.headline} was not measured ({why})")
            entry = sample_record(sample.index, answer, result)
            forwards = [] if entry.nfe is None else [("nfe", entry.nfe)]
            self.item.user_properties.extend(
                [("sample", entry.index), *forwards, *entry.scores.items()]
            )
            failed = wrong(task.headline, result.scores[task.headline])
            if not (failed or self._shows_passes):
                continue
            command = rerun(self.item.config, self.settings, self.item.nodeid, sample.index, seed)
            text = "\n".join(story(model, task, sample, answer, result, command))
            if failed:
                pytest.fail(text, pytrace=False)
            self.item.add_report_section("call", "stdout", f"{text}\n")

    @property
    def _shows_passes(self) -> bool:
        """Whether pytest shows what passed tests have printed (`-rP`, `-rA`)."""
        return bool({"P", "A"} & set(self.item.config.getoption("reportchars", "")))

    def _record(
        self, model: Model, task: Task, decoded: Decoded, scored: Sequence[Scored], benchmark: Any
    ) -> None:
        config = self.item.config
        samples, seeds, answers = map(list, zip(*decoded.answers, strict=True))
        peak = decoded.peak
        asked = decoded.asked
        shared = decoded.shared
        known, absent = (asked.rates(), asked.absent()) if asked is not None else ({}, {})
        if shared is not None:
            known = shared
            absent = dict.fromkeys(("seconds", "peak_memory_bytes"), NO_TIME)
        under = conditions(config, self.name, model, task)
        if decoded.batch is not None:
            under = replace(under, batch_size=under.at_once or decoded.batch)
        facts = CellRecord(
            self.id,
            self.name.model,
            task.name,
            self.name.sampler,
            replace(
                under, key=self.key(model, task), peak_memory_is=None if peak is None else peak.kind
            ),
            length=length_text(task.options.get("lengths") or ()),
            headline=task.headline,
            peak_memory_bytes=None if peak is None or shared is not None else peak.reported,
            **known,
        )
        cell, entries = build_cell(
            facts,
            answers,
            scored,
            rounds=decoded.rounds,
            absent=absent,
            indices=[sample.index for sample in samples],
            seeds=seeds,
            pieces=pieces(model),
        )
        cell = replace(
            cell,
            decoding=order_statistics(entries)
            | generated(answers)
            | exploration(entries, task.headline)
            | answer_law(task, list(zip(samples, map(self._text, answers), strict=True))),
            served=None if asked is None else asked.part(entries),
            **theory_of(config, model, task, self.name.sampler, decoded.answers),
        )
        questions.keep(run_dir(config), task)
        run_dir(config).write_cell(cell, entries)
        benchmark.extra_info.update(show(self.item, cell))
        self.item.stash[RECORDED] = True


def release(config: pytest.Config) -> None:
    """Drops the store of shared forwards with its model."""
    if _HELD in config.stash:
        del config.stash[_HELD]


def theory_of(
    config: pytest.Config, model: Model, task: Task, sampler: str, answers: Sequence[Answered]
) -> dict[str, Any]:
    """`ceiling` and `bits_lost` of a cell's record; None for answers with steps, of which theory
    knows only the end.
    """
    alone = str(parse(sampler).alone)
    ceilings = config.stash.setdefault(_CEILINGS, Ceilings())  # those of this process
    taken = [] if task.cot else [(one.sample, one.answer.steps) for one in answers]
    return {
        "ceiling": ceilings.of(task, alone, getattr(model, "block", None)),
        "bits_lost": mean_bits_lost(model, alone, taken),
    }
