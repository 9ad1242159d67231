"""Samplers that take tokens back or replace them, against slow loops written for each."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.decoding.samplers import resolve
from pbcore.models import load_model
from pbcore.names import SamplerNameError
from tests.decoding import twins
from tests.decoding.test_policies import probabilities
from tests.decoding.toys import MASK, Toy, scrambled

SLOTS = 8
TOKENS = 5
SEEDS = st.integers(0, 10_000)


def seeded(seed: int, sharpness: float = 3.0) -> Any:
    """A rule that scrambles by seed."""
    rule = scrambled(TOKENS, sharpness)
    return lambda canvas, position, key: rule(canvas, position, key + seed)


def loop(rule: Any, move: Any) -> tuple[tuple[int, ...], int]:
    """Decodes one block: `move(state, probs, step)` changes the canvas in place and says whether to
    go on.
    """
    canvas = [MASK] * SLOTS
    nfe = 0
    while True:
        goes_on = move(canvas, probabilities(rule, tuple(canvas), range(SLOTS)), nfe)
        nfe += 1
        if not goes_on and MASK not in canvas:
            return tuple(canvas), nfe


def outcome(rule: Any, sampler: str) -> tuple[tuple[int, ...], int]:
    (generation,) = decode(Toy(rule, vocab_size=TOKENS), [[5]], sampler, max_new_tokens=SLOTS)
    return generation.token_ids, generation.nfe


class TestRcrMax:
    @settings(max_examples=8, derandomize=True)
    @given(seed=SEEDS, k=st.integers(1, 4))
    def test_equals_its_twin(self, seed: int, k: int) -> None:
        """Fills everything, keeps as many as the schedule says, by the highest confidence each
        position has had.
        """
        best = [0.0] * SLOTS

        def move(canvas: list[int], probs: twins.Probabilities, step: int) -> bool:
            filled = [
                canvas[i] if canvas[i] != MASK else probs[i].index(max(probs[i]))
                for i in range(SLOTS)
            ]
            for i in range(SLOTS):
                if canvas[i] == MASK:
                    best[i] = max(best[i], *probs[i])
            kept = sum(token != MASK for token in canvas) + k
            order = sorted(range(SLOTS), key=lambda i: (-best[i], i))[:kept]
            canvas[:] = [filled[i] if i in order else MASK for i in range(SLOTS)]
            return False

        rule = seeded(seed)
        assert outcome(rule, f"confidence-k{k}+rcr-max") == loop(rule, move)

    def test_counts_forwards(self) -> None:
        """NFE is that of the schedule: the kept count grows by k a step."""
        assert [g.nfe for g in decode(Toy(), [[5]] * 3, "confidence-k2+rcr-max")] == [4, 4, 4]

    def test_goes_with_confidence_alone(self) -> None:
        """Other policies are refused."""
        with pytest.raises(SamplerNameError, match="goes with confidence-kN, not margin"):
            resolve("margin-k2+rcr-max")


class TestRemdmEarly:
    @settings(max_examples=8, derandomize=True)
    @given(seed=SEEDS, k=st.integers(1, 3), rounds=st.integers(1, 3))
    def test_equals_its_twin(self, seed: int, k: int, rounds: int) -> None:
        """From 7/8 of the block on, the token revealed with the lowest confidence is masked again,
        `rounds` times.
        """
        sure = [0.0] * SLOTS
        done = [0]

        def move(canvas: list[int], probs: twins.Probabilities, step: int) -> bool:
            masks = [i for i in range(SLOTS) if canvas[i] == MASK]
            for i in sorted(masks, key=lambda i: (-max(probs[i]), i))[:k]:
                canvas[i], sure[i] = probs[i].index(max(probs[i])), max(probs[i])
            committed = [i for i in range(SLOTS) if canvas[i] != MASK]
            if len(committed) >= math.ceil(SLOTS * 7 / 8) and done[0] < rounds:
                done[0] += 1
                canvas[min(committed, key=lambda i: (sure[i], i))] = MASK
            return False

        rule = seeded(seed)
        assert outcome(rule, f"confidence-k{k}+remdm{rounds}-early") == loop(rule, move)

    def test_needs_k(self) -> None:
        """A policy that decides the number of tokens itself is refused."""
        with pytest.raises(SamplerNameError, match="policies of k tokens a step, not threshold"):
            resolve("threshold-0.9+remdm1-early")


class TestWino:
    @settings(max_examples=10, derandomize=True)
    @given(seed=SEEDS, gamma=st.sampled_from([0.3, 0.6]), back=st.sampled_from([0.4, 0.9]))
    def test_equals_its_twin(self, seed: int, gamma: float, back: float) -> None:
        """Reveals widely and remasks narrowly, always fewer than the step before revealed."""
        rule = seeded(seed)
        before = [30]

        def move(canvas: list[int], probs: twins.Probabilities, step: int) -> bool:
            support = [1.0] * SLOTS
            for i in range(SLOTS):
                if canvas[i] != MASK:
                    hidden = (*canvas[:i], MASK, *canvas[i + 1 :])
                    support[i] = probabilities(rule, hidden, range(i, i + 1))[0][canvas[i]]
            block = twins.Block(probs, [None if token == MASK else token for token in canvas], step)
            draft, doubtful = twins.wino(block, support, before[0], gamma, back)
            for i in draft:
                canvas[i] = probs[i].index(max(probs[i]))
            for i in doubtful:
                canvas[i] = MASK
            before[0] = len(draft)
            return False

        assert outcome(rule, f"wino-{gamma}-back{back}") == loop(rule, move)

    def test_takes_tokens_back(self) -> None:
        """On a model that changes its mind some token is revealed twice."""
        runs = decode(Toy(), [[5]] * 5, "wino-0.3-back0.9", record=True)
        assert any(
            a != MASK and b == MASK
            for run in runs
            for before, after in zip(run.trajectory or (), (run.trajectory or ())[1:], strict=False)
            for a, b in zip(before, after, strict=True)
        )

    def test_needs_a_model_that_hides(self) -> None:
        """A model that can't judge hidden tokens is refused, and so is a cache."""
        with pytest.raises(ValueError, match=r"hidden tokens .*, and toy offers no reviews"):
            decode(Toy(reviews=frozenset()), [[5]], "wino")
        with pytest.raises(ValueError, match=r"runs without a cache; leave \+prefix out"):
            decode(Toy(), [[5]], "wino+prefix")

    def test_ideal_keeps_what_is_certain(self) -> None:
        """On `ideal` a copied list of 32 tokens is revealed 20, 8 and 4 at a time, and nothing is
        masked again.
        """
        import pbcore

        task = pbcore.load_task("waiting_line/copy", limit=2)
        runs = decode(load_model("ideal"), task.samples, "wino-0.6")
        assert all(
            task.score(run.text, sample)["accuracy"] == 1
            for run, sample in zip(runs, task.samples, strict=True)
        )
        assert {tuple(map(run.steps.count, range(run.nfe))) for run in runs} == {(20, 8, 4)}


class TestJoint:
    @settings(max_examples=10, derandomize=True)
    @given(
        seed=SEEDS,
        gamma=st.sampled_from([0.3, 0.7]),
        edit=st.sampled_from([0.0, 0.6]),
        post=st.sampled_from([0, 1, 5]),
    )
    def test_equals_its_twin(self, seed: int, gamma: float, edit: float, post: int) -> None:
        """Fills masks and edits tokens in one step; a full block is edited on until nothing
        changes.
        """
        drawn = seeded(seed, 2.0)
        after = [0]
        rule = lambda *state: [
            -40.0,
            *drawn(*state)[1:],
        ]

        def move(canvas: list[int], probs: twins.Probabilities, step: int) -> bool:
            masks = [i for i in range(SLOTS) if canvas[i] == MASK]
            after[0] = 0 if masks else after[0] + 1
            order = sorted(masks, key=lambda i: (-max(probs[i]), i))
            fill = [i for i in order if max(probs[i]) > gamma] or order[:1]
            changed = bool(fill)
            for i in range(SLOTS):
                top = probs[i].index(max(probs[i]))
                if i in fill or (i not in masks and top != canvas[i] and max(probs[i]) > edit):
                    canvas[i], changed = top, True
            return changed and after[0] < post

        assert outcome(rule, f"joint-{gamma}-edit{edit}-post{post}") == loop(rule, move)

    def test_masks_where_the_mask_is_predicted(self) -> None:
        """A revealed token whose place the model would rather mask is masked again, and the block
        ends all the same.
        """
        rule = lambda canvas, position, key: [
            9.0 * (canvas[position] == 3),
            0.0,
            0.0,
            5.0,
            0.0,
        ]
        (run,) = decode(
            Toy(rule, vocab_size=TOKENS),
            [[5]],
            "joint-0.5-edit0.5-post3",
            max_new_tokens=2,
            record=True,
        )
        assert run.token_ids == (3, 3)
        assert run.nfe == 2 + 3
        assert run.trajectory == ((MASK, MASK), (3, 3), (MASK, MASK), (3, 3), (MASK, MASK), (3, 3))

    def test_given_tokens_are_not_edited(self) -> None:
        """Infilling: what was given stays, whatever the model would rather have."""
        rule = lambda canvas, position, key: [0.0, 0.0, 9.0, 0.0, 0.0]
        (generation,) = decode(Toy(rule, vocab_size=TOKENS), [[3, -1, 3, MASK, 4, MASK]], "joint")
        assert generation.token_ids == (3, 2, 4, 2)

    def test_leaves_no_room_for_held_back_eos(self) -> None:
        """+no_early_eos looks at the prediction, so policies that choose other tokens are
        refused.
        """
        for name in ("joint", "credit"):
            with pytest.raises(SamplerNameError, match=r"so \+no_early_eos can't hold"):
                resolve(f"{name}+no_early_eos")

    def test_needs_a_model_that_sees(self) -> None:
        """`ideal` has no predictions for tokens in sight, and says so."""
        import pbcore

        task = pbcore.load_task("waiting_line/copy", limit=1)
        with pytest.raises(ValueError, match="ideal offers only 'hidden'"):
            decode(load_model("ideal"), task.samples, "joint")


class TestFrequencies:
    def test_pc_needs_them(self) -> None:
        """Without a table the error says how to make one."""
        with pytest.raises(ValueError, match="pbcore list samplers --frequencies"):
            decode(Toy(frequencies=None), [[5]], "pc-k1")

    def test_frequent_words_wait(self) -> None:
        """Of two equally sure slots the rarer word goes first."""
        rule = lambda canvas, i, key: [0.0, 9.0 * (i % 2 == 0), 9.0 * (i % 2)]
        toy = Toy(rule, vocab_size=3, frequencies=torch.tensor([0.0, 0.9, 0.1]))
        (generation,) = decode(toy, [[5]], "pc-k1-lam0.0", max_new_tokens=4)
        assert generation.steps == (2, 0, 3, 1)
