"""Speed–quality plots as plain SVG: score over tokens per step with intervals, a line and a shape per series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pbcore.printable import printable

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 42
SIZE = 4.6  # of a marker
MARKERS = 8  # shapes; more series repeat them with dashed lines


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: `x` tokens per step, `y` score in % with its interval, what its tooltip says, the cell that it is of."""

    x: float
    y: float
    low: float | None
    high: float | None
    text: str
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A curve, or with `level` (score, low, high) the score of a model that reports no tokens per step."""

    name: str
    model: str
    number: int  # decides colour, shape and dashes, the same in all plots of a page
    dots: tuple[Dot, ...] = ()
    level: tuple[float, float | None, float | None] | None = None


def plot(series: Sequence[Series], title: str) -> str:
    """A figure with its legend as HTML; empty without points."""
    xs = [dot.x for one in series for dot in one.dots]
    if not xs and not any(one.level for one in series):
        return ""
    low, high = _range(xs or [1.0])
    body = [_axes(low, high), *(_series(one, low, high) for one in series)]
    label = attribute(_told(series, title))
    drawn = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(body)}</svg>'
    keys = "".join(
        f'<li class="s{one.number % MARKERS}" data-model="{attribute(one.model)}">'
        f'<svg viewBox="-14 -7 28 14" aria-hidden="true">{_line([(-13, 0), (13, 0)], one.number)}'
        f"{'' if one.level else marker(one.number, 0, 0)}</svg> {text(one.name)}</li>"
        for one in series
    )
    return f'<figure class="plot">{drawn}<ul class="legend">{keys}</ul></figure>'


def text(value: str, limit: int = 300) -> str:
    """Foreign text on one line of HTML."""
    return escape(printable(value, limit), quote=False)


def attribute(value: str, limit: int = 300) -> str:
    """Foreign text in an attribute of HTML."""
    return escape(printable(value, limit))


def marker(number: int, x: float, y: float) -> str:
    """The shape of a series at a point."""
    s = SIZE
    paths = (
        f"M{-s},0a{s},{s} 0 1 0 {2 * s},0a{s},{s} 0 1 0 {-2 * s},0",  # circle
        f"M{-s},{-s}H{s}V{s}H{-s}Z",  # square
        f"M0,{-s * 1.2:g}L{s * 1.15:g},{s}H{-s * 1.15:g}Z",  # triangle
        f"M0,{-s * 1.35:g}L{s * 1.35:g},0L0,{s * 1.35:g}L{-s * 1.35:g},0Z",  # diamond
        f"M0,{s * 1.2:g}L{s * 1.15:g},{-s}H{-s * 1.15:g}Z",  # triangle, point down
        f"M{-s},{-s}L{s},{s}M{-s},{s}L{s},{-s}",  # cross
        f"M0,{-s * 1.3:g}V{s * 1.3:g}M{-s * 1.3:g},0H{s * 1.3:g}",  # plus
        f"M{-s},{-s}H{s}L{-s},{s}H{s}Z",  # hourglass
    )
    kind = ' class="open"' if number % MARKERS in (5, 6) else ""
    return f'<path d="{paths[number % MARKERS]}"{kind} transform="translate({x:g} {y:g})"/>'


def _told(series: Sequence[Series], title: str) -> str:
    """The plot's text for screen readers; the table beside it has the figures."""
    names = ", ".join(printable(one.name, 60) for one in series)
    return f"{title}: score in % over tokens per step; {names}. The figures are in the table."


def _range(xs: Sequence[float]) -> tuple[float, float]:
    """The powers of two, as exponents, that hold all rates."""
    low, high = math.floor(math.log2(min(xs)) + 1e-9), math.ceil(math.log2(max(xs)) - 1e-9)
    return float(low), float(max(high, low + 1))


def _x(rate: float, low: float, high: float) -> float:
    inner = WIDTH - LEFT - RIGHT - 16
    return round(LEFT + 8 + inner * (math.log2(rate) - low) / (high - low), 1)


def _y(score: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(max(score, 0), 100) / 100), 1)


def _axes(low: float, high: float) -> str:
    lines = []
    for score in (0, 20, 40, 60, 80, 100):
        y = _y(score)
        lines.append(
            f'<path class="grid" d="M{LEFT},{y}H{WIDTH - RIGHT}"/><text x="{LEFT - 6}" y="{y + 4}">{score}</text>'
        )
    stride = max(1, math.ceil((high - low) / 8))
    for power in range(int(low), int(high) + 1, stride):
        x = _x(2.0**power, low, high)
        lines.append(
            f'<path class="grid" d="M{x},{TOP}V{HEIGHT - BOTTOM}"/>'
            f'<text class="mid" x="{x}" y="{HEIGHT - BOTTOM + 16}">{2.0**power:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    up = (TOP + HEIGHT - BOTTOM) / 2
    lines.append(f'<text class="mid" x="{middle}" y="{HEIGHT - 6}">tokens per step</text>')
    lines.append(f'<text class="mid" transform="translate(11 {up}) rotate(-90)">score (%)</text>')
    return "".join(lines)


def _series(one: Series, low: float, high: float) -> str:
    start = f'<g class="s{one.number % MARKERS}" data-model="{attribute(one.model)}">'
    if one.level:
        score, below, above = one.level
        area = ""
        if below is not None and above is not None:
            area = f'<path class="area" d="M{LEFT},{_y(below)}H{WIDTH - RIGHT}V{_y(above)}H{LEFT}Z"/>'
        line = _line([(LEFT, _y(score)), (WIDTH - RIGHT, _y(score))], one.number)
        return f"{start}{area}{line}</g>"
    dots = sorted(one.dots, key=lambda dot: (dot.x, -dot.y))
    places = [(_x(dot.x, low, high), _y(dot.y)) for dot in dots]
    shapes = [_dot(dot, x, y, one.number) for dot, (x, y) in zip(dots, places, strict=True)]
    return f"{start}{_line(places, one.number) if len(places) > 1 else ''}{''.join(shapes)}</g>"


def _dot(dot: Dot, x: float, y: float, number: int) -> str:
    bar = ""
    if dot.low is not None and dot.high is not None:
        bar = f'<path class="bar" d="M{x},{_y(dot.low)}V{_y(dot.high)}"/>'
    link = f' data-cell="{attribute(dot.cell)}"' if dot.cell else ""
    return f"<g{link}><title>{text(dot.text)}</title>{bar}{marker(number, x, y)}</g>"


def _line(places: Iterable[tuple[float, float]], number: int) -> str:
    dashes = ("", "6 3", "2 3", "8 3 2 3")[number // MARKERS % 4]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path class="line" d="M{"L".join(f"{x:g},{y:g}" for x, y in places)}"{dashed}/>'
