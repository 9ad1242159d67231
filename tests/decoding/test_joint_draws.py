"""Tokens chosen together: as often as the marginals say, each marginal kept, and plain where
nothing is to choose.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pbcore
from pbcore.decoding import decode, resolve
from pbcore.decoding.joint_draws import by_counts, rounded
from tests.decoding.test_invariants import Fixed, holds
from tests.decoding.toys import MASK, Toy, scrambled

IDEAL = pbcore.load_model("ideal")
TOGETHER = [
    "threshold-0.3+counts",
    "threshold-0+counts+gap2",
    "confidence-k3+gap3",
    "wino+counts",
    "spec-4+counts",
]
DRAWN = [
    "threshold-0+counts+t1.0",
    "factor-1.0+rounding+t0.8",
    "confidence-k3+gap2+t1.0",
    "spec-4+rounding+t1.0",
]


class TestCounts:
    @pytest.mark.parametrize(
        "sampler", ["threshold-0+counts", "threshold-0+counts+t1.0", "threshold-0+rounding+t1.0"]
    )
    def test_a_shuffle_in_one_forward_is_a_permutation(self, sampler: str) -> None:
        """Every item has N = 1, so each comes once, whatever the seed."""
        task = pbcore.load_task("list_ops/shuffle", n=5, limit=3)
        for seed in range(4):
            for sample, answer in zip(
                task.samples, decode(IDEAL, task.samples, sampler, seed=seed), strict=True
            ):
                assert answer.nfe == 1
                assert task.score(answer.text, sample)["accuracy"] == 1.0

    def test_names_of_two_tokens_in_two(self) -> None:
        """First names, then last ones: neighbours depend on each other in a way that counts don't
        show.
        """
        task = pbcore.load_task("waiting_line/shuffle", n=6, limit=4)
        answers = decode(IDEAL, task.samples, "threshold-0+counts+gap2")
        assert [answer.nfe for answer in answers] == [2] * 4
        assert all(
            task.score(a.text, s)["accuracy"] == 1.0
            for a, s in zip(answers, task.samples, strict=True)
        )

    @settings(derandomize=True)
    @given(seed=st.integers(0, 10_000), slots=st.integers(2, 6), tokens=st.integers(2, 5))
    def test_within_the_bounds(self, seed: int, slots: int, tokens: int) -> None:
        """Each token comes at least ⌊N_t⌋ and at most max(1, ⌊N_t + ½⌋) times, and no choice within
        these has a larger product of probabilities.
        """
        chances = np.random.default_rng(seed).dirichlet(np.full(tokens, 0.7), size=slots)
        ids = np.tile(np.arange(tokens), (slots, 1))
        found = by_counts(ids, chances, None)
        least = np.floor(chances.sum(0) + 1e-3)
        most = np.maximum(1, np.floor(chances.sum(0) + 0.5))
        if most.sum() < slots:
            assert (found == -1).all()
            return
        grid = np.array(np.meshgrid(*[range(tokens)] * slots)).reshape(slots, -1).T  # every choice
        counts = (grid[:, :, None] == np.arange(tokens)).sum(1)
        fits = (counts <= most).all(-1)
        floors = np.minimum(counts, least).sum(-1)
        fits &= floors == floors[fits].max()
        value = np.log(chances[np.arange(slots), grid]).sum(-1)
        assert value[(grid == found).all(-1) & fits] == pytest.approx(value[fits].max())

    def test_sure_tokens_stay(self) -> None:
        """Where all confidences are 1 nothing changes, also if a token repeats."""
        sure = Toy(
            lambda canvas, position, key: [0.0, *[90.0 * (i == position // 4) for i in range(11)]]
        )
        assert decode(sure, [[5]], "threshold-0+counts") == decode(sure, [[5]], "threshold-0")

    @pytest.mark.parametrize("modifiers", ["", "+t1.0"])
    def test_one_token_is_plain(self, modifiers: str) -> None:
        """A step that reveals one token chooses and draws it as ever."""
        plain = decode(Toy(), [[5]] * 3, f"confidence-k1{modifiers}")
        assert decode(Toy(), [[5]] * 3, f"confidence-k1+counts{modifiers}") == plain


class TestRounding:
    @settings(derandomize=True)
    @given(seed=st.integers(0, 10_000), rows=st.integers(1, 6), columns=st.integers(1, 6))
    def test_column_sums(self, seed: int, rows: int, columns: int) -> None:
        """Each column comes as often as its sum, rounded down or up, and none that has no
        probability.
        """
        rng = np.random.default_rng(seed)
        chances = rng.dirichlet(np.full(columns, 0.5), size=rows)
        for _ in range(5):
            found = rounded(chances, rng)
            counts = np.bincount(found, minlength=columns)
            assert (counts >= np.floor(chances.sum(0) - 1e-9)).all()
            assert (counts <= np.ceil(chances.sum(0) + 1e-9)).all()
            assert (chances[np.arange(rows), found] > 0).all()

    def test_keeps_marginals(self) -> None:
        """Over many draws every entry comes as often as it says: within five standard errors."""
        rng = np.random.default_rng(0)
        draws = 4000
        chances = rng.dirichlet(np.full(4, 0.6), size=4)
        seen = np.zeros_like(chances)
        for _ in range(draws):
            seen[np.arange(4), rounded(chances, rng)] += 1
        assert (
            np.abs(seen / draws - chances) <= 5 * np.sqrt(chances * (1 - chances) / draws) + 1e-9
        ).all()

    def test_permutations_come_alike(self) -> None:
        """Where all are alike no order is preferred: χ² of six permutations below its 99.99 %
        point, 25.7.
        """
        rng = np.random.default_rng(1)
        draws = 3000
        seen = dict.fromkeys(permutations(range(3)), 0)
        for _ in range(draws):
            seen[tuple(rounded(np.full((3, 3), 1 / 3), rng).tolist())] += 1
        assert sum((count - draws / 6) ** 2 / (draws / 6) for count in seen.values()) < 25.7


class TestGap:
    def test_keeps_unsure_ones_apart(self) -> None:
        """From the left, an unsure slot nearer than the gap to one that stays is left out; sure
        ones aren't.
        """
        sure = {2, 3}
        rule = lambda canvas, position, key: [
            0.0,
            1.0,
            90.0 if position in sure else 1.1,
            *[1.0] * 9,
        ]
        (run,) = decode(Toy(rule), [[5]], "threshold-0+gap3")
        assert [i for i, step in enumerate(run.steps) if step == 0] == [0, 2, 3, 4, 7]

    def test_counts_columns(self) -> None:
        """Distance is that in the canvas, where given tokens count."""
        flat = Toy(lambda canvas, position, key: [0.0, *[1.0] * 11])
        (run,) = decode(flat, [[5, -1, MASK, 2, MASK, MASK]], "threshold-0+gap2")
        assert run.steps == (0, -1, 0, 1)


class TestModifiers:
    @pytest.mark.parametrize("sampler", [*TOGETHER, *DRAWN])
    @settings(max_examples=5, derandomize=True)
    @given(
        values=st.lists(
            st.sampled_from([0.0, 1.0, -1.0, 3.0, 30.0, -30.0]), min_size=7, max_size=13
        ),
        canvases=st.lists(
            st.sampled_from([[MASK] * 6, [2, *[MASK] * 4, 4], [MASK, 2, 2, 4, MASK, 4]]),
            min_size=1,
            max_size=4,
        ),
        block=st.sampled_from([0, 2]),
    )
    def test_invariants(
        self, sampler: str, values: list[float], canvases: list[list[int]], block: int
    ) -> None:
        """Batches change nothing, every row ends, given tokens stay."""
        holds(sampler, Fixed(values), canvases, 0, block)

    def test_names(self) -> None:
        """One spelling each, and the wrapped policy's own declarations stay."""
        assert str(resolve("threshold-0+gap2+counts+b8")) == "threshold-0.0+b8+counts+gap2"
        wrapped: Any = resolve("wino+counts").declared
        assert (wrapped.review, wrapped.rewrites, wrapped.cap(7)) == ("hidden", True, 7)
        assert not resolve("wino+gap2").declared.rewrites

    def test_each_temperature_keeps_the_marginals(self) -> None:
        """Over many rows each token comes as often as p^(1/τ) says, within five standard errors;
        the confidence that is told is p at temperature 1.
        """
        logits = [[0.0, -1.0, 1.0, 0.5, *[-2.0] * 8], [0.0, 0.2, -1.0, 1.0, *[-2.0] * 8]]
        toy = Toy(lambda canvas, position, key: logits[position])
        scores = torch.tensor(logits).double()
        scores[:, MASK] = -torch.inf
        for heat in (0.5, 1.0, 2.0):
            rows = decode(
                toy,
                [[5]] * 2000,
                f"threshold-0+rounding+t{heat}",
                max_new_tokens=2,
                batch_size=2000,
            )
            drawn = torch.tensor([one.token_ids for one in rows])
            seen = torch.nn.functional.one_hot(drawn, 12).double().mean(0)
            chances = (scores / heat).softmax(-1)
            assert (
                (seen - chances).abs() <= 5 * (chances * (1 - chances) / 2000).sqrt() + 1e-9
            ).all()
            told = torch.tensor([one.confidences for one in rows]).double()
            assert torch.allclose(told, scores.softmax(-1)[torch.arange(2), drawn], atol=1e-6)

    def test_a_long_vocabulary(self) -> None:
        """Beyond the 32 likeliest tokens a draw is of all others, each by its probability."""
        rule = scrambled(50, 0.1)
        toy = Toy(rule, vocab_size=50)
        drawn = [
            decode(toy, [[5]], "threshold-0+rounding+t1.0", seed=seed)[0].token_ids
            for seed in range(40)
        ]
        logits = torch.tensor([rule((MASK,) * 8, position, 0) for position in range(8)])
        logits[:, MASK] = -torch.inf
        top = logits.topk(32, -1).indices.tolist()
        beyond = sum(token not in top[i] for ids in drawn for i, token in enumerate(ids)) / (8 * 40)
        assert 0.2 < beyond < 0.45
