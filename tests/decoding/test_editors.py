"""saber and t2m, which take tokens back, against replays in plain Python; and +eos_last."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode, resolve
from pbcore.names import SamplerNameError
from tests.decoding.test_policies import probabilities
from tests.decoding.toys import EOS, MASK, Toy

SLOTS = 7
TOKENS = 4


def table(seed: int, sharpness: float) -> Any:
    """Logits that change with every token of the canvas, visible tokens' own included."""

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        generator = torch.Generator().manual_seed(hash((seed, canvas, position)) % (1 << 31))
        return (torch.randn(TOKENS, generator=generator) * sharpness).tolist()

    return rule


def surest(slots: list[int], confidence: dict[int, float]) -> list[int]:
    return sorted(slots, key=lambda i: (-confidence[i], i))


def saber(rule: Any, n: int) -> tuple[list[int], int]:
    """Tokens and forwards of one row, as the rule is written."""
    canvas = [MASK] * SLOTS
    commits = dict[int, float]()
    last = dict[int, float]()
    nfe = 0
    while MASK in canvas:
        probs = probabilities(rule, tuple(canvas), range(SLOTS))
        now = {i: max(p) for i, p in enumerate(probs)}
        masks = [i for i in range(SLOTS) if canvas[i] == MASK]
        done = [i for i in range(SLOTS) if canvas[i] != MASK]
        mean = sum(commits[i] for i in done) / len(done) if done else 1.0
        fresh = {i for i in masks if now[i] > mean} | set(surest(masks, now)[:n])
        for i in fresh:
            canvas[i], commits[i] = probs[i].index(now[i]), now[i]
        back = min(max(n // 2, math.ceil(len(fresh) / 8)), len(fresh) - 1) if MASK in canvas else 0
        for i in sorted(done, key=lambda i: (abs(now[i] - last[i]), i))[:back]:
            canvas[i] = MASK
        last = now
        nfe = nfe + 1
    return canvas, nfe


def t2m(rule: Any, gamma: float, low: float, other: float, drop: float) -> tuple[list[int], int]:
    """Tokens and forwards of one row: at most 3 times a slot, a quarter of the tokens a step, 16
    steps once full.
    """
    canvas = [MASK] * SLOTS
    back = [0] * SLOTS
    last = [0.0] * SLOTS
    nfe = 0
    after = 0
    while nfe < SLOTS * 4 + 16:
        probs = probabilities(rule, tuple(canvas), range(SLOTS))
        now = {i: max(p) for i, p in enumerate(probs)}
        masks = [i for i in range(SLOTS) if canvas[i] == MASK]
        done = [i for i in range(SLOTS) if canvas[i] != MASK]
        own = {i: probs[i][canvas[i]] for i in done}
        editable = [i for i in done if back[i] < 3] if after < 16 else []
        suspects = [
            i
            for i in editable
            if own[i] < low
            or last[i] - own[i] > drop
            or (probs[i][canvas[i]] < now[i] and now[i] > other)
        ]
        taken = sorted(suspects, key=lambda i: (own[i], i))[
            : max(1, len([i for i in done if back[i] < 3]) // 4)
        ]
        fresh = {i for i in masks if now[i] > gamma} or set(surest(masks, now)[:1])
        last = [now[i] if i in fresh else own.get(i, 0.0) for i in range(SLOTS)]
        for i in fresh:
            canvas[i] = probs[i].index(now[i])
        for i in taken:
            canvas[i], last[i] = MASK, 0.0
            back[i] += 1
        nfe = nfe + 1
        after = after + (not masks)
        if (not masks and not taken) or (MASK not in canvas and after >= 16):
            break
    return canvas, nfe


class TestSaber:
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    @settings(max_examples=10, deadline=None, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_equals_the_replay(self, n: int, seed: int, sharpness: float) -> None:
        """Same tokens in as many forwards."""
        rule = table(seed, sharpness)
        (generation,) = decode(
            Toy(rule, vocab_size=TOKENS), [[5]], f"saber-{n}", max_new_tokens=SLOTS
        )
        assert (list(generation.token_ids), generation.nfe) == saber(rule, n)


class TestTokenToMask:
    @pytest.mark.parametrize(
        ("gamma", "low", "other", "drop"), [(0.9, 0.1, 0.9, 0.3), (0.5, 0.3, 0.6, 0.1)]
    )
    @settings(max_examples=10, deadline=None, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_equals_the_replay(
        self, gamma: float, low: float, other: float, drop: float, seed: int, sharpness: float
    ) -> None:
        """Same tokens in as many forwards."""
        rule = table(seed, sharpness)
        sampler = f"t2m-{gamma}-low{low}-other{other}-drop{drop}"
        (generation,) = decode(Toy(rule, vocab_size=TOKENS), [[5]], sampler, max_new_tokens=SLOTS)
        assert (list(generation.token_ids), generation.nfe) == t2m(rule, gamma, low, other, drop)


class TestEosLast:
    def test_an_eos_waits_for_all_other_candidates(self) -> None:
        """The surest position predicts EOS and still comes last."""
        sure = {0: (EOS, 9.0), 1: (2, 3.0), 2: (3, 2.0)}

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            token, logit = sure[position]
            return [logit if token == i else 0.0 for i in range(TOKENS)]

        for sampler, steps in (("confidence-k1", (0, 1, 2)), ("confidence-k1+eos_last", (2, 0, 1))):
            (generation,) = decode(Toy(rule, vocab_size=TOKENS), [[5]], sampler, max_new_tokens=3)
            assert generation.steps == steps

    def test_policies_that_choose_tokens_are_refused(self) -> None:
        """What they write isn't the prediction that the modifier looks at."""
        with pytest.raises(SamplerNameError, match=r"so \+eos_last can't hold"):
            resolve("credit-0.9+eos_last")
