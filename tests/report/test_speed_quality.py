"""pbcore.report.speed_quality: the curves that plots and page draw."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pbcore.report.plots import mean_figure, mean_svg
from pbcore.report.speed_quality import SpeedQuality, has_lid, speed_quality
from pbcore.results.record import CellRecord
from tests.results import factory

RATELESS = ("nfe_mean", "tokens_per_step", "tokens_per_row", "tokens_per_forward")
# nfe of 32 tokens → how many of 20 answers are right
RIGHT = {"random": {32: 20, 16: 18, 8: 4}, "confidence": {32: 20, 16: 12, 8: 10}}


def records(model: str = "tiny", task: str = "waiting_line/copy") -> list[CellRecord]:
    return [
        factory.cell(model, task, f"{policy}-k{32 // nfe}", right=right / 20, nfe=nfe)[0]
        for policy, by_nfe in RIGHT.items()
        for nfe, right in by_nfe.items()
    ]


def silent(model: str, *tasks: str) -> list[CellRecord]:
    """Cells of a server that reports no forwards."""
    cells = [factory.cell(model, task, "served", right=0.25)[0] for task in tasks]
    return [replace(cell, **dict.fromkeys(RATELESS)) for cell in cells]


def prepared(*cells: CellRecord, most: int | None = None) -> SpeedQuality:
    return speed_quality(factory.rows(cells), most)


class TestSpeedQuality:
    def test_a_curve_for_each_policy(self) -> None:
        """Points by rising rate, with the score in % and its interval."""
        shown = prepared(*records())
        assert [(curve.model, curve.method) for curve in shown.curves] == [
            ("tiny", "confidence"),
            ("tiny", "random"),
        ]
        points = shown.curves[1].points
        assert [(point.rate, point.score) for point in points] == [(1, 100), (2, 90), (4, 20)]
        assert 60 < points[1].low < 90 < points[1].high < 100
        assert shown.highest == 4

    def test_the_front_is_of_all_curves(self) -> None:
        """The best score at each speed of a model, whichever curve has it, and curves that don't
        lead too.
        """
        for most in (None, 1):
            shown = prepared(*records(), most=most)
            assert shown.front("tiny") == [(1, 100), (2, 90), (4, 50)]
            points = [point for curve in shown.curves for point in curve.points]
            on = {point.sampler for point in points if shown.on_front(point)}
            assert on == {"confidence-k1", "random-k1", "random-k2", "confidence-k4"}

    def test_few_curves_lead(self) -> None:
        """As many as wanted; the others are there, too."""
        shown = prepared(*records(), *records("b"), most=3)
        assert [curve.leads for curve in shown.curves].count(True) == 3
        assert len(shown.curves) == 4

    def test_a_policy_with_its_modifiers(self) -> None:
        """As one curve, its best points."""
        plain, blocks = factory.cell(right=0.5)[0], factory.cell(sampler="confidence-k2+b8")[0]
        shown = speed_quality(factory.rows([plain, blocks]), by_policy=True)
        assert [(curve.method, len(curve.points)) for curve in shown.curves] == [("confidence", 1)]

    def test_ceilings(self) -> None:
        """A mean over tasks; one of 100 % is no lid."""
        cells = factory.rows(records()[:2])
        cells[0]["ceiling"] = 100
        cells[1]["ceiling"] = 80
        (curve,) = speed_quality(cells).curves
        assert [(point.ceiling, has_lid(point)) for point in curve.points] == [
            (100, False),
            (pytest.approx(80), True),
        ]
        assert speed_quality(cells).has_lids
        cells[1]["ceiling"] = 100
        assert not speed_quality(cells).has_lids

    def test_nothing(self) -> None:
        """No cells, no curves."""
        shown = speed_quality([])
        assert (shown.curves, shown.levels, shown.highest) == ([], [], 1.0)


def test_the_plot_has_them() -> None:
    """Its points are those of the curves; a server that ran one of two tasks has no level."""
    tasks = ("waiting_line/copy", "waiting_line/sort")
    ran = [record for task in tasks for record in records(task=task)]
    ran += [*silent("far", *tasks), *silent("part", tasks[0])]
    cells = factory.rows(ran)
    for row in cells:
        row["served"] = {} if row["model"] in ("far", "part") else None
    shown = speed_quality(cells)
    (axis,) = mean_figure(shown).axes
    drawn = {
        name: sorted(zip(*line.get_data(), strict=True))
        for line, name in ((bars[0], bars.get_label()) for bars in axis.containers)
    }
    assert drawn == {
        curve.method: sorted((point.rate, point.score) for point in curve.points)
        for curve in shown.curves
    }
    assert len(drawn) == 2
    assert [level.name for level in shown.levels] == ["far · served"]
    labels = axis.get_legend_handles_labels()[1]
    assert [name for name in labels if "any speed" in name] == ["far · served (any speed)"]


def test_the_plot_as_svg() -> None:
    """Its texts are texts, whatever the names hold; it names a band only where one is drawn, and is
    the same each time.
    """
    odd = "</svg><script>alert(1)</script>"
    cells = [replace(cell, model=odd) for cell in records()]
    drawn = {count: mean_svg(factory.rows(cells[:count])) for count in (1, len(cells))}
    for text in drawn.values():
        root = ElementTree.fromstring(text)
        assert not [node for node in root.iter() if node.tag.endswith("script")]
    assert ["Pareto" in text for text in drawn.values()] == [False, True]
    assert "random" in drawn[len(cells)]
    assert mean_svg(factory.rows(cells)) == drawn[len(cells)]
    assert mean_svg([]) == ""
