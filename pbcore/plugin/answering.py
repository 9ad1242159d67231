"""The answers of one cell: decoded under the clock, or with forwards that other cells share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from pbcore.decoding.run import Batch, batch_for, decode
from pbcore.decoding.sharing import GIB, ForwardStore, shareable
from pbcore.grid.cellid import CellName
from pbcore.grid.settings import Settings
from pbcore.models.base import Generation, Model
from pbcore.models.memory import Peak, peak_memory
from pbcore.plugin.conditions import rows_of
from pbcore.plugin.hookspecs import Asked
from pbcore.plugin.state import UNTIMED, drilled
from pbcore.tasks.base import Sample

# A model's store, and by task, since lengths differ, the forwards that it computed and their
# seconds.
_HELD = pytest.StashKey[tuple[ForwardStore, dict[str, tuple[int, float]]]]()


class Answered(NamedTuple):
    """One sample's answer by one seed."""

    sample: Sample
    seed: int
    answer: Generation


@dataclass(frozen=True, slots=True)
class SharedForwards:
    """The forwards of a cell that shares them with others.

    - `shared`: answered by the store;
    - `computed`: run by the model;
    - `seconds`: what all of them would take at the seconds per forward of this model and task; None
      before the first was computed.
    """

    shared: int
    computed: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """The answers of a cell and how they came about.

    - `peak`: the peak memory of the device;
    - `asked`: of a model that answers elsewhere;
    - `shared`: with shared forwards;
    - `rounds`: seconds of each timed decoding;
    - `batch`: rows decoded at once.
    """

    answers: list[Answered]
    peak: Peak | None = None
    asked: Asked | None = None
    shared: SharedForwards | None = None
    rounds: Sequence[float] = ()
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Answerer:
    """A model that answers the samples of one cell."""

    item: pytest.Item
    settings: Settings
    name: CellName
    model: Model

    def timed(self, samples: Sequence[Sample], benchmark: Any) -> Decoded:
        """The answers under the clock, under which nothing is imported; forwards that are shared
        have none.
        """
        store = self._store()
        if store is not None:
            self.item.stash[UNTIMED] = True
            return self._shared(samples, store)
        rounds = self.settings.rounds
        if drilled(self.item.config) or self._served:
            rounds = 1  # a second round would pay a server twice
        decoded: Decoded = benchmark.pedantic(
            self._decode, args=(samples, self._batch(samples)), rounds=rounds
        )
        seconds = decoded.asked.rounds() if decoded.asked else benchmark.stats["data"]
        return replace(decoded, rounds=seconds)

    @property
    def _served(self) -> bool:
        """Whether the model answers elsewhere."""
        return bool(getattr(self.model, "served", False))

    def _store(self) -> ForwardStore | None:
        """The store for this cell; None if forwards are not shared in this run, or can't be for
        model and sampler.
        """
        stash = self.item.config.stash
        if not self.settings.sharing or not getattr(self.model, "deterministic", False):
            return None  # those that decode by themselves have samplers which the loop lacks
        sampler = self.name.sampler
        if not shareable(self.model, sampler.policy, sampler.name):
            return None
        if _HELD not in stash or not stash[_HELD][0].holds(self.model):
            stash[_HELD] = ForwardStore(self.model, int(self.settings.share_memory * GIB)), {}
        return stash[_HELD][0]

    def _shared(self, samples: Sequence[Sample], store: ForwardStore) -> Decoded:
        """The answers with shared forwards. Seconds per forward are those of all forwards that this
        model has computed for the task so far.
        """
        shared_before = store.shared
        computed_before = store.computed
        seconds_before = store.seconds
        decoded = self._decode(samples, self._batch(samples), store)
        shared = store.shared - shared_before
        computed = store.computed - computed_before
        by_task = self.item.config.stash[_HELD][1]
        forwards, spent = by_task.get(self.name.task, (0, 0.0))
        forwards += computed
        spent += store.seconds - seconds_before
        by_task[self.name.task] = forwards, spent
        seconds = (shared + computed) * spent / forwards if forwards else None
        return replace(decoded, shared=SharedForwards(shared, computed, seconds))

    def _batch(self, samples: Sequence[Sample]) -> Batch:
        """The rows decoded together: as many as asked for, else as the device holds; None for a
        model that answers elsewhere.
        """
        if self._served:
            return Batch(None)
        workers = getattr(self.item.config, "workerinput", {}).get("pbcore_on_device", 1)
        rows = rows_of(self.item.config, self.settings, self.name)
        if rows:
            return Batch(rows)
        return batch_for(self.model, samples, self.name.sampler, workers=workers)

    def _decode(
        self, samples: Sequence[Sample], batch: Batch, store: ForwardStore | None = None
    ) -> Decoded:
        """Every sample's answer by every seed, and the peak memory, once the device has
        finished.
        """
        if self._served:
            cell_id = self.name.cell_id
            asking = self.item.ihook.pytest_pbcore_asking(
                item=self.item, cell_id=cell_id, model=self.model
            )
            with asking as asked:
                return Decoded(self._answers(samples, batch), asked=asked)
        import torch

        device = getattr(self.model, "device", torch.device(self.settings.place))
        with peak_memory(device) as peak:
            return Decoded(self._answers(samples, batch, store), peak, batch=batch.rows)

    def _answers(
        self, samples: Sequence[Sample], batch: Batch, store: ForwardStore | None = None
    ) -> list[Answered]:
        answers: list[Answered] = []
        for seed in self.settings.seed:
            decoded = decode(
                self.model,
                samples,
                self.name.sampler,
                seed=seed,
                record=drilled(self.item.config),
                batch_size=batch.rows,
                store=store,
                requests=batch.requests,
            )
            for sample, answer in zip(samples, decoded, strict=True):
                answers.append(Answered(sample, seed, answer))
        return answers


def scored_text(requested: Settings, answer: Generation) -> str:
    """What is scored: the answer up to the first EOS, or with --official-text the whole canvas."""
    return (requested.official_text and answer.official_text) or answer.text


def release_shared(config: pytest.Config) -> None:
    """Drops the store of shared forwards with its model."""
    if _HELD in config.stash:
        del config.stash[_HELD]
