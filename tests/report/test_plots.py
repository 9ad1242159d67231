"""pbcore.report.plots: which curves are drawn, and through which points."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.image import imread

from pbcore.report.plots import figure, write_plots
from pbcore.results import frame
from tests.results import factory


class TestPlots:
    def test_files(self, tmp_path: Path) -> None:
        """One overview, and one figure per category and model with several tasks; not blank."""
        files = write_plots(
            frame(record for record, _ in factory.grid(tasks=("waiting_line/copy", "waiting_line/sort"))), tmp_path
        )
        assert [path.name for path in files] == [
            "curves.png",
            "curves_waiting_line_ideal.png",
            "curves_waiting_line_tiny.png",
        ]
        assert all(len({tuple(pixel) for row in imread(path)[::7, ::7] for pixel in row}) > 3 for path in files)

    def test_points_drawn(self) -> None:
        """The curve of a family passes through its cells: tokens per step and score in percent, on a log axis."""
        cells = frame(
            record for record, _ in factory.grid(models=("tiny",), tasks=("waiting_line/copy",), policies=("random",))
        )
        axis = figure([[("copy", cells)]], "score (%)").axes[0]
        line = max(axis.lines, key=lambda line: len(line.get_xdata()) if line.get_linestyle() == "-" else 0)
        assert list(line.get_xdata()) == [1, 2, 4, 8]
        assert list(line.get_ydata()) == pytest.approx([100, 85, 55, 0])
        assert axis.get_xscale() == "log"

    def test_curves_that_coincide_stay_visible(self) -> None:
        """Each later curve is thinner than those drawn before it, the first 1.9 times as wide as the last."""
        entries = factory.grid(("tiny",), ("waiting_line/copy",), policies=("confidence", "margin", "random"))
        axis = figure([[("copy", frame(record for record, _ in entries))]], "score (%)").axes[0]
        widths = [
            line.get_linewidth() for line in axis.lines if len(line.get_xdata()) == 4 and line.get_marker() != "|"
        ]
        curves = [width for width in widths if width > 1]
        assert curves == sorted(curves, reverse=True)
        assert len(set(curves)) == 3
        assert curves[0] / curves[-1] == pytest.approx(1.9)

    def test_many_families_become_fronts(self) -> None:
        """A grid of blocks has a curve per policy, the best over blocks, and says so."""
        names = (
            [f"confidence-k{k}+b{b}" for k in (1, 2) for b in (2, 4, 8, 16, 32)]
            + [f"random-k1+b{b}" for b in (2, 4, 8, 16, 32)]
            + ["threshold-0.9"]
        )
        cells = frame(factory.cell(sampler=name, nfe=32 // (2 if "k2" in name else 1))[0] for name in names)
        drawn = figure([[("x", cells)]], "score (%)")
        assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["confidence", "random", "threshold"]
        assert any("best over blocks" in text.get_text() for text in drawn.texts)

    def test_nothing_to_draw(self, tmp_path: Path) -> None:
        """Without scores there are no figures."""
        assert write_plots(frame([factory.cell(dummy=True)[0]]), tmp_path) == []

    def test_a_rate_of_zero_has_no_place_on_the_axis(self, tmp_path: Path) -> None:
        """Published rows without forwards are left out."""
        assert write_plots(frame([replace(factory.cell()[0], tokens_per_step=0.0)]), tmp_path) == []
