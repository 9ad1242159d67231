"""`--share-forwards`: the store of the model that this process holds, and what a cell took from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pbcore.grid.cellid import CellName
from pbcore.plugin.state import settings

if TYPE_CHECKING:
    from pbcore.decoding.sharing import ForwardStore
    from pbcore.models.base import Model

GIB = 1 << 30
REASON = "decoded with shared forwards (--share-forwards)"
ABSENT = {"seconds": REASON, "peak_memory_bytes": REASON}


@dataclass(slots=True)
class Spent:
    """Forwards that were computed for a task, and their seconds."""

    forwards: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Shared:
    """What one cell takes from the store: forwards answered there and computed, and the time that all would take."""

    store: ForwardStore
    spent: Spent
    shared: int = 0
    computed: int = 0

    @contextmanager
    def counted(self) -> Iterator[ForwardStore]:
        """The store, whose work in the block counts as this cell's."""
        store = self.store
        shared, computed, seconds = store.shared, store.computed, store.seconds
        yield store
        self.shared, self.computed = store.shared - shared, store.computed - computed
        self.spent.forwards += self.computed
        self.spent.seconds += store.seconds - seconds

    @property
    def seconds(self) -> float | None:
        """All forwards of the cell × seconds per forward of this model and task; None before the first one."""
        if not self.spent.forwards:
            return None
        return (self.shared + self.computed) * self.spent.seconds / self.spent.forwards


UNTIMED = pytest.StashKey[bool]()  # of an item: its forwards were shared, so it wasn't timed
_HELD = pytest.StashKey["tuple[ForwardStore, dict[str, Spent]]"]()  # a model's store; by task, since lengths differ


def shared_forwards(config: pytest.Config, model: Model, name: CellName) -> Shared | None:
    """The store for a cell; None if forwards are not shared in this run, or can't be for its model and sampler."""
    if not settings(config).sharing or not getattr(model, "deterministic", False):
        return None
    from pbcore.decoding.samplers import policy
    from pbcore.decoding.sharing import ForwardStore, shareable
    from pbcore.names import parse

    sampler = parse(name.sampler)
    if not shareable(model, policy(sampler), sampler):
        return None
    store, spent = config.stash.get(_HELD, (None, {}))
    if store is None or not store.holds(model):
        store, spent = ForwardStore(model, int(settings(config).share_memory * GIB)), defaultdict(Spent)
        config.stash[_HELD] = store, spent
    return Shared(store, spent[name.task])


def release(config: pytest.Config) -> None:
    """Drops the store with its model."""
    if _HELD in config.stash:
        del config.stash[_HELD]
