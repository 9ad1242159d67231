"""Each policy against a slow twin, over random probabilities: the twin decodes a whole row, plain Python, and so does the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from tests.decoding import twins
from tests.decoding.toys import MASK, Toy
from tests.decoding.twins import Block, Twin

SLOTS, TOKENS = 7, 4  # token 0 is the mask


def table(seed: int, sharpness: float) -> Callable[[tuple[int, ...], int, int], list[float]]:
    """Logits that depend on the canvas, remembered so that twin and loop see the same."""
    known: dict[tuple[tuple[int, ...], int], list[float]] = {}

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        if (canvas, position) not in known:
            generator = torch.Generator().manual_seed(hash((seed, canvas.count(MASK), position)) % (1 << 31))
            drift = torch.randn(TOKENS, generator=generator) * 0.3
            steady = torch.randn(TOKENS, generator=torch.Generator().manual_seed(seed * 100 + position))
            known[canvas, position] = ((steady + drift) * sharpness).tolist()
        return list(known[canvas, position])

    return rule


def probabilities(rule: Any, canvas: tuple[int, ...], slots: range) -> twins.Probabilities:
    """Softmax at each slot, the mask token impossible."""
    rows = torch.tensor([rule(canvas, i, 0) for i in slots])
    rows[:, MASK] = -1e9
    return [[max(x, 1e-30) for x in row] for row in rows.softmax(-1).tolist()]


def slow(
    rule: Any, twin: Callable[[Block], Any], asked: int, block: int, after: tuple[int, ...] = ()
) -> tuple[Any, Any]:
    """Tokens and steps of a decoding, block by block, of a canvas that ends in given tokens; a twin answers slots, or slots with tokens."""
    canvas, steps, nfe = [MASK] * asked + list(after), [-1] * (asked + len(after)), 0
    for start in range(0, asked, block):
        slots, state = range(start, start + block), Block([], [], 0)
        while any(canvas[i] == MASK for i in slots):
            state.probs = probabilities(rule, tuple(canvas), slots)
            state.tokens = [None if canvas[i] == MASK else canvas[i] for i in slots]
            answer = twin(state)
            for i in answer:
                canvas[start + i] = answer[i] if isinstance(answer, dict) else state.probs[i].index(max(state.probs[i]))
                steps[start + i] = nfe
            state.history.append(state.probs)
            state.step, nfe = state.step + 1, nfe + 1
    return tuple(canvas), tuple(steps)


FREQUENCIES = [0.1, 0.5, 0.3, 0.1]
TWINS: list[tuple[str, Callable[[Block], Any]]] = [
    ("threshold-0.7", twins.threshold(0.7)),
    ("factor-1.0", twins.factor(1.0)),
    ("factor-0.6", twins.factor(0.6)),
    ("factor-1.0-ref", twins.factor_ref(1.0)),
    ("factor-1.9-ref", twins.factor_ref(1.9)),
    ("eb-0.3", twins.eb(0.3)),
    ("eb-1.5", twins.eb(1.5)),
    ("frechet-0.1", twins.frechet(0.1)),
    ("frechet-0.6", twins.frechet(0.6)),
    ("dus", twins.dus(2)),
    ("dus-3", twins.dus(3)),
    ("klass-0.6-kl0.1", twins.klass(0.6, 0.1, 2)),
    ("klass-0.5-kl0.3-history1", twins.klass(0.5, 0.3, 1)),
    ("localleap-0.8-relaxed0.5-radius2", twins.localleap(0.8, 0.5, 2)),
    ("hierarchy-0.9-low0.5", twins.hierarchy(0.9, 0.5)),
    ("hierarchy-1.0-low0.0", twins.hierarchy(1.0, 0.0)),
    ("pc-k1", twins.pc(1, 0.25, 10.0, FREQUENCIES)),
    ("pc-k3-lam0.0-alpha1.0", twins.pc(3, 0.0, 1.0, FREQUENCIES)),
    ("slowfast-0.8-low0.5", twins.slowfast(0.8, 0.5, 6)),
    ("slowfast-0.95-low0.7-steps2", twins.slowfast(0.95, 0.7, 2)),
    ("credit-0.9", twins.credit(0.9, 0.7, 0.2, 0.8)),
    ("credit-0.8-alpha2.0-power0.5-beta0.5", twins.credit(0.8, 2.0, 0.5, 0.5)),
]


class TestTwins:
    @pytest.mark.parametrize(("sampler", "twin"), TWINS, ids=[name for name, _ in TWINS])
    @settings(max_examples=7, deadline=None, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_policy_equals_its_twin(self, sampler: str, twin: Twin, seed: int, sharpness: float) -> None:
        """Tokens and steps equal those of a row-by-row decoding by the rule as written."""
        rule = table(seed, sharpness)
        toy = Toy(rule, vocab_size=TOKENS, frequencies=torch.tensor(FREQUENCIES))
        (generation,) = decode(toy, [[5]], sampler, max_new_tokens=SLOTS)
        assert (generation.token_ids, generation.steps) == slow(rule, twin, SLOTS, SLOTS)

    @pytest.mark.parametrize("name", ["slowfast-0.8-low0.5", "credit-0.9", "klass-0.6-kl0.1", "hierarchy-0.9-low0.5"])
    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(seed=st.integers(0, 10_000))
    def test_memory_starts_anew_in_each_block(self, name: str, seed: int) -> None:
        """With blocks, what a policy remembers ends with its block."""
        rule = table(seed, 3.0)
        (generation,) = decode(Toy(rule, vocab_size=TOKENS), [[3, -1, *[MASK] * 6, 2]], f"{name}+b3")
        assert (generation.token_ids, generation.steps) == slow(rule, dict(TWINS)[name], 6, 3, (2,))
