"""pbcore.report.plots: which curves are drawn, and through which points."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import nan
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.image import imread

from pbcore.decoding.policies.registry import policies
from pbcore.report.looks import COLOURS, MARKERS, looks, policy_number
from pbcore.report.plots import (
    MOST_CURVES,
    RING,
    _rows,
    figure,
    file_part,
    mean_figure,
    write_plots,
)
from pbcore.report.rows import CellRow
from pbcore.report.speed_quality import SpeedQuality, speed_quality
from pbcore.report.style import label
from pbcore.results import CellRecord
from tests.results import factory

LONG = "x" * 61


def panel(*records: CellRecord) -> list[CellRow]:
    return factory.rows(records)


def means(cells: list[CellRow]) -> SpeedQuality:
    """What `curves.png` draws."""
    return speed_quality(cells, MOST_CURVES)


def row(number: int, *, task: str = "waiting_line/copy") -> list[tuple[str, list[CellRow]]]:
    """Panels of one cell each."""
    return [(f"panel {i}", panel(factory.cell(task=task)[0])) for i in range(number)]


def boxes(axis: Axes) -> tuple[float, float, float, float]:
    box = axis.get_position()
    return box.x0, box.x1, box.y0, box.y1


class TestFiles:
    def test_a_figure_per_category_and_model(self, tmp_path: Path) -> None:
        """Only for several tasks; what did not run or has no score is in none, and a folder is
        made.
        """
        ran = [factory.cell("m/1", f"waiting_line/{task}")[0] for task in ("copy", "sort")]
        failed = replace(factory.cell("n", "puzzle/sudoku")[0], status="error")
        files = write_plots(
            panel(*ran, failed, factory.cell("o", "puzzle/sudoku")[0]), tmp_path / "a" / "b"
        )
        assert [path.name for path in files] == [
            "curves.png",
            "categories.png",
            "curves_waiting_line_m_1.png",
        ]

    def test_long_names_end_with_their_digest(self) -> None:
        """So that two such names are two files; up to 60 characters a name is kept."""
        assert file_part("a b/c") == "a_b_c"
        assert file_part(LONG[:-1]) == LONG[:-1]
        assert file_part(LONG).startswith("x" * 50 + "-")
        assert len(file_part(LONG)) == 61
        assert file_part(LONG) != file_part(LONG + "x")

    @pytest.mark.parametrize(
        ("number", "rows"), [(1, [1]), (5, [5]), (6, [3, 3]), (7, [4, 3]), (11, [4, 4, 3])]
    )
    def test_panels_fill_rows_evenly(self, number: int, rows: list[int]) -> None:
        """At most five a row."""
        assert [len(part) for part in _rows(row(number))] == rows

    def test_text_is_never_a_formula(self) -> None:
        """And short."""
        assert label("a$b$") == r"a\$b\$"
        assert (len(label("x" * 60)), "(61 characters)" in label(LONG)) == (60, True)


class TestAxes:
    def axis(self, *records: CellRecord) -> Axes:
        (axis,) = figure([[("title", panel(*records))]], "score (%)").axes
        return axis

    def test_rates_are_powers_of_two(self) -> None:
        """From 1 to the next power above the fastest sampler, and at least to 2."""
        slow = self.axis(factory.cell(nfe=32)[0])
        assert list(slow.get_xticks()) == [1, 2]
        assert slow.get_xlim() == pytest.approx((2**-0.25, 2**1.25))
        fast = self.axis(factory.cell(nfe=32)[0], factory.cell(sampler="random-k5", nfe=6)[0])
        assert list(fast.get_xticks()) == [1, 2, 4, 8]
        assert fast.get_xlim() == pytest.approx((2**-0.25, 32 / 6 * 2**0.25))
        assert [text.get_text() for text in fast.get_xticklabels()] == ["1", "2", "4", "8"]
        assert list(fast.get_xticks(minor=True)) == []

    def test_scores_are_percent(self) -> None:
        """From 0 to 100 with room for a marker at either end."""
        axis = self.axis(factory.cell()[0])
        assert list(axis.get_yticks()) == [0, 20, 40, 60, 80, 100]
        assert axis.get_ylim() == (-4, 104)
        assert axis.get_title() == "title"
        assert axis.get_axisbelow() is True
        assert [axis.spines[side].get_visible() for side in ("top", "right", "left", "bottom")] == [
            False
        ] * 2 + [True] * 2

    def test_bars_are_intervals(self) -> None:
        """They end at the interval's bounds, above and below the point; without an interval they
        have no length.
        """
        record = factory.cell(right=0.5)[0]
        bars = self.axis(record).containers[0].lines[2][0].get_segments()[0]  # type: ignore[attr-defined]
        score = record.scores["accuracy"]
        assert [y for _, y in bars] == pytest.approx([100 * score.low, 100 * score.high])
        cells = panel(record)
        cells[0] |= {"low": nan, "high": nan}
        (axis,) = figure([[("x", cells)]], "").axes
        assert [y for _, y in axis.containers[0].lines[2][0].get_segments()[0]] == [50, 50]  # type: ignore[attr-defined]


class TestLayout:
    def test_each_family_has_its_own_look(self) -> None:
        """A colour and marker per policy, dashes per modifier, hollow from the fifth on; sorted as
        people count.
        """
        names = [f"confidence-k{k}+b{b}" for b in (2, 4, 8, 16, 32) for k in (1,)]
        names += [f"random-k1+b{b}" for b in (2, 4, 8, 16, 32)]
        drawn = figure(
            [[("x", panel(*(factory.cell(sampler=name)[0] for name in names)))]], "score (%)"
        )
        handles = drawn.legends[0].legend_handles
        looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in handles]  # type: ignore[union-attr]
        dashes = ("-", "--", ":", "-.", "-")
        assert looks == [(COLOURS[i], MARKERS[i], dash) for i in range(2) for dash in dashes]
        assert [line.get_markerfacecolor() for line in handles[:5]] == [COLOURS[0]] * 4 + ["white"]  # type: ignore[union-attr]
        assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
            *(f"confidence+b{b}" for b in (2, 4, 8, 16, 32)),
            *(f"random+b{b}" for b in (2, 4, 8, 16, 32)),
        ]
        assert [text.get_text() for text in drawn.texts] == ["score (%)", "tokens per step"]

    def test_a_method_looks_the_same_in_every_figure_of_a_run(self) -> None:
        """And of every other run: its name alone decides, and others of the run stay out of the
        legend.
        """
        cells = panel(factory.cell(sampler="threshold-0.9")[0])
        for methods in ((), {"confidence", "threshold"}, {"a", "threshold", "zz"}):
            (line,) = (
                figure([[("x", cells)]], "score (%)", methods=methods).legends[0].legend_handles
            )
            assert (line.get_color(), line.get_marker()) == (COLOURS[2], MARKERS[2])  # type: ignore[union-attr]

    def test_no_two_policies_look_alike(self) -> None:
        """Each of the package's has a colour and marker of its own; another one's stay the same
        from run to run.
        """
        names = [name for name, cls in policies().items() if cls.__module__.startswith("pbcore.")]
        places = [policy_number(name) for name in names]
        assert sorted([*places, policy_number("ar")]) == list(range(len(names) + 1))
        assert len(names) < policy_number("mine") == policy_number("mine") < 64
        shown = looks(("m", name) for name in [*names, "ar"]).values()
        assert len({(look.colour, look.marker) for look in shown}) == len(names) + 1

    def test_policies_of_others(self) -> None:
        """Their look is drawn from their name, whatever else a run holds; two on one place differ
        in their dashes.
        """
        alone = looks([("m", "mine-0.9")])["m", "mine-0.9"]
        assert (
            looks([("m", "confidence"), ("m", "mine-0.9"), ("m", "\ud800")])["m", "mine-0.9"]
            == alone
        )
        many = looks(("m", f"own{number}") for number in range(60))
        assert len(
            {(one.colour, one.marker, one.dash, one.hollow) for one in many.values()}
        ) == len(many)

    def test_an_empty_panel_says_why(self) -> None:
        """A model without cells in a category: not measured. A panel with curves says nothing."""
        cells = panel(factory.cell()[0])
        full, empty = figure([[("x", cells), ("y", [])]], "score (%)").axes
        assert [text.get_text() for text in empty.texts] == ["not measured"]
        assert not full.texts

    def test_a_gap_has_no_axes_and_labels_above_it(self) -> None:
        """Two panels over one: the second has x labels of its own, the empty place is not seen."""
        drawn = figure([row(2), row(1)], "score (%)")
        assert [axis.get_visible() for axis in drawn.axes] == [True, True, True, False]
        assert [axis.xaxis.get_tick_params()["labelbottom"] for axis in drawn.axes[:3]] == [
            False,
            True,
            True,
        ]

    @pytest.mark.parametrize(
        ("shape", "title"), [((1,), ""), ((1,), "a title"), ((5,), ""), ((3, 2), "a title")]
    )
    def test_nothing_lies_over_anything_else(self, shape: tuple[int, ...], title: str) -> None:
        """Panels, their titles and tick labels, the figure's title and labels, and the legend are
        apart and inside.
        """
        drawn = figure([row(number) for number in shape], "score (%)", title)
        drawn.canvas.draw()
        parts = [axis.get_tightbbox() for axis in drawn.axes if axis.get_visible()]
        parts += [text.get_window_extent() for text in drawn.texts] + [
            drawn.legends[0].get_window_extent()
        ]
        assert all(drawn.bbox.x0 <= box.x0 and box.x1 <= drawn.bbox.x1 for box in parts)
        assert all(drawn.bbox.y0 <= box.y0 and box.y1 <= drawn.bbox.y1 for box in parts)
        assert not [
            (i, j)
            for i, one in enumerate(parts)
            for j, other in enumerate(parts[:i])
            if one.overlaps(other)
        ]

    def test_panels_take_the_figure(self) -> None:
        """3.3 by 2.75 inches each, with the room that title, labels and legend need."""
        one = figure([row(1)], "y")
        two = figure([row(2), row(2)], "y", "title")
        assert tuple(one.get_size_inches()) == pytest.approx((3.7, 2.75 + 0.05 + 0.62))
        assert tuple(two.get_size_inches()) == pytest.approx((7.0, 5.5 + 0.36 + 0.62))
        assert boxes(one.axes[0]) == pytest.approx(
            (0.62 / 3.7, 0.985, 0.74 / 3.42, 1 - 0.33 / 3.42)
        )
        assert boxes(two.axes[0])[3] == pytest.approx(1 - 0.64 / 6.48)
        assert two.axes[1].get_position().x0 - two.axes[0].get_position().x1 < 0.05

    def test_the_house_style(self) -> None:
        """Small type, thin pale grid lines, markers a little larger than lines are wide."""
        drawn = figure([row(1)], "score (%)", "title")
        (axis,) = drawn.axes
        texts = {
            text.get_text(): text.get_fontsize()
            for text in (*drawn.texts, *drawn.legends[0].get_texts())
        }
        assert texts == {"score (%)": 9, "tokens per step": 9, "title": 11, "confidence": 8}
        assert axis.title.get_fontsize() == 9
        ticks = axis.xaxis.get_major_ticks()[0]
        assert (ticks.label1.get_fontsize(), ticks.tick1line.get_markersize()) == (8, 2.5)
        assert (to_hex(ticks.gridline.get_color()), ticks.gridline.get_linewidth()) == (
            "#e4e4e4",
            0.6,
        )
        line, caps, (bars,) = axis.containers[0].lines  # type: ignore[attr-defined]
        assert (line.get_markersize(), line.get_linewidth(), line.get_alpha()) == (3.6, 1.3, 0.95)
        assert (caps[0].get_markersize(), bars.get_linewidth()[0]) == (3.6, 0.8)
        assert drawn.dpi == 150
        assert not drawn.legends[0].get_frame_on()

    def test_legends_take_half_a_column_an_entry(self) -> None:
        """Two entries a panel's width in a row, then another row, for which the figure grows."""
        names = ["random-k1", "confidence-k1", "margin-k1", "entropy-k1", "threshold-0.9"]
        drawn = figure([[("x", panel(*(factory.cell(sampler=name)[0] for name in names)))]], "")
        assert drawn.legends[0]._ncols == 2  # type: ignore[attr-defined]
        assert drawn.get_size_inches()[1] == pytest.approx(2.75 + 0.05 + 0.42 + 0.2 * 3)
        wide = figure(
            [[*row(1), ("x", panel(*(factory.cell(sampler=name)[0] for name in names[:4])))]], ""
        )
        assert wide.legends[0]._ncols == 4  # type: ignore[attr-defined]


class TestPlots:
    def test_files(self, tmp_path: Path) -> None:
        """One overview, and one figure per category and model with several tasks; not blank."""
        files = write_plots(
            factory.rows(
                record
                for record, _ in factory.grid(tasks=("waiting_line/copy", "waiting_line/sort"))
            ),
            tmp_path,
        )
        assert [path.name for path in files] == [
            "curves.png",
            "curves_waiting_line_ideal.png",
            "curves_waiting_line_tiny.png",
        ]
        assert all(
            len({tuple(pixel) for row in imread(path)[::7, ::7] for pixel in row}) > 3
            for path in files
        )

    def test_points_drawn(self) -> None:
        """The curve of a family passes through its cells: tokens per step and score in percent, on
        a log axis.
        """
        cells = factory.rows(
            record
            for record, _ in factory.grid(
                models=("tiny",), tasks=("waiting_line/copy",), policies=("random",)
            )
        )
        axis = figure([[("copy", cells)]], "score (%)").axes[0]
        line = max(
            axis.lines, key=lambda line: len(line.get_xdata()) if line.get_linestyle() == "-" else 0
        )
        assert list(line.get_xdata()) == [1, 2, 4, 8]
        assert list(line.get_ydata()) == pytest.approx([100, 85, 55, 0])
        assert axis.get_xscale() == "log"

    def test_curves_that_coincide_stay_visible(self) -> None:
        """Each later curve is thinner than those drawn before it, the first 1.9 times as wide as
        the last.
        """
        entries = factory.grid(
            ("tiny",), ("waiting_line/copy",), policies=("confidence", "margin", "random")
        )
        axis = figure(
            [[("copy", factory.rows(record for record, _ in entries))]], "score (%)"
        ).axes[0]
        widths = [
            line.get_linewidth()
            for line in axis.lines
            if len(line.get_xdata()) == 4 and line.get_marker() != "|"
        ]
        curves = [width for width in widths if width > 1]
        assert curves == sorted(curves, reverse=True)
        assert len(set(curves)) == 3
        assert curves[0] / curves[-1] == pytest.approx(1.9)

    def test_many_methods_become_fronts(self) -> None:
        """A grid of blocks has a curve per policy, the best over blocks, and says so."""
        names = (
            [f"confidence-k{k}+b{b}" for k in (1, 2) for b in (2, 4, 8, 16, 32)]
            + [f"random-k1+b{b}" for b in (2, 4, 8, 16, 32)]
            + ["threshold-0.9"]
        )
        cells = factory.rows(
            factory.cell(sampler=name, nfe=32 // (2 if "k2" in name else 1))[0] for name in names
        )
        drawn = figure([[("x", cells)]], "score (%)")
        assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
            "confidence",
            "random",
            "threshold",
        ]
        assert any("best over blocks" in text.get_text() for text in drawn.texts)

    def test_the_mean_plot_has_the_leading_curves(self) -> None:
        """Of many curves the ten that reach furthest are drawn, models by their dashes; the rest is
        counted.
        """
        records = [
            factory.cell("ideal", sampler=f"random-k1+b{b}", right=b / 20, nfe=32)[0]
            for b in range(1, 13)
        ]
        records += [
            factory.cell("tiny", sampler=f"random-k2+b{b}", right=b / 20, nfe=16)[0]
            for b in range(1, 13)
        ]
        (axis,) = mean_figure(means(factory.rows(records))).axes
        handles, names = axis.get_legend_handles_labels()
        assert (len(names), {name.split(" ")[0] for name in names}) == (10, {"ideal", "tiny"})
        assert "ideal · random+b12" in names
        assert {handle.lines[0].get_linestyle() for handle in handles} == {"-", "--"}
        assert "14 more curves in the table" in axis.get_xlabel()

    def test_names_stand_at_the_ends_of_curves(self) -> None:
        """Those that would overlap stand below each other, around their ends; a ring is around the
        chosen sampler.
        """
        cells = [
            factory.cell("tiny", sampler=sampler, right=0.5, nfe=16)[0]
            for sampler in ("random-k1", "confidence-k1", "margin-k1")
        ]
        chosen = {"tiny": "random-k1", "other": "margin-k1"}
        (axis,) = mean_figure(means(factory.rows(cells)), chosen=chosen).axes
        heights = sorted(text.get_position()[1] for text in axis.texts)
        assert {text.get_text() for text in axis.texts} == {"confidence", "margin", "random-k1"}
        gaps = [high - low for low, high in pairwise(heights)]
        assert gaps == pytest.approx(gaps[:1] * 2)
        assert heights[1] == pytest.approx(50)
        low, high = axis.get_ylim()
        assert low < heights[0] - gaps[0] / 2 < heights[-1] + gaps[0] / 2 < high
        rings = [line for line in axis.lines if line.get_markeredgecolor() == RING]
        assert [list(line.get_ydata()) for line in rings] == [[50.0]]
        assert "ring" in axis.get_xlabel()

    @pytest.mark.parametrize(
        ("tasks", "title"),
        [
            (("waiting_line/copy",), "waiting_line/copy"),
            (("waiting_line/copy", "waiting_line/sort"), "mean over 2 tasks"),
        ],
    )
    def test_the_mean_plot_says_what_it_is_of(self, tasks: tuple[str, ...], title: str) -> None:
        """One task by its name, several by their number."""
        records = [factory.cell("ideal", task=task)[0] for task in tasks]
        (axis,) = mean_figure(means(factory.rows(records))).axes
        assert axis.get_title() == title

    def test_a_level_without_a_speed(self) -> None:
        """A model that tells no forwards stands across the mean plot, if it ran all tasks."""
        records = [
            factory.cell("tiny", task=f"waiting_line/{task}")[0] for task in ("copy", "sort")
        ]
        rates = dict.fromkeys(
            ("nfe_mean", "tokens_per_step", "tokens_per_row", "tokens_per_forward")
        )
        far = [
            factory.cell("far", task=one.task, sampler="served", right=0.25)[0] for one in records
        ]
        far = [replace(one, served={}, **rates) for one in far]
        for ran, names in ((far, ["far · served (any speed)"]), (far[:1], [])):
            (axis,) = mean_figure(means(factory.rows([*records, *ran]))).axes
            levels = [name for name in axis.get_legend_handles_labels()[1] if "any speed" in name]
            assert levels == names

    def test_a_large_run_has_few_pictures(self, tmp_path: Path) -> None:
        """Its tasks and categories are drawn in the page alone."""
        grid = factory.grid([f"m{i}" for i in range(5)], ks=(1,), policies=("random",))
        assert [
            path.name for path in write_plots(factory.rows(record for record, _ in grid), tmp_path)
        ] == ["curves.png"]

    def test_nothing_to_draw(self, tmp_path: Path) -> None:
        """Without scores there are no figures."""
        assert write_plots(factory.rows([factory.cell(dummy=True)[0]]), tmp_path) == []

    def test_a_rate_of_zero_has_no_place_on_the_axis(self, tmp_path: Path) -> None:
        """Published rows without forwards are left out."""
        assert (
            write_plots(factory.rows([replace(factory.cell()[0], tokens_per_step=0.0)]), tmp_path)
            == []
        )
