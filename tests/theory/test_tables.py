from math import inf, log2

import pytest

from pbcore.theory.tables import figure2, table1


class TestTable1:
    def test_holds_the_findings_of_the_paper(self) -> None:
        """n = 10: no loss for copies, Eq. 3 and Eq. 4, ½ and 0 for replace_random, Eq. 5, the thresholds."""
        rows = {row.op: row for row in table1(10)}
        assert rows["copy"].total_correlation == rows["replace_index"].pairs_bound == 0
        assert rows["replace_random"].total_correlation == pytest.approx(9 * log2(10 / 9))
        assert rows["replace_random"].top_k == {1: 1, 2: 0.5, 3: 1, 10: 0}
        assert rows["replace_random"].threshold == {0.6: 0, 0.95: 1}
        assert rows["shuffle"].limit == inf
        assert rows["shuffle"].pairs_bound == pytest.approx(log2(3840 / 945))
        assert rows["shuffle"].top_k[2] == pytest.approx(945 / 3840)

    def test_one_item_is_refused(self) -> None:
        """There is nothing to decode in parallel."""
        with pytest.raises(ValueError, match="n = 1"):
            table1(1)


class TestFigure2:
    def test_has_its_five_panels(self) -> None:
        """Three curves over n in a to d, two over γ in e, every value a probability."""
        points = figure2()
        assert {p.panel for p in points} == set("abcde")
        assert all(0 <= p.accuracy <= 1 for p in points)
        assert len([p for p in points if p.panel == "a" and p.n == 6]) == 3
        crossing = {
            op: [p.accuracy for p in points if p.panel == "e" and p.op == op] for op in ("shuffle", "replace_random")
        }
        assert crossing["replace_random"] == [0] * 9 + [1]
        assert crossing["shuffle"][5:] == [1] * 5
