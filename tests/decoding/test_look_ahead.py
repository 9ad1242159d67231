"""`freedave`, `punt`, `recheck` and `recheck_shadow`: what they equal, find and take back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pbcore
from pbcore.decoding import decode
from tests.decoding.test_policies import probabilities
from tests.decoding.toys import MASK, Toy, scrambled

IDEAL = pbcore.load_model("ideal")


class TestFreeDave:
    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 10_000),
        drafts=st.integers(1, 6),
        sharpness=st.sampled_from([0.1, 1.0, 3.0]),
        modifiers=st.sampled_from(["", "+b4", "+eos_stop"]),
    )
    def test_is_one_token_at_a_time(
        self, seed: int, drafts: int, sharpness: float, modifiers: str
    ) -> None:
        """The tokens of `confidence-k1` for every number of drafts, never in more calls; one draft
        takes as many.
        """
        rule = scrambled(6, sharpness)
        toy = Toy(
            lambda canvas, i, key: rule(canvas if seed % 2 else canvas[:1], i, key + seed),
            vocab_size=6,
        )
        (plain,) = decode(toy, [[5]], f"confidence-k1{modifiers}")
        (ours,) = decode(toy, [[5]], f"freedave-{drafts}{modifiers}")
        assert ours.token_ids == plain.token_ids
        assert (ours.nfe or 0) <= (plain.nfe or 0)
        if drafts == 1:
            assert (ours.nfe, ours.rows) == (plain.nfe, plain.nfe)

    def test_is_faster_where_nothing_changes(self) -> None:
        """With distributions that don't depend on the canvas all drafts hold: 8 tokens in a first
        call, one of 4 drafts and one of 3, since the fourth is full.
        """
        toy = Toy(lambda canvas, position, key: [0.0, *[position + i for i in range(11)]])
        (run,) = decode(toy, [[5]], "freedave-4")
        assert (run.nfe, run.rows, run.steps.count(0), run.steps.count(1)) == (3, 8, 4, 4)


def slow_punt(rule: object, length: int, epsilon: float) -> tuple[tuple[int, ...], int]:
    """PUNT by sets, for one row: answer and forwards."""
    canvas = [MASK] * length
    calls = 0
    while MASK in canvas:
        slots = [i for i in range(length) if canvas[i] == MASK]
        base = dict(zip(slots, probabilities(rule, tuple(canvas), slots), strict=True))  # type: ignore[arg-type]
        calls += 1
        best = {i: max(range(len(base[i])), key=base[i].__getitem__) for i in slots}
        order = sorted(slots, key=lambda i: (-max(base[i]), i))
        left = set(slots)
        for bit in reversed(range((len(order) - 1).bit_length())):
            zeros = [i for rank, i in enumerate(order) if i in left and not rank >> bit & 1]
            ones = [i for rank, i in enumerate(order) if i in left and rank >> bit & 1]
            if not zeros or not ones:
                continue
            shown = tuple(best[i] if i in zeros else token for i, token in enumerate(canvas))
            calls += 1
            for i, now in zip(ones, probabilities(rule, shown, ones), strict=True):  # type: ignore[arg-type]
                p = torch.tensor(base[i]).double()
                q = torch.tensor(now).double()
                if float((p * (p / q).log()).sum()) > epsilon:
                    left.discard(i)
        for i in left:
            canvas[i] = best[i]
    return tuple(canvas), calls


class TestPunt:
    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 10_000),
        epsilon=st.sampled_from([0.0, 0.05, 0.5]),
        length=st.integers(1, 7),
    )
    def test_equals_its_twin(self, seed: int, epsilon: float, length: int) -> None:
        """Tokens and forwards of a slow loop, on logits that change a little with the canvas."""
        steady = scrambled(5, 2.0)
        drift = scrambled(5, 0.3)

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            pairs = zip(steady((), position, seed), drift(canvas, position, seed), strict=True)
            return [a + b for a, b in pairs]

        (run,) = decode(Toy(rule, vocab_size=5), [[5]], f"punt-{epsilon}", max_new_tokens=length)
        assert (run.token_ids, run.nfe) == slow_punt(rule, length, epsilon)
        assert run.rows == run.nfe

    def test_independent_tokens_come_at_once(self) -> None:
        """Nothing moves, so one forward and three for the bits of eight ranks reveal all."""
        (run,) = decode(
            Toy(lambda canvas, position, key: [0.0, *map(float, range(11))]), [[5]], "punt"
        )
        assert (run.nfe, run.steps) == (4, (0,) * 8)


class TestRecheck:
    @pytest.mark.parametrize(
        "sampler", ["recheck-4", "recheck-2-gap1", "recheck_shadow-4", "recheck_shadow-2-gap1"]
    )
    @pytest.mark.parametrize("task", ["waiting_line/shuffle", "waiting_line/replace_random"])
    def test_lists_are_right(self, sampler: str, task: str) -> None:
        """What is kept is likelier given the rest than β of before, so with exact marginals
        possible.
        """
        samples = pbcore.load_task(task, limit=3)
        for seed in range(2):
            answers = decode(IDEAL, samples.samples, sampler, seed=seed)
            assert all(
                samples.score(answer.text, sample)["accuracy"] == 1.0
                for answer, sample in zip(answers, samples.samples, strict=True)
            )

    @staticmethod
    def rivals(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        """Positions 0 and 3 want token 2, but not both; all others want a token of their own."""
        other = canvas[3 - position] if position in (0, 3) else MASK
        wants = 2 if position in (0, 3) else 3 + position
        return [0.0, *[3.0 * (i == wants) - 9.0 * (i == 2 and other == 2) for i in range(1, 12)]]

    def test_a_rival_waits(self) -> None:
        """Of two that exclude each other one stays: the surer with the one forward that tells;
        another step follows.
        """
        toy = Toy(self.rivals)
        assert decode(toy, [[5]], "threshold-0", max_new_tokens=4)[0].token_ids == (2, 4, 5, 2)
        for sampler in ("recheck-4-sure2-gap1", "recheck_shadow-4-sure2-gap1"):
            (run,) = decode(toy, [[5]], sampler, max_new_tokens=4)
            assert run.token_ids.count(2) <= 1
            assert run.token_ids[1:3] == (4, 5)

    def test_a_single_draft_is_not_checked(self) -> None:
        """One token a step is that of `confidence-k1`, its row the next forward."""
        (run,) = decode(Toy(), [[5]], "recheck-1-sure2-gap1")
        (plain,) = decode(Toy(), [[5]], "confidence-k1")
        assert (run.token_ids, run.nfe, run.rows) == (plain.token_ids, plain.nfe, plain.nfe)

    def test_the_shadow_takes_back(self) -> None:
        """Drafts that fail are masked again, which the record keeps."""
        (run,) = decode(Toy(), [[5]], "recheck_shadow-8-sure2-gap1")
        assert len(run.former) > 0
        assert (run.nfe or 0) <= 16
