from fractions import Fraction
from math import inf, log2

import pytest

from pbcore.theory.accuracy import accuracy
from pbcore.theory.tables import GAMMAS, SIDES, equality, figure2, table1


class TestTable1:
    def test_holds_the_findings_of_the_paper(self) -> None:
        """n = 10: no loss for copies, Eq. 3 and Eq. 4, ½ and 0 for replace_random, Eq. 5, the
        thresholds.
        """
        rows = {row.op: row for row in table1(10)}
        assert rows["copy"].total_correlation == rows["replace_index"].pairs_bound == 0
        assert rows["replace_random"].total_correlation == pytest.approx(9 * log2(10 / 9))
        assert rows["replace_random"].top_k == {1: 1, 2: 0.5, 3: 1, 10: 0}
        assert rows["replace_random"].threshold == {0.6: 0, 0.97: 1}
        assert rows["shuffle"].limit == inf
        assert rows["shuffle"].pairs_bound == pytest.approx(log2(3840 / 945))
        assert rows["shuffle"].top_k[2] == pytest.approx(945 / 3840)
        assert [list(table1(n)[0].top_k) for n in (2, 3, 8)] == [[1, 2, 3], [1, 2, 3], [1, 2, 3, 8]]

    def test_one_item_is_refused(self) -> None:
        """There is nothing to decode in parallel."""
        with pytest.raises(ValueError, match="n = 1"):
            table1(1)


class TestEquality:
    @pytest.mark.parametrize("n", [3, 4, 10, 20, 60])
    def test_both_readings_and_the_noise(self, n: int) -> None:
        """γ = (n − 1)/n: 1 where a confidence must exceed it, 0 where it may equal it, all but 2⁻ⁿ
        with noise.
        """
        found = equality(n)
        assert (found.exceed, found.reach) == (1, 0)
        assert found.noise == 1 - 2.0**-n

    def test_the_noise_is_what_accuracy_gives(self) -> None:
        """Where (n − 1)/n is a decimal, `accuracy` is in the limit of small noise."""
        for n in (4, 5, 8, 10, 20):
            assert equality(n).noise == pytest.approx(
                accuracy("replace_random", n, f"threshold-{(n - 1) / n}")
            )

    def test_two_items_have_no_such_equality(self) -> None:
        """Both tokens of both positions are at one half."""
        with pytest.raises(ValueError, match="at least 3 items"):
            equality(2)

    def test_the_default_tables_keep_off_every_confidence(self) -> None:
        """No default γ is 1/m or (m − 1)/m, the confidences of greedy shuffle and replace_random
        with m items left.
        """
        met = {fraction for m in range(1, 201) for fraction in (Fraction(1, m), Fraction(m - 1, m))}
        assert {Fraction(str(gamma)) for gamma in (*GAMMAS, *SIDES)} & met == set()
        assert Fraction("0.95") in met


class TestFigure2:
    def test_has_its_five_panels(self) -> None:
        """Three curves over n in a to d, two over γ in e, every value a probability."""
        points = figure2()
        assert {p.panel for p in points} == set("abcde")
        assert all(0 <= p.accuracy <= 1 for p in points)
        assert len([p for p in points if p.panel == "a" and p.n == 6]) == 3
        crossing = {
            op: [p.accuracy for p in points if p.panel == "e" and p.op == op]
            for op in ("shuffle", "replace_random")
        }
        assert crossing["replace_random"] == [0] * 9 + [1]
        assert crossing["shuffle"][5:] == [1] * 5
