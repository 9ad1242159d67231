"""pbcore.report.page.svg: plots that read without a script."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pbcore.report.looks import MARKERS, Look
from pbcore.report.page.svg import BOTTOM, HEIGHT, TOP, WIDE, Dot, Series, marker, plot
from tests.results.damage import ODD_TEXTS

LOOK = Look(0, 0)


def dots(*points: tuple[float, float]) -> tuple[Dot, ...]:
    return tuple(
        Dot(x, y, y - 5, min(100.0, y + 5), f"{x} {y}", "tiny/copy/random-k2") for x, y in points
    )


def shifted(node: ElementTree.Element) -> tuple[float, ...]:
    """How far a node is translated."""
    return tuple(map(float, re.findall(r"[\d.]+", node.attrib["transform"])))


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html.replace("data-cell", "cell"))


class TestPlot:
    def test_scale(self) -> None:
        """100 % is at the top and 0 % at the bottom; rates double from tick to tick."""
        figure = parsed(plot([Series("a", "m", LOOK, dots((1, 100), (2, 0), (4, 50)))], "t"))
        points = figure.findall("svg/g/g/g[@class='dot']")
        places = [
            (shifted(point)[0], shifted(path)[1])
            for point in points
            for path in point.findall("path[@transform]")
        ]
        (x0, top), (x1, bottom), (x2, middle) = places
        assert (top, bottom, middle) == (TOP, HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2)
        assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
        ticks = [text.text for text in figure.findall("svg/g/text[@class='mid']")]
        assert ticks[:3] == ["1", "2", "4"]

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
        assert 'class="open"' in marker(Look(0, 0, hollow=True), 0, 0)

    def test_the_leading_curves_first(self) -> None:
        """Others are hidden, and stand in a fold of the legend."""
        html = plot(
            [
                Series("a", "m", LOOK, dots((1, 1))),
                Series("b", "m", LOOK, dots((2, 2)), leads=False),
            ],
            "t",
            WIDE,
        )
        figure = parsed(html)
        assert [group.attrib.get("class") for group in figure.findall("svg/g[@data-line]")] == [
            None,
            "rest",
        ]
        assert figure.findtext("details/summary") == "1 more curve"
        assert [len(figure.findall(path)) for path in ("ul/li", "details/ul/li")] == [1, 1]

    def test_ceilings_and_front(self) -> None:
        """Ceilings below 100 % are a dotted line with a lid at each point, a model's Pareto front a
        band.
        """
        points = tuple(
            replace(dot, ceiling=ceiling)
            for dot, ceiling in zip(dots((1, 90), (2, 50)), (95, 60), strict=True)
        )
        figure = parsed(plot([Series("a", "m", LOOK, points)], "t"))
        (ceiling,) = figure.findall("svg/g/g/path[@class='ceiling']")
        assert len(ceiling.attrib["data-p"].split()) == 2
        assert len(figure.findall("svg/g/g/g/path[@class='lid']")) == 2
        assert len(figure.findall("svg/g/path[@class='front']")) == 1

    def test_legend_and_label(self) -> None:
        """Every series stands in the legend, and a screen reader hears what the plot is of."""
        figure = parsed(
            plot(
                [
                    Series("tiny · random", "tiny", LOOK, dots((1, 1))),
                    Series("b", "m", LOOK, dots((2, 2))),
                ],
                "t",
            )
        )
        assert [item.find("svg").tail.strip() for item in figure.findall("ul/li")] == [
            "tiny · random",
            "b",
        ]  # type: ignore[union-attr]
        svg = figure.find("svg")
        assert svg is not None
        assert svg.attrib["role"] == "img"
        assert "tiny · random, b" in svg.attrib["aria-label"]

    def test_a_line_joins_the_points_by_rate(self) -> None:
        """Whatever their order; a single point has none."""
        figure = parsed(plot([Series("a", "m", LOOK, dots((4, 50), (1, 100), (2, 0)))], "t"))
        (line,) = figure.findall("svg//path[@class='line']")
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
            figure = parsed(plot([Series("s", "s", LOOK, level=level)], "t"))
            assert figure.find("svg/g/g/path[@class='line']") is not None
            assert (figure.find("svg/g/g/path[@class='area']") is not None) == (
                level[1] is not None
            )

    def test_nothing_to_draw(self) -> None:
        assert plot([Series("a", "m", LOOK)], "t") == ""

    @pytest.mark.parametrize("text", [*ODD_TEXTS, "</svg><script>alert(1)</script>", '" onload="x'])
    def test_any_name(self, text: str) -> None:
        """Names and tooltips stay text."""
        html = plot([Series(text, text, LOOK, (Dot(1, 1, None, None, text, text, text),))], text)
        figure = parsed(html.encode("utf-8").decode())
        assert {node.tag for node in figure.iter()} <= {
            "figure",
            "svg",
            "path",
            "text",
            "g",
            "title",
            "ul",
            "li",
        }
        assert all(not name.startswith("on") for node in figure.iter() for name in node.attrib)
