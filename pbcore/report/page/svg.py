"""Speed–quality plots as plain SVG: score over tokens per step with intervals, a line and a shape per series."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pbcore.printable import counted, printable
from pbcore.report.curves import Dot, Series, fronts
from pbcore.report.looks import Look
from pbcore.report.page.html import attribute, text

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 44, 12, 10, 42
NARROW, WIDE = 460, 920
SIZE = 4.6  # of a marker
_RAYS = [(SIZE * (0.6 if i % 2 else 1.5), math.pi * i / 5) for i in range(10)]
_STAR = f"M{'L'.join(f'{far * math.sin(turn):.1f},{-far * math.cos(turn):.1f}' for far, turn in _RAYS)}Z"


def plot(series: Sequence[Series], title: str, width: int = NARROW) -> Markup:
    """A figure with its legend as HTML; empty without points. The script moves what has `data-x` and `data-p` (rates
    and heights) when the axis becomes linear."""
    xs = [dot.x for one in series for dot in one.dots]
    if not xs and not any(one.level for one in series):
        return Markup()
    low, high = math.floor(math.log2(min(xs, default=1)) + 1e-9), math.ceil(math.log2(max(xs, default=1)) - 1e-9)
    axis = _Axis(low, max(high, low + 1), width)
    bands = [
        f'<g data-model="{attribute(model)}">{_path("front", front, axis)}</g>'
        for model, front in fronts(series)
        if len(front) > 1
    ]
    body = "".join([_axes(axis), *bands, *(_series(i, one, axis) for i, one in enumerate(series))])
    names = ", ".join(printable(one.name, 60) for one in series)
    told = f"{title}: score in % over tokens per step; {names}. The figures are in the table."  # for screen readers
    drawn = f'<svg viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{attribute(told)}">{body}</svg>'
    led, rest = ([_key(i, one) for i, one in enumerate(series) if one.leads is leads] for leads in (True, False))
    more = f'<summary>{counted(len(rest), "more curve")}</summary><ul class="legend">{"".join(rest)}</ul>'
    keys = f'<ul class="legend">{"".join(led)}</ul>{f"<details>{more}</details>" if rest else ""}'
    facts = f'data-low="{axis.low:g}" data-high="{axis.high:g}" data-width="{width}" data-title="{attribute(title)}"'
    wide = " wideplot" if width == WIDE else ""
    return Markup(f'<figure class="plot{wide}" {facts}>{drawn}{keys}</figure>')


def _key(number: int, one: Series) -> str:
    """The series' entry in the legend."""
    drawn = f"{_line([(-13, 0), (13, 0)], one.look)}{'' if one.level else marker(one.look, 0, 0)}"
    sign = f'<svg viewBox="-14 -7 28 14" aria-hidden="true" class="s{one.look.colour}">{drawn}</svg>'
    return f'<li data-model="{attribute(one.model)}" data-line="{number}">{sign} {text(one.name)}</li>'


def marker(look: Look, x: float, y: float) -> str:
    """The shape of a series at a point."""
    s = SIZE
    paths = (
        f"M{-s},0a{s},{s} 0 1 0 {2 * s},0a{s},{s} 0 1 0 {-2 * s},0",  # circle
        f"M{-s},{-s}H{s}V{s}H{-s}Z",  # square
        f"M0,{-s * 1.2:g}L{s * 1.15:g},{s}H{-s * 1.15:g}Z",  # triangle
        f"M0,{-s * 1.35:g}L{s * 1.35:g},0L0,{s * 1.35:g}L{-s * 1.35:g},0Z",  # diamond
        f"M0,{s * 1.2:g}L{s * 1.15:g},{-s}H{-s * 1.15:g}Z",  # triangle, point down
        f"M0,{-s * 1.3:g}V{s * 1.3:g}M{-s * 1.3:g},0H{s * 1.3:g}",  # plus
        f"M{-s},{-s}L{s},{s}M{-s},{s}L{s},{-s}",  # cross
        _STAR,
    )
    kind = ' class="stroke"' if look.marker in (5, 6) else ' class="open"' if look.hollow else ""
    return f'<path d="{paths[look.marker]}"{kind} transform="translate({x:g} {y:g})"/>'


@dataclass(frozen=True, slots=True)
class _Axis:
    """Rates from 2**low to 2**high over a plot's width."""

    low: int
    high: int
    width: int

    def x(self, rate: float) -> float:
        inner = self.width - LEFT - RIGHT - 16
        return round(LEFT + 8 + inner * (math.log2(rate) - self.low) / (self.high - self.low), 1)


def _y(score: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(max(score, 0), 100) / 100), 1)


def _axes(axis: _Axis) -> str:
    right, bottom = axis.width - RIGHT, HEIGHT - BOTTOM
    lines = [
        f'<path class="grid" d="M{LEFT},{_y(score)}H{right}"/><text x="{LEFT - 6}" y="{_y(score) + 4}">{score}</text>'
        for score in (0, 20, 40, 60, 80, 100)
    ]
    for power in range(axis.low, axis.high + 1, max(1, math.ceil((axis.high - axis.low) / 8))):
        lines.append(
            f'<g class="tick" data-x="{2.0**power:g}" transform="translate({axis.x(2.0**power)} 0)">'
            f'<path class="grid" d="M0,{TOP}V{bottom}"/><text class="mid" y="{bottom + 16}">{2.0**power:g}</text></g>'
        )
    lines.append(f'<text class="mid axis" x="{(LEFT + right) / 2}" y="{HEIGHT - 6}">tokens per step</text>')
    lines.append(f'<text class="mid" transform="translate(11 {(TOP + bottom) / 2}) rotate(-90)">score (%)</text>')
    return "".join(lines)


def _series(number: int, one: Series, axis: _Axis) -> str:
    hidden = "" if one.leads else ' class="rest"'
    start = f'<g data-model="{attribute(one.model)}" data-line="{number}"{hidden}><g class="s{one.look.colour}">'
    if one.level:
        score, below, above = one.level
        area = ""
        if below is not None and above is not None:
            area = f'<path class="area" d="M{LEFT},{_y(below)}H{axis.width - RIGHT}V{_y(above)}H{LEFT}Z"/>'
        line = _line([(LEFT, _y(score)), (axis.width - RIGHT, _y(score))], one.look)
        return f"{start}{area}{line}</g></g>"
    dots = sorted(one.dots, key=lambda dot: (dot.x, -dot.y))
    line = _path("line", [(dot.x, dot.y) for dot in dots], axis, one.look) if len(dots) > 1 else ""
    lids = [(dot.x, dot.lid) for dot in dots if dot.lid is not None]
    ceiling = _path("ceiling", lids, axis) if len(lids) > 1 else ""
    return f"{start}{ceiling}{line}{''.join(_dot(dot, axis, one.look) for dot in dots)}</g></g>"


def _dot(dot: Dot, axis: _Axis, look: Look) -> str:
    marks = ""
    if dot.low is not None and dot.high is not None:
        marks = f'<path class="bar" d="M0,{_y(dot.low)}V{_y(dot.high)}"/>'
    if dot.lid is not None:
        marks += f'<path class="lid" d="M-5,{_y(dot.lid)}h10"/>'
    link = f' data-cell="{attribute(dot.cell)}"' if dot.cell else ""
    link += f' data-sampler="{attribute(dot.sampler)}"' if dot.sampler else ""
    return (
        f'<g class="dot" data-x="{dot.x:.6g}" transform="translate({axis.x(dot.x)} 0)"{link}>'
        f"<title>{text(dot.text)}</title>{marks}{marker(look, 0, _y(dot.y))}</g>"
    )


def _path(kind: str, points: Sequence[tuple[float, float]], axis: _Axis, look: Look | None = None) -> str:
    """A line through (rate, score) that the script can draw again."""
    told = " ".join(f"{x:.6g},{_y(y)}" for x, y in points)
    return _line([(axis.x(x), _y(y)) for x, y in points], look, kind).replace("/>", f' data-p="{told}"/>')


def _line(places: Iterable[tuple[float, float]], look: Look | None, kind: str = "line") -> str:
    dashes = ("", "6 3", "2 3", "8 3 2 3")[look.dash if look else 0]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path class="{kind}" d="M{"L".join(f"{x:g},{y:g}" for x, y in places)}"{dashed}/>'
