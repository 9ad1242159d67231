"""Speed–quality plots as plain SVG: means over tokens per step with intervals and ceilings, a line
and a shape per policy family.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pbcore.analysis.order import family
from pbcore.analysis.tradeoff import beside_ceilings, curves, leading, level_lines, pareto
from pbcore.printable import counted, fixed, printable
from pbcore.report.cells import interval, rows_differ, silent
from pbcore.report.looks import FULL, Look
from pbcore.report.page.html import attribute, text
from pbcore.report.scopes import Scope, lines, number

ANY_SPEED = Look(6, 6, 1)
HEIGHT = 300
LEFT = 44
RIGHT = 12
TOP = 10
BOTTOM = 42
NARROW = 460
WIDE = 920
SHAPES = (  # of markers, as in `looks.MARKERS`
    "M-4.6,0a4.6,4.6 0 1 0 9.2,0a4.6,4.6 0 1 0 -9.2,0",
    "M-4.6,-4.6H4.6V4.6H-4.6Z",
    "M0,-5.52L5.29,4.6H-5.29Z",
    "M0,-6.21L6.21,0L0,6.21L-6.21,0Z",
    "M0,5.52L5.29,-4.6H-5.29Z",
    "M0,-5.98V5.98M-5.98,0H5.98",
    "M-4.6,-4.6L4.6,4.6M-4.6,4.6L4.6,-4.6",
    "M0.0,-6.9L1.6,-2.2L6.6,-2.1L2.6,0.9L4.1,5.6L0.0,2.8L-4.1,5.6L-2.6,0.9L-6.6,-2.1L-1.6,-2.2Z",
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: `x` tokens per step, `y` score in % with its interval, what its tooltip says, the
    cell that it is of, its sampler, and the ceiling in %, if that is below 100.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    text: str
    cell: str = ""
    sampler: str = ""
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A curve, or with `level` (score, low, high) the score of a model that reports no tokens per
    step. One that doesn't lead is shown on demand.
    """

    name: str
    model: str
    look: Look
    dots: tuple[Dot, ...] = ()
    level: tuple[float, float | None, float | None] | None = None
    leads: bool = True


def series(scope: Scope, known: Mapping[tuple[str, str], Look], most: int) -> list[Series]:
    """The curves of a scope's means, of which the `most` leading ones are to be seen, and the
    levels of models that report no tokens per step. `known`: the look of each model's families in
    all plots of a run.
    """
    ids = (
        {(one["model"], one["sampler"]): one["id"] for one in scope.records}
        if len(scope.tasks) == 1
        else {}
    )
    table = beside_ceilings(curves(scope.cells), scope.cells)
    leaders = leading(table, most)
    found = []
    per_row = {
        names: f", {fixed(mean, 2)} per row"
        for names, group in scope.cells.groupby(["model", "sampler"], sort=False)
        if rows_differ(group) and not math.isnan(mean := group["tokens_per_row"].mean(skipna=False))
    }
    columns = ["sampler", "tokens_per_step", "score", "low", "high", "ceiling"]
    for model, kind, group in lines(table):
        dots = []
        for sampler, rate, score, low, high, ceiling in group[columns].itertuples(index=False):
            told = (
                f"{model} {sampler}: {fixed(score)} %{interval(low, high)} at {fixed(rate, 2)}"
                " tokens per step"
            )
            told += per_row.get((model, sampler), "")
            told += "" if math.isnan(ceiling) else f", ceiling {fixed(ceiling)} %"
            lid = ceiling if ceiling < FULL else None
            cell = ids.get((model, sampler), "")
            dots.append(Dot(rate, score, number(low), number(high), told, cell, sampler, lid))
        leads = (model, kind) in leaders
        found.append(
            Series(f"{model} · {kind}", model, known[model, kind], tuple(dots), leads=leads)
        )
    for name, (score, low, high) in level_lines(silent(scope.cells)).items():
        model, _, sampler = name.rpartition(" · ")
        look = known.get((model, family(sampler)), ANY_SPEED)
        found.append(
            Series(f"{name} (any speed)", model, look, level=(score, number(low), number(high)))
        )
    return found


def plot(series: Sequence[Series], title: str, width: int = NARROW) -> Markup:
    """A figure with its legend as HTML; empty without points. The script moves what has `data-x`
    and `data-p` (rates and heights) when the axis becomes linear.
    """
    xs = [dot.x for one in series for dot in one.dots]
    if not xs and not any(one.level for one in series):
        return Markup()
    low = math.floor(math.log2(min(xs, default=1)) + 1e-9)
    high = math.ceil(math.log2(max(xs, default=1)) - 1e-9)
    axis = _Axis(low, max(high, low + 1), width)
    bands = []
    for model in dict.fromkeys(one.model for one in series):
        front = pareto((dot.x, dot.y) for one in series if one.model == model for dot in one.dots)
        if drawn := _path("front", front, axis):
            bands.append(f'<g data-model="{attribute(model)}">{drawn}</g>')
    groups = [_series(i, one, axis) for i, one in enumerate(series)]
    names = ", ".join(printable(one.name, 60) for one in series)
    # for screen readers
    told = f"{title}: score in % over tokens per step; {names}. The figures are in the table."
    body = f"{_axes(axis)}{''.join(bands)}{''.join(groups)}"
    drawn = (
        f'<svg viewBox="0 0 {width} {HEIGHT}" role="img"'
        f' aria-label="{attribute(told)}">{body}</svg>'
    )
    led, rest = (
        [_key(i, one) for i, one in enumerate(series) if one.leads is leads]
        for leads in (True, False)
    )
    more = (
        f"<summary>{counted(len(rest), 'more curve')}</summary><ul"
        f' class="legend">{"".join(rest)}</ul>'
    )
    keys = f'<ul class="legend">{"".join(led)}</ul>{f"<details>{more}</details>" if rest else ""}'
    facts = (
        f'data-low="{axis.low:g}" data-high="{axis.high:g}" data-width="{width}"'
        f' data-title="{attribute(title)}"'
    )
    wide = " wideplot" if width == WIDE else ""
    return Markup(f'<figure class="plot{wide}" {facts}>{drawn}{keys}</figure>')


def _key(number: int, one: Series) -> str:
    """The series' entry in the legend."""
    drawn = (
        f"{_line([(-13, 0), (13, 0)], one.look.dash)}{'' if one.level else marker(one.look, 0, 0)}"
    )
    sign = (
        f'<svg viewBox="-14 -7 28 14" aria-hidden="true" class="s{one.look.colour}">{drawn}</svg>'
    )
    return (
        f'<li data-model="{attribute(one.model)}" data-line="{number}">{sign} {text(one.name)}</li>'
    )


def marker(look: Look, x: float, y: float) -> str:
    """The shape of a series at a point."""
    kind = ' class="stroke"' if look.marker in (5, 6) else ' class="open"' if look.hollow else ""
    return f'<path d="{SHAPES[look.marker]}"{kind} transform="translate({x:g} {y:g})"/>'


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
    right = axis.width - RIGHT
    bottom = HEIGHT - BOTTOM
    lines = [
        f'<path class="grid" d="M{LEFT},{_y(score)}H{right}"/><text x="{LEFT - 6}"'
        f' y="{_y(score) + 4}">{score}</text>'
        for score in (0, 20, 40, 60, 80, 100)
    ]
    for power in range(axis.low, axis.high + 1, max(1, math.ceil((axis.high - axis.low) / 8))):
        lines.append(
            f'<g class="tick" data-x="{2.0**power:g}" transform="translate({axis.x(2.0**power)}'
            f' 0)"><path class="grid" d="M0,{TOP}V{bottom}"/><text class="mid"'
            f' y="{bottom + 16}">{2.0**power:g}</text></g>'
        )
    lines.append(
        f'<text class="mid axis" x="{(LEFT + right) / 2}" y="{HEIGHT - 6}">tokens per step</text>'
    )
    lines.append(
        f'<text class="mid" transform="translate(11 {(TOP + bottom) / 2}) rotate(-90)">score'
        " (%)</text>"
    )
    return "".join(lines)


def _series(number: int, one: Series, axis: _Axis) -> str:
    if one.level:
        score, low, high = one.level
        right = axis.width - RIGHT
        area = ""
        if low is not None and high is not None:
            area = f'<path class="area" d="M{LEFT},{_y(low)}H{right}V{_y(high)}H{LEFT}Z"/>'
        drawn = area + _line([(LEFT, _y(score)), (right, _y(score))], one.look.dash)
    else:
        dots = sorted(one.dots, key=lambda dot: (dot.x, -dot.y))
        drawn = _path(
            "ceiling", [(dot.x, dot.ceiling) for dot in dots if dot.ceiling is not None], axis
        )
        drawn += _path("line", [(dot.x, dot.y) for dot in dots], axis, one.look.dash)
        drawn += "".join(_dot(dot, axis, one.look) for dot in dots)
    hidden = "" if one.leads else ' class="rest"'
    start = f'<g data-model="{attribute(one.model)}" data-line="{number}"{hidden}>'
    return f'{start}<g class="s{one.look.colour}">{drawn}</g></g>'


def _dot(dot: Dot, axis: _Axis, look: Look) -> str:
    marks = ""
    if dot.low is not None and dot.high is not None:
        marks = f'<path class="bar" d="M0,{_y(dot.low)}V{_y(dot.high)}"/>'
    if dot.ceiling is not None:
        marks += f'<path class="lid" d="M-5,{_y(dot.ceiling)}h10"/>'
    link = f' data-cell="{attribute(dot.cell)}"' if dot.cell else ""
    link += f' data-sampler="{attribute(dot.sampler)}"' if dot.sampler else ""
    return (
        f'<g class="dot" data-x="{dot.x:.6g}" transform="translate({axis.x(dot.x)} 0)"{link}>'
        f"<title>{text(dot.text)}</title>{marks}{marker(look, 0, _y(dot.y))}</g>"
    )


def _path(kind: str, points: Sequence[tuple[float, float]], axis: _Axis, dash: int = 0) -> str:
    """A line through (rate, score) that the script can draw again; nothing for a single point."""
    if len(points) < 2:
        return ""
    told = " ".join(f"{x:.6g},{_y(y)}" for x, y in points)
    return _line([(axis.x(x), _y(y)) for x, y in points], dash, kind, f' data-p="{told}"')


def _line(
    places: Iterable[tuple[float, float]], dash: int, kind: str = "line", facts: str = ""
) -> str:
    dashes = ("", "6 3", "2 3", "8 3 2 3")[dash]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<path class="{kind}" d="M{"L".join(f"{x:g},{y:g}" for x, y in places)}"{dashed}{facts}/>'
    )
