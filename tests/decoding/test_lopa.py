"""lopa against a replay in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from tests.decoding.test_editors import table
from tests.decoding.test_policies import probabilities
from tests.decoding.toys import MASK, Toy

SLOTS = 7
TOKENS = 4


def replay(rule: Any, branches: int, gamma: float) -> tuple[list[int], int]:
    """Tokens and steps of one row."""
    canvas = [MASK] * SLOTS
    steps = 0
    while MASK in canvas:
        probs = probabilities(rule, tuple(canvas), range(SLOTS))
        masks = sorted(
            (i for i in range(SLOTS) if canvas[i] == MASK), key=lambda i: (-max(probs[i]), i)
        )
        base = [i for i in masks if max(probs[i]) > gamma] or masks[:1]
        rest = [i for i in masks if i not in base]
        tried = [base] + ([[*base, i] for i in rest[: branches - 1]] if len(rest) > 1 else [])

        def judged(branch: list[int], canvas: list[int] = canvas, probs: Any = probs) -> float:
            new = [
                probs[i].index(max(probs[i])) if i in branch else token
                for i, token in enumerate(canvas)
            ]
            after = probabilities(rule, tuple(new), range(SLOTS))
            left = [max(after[i]) for i, token in enumerate(new) if token == MASK]
            return sum(left) / len(left) if left else 0.0

        for i in max(tried, key=lambda branch: round(judged(branch), 6)):
            canvas[i] = probs[i].index(max(probs[i]))
        steps += 1
    return canvas, steps


@pytest.mark.parametrize(("branches", "gamma"), [(1, 0.9), (2, 0.6), (4, 0.5), (3, 0.9)])
@settings(max_examples=10, derandomize=True)
@given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
def test_equals_the_replay(branches: int, gamma: float, seed: int, sharpness: float) -> None:
    """Same tokens; one forward before the first step, then one of all branches a step, the last
    unless complete.
    """
    rule = table(seed, sharpness)
    (generation,) = decode(
        Toy(rule, vocab_size=TOKENS), [[5]], f"lopa-{branches}-gamma{gamma}", max_new_tokens=SLOTS
    )
    canvas, steps = replay(rule, branches, gamma)
    assert list(generation.token_ids) == canvas
    assert max(generation.steps) + 1 == steps
    assert generation.nfe == steps
    assert (generation.rows or 0) <= 1 + branches * (steps - 1)


def test_one_branch_is_a_threshold() -> None:
    """Without others it decodes as `threshold` does, above γ."""
    toy = Toy(table(5, 2.0), vocab_size=TOKENS)
    one, other = (
        decode(toy, [[5]], name, max_new_tokens=SLOTS)[0]
        for name in ("lopa-1-gamma0.7", "threshold-0.7")
    )
    assert (one.token_ids, one.steps, one.rows) == (other.token_ids, other.steps, other.rows)
