import csv
from pathlib import Path

import pytest

from pbcore import load_model
from pbcore.extras.paper.lists import measured_table1, panel, threshold_panel
from pbcore.theory import accuracy


class TestPanels:
    @pytest.mark.parametrize(
        ("name", "op", "heat"), [("2a", "shuffle", "+t1.0"), ("2d", "replace_random", "")]
    )
    def test_lines_are_closed_forms(self, name: str, op: str, heat: str) -> None:
        """Each row has the theory's value for its sampler, and the measured one agrees for all but
        a few.
        """
        drawing = panel(name, load_model("ideal"), 60, (2, 4))
        assert [(row["n"], row["sampler"]) for row in drawing.rows] == [
            (n, f"random-k{k}{heat}") for n, ks in ((2, (1, 2)), (4, (1, 2, 4))) for k in ks
        ]
        for row in drawing.rows:
            assert row["predicted"] == accuracy(op, int(str(row["n"])), str(row["sampler"]))
        assert "of 5 points have the predicted value" in drawing.said

    def test_blocks_are_curves_of_their_own(self) -> None:
        """Where they divide n; a block of 2 has k = 1 and k = 2."""
        drawing = panel("2b", load_model("ideal"), 5, (3, 4), (2,))
        curves = {row["curve"] for row in drawing.rows}
        assert curves == {"k = 1", "k = 2", "k = n", "k = 1, blocks of 2", "k = b, blocks of 2"}
        assert {row["n"] for row in drawing.rows if "blocks" in str(row["curve"])} == {4}

    def test_thresholds(self) -> None:
        """A curve per task and n."""
        drawing = threshold_panel(load_model("ideal"), 5, (3, 4), (0.45, 0.97))
        assert len(drawing.rows) == 8
        assert {row["curve"] for row in drawing.rows} == {
            f"{op}, n = {n}" for op in ("shuffle", "replace_random") for n in (3, 4)
        }

    def test_csv_beside_png(self, tmp_path: Path) -> None:
        """One file each, with a line per point."""
        paths = threshold_panel(load_model("ideal"), 4, (3,), (0.97,)).write(tmp_path / "new")
        assert [path.name for path in paths] == ["figure2e.png", "figure2e.csv"]
        lines = list(csv.DictReader(paths[1].open(encoding="utf-8")))
        assert [(line["operation"], line["predicted"], line["accuracy"]) for line in lines] == [
            ("shuffle", "1", "1"),
            ("replace_random", "1", "1"),
        ]


class TestTable1:
    def test_a_row_per_operation_and_n(self) -> None:
        """With predicted and measured accuracies side by side."""
        text, rows = measured_table1(load_model("ideal"), 20, (3, 4))
        assert [(row["operation"], row["n"]) for row in rows][::4] == [("copy", 3), ("copy", 4)]
        assert "of 40 points have the predicted value" in text
        shuffled = next(row for row in rows if (row["operation"], row["n"]) == ("shuffle", 4))
        assert (shuffled["k=2"], shuffled["k=n"], shuffled["γ=0.97 measured"]) == (
            0.375,
            0.09375,
            1,
        )
