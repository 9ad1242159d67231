"""pbcore.report.page.svg: plots that read without a script."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pbcore.report.looks import MARKERS, Look
from pbcore.report.page.svg import (
    BOTTOM,
    HEIGHT,
    TOP,
    Dot,
    Series,
    drawing,
    figure_element,
    marker,
    tick_step,
)
from tests.results.damage import ODD_TEXTS

LOOK = Look(0, 0)


def dots(*points: tuple[float, float]) -> tuple[Dot, ...]:
    return tuple(Dot(x, y, max(0.0, y - 5), min(100.0, y + 5), f"{x} {y}") for x, y in points)


def shifted(node: ElementTree.Element) -> tuple[float, ...]:
    """How far a node is translated."""
    return tuple(map(float, re.findall(r"[\d.]+", node.attrib["transform"])))


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html)


def plot(series: list[Series], title: str) -> str:
    """The first figure of a page, of these curves."""
    return figure_element([0], title, series, True)


class TestPlot:
    def test_scale(self) -> None:
        """100 % is at the top and 0 % at the bottom where both are reached; rates double from tick
        to tick.
        """
        svg = parsed(drawing([Series("a", "m", LOOK, dots((1, 100), (2, 0), (4, 50)))], "t"))
        places = [shifted(path) for path in svg.findall("g/g/g[@class='dot']/path[@transform]")]
        (x0, top), (x1, bottom), (x2, middle) = places
        assert (top, bottom, middle) == (TOP, HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2)
        assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
        assert [tick.findtext("text") for tick in svg.findall("g[@class='tick']")] == [
            "1",
            "2",
            "4",
        ]

    def test_the_axis_is_cut_to_the_data(self) -> None:
        """Scores from 82 to 98 with their intervals fill the height, and the axis says where it
        begins.
        """
        svg = parsed(drawing([Series("a", "m", LOOK, dots((1, 98), (2, 82)))], "t"))
        texts = [text.text for text in svg.findall("text")]
        assert texts[:6] == ["75", "80", "85", "90", "95", "100"]
        assert texts[-1] == "score (%), from 75"
        (_, high), (_, low) = [
            shifted(path) for path in svg.findall("g/g/g[@class='dot']/path[@transform]")
        ]
        assert low - high == pytest.approx((HEIGHT - TOP - BOTTOM) * 16 / 25, abs=0.2)

    @pytest.mark.parametrize(
        ("low", "high", "step"), [(0, 100, 20), (77, 100, 5), (99.5, 100, 0.1), (50, 50, 2e-10)]
    )
    def test_steps(self, low: float, high: float, step: float) -> None:
        """At most six round ones."""
        assert tick_step(low, high) == pytest.approx(step)

    def test_shapes_differ(self) -> None:
        """No two of eight looks share a shape; dashes and hollow markers tell further ones
        apart.
        """
        shapes = [marker(Look(0, i), 0, 0) for i in range(len(MARKERS))]
        assert len(set(shapes)) == len(MARKERS)
        for shape in shapes:  # a path that begins with a move, and nothing but commands and numbers
            assert re.search(r' d="M[-\d.,\sMLHVaZ]+"', shape), shape
            assert len(re.findall(r"-?\d+\.?\d*", shape)) >= 4
        assert "stroke-dasharray" in plot(
            [Series("a", "m", Look(0, 0, 1), dots((1, 1), (2, 2)))], "t"
        )
        signs = {marker(Look(0, 0, 0, hollow, dot), 0, 0) for hollow in (0, 1) for dot in (0, 1)}
        assert len(signs) == 4

    def test_ceilings_and_front(self) -> None:
        """Ceilings below 100 % are a dotted line with a lid at each point, a model's Pareto front a
        band.
        """
        points = tuple(
            replace(dot, on_front=True, ceiling=ceiling)
            for dot, ceiling in zip(dots((1, 90), (2, 50)), (95, 60), strict=True)
        )
        shown = parsed(plot([Series("a", "m", LOOK, points)], "t"))
        (ceiling,) = shown.findall("svg/g/g/path[@class='ceiling']")
        assert ceiling.attrib["d"].count(",") == 2
        assert len(shown.findall("svg/g/g/g/path[@class='lid']")) == 2
        assert len(shown.findall("svg/g/path[@class='front']")) == 1

    def test_legend_and_label(self) -> None:
        """Every series stands in the legend, and a screen reader hears what the plot is of."""
        shown = parsed(
            plot(
                [
                    Series("tiny · random", "tiny", LOOK, dots((1, 1))),
                    Series("b", "m", LOOK, dots((2, 2))),
                ],
                "t",
            )
        )
        assert [item.find("svg").tail.strip() for item in shown.findall("div/ul/li")] == [
            "tiny · random",
            "b",
        ]  # type: ignore[union-attr]
        svg = shown.find("svg")
        assert svg is not None
        assert svg.attrib["role"] == "img"
        assert "tiny · random, b" in svg.attrib["aria-label"]

    def test_a_line_joins_the_points_by_rate(self) -> None:
        """Whatever their order; a single point has none."""
        shown = parsed(plot([Series("a", "m", LOOK, dots((4, 50), (1, 100), (2, 0)))], "t"))
        (line,) = shown.findall("svg//path[@class='line']")
        points = [
            tuple(map(float, place.split(",")))
            for place in line.attrib["d"].removeprefix("M").split("L")
        ]
        assert [y for _, y in points] == [TOP, HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2]
        assert sorted(points) == points
        alone = parsed(plot([Series("a", "m", LOOK, dots((2, 1)))], "t"))
        assert alone.findall("svg//path[@class='line']") == []

    def test_a_model_without_rates_is_a_level(self) -> None:
        """A score at any speed is a line across the plot, without an interval too."""
        for level in ((50.0, 40.0, 60.0), (50.0, None, None)):
            shown = parsed(plot([Series("s", "s", LOOK, level=level)], "t"))
            assert shown.find("svg/g/g/path[@class='line']") is not None
            assert (shown.find("svg/g/g/path[@class='area']") is not None) == (level[1] is not None)

    def test_nothing_to_draw(self) -> None:
        assert drawing([Series("a", "m", LOOK)], "t") == ""

    def test_the_signs_are_explained(self) -> None:
        """Intervals, the front and ceilings stand in the key of a page's first plot."""
        points = (replace(dots((1, 1))[0], ceiling=50.0),)
        key = parsed(plot([Series("a", "m", LOOK, points)], "t")).find("p[@class='key']")
        assert key is not None
        told = " ".join(" ".join(key.itertext()).split())
        assert all(word in told for word in ("95 % interval", "Pareto front", "ceiling"))

    @pytest.mark.parametrize("text", [*ODD_TEXTS, "</svg><script>alert(1)</script>", '" onload="x'])
    def test_any_name(self, text: str) -> None:
        """Names and tooltips stay text."""
        html = plot([Series(text, text, LOOK, (Dot(1, 1, None, None, text),))], text)
        shown = parsed(html.encode("utf-8").decode())
        assert {node.tag for node in shown.iter()} <= {
            "figure",
            "svg",
            "div",
            "p",
            "span",
            "path",
            "text",
            "g",
            "title",
            "ul",
            "li",
        }
        assert all(not name.startswith("on") for node in shown.iter() for name in node.attrib)
