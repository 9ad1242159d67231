"""The store of forwards stays within its memory, and what it forgets first."""

from __future__ import annotations

import tracemalloc

import numpy as np

from pbcore.decoding import decode
from pbcore.decoding.sharing import ForwardStore
from pbcore.models.base import Generation, Request
from tests.decoding.toys import MASK, Shareable

RISING = Shareable(
    lambda canvas, i, key: [float((i * 5 + j * 3 + sum(canvas)) % 7) for j in range(12)]
)


class TestMemory:
    def fill(self, store: ForwardStore, samples: range) -> list[Generation]:
        return decode(RISING, [[5, i] for i in samples], "confidence-k1", store=store)

    def test_stays_within_its_limit(self) -> None:
        """Four turns of other samples, each of which alone fills the store: it stays below its
        limit, and answers stay the same.
        """
        store = ForwardStore(RISING, 10_000)
        for turn in range(4):
            samples = range(turn * 4, turn * 4 + 4)
            assert self.fill(store, samples) == decode(
                RISING, [[5, i] for i in samples], "confidence-k1"
            )
            assert 0.9 * 10_000 < store.size <= 10_000

    def test_the_limit_is_that_of_the_process(self) -> None:
        """What Python allocates for a full store is no more than the limit."""
        store = ForwardStore(RISING, 1 << 20)
        limit = 1 << 20
        tracemalloc.start()
        begin, _ = tracemalloc.get_traced_memory()
        for key in range(40):
            (known,) = store.prepare([Request((5,), (MASK,) * 32, key)], 0, 1).rows
            for canvas in range(100):
                numbers = np.zeros((4, canvas % 32), dtype=np.float32)
                store.put(known, np.arange(canvas, canvas + 32, dtype=np.int32).tobytes(), numbers)
        end, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 0.5 * limit < end - begin < limit

    def test_oldest_samples_go_first(self) -> None:
        """When room is short, samples of earlier decodings make room; those in use stay and are
        still answered for.
        """
        probe = ForwardStore(RISING)
        self.fill(probe, range(4))
        store = ForwardStore(RISING, probe.size + 100)
        self.fill(store, range(4))
        for _ in range(3):
            self.fill(store, range(10, 14))
        before = store.computed
        self.fill(store, range(10, 14))
        assert store.computed == before
        self.fill(store, range(4))
        assert store.computed > before

    def test_a_grid_that_does_not_fit_still_shares(self) -> None:
        """Samples that each sampler asks about in turn don't drive one another out: those that fit
        are shared.
        """
        probe = ForwardStore(RISING)
        self.fill(probe, range(8))
        store = ForwardStore(RISING, probe.size // 2)
        for _ in range(4):
            self.fill(store, range(8))
        assert store.shared >= 0.4 * 3 * probe.computed
