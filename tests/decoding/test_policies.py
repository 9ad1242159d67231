"""Each policy against a slow twin, over random probabilities: the twin decodes a whole row, plain
Python, and so does the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from tests.decoding import twins
from tests.decoding.toys import MASK, Toy
from tests.decoding.twins import FREQUENCIES, TWINS, Block, Twin

SLOTS, TOKENS = 7, 4  # token 0 is the mask


def table(seed: int, sharpness: float) -> Callable[[tuple[int, ...], int, int], list[float]]:
    """Logits that depend on the canvas, stored so that twin and loop get the same."""
    known: dict[tuple[tuple[int, ...], int], list[float]] = {}

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        if (canvas, position) not in known:
            generator = torch.Generator().manual_seed(
                hash((seed, canvas.count(MASK), position)) % (1 << 31)
            )
            drift = torch.randn(TOKENS, generator=generator) * 0.3
            steady = torch.randn(
                TOKENS, generator=torch.Generator().manual_seed(seed * 100 + position)
            )
            known[canvas, position] = ((steady + drift) * sharpness).tolist()
        return list(known[canvas, position])

    return rule


def probabilities(rule: Any, canvas: tuple[int, ...], slots: range) -> twins.Probabilities:
    """Softmax at each slot, the mask token impossible."""
    rows = torch.tensor([rule(canvas, i, 0) for i in slots])
    rows[:, MASK] = -1e9
    return [[max(x, 1e-30) for x in row] for row in rows.softmax(-1).tolist()]


def slow(
    rule: Any, twin: Callable[[Block], Any], length: int, block: int, after: tuple[int, ...] = ()
) -> tuple[Any, Any]:
    """Tokens and steps of a decoding, block by block, of a canvas that ends in given tokens; a twin
    answers slots, or slots with tokens.
    """
    canvas = [MASK] * length + list(after)
    steps = [-1] * (length + len(after))
    nfe = 0
    for start in range(0, length, block):
        slots = range(start, start + block)
        state = Block([], [], 0)
        while any(canvas[i] == MASK for i in slots):
            state.probs = probabilities(rule, tuple(canvas), slots)
            state.tokens = [None if canvas[i] == MASK else canvas[i] for i in slots]
            answer = twin(state)
            for i in answer:
                canvas[start + i] = (
                    answer[i]
                    if isinstance(answer, dict)
                    else state.probs[i].index(max(state.probs[i]))
                )
                steps[start + i] = nfe
            state.history.append(state.probs)
            state.step = state.step + 1
            nfe = nfe + 1
    return tuple(canvas), tuple(steps)


class TestTwins:
    @pytest.mark.parametrize(("sampler", "twin"), TWINS, ids=[name for name, _ in TWINS])
    @settings(max_examples=7, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_policy_equals_its_twin(
        self, sampler: str, twin: Twin, seed: int, sharpness: float
    ) -> None:
        """Tokens and steps equal those of a row-by-row decoding by the rule as written."""
        rule = table(seed, sharpness)
        toy = Toy(rule, vocab_size=TOKENS, frequencies=torch.tensor(FREQUENCIES))
        (generation,) = decode(toy, [[5]], sampler, max_new_tokens=SLOTS)
        assert (generation.token_ids, generation.steps) == slow(rule, twin, SLOTS, SLOTS)

    @pytest.mark.parametrize(
        ("steps", "sampler"), [(2, "-steps2"), (3, "-steps3"), (5, "-steps5"), (6, "")]
    )
    def test_slowfast_explores_so_many_steps(self, steps: int, sampler: str) -> None:
        """While the estimates jump it explores `steps` steps, where any sure slot is revealed, and
        then fills up to their mean alone.
        """

        def confidence(step: int, position: int) -> float:
            if (position == 11 and step == steps - 1) or (position == 10 and step >= steps):
                return 0.95
            everywhere = (step - steps + 1) % 2 == 0  # else the estimate is at most 4
            return (
                0.8 - position / 100
                if everywhere or position < 4 or step >= steps
                else 0.25 - position / 100
            )

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            p = confidence(12 - canvas.count(MASK), position)
            return [0.0, *[0.0] * 10, math.log(10 * p / (1 - p))]

        (generation,) = decode(Toy(rule), [[5]], f"slowfast-0.9{sampler}", max_new_tokens=12)
        assert generation.steps[11] == steps - 1
        assert steps < generation.steps[10]
        end = (12 + (4 if steps - 2 < 4 else 1)) // 2
        assert max(generation.steps[:end]) < generation.steps[10]
        assert generation.steps[10] == max(generation.steps[:end]) + 1

    @pytest.mark.parametrize(
        "name", ["slowfast-0.8-low0.5", "credit-0.9", "klass-0.6-kl0.1", "less-0.6-jsd0.01"]
    )
    @settings(max_examples=4, derandomize=True)
    @given(seed=st.integers(0, 10_000))
    def test_state_starts_anew_in_each_block(self, name: str, seed: int) -> None:
        """With blocks, a policy's state ends with its block."""
        rule = table(seed, 3.0)
        (generation,) = decode(
            Toy(rule, vocab_size=TOKENS), [[3, -1, *[MASK] * 6, 2]], f"{name}+b3"
        )
        assert (generation.token_ids, generation.steps) == slow(rule, dict(TWINS)[name], 6, 3, (2,))


@pytest.mark.parametrize(("more", "first"), [(1.002, 1), (0.998, 0)])
def test_a_token_that_the_corpus_lacks_counts_as_one_of_a_billion(more: float, first: int) -> None:
    """pc: with frequency 0 the surprise is −p ln 1e-9; a token of frequency 9e-9 needs ln 1e-9 / ln
    1e-8 of its p.
    """
    p = [0.4, 0.4 * math.log(1e-9) / math.log(1e-8) * more]

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        rest = (1 - p[position]) / 2  # token 1 is likely at position 0, token 2 at position 1
        return [
            0.0,
            *(math.log(p[position] if token == position + 1 else rest) for token in (1, 2, 3)),
        ]

    toy = Toy(
        rule,
        vocab_size=TOKENS,
        frequencies=torch.tensor([0.0, 0.0, 9e-9, 1.0], dtype=torch.float64),
    )
    (generation,) = decode(toy, [[5]], "pc-k1-lam0.0-alpha100.0", max_new_tokens=2)
    assert generation.steps.index(0) == first


HALF = [0.0, 0.0, 0.0]  # two tokens of probability exactly 1/2, beside the mask
SURE = [0.0, -math.inf, 0.0]


class TestEquality:
    """Confidences that equal a bound exactly."""

    @pytest.mark.parametrize(
        ("sampler", "steps"),
        [
            ("threshold-0.5", (0, 0, 0)),
            ("credit-0.5-alpha0.0", (0, 0, 0)),
            ("slowfast-0.5", (0, 0, 0)),
            ("localleap-0.5-relaxed0.5", (0, 0, 0)),
            ("joint-0.5-edit1.0", (0, 1, 2)),
            ("wino-0.5-back0.0", (0, 1, 2)),
            ("hierarchy-0.5-low0.5", (0, 1, 2)),
            ("klass-0.5-kl1.0-history1", (0, 1, 2)),
            ("less-0.5-jsd0.0", (0, 1, 1)),
        ],
    )
    def test_thresholds(self, sampler: str, steps: tuple[int, ...]) -> None:
        """`≥ γ` includes it and `> γ` doesn't, as each policy's rule says."""
        (generation,) = decode(Toy(lambda *_: HALF, vocab_size=3), [[5]], sampler, max_new_tokens=3)
        assert generation.steps == steps

    @pytest.mark.parametrize(("delta", "steps"), [("0.0", (0, 1)), ("0.01", (0, 1))])
    def test_frechet(self, delta: str, steps: tuple[int, ...]) -> None:
        """Confidences 1 and 1/2 give 1.5 − 1 − .5 = 0 for both together, which must exceed δ."""
        rule = lambda canvas, position, key: HALF if position else SURE
        (generation,) = decode(Toy(rule, vocab_size=3), [[5]], f"frechet-{delta}", max_new_tokens=2)
        assert generation.steps == steps

    def test_frechet_above(self) -> None:
        """Two certain slots give 2 − 1 − 0 = 1, which exceeds .99 and not 1."""
        for delta, steps in (("0.99", (0, 0)), ("1.0", (0, 1))):
            (generation,) = decode(
                Toy(lambda *_: SURE, vocab_size=3), [[5]], f"frechet-{delta}", max_new_tokens=2
            )
            assert generation.steps == steps

    @pytest.mark.parametrize(("edit", "token"), [("0.5", 2), ("0.49", 1)])
    def test_edits(self, edit: str, token: int) -> None:
        """A revealed token is replaced by one predicted with more than `edit`, not with exactly
        that.
        """
        never = -math.inf  # the mask itself, whose probability counts here
        rule = lambda canvas, i, key: [never, *(SURE if canvas[i] == MASK else HALF)[1:]]
        (generation,) = decode(
            Toy(rule, vocab_size=3), [[5]], f"joint-0.5-edit{edit}-post1", max_new_tokens=2
        )
        assert generation.token_ids == (token, token)
