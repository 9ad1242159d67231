"""The whole distribution of a sampler's answers: sums, theorems, and decoding with `ideal`."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from pbcore.ceilings.ceiling import ceiling
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import of_name
from pbcore.models.ideal import Ideal
from pbcore.tasks.registry import load_task
from pbcore.theory import answer_distribution, step_bound
from pbcore.theory.answers import answer_table
from pbcore.theory.canvas import EOS
from pbcore.theory.distributions import Listed
from tests.ceilings.outcomes import outcomes

SAMPLERS = [
    "random-k2+t1.0",
    "left_to_right-k2+t1.0",
    "confidence-k2+t1.0",
    "margin-k2+t1.0",
    "entropy-k2+t1.0",
    "threshold-0.6+t1.0",
    "factor-1.1+t1.0",
    "eb-0.4+t1.0",
    "frechet-0.2+t1.0",
    "dus-2+t1.0",
    "origin-3+t1.0",
    "hierarchy-0.9+t1.0",
    "localleap-0.9+t1.0",
    "klass-0.6+t1.0",
    "wino-0.6+t1.0",
    "confidence-k2+rcr+t1.0",
    "confidence-k1+remdm1+t1.0",
    "confidence-k2",
    "confidence+s1_2",
    "credit-0.6",
]


# Of a shuffle all tokens are equally likely: what ties decide, and what takes tokens back.
EVEN = [
    "random-k2+t1.0",
    "confidence-k2+t1.0",
    "threshold-0.6+t1.0",
    "klass-0.6+t1.0",
    "wino-0.6+t1.0",
    "confidence-k2+rcr+t1.0",
    "confidence-k1+remdm1+t1.0",
    "confidence-k2",
    "credit-0.6",
]


def listed(op: str, n: int) -> Listed:
    rows = answer_table(op, n)
    return Listed((*map(str, range(int(rows.max()) + 1)), EOS), rows)


class TestAgainstDecoding:
    @pytest.mark.parametrize(
        ("task", "sampler"),
        [("list_ops/replace_random", sampler) for sampler in SAMPLERS]
        + [("list_ops/shuffle", sampler) for sampler in EVEN],
    )
    def test_answers_come_as_often_as_enumerated(self, task: str, sampler: str) -> None:
        """300 answers of `ideal`, by a chi-squared test (fixed seed): one of six that comes 11
        points too often or too seldom fails.
        """
        sample = load_task(task, n=3, limit=1).samples[0]
        distribution = answer_distribution(sample)
        result = outcomes(distribution, sampler)
        assert sum(result.chances.values()) == pytest.approx(1)
        texts = {
            "".join(
                distribution.vocabulary[i] for i in canvas if distribution.vocabulary[i] != EOS
            ): chance
            for canvas, chance in result.chances.items()
        }
        model = Ideal()
        rows = [replace(sample, index=i) for i in range(300)]
        counts = Counter(out.text for out in decode(model, rows, sampler, batch_size=300))
        assert counts.keys() <= texts.keys()
        often = [text for text, chance in texts.items() if chance * 300 >= 5]
        seen = [counts[text] for text in often] + [300 - sum(counts[text] for text in often)]
        expected = [300 * texts[text] for text in often] + [
            300 * (1 - sum(texts[text] for text in often))
        ]
        if expected[-1] < 1e-6:
            assert seen.pop() == 0
            expected.pop()
        if len(seen) > 1:
            assert chisquare(seen, np.array(expected) * sum(seen) / sum(expected)).pvalue > 1e-4

    @pytest.mark.parametrize(
        "sampler", ["random-k2", "confidence-k2", "threshold-0.4", "random-k3+t1.0", "dus-2"]
    )
    @pytest.mark.parametrize(
        "op", ["shuffle_changed", "insert_random", "remove_random", "replace_random"]
    )
    def test_the_accuracy_is_the_ceiling(self, op: str, sampler: str) -> None:
        """Two enumerations that have nothing but the policies in common."""
        from pbcore.ceilings.ceiling import exact
        from pbcore.names import parse

        rows = listed(op, 4 if op in ("remove_random", "shuffle_changed") else 3)
        name = parse(sampler)
        assert outcomes(rows, sampler).accuracy == pytest.approx(
            exact(rows, of_name(name).policy, name), abs=1e-6
        )


class TestMargins:
    ROWS = Listed(("a", "b", EOS), np.array([[0, 0], [0, 1], [0, 1], [1, 0]]))  # margins 1/2 and 0

    @pytest.mark.parametrize(
        ("sampler", "chances"),
        [
            ("margin-k1", {(0, 1): 1.0}),
            ("entropy-k1", {(0, 1): 1.0}),
            ("margin-k1+t1.0", {(0, 0): 1 / 4, (0, 1): 1 / 2, (1, 0): 1 / 4}),
        ],
    )
    def test_the_larger_margin_goes_first(
        self, sampler: str, chances: dict[tuple[int, ...], float]
    ) -> None:
        """The surer position is revealed first and decides the other; the other order would give
        (0, 0), too.
        """
        assert outcomes(self.ROWS, sampler).chances == pytest.approx(chances)

    def test_equal_margins_are_drawn(self) -> None:
        """Which of two positions comes first is a coin's; either decides the other."""
        rows = Listed(("a", "b", EOS), np.array([[0, 1], [1, 0], [0, 1], [1, 0]]))
        assert sum(outcomes(rows, "margin-k1").chances.values()) == pytest.approx(1)
        assert outcomes(rows, "margin-k1").accuracy == pytest.approx(1)


class TestTheorem1:
    @pytest.mark.parametrize("op", ["shuffle", "replace_random", "insert_random", "remove_random"])
    @pytest.mark.parametrize(
        "sampler", ["left_to_right-k2+t1.0", "left_to_right-k3+t1.0", "dus-2+t1.0"]
    )
    def test_a_fixed_partition_loses_its_bound_exactly(self, op: str, sampler: str) -> None:
        result = outcomes(listed(op, 4), sampler)
        assert result.divergence == pytest.approx(result.bits, abs=1e-6)

    def test_pairs_from_the_left_are_the_step_bound(self) -> None:
        result = outcomes(listed("replace_random", 4), "left_to_right-k2+t1.0")
        assert result.bits == pytest.approx(step_bound("replace_random", 4, [2, 2]), abs=1e-9)
        assert result.steps == 2

    def test_a_random_order_loses_less_than_its_mean_bound(self) -> None:
        """A mixture over partitions: .6077 against .6226 bits for replace_random, n = 4; equal for
        shuffles.
        """
        mixed = outcomes(listed("replace_random", 4), "random-k2+t1.0")
        assert (mixed.divergence, mixed.bits) == (
            pytest.approx(0.6077, abs=5e-5),
            pytest.approx(0.6226, abs=5e-5),
        )
        shuffle = outcomes(listed("shuffle", 4), "random-k2+t1.0")
        assert shuffle.divergence == pytest.approx(shuffle.bits, abs=1e-6)
        for op in ("insert_random", "remove_random"):
            one = outcomes(listed(op, 4), "random-k2+t1.0")
            assert one.bits is not None
            assert one.divergence < one.bits - 1e-3

    def test_one_at_a_time_is_the_data(self) -> None:
        """Sampled, nothing is lost; the total variation is 0 as well."""
        for sampler in ("random-k1+t1.0", "left_to_right-k1+t1.0"):
            result = outcomes(listed("replace_random", 4), sampler)
            assert result.divergence == pytest.approx(0, abs=1e-6)
            assert result.total_variation == pytest.approx(0, abs=1e-6)
            assert result.bits == 0


class TestGreedy:
    def test_greedy_misses_answers(self) -> None:
        """Greedy replace_random one by one is always right, and only ever places the new item
        last.
        """
        result = outcomes(listed("replace_random", 3), "left_to_right-k1")
        assert result.accuracy == pytest.approx(1)
        assert result.divergence == math.inf
        assert 0 < result.total_variation < 1

    def test_remasking_has_no_partition(self) -> None:
        assert outcomes(listed("shuffle", 3), "confidence-k2+rcr+t1.0").bits is None


class TestRefusals:
    def test_too_many_ways(self) -> None:
        sample = load_task("waiting_line/shuffle", n=6, limit=1).samples[0]
        with pytest.raises(ValueError, match="more than"):
            outcomes(answer_distribution(sample), "confidence-k2+t1.0")

    def test_draws_of_its_own(self) -> None:
        with pytest.raises(ValueError, match="greedy form"):
            outcomes(listed("shuffle", 3), "credit-0.9+t1.0")


def test_the_ceiling_of_a_task_is_its_accuracy_over_all_outcomes() -> None:
    """Through the tasks: a list operation with given brackets and quotes."""
    sample = load_task("list_ops/replace_random", n=4, limit=1).samples[0]
    result = outcomes(answer_distribution(sample), "confidence-k2")
    assert ceiling([sample], "confidence-k2").mean == pytest.approx(result.accuracy, abs=1e-9)
