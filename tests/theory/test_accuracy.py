from collections.abc import Sequence
from fractions import Fraction
from math import e, factorial, perm, prod

import pytest

from pbcore.theory.accuracy import DERIVED, accuracy
from pbcore.theory.answers import answer_table
from tests.theory import twins

POLICIES = ("random", "confidence", "left_to_right", "margin", "entropy")


def equation_5(n: int, k: int) -> float:
    steps = [(m, min(k, m)) for m in range(n, 0, -k)]
    return prod(perm(m, j) / m**j for m, j in steps)


class TestShuffle:
    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("heat", ["", "+t1.0", "+t0.5"])
    def test_top_k_is_equation_5(self, policy: str, heat: str) -> None:
        """For every n and k, whatever chooses the positions and whether greedy or sampled."""
        for n in range(1, 13):
            for k in range(1, n + 1):
                assert accuracy("shuffle", n, f"{policy}-k{k}{heat}") == pytest.approx(
                    equation_5(n, k)
                )

    def test_the_values_of_the_paper(self) -> None:
        """n = 4: .09375, .375, 1; n = 10: .00036, .246, 1."""
        assert [accuracy("shuffle", 4, f"random-k{k}") for k in (4, 2, 1)] == [0.09375, 0.375, 1]
        assert [accuracy("shuffle", 10, f"random-k{k}") for k in (10, 2, 1)] == pytest.approx(
            [0.00036, 0.246, 1], abs=5e-4
        )

    def test_thresholds_above_one_half_never_fail(self) -> None:
        """As long as two items are left no confidence exceeds ½; just above 1/n all go at once."""
        assert [accuracy("shuffle", n, "threshold-0.51") for n in (2, 5, 10)] == [1, 1, 1]
        assert accuracy("shuffle", 5, "threshold-0.19") == pytest.approx(factorial(5) / 5**5)

    def test_blocks_and_schedules_change_the_steps(self) -> None:
        """Three in blocks of 4 goes 3, 1, 3, 1; counts and linear schedules are steps too."""

        def steps(*sizes: int) -> float:
            """Accuracy of a shuffle of eight revealed in steps of these sizes."""
            left = [8 - sum(sizes[:i]) for i in range(len(sizes))]
            return prod(perm(m, s) / m**s for m, s in zip(left, sizes, strict=True))

        assert accuracy("shuffle", 8, "random-k3+b4") == pytest.approx(steps(3, 1, 3, 1))
        assert accuracy("shuffle", 8, "confidence+s3_1+b4") == pytest.approx(steps(3, 1, 3, 1))
        assert accuracy("shuffle", 8, "confidence+s1_2") == pytest.approx(steps(1, 7))
        assert accuracy("shuffle", 8, "random+linear3") == pytest.approx(steps(3, 3, 2))


class TestEqualities:
    """Where a confidence just reaches the bound, noise decides: it lifts greedy tokens, and drawn
    ones half of the time.
    """

    @pytest.mark.parametrize("op", ["shuffle", "replace_random"])
    def test_two_items_at_a_threshold_of_one_half(self, op: str) -> None:
        """Greedy reveals both and is right half of the time; of drawn tokens both are lifted in a
        fourth of the cases.
        """
        assert accuracy(op, 2, "threshold-0.5") == 0.5
        assert accuracy(op, 2, "threshold-0.5+t1.0") == 1 - 1 / 4 / 2

    def test_a_factor_that_two_tokens_just_reach(self) -> None:
        """Four items at ¼ and f = 2.25 = (2 + 1)(1 − ¼): greedy takes two, drawn tokens only where
        at least two of four are lifted.
        """
        two = Fraction(4 * 3, 4**2) / 2
        one = Fraction(3 * 2, 3**2)
        assert accuracy("shuffle", 4, "factor-2.25") == two
        assert accuracy("shuffle", 4, "factor-2.25+t1.0") == pytest.approx(
            float(Fraction(11, 16) * two + Fraction(5, 16) * one)
        )


class TestReplaceRandom:
    @pytest.mark.parametrize("policy", POLICIES)
    def test_greedy_depends_on_the_last_step_alone(self, policy: str) -> None:
        """One left: right; two: half of the time; more: never."""
        for n in range(3, 13):
            for k in range(1, n + 1):
                last = n % k or k
                assert accuracy("replace_random", n, f"{policy}-k{k}") == {1: 1.0, 2: 0.5}.get(
                    last, 0.0
                )

    def test_one_sampled_step(self) -> None:
        """((n − 1)/n)^(n − 1), towards 1/e."""
        for n in (2, 5, 10, 200):
            assert accuracy("replace_random", n, f"random-k{n}+t1.0") == pytest.approx(
                ((n - 1) / n) ** (n - 1)
            )
        assert accuracy("replace_random", 200, "random-k200+t1.0") == pytest.approx(1 / e, abs=1e-3)

    @pytest.mark.parametrize("n", [3, 4, 5, 8, 10])
    def test_greedy_threshold_switches_at_its_confidence(self, n: int) -> None:
        """1 above (n − 1)/n and 0 below; on it the noise saves all but 2⁻ⁿ (off it only for
        decimals that equal it).
        """
        edge = (n - 1) / n
        assert accuracy("replace_random", n, f"threshold-{edge + 1e-6:.8f}") == 1
        assert accuracy("replace_random", n, f"threshold-{edge - 1e-6:.8f}") == 0
        if n in (4, 5, 8, 10):
            assert accuracy("replace_random", n, f"threshold-{edge}") == pytest.approx(1 - 2**-n)

    def test_extreme_temperatures(self) -> None:
        """Near 0 sampling is greedy; hot, a step of two is a fair coin for each."""
        assert accuracy("replace_random", 10, "random-k2+t0.001") == pytest.approx(0.5)
        assert accuracy("replace_random", 4, "random-k4+t100000") == pytest.approx(4 / 16, abs=1e-3)


def _take(policy: str, number: str) -> twins.Take:
    def threshold(conf: Sequence[Fraction]) -> int:
        return sum(c >= Fraction(number) for c in conf)

    def factor(conf: Sequence[Fraction]) -> int:
        return max(
            (i for i in range(1, len(conf) + 1) if (i + 1) * (1 - conf[i - 1]) < Fraction(number)),
            default=1,
        )

    return {"threshold": threshold, "factor": factor}.get(policy, lambda conf: int(number[1:]))


SCORES: dict[str, twins.Score] = {
    "random": lambda place, conf, column: Fraction(0),
    "left_to_right": lambda place, conf, column: Fraction(-place),
    "margin": lambda place, conf, column: column[0] - (column[1] if len(column) > 1 else 0),
}


class TestAgainstTryingEverything:
    @pytest.mark.parametrize("op", ["shuffle", "replace_random"])
    @pytest.mark.parametrize("heat", ["", "+t1.0"])
    @pytest.mark.parametrize(
        "head",
        [
            "random-k2",
            "random-k3",
            "left_to_right-k2",
            "margin-k2",
            "confidence-k2",
            "confidence-k3",
            "confidence-k4",
            "threshold-0.9",
            "threshold-0.7",
            "threshold-0.45",
            "threshold-0.3",
            "threshold-0.2",
            "factor-0.9",
            "factor-1.1",
            "factor-1.9",
            "factor-2.3",
            "factor-3.1",
        ],
    )
    def test_equals_the_slow_twin(self, op: str, heat: str, head: str) -> None:
        """All predictions and all orders of ties, for n = 3 and 4, and n = 4 in blocks of 2."""
        policy, number = head.split("-")
        score = SCORES.get(policy, lambda place, conf, column: conf)
        for n, block in ((3, None), (4, None), (4, 2)):
            answers = [tuple(row) for row in answer_table(op, n).tolist()]
            slow = twins.accuracy(answers, not heat, score, _take(policy, number), block)
            blocks = f"+b{block}" if block else ""
            assert accuracy(op, n, f"{head}{blocks}{heat}") == pytest.approx(slow, abs=1e-12)


class TestRefusals:
    def test_one_answer_is_always_right(self) -> None:
        """Copying loses nothing under any sampler that is derived."""
        for op in set(DERIVED) - {"shuffle", "replace_random"}:
            assert accuracy(op, 4, "random-k4") == 1

    @pytest.mark.parametrize(
        ("op", "sampler", "said"),
        [
            ("insert_random", "random-k2", "derived for copy"),
            ("shuffle", "klass-0.9", "klass"),
            ("shuffle", "random-k2+prefix", "caches"),
            ("shuffle", "random-k2+rcr", "remasking"),
            ("shuffle", "random-k2+b3", "doesn't divide"),
            ("shuffle", "random-k0", "at least 1"),
            ("shuffle", "random-0.5", "one parameter"),
            ("shuffle", "threshold", "one parameter"),
            ("shuffle", "factor-1.0-ref", "one parameter"),
            ("shuffle", "random-k2+s1_2", "not both"),
            ("shuffle", "random+cosine2", "cosine"),
            ("shuffle", "threshold-0.9+linear2", "leave the schedule out"),
            ("shuffle", "random k2", "policy name"),
            ("copy", "klass-0.9", "klass"),
            ("shuffle", 5, "give a name"),
        ],
    )
    def test_what_is_not_derived_is_refused(self, op: str, sampler: str, said: str) -> None:
        """The error names what is at fault."""
        with pytest.raises(ValueError, match=said):
            accuracy(op, 4, sampler)

    def test_lengths_end_where_the_recursion_does(self) -> None:
        """Up to 200 items in 200 steps; above, the error says so."""
        assert accuracy("shuffle", 200, "random-k1") == pytest.approx(1)
        assert accuracy("replace_random", 200, "random-k1+b1") == 1
        with pytest.raises(ValueError, match="up to n = 200"):
            accuracy("shuffle", 201, "random-k1")
