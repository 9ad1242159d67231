"""Speed–quality plots: means over tokens per step with intervals and ceilings, a line and a shape
per policy family. The first one of a page is drawn here as plain SVG, for readers without scripts;
the page's script draws all of them on any axes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pbcore.analysis.order import family
from pbcore.printable import fixed, printable
from pbcore.report.cells import elsewhere, interval_text, rows_differ
from pbcore.report.looks import Look
from pbcore.report.page.html import attribute, text
from pbcore.report.scopes import Scope
from pbcore.report.speed_quality import speed_quality

ANY_SPEED = Look(6, 6, 1)
HEIGHT = 340
LEFT = 50  # the margins, as in plot.js
RIGHT = 16
TOP = 16
BOTTOM = 46
INSET = 10  # between the ends of the axis and the points
WIDE = 1000
STEPS = (1, 2, 2.5, 5, 10, 20)  # of an axis, times a power of ten
KEY = (
    ("bar", "95 % interval"),
    ("front", "best score at each speed of a model (Pareto front)"),
    ("ceiling", "ceiling: what an exact model reaches under the sampler"),
)
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


LevelBounds = tuple[float, float | None, float | None]  # score, low, high


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: `x` tokens per step, `y` score in % with its interval, what its tooltip says,
    whether it is on its model's Pareto front, and the ceiling in %, if that is below 100.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    text: str
    on_front: bool = False
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A curve, or with `level` the score of a model that reports no tokens per step."""

    name: str
    model: str
    look: Look
    dots: tuple[Dot, ...] = ()
    level: LevelBounds | None = None


def series(scope: Scope, known: Mapping[tuple[str, str], Look], most: int) -> list[Series]:
    """The leading curves of a scope's means, and the levels of models that report no tokens per
    step.

    Args:
        scope: the cells.
        known: the look of each model's families in all plots of a run.
        most: how many curves.
    """
    found = []
    per_row = {
        names: f", {fixed(mean, 2)} per row"
        for names, group in scope.cells.groupby(["model", "sampler"], sort=False)
        if rows_differ(group) and not math.isnan(mean := group["tokens_per_row"].mean(skipna=False))
    }
    with_rate = scope.cells["tokens_per_step"].notna()
    shown = speed_quality(scope.cells[with_rate | elsewhere(scope.cells)], most)
    for curve in shown.curves:
        if not curve.leads:
            continue
        dots = []
        for point in curve.points:
            told = (
                f"{curve.model} {point.sampler}: {fixed(point.score)} %"
                f"{interval_text(point.low, point.high)} at {fixed(point.rate, 2)} tokens per step"
            )
            told += per_row.get((curve.model, point.sampler), "")
            told += "" if point.ceiling is None else f", ceiling {fixed(point.ceiling)} %"
            dots.append(
                Dot(
                    point.rate,
                    point.score,
                    point.low,
                    point.high,
                    told,
                    point.on_front,
                    point.lid,
                )
            )
        look = known[curve.model, curve.family]
        found.append(Series(f"{curve.model} · {curve.family}", curve.model, look, tuple(dots)))
    for level in shown.levels:
        look = known.get((level.model, family(level.sampler)), ANY_SPEED)
        ends = level.score, level.low, level.high
        found.append(Series(f"{level.name} (any speed)", level.model, look, level=ends))
    return found


def figure_element(
    tasks: Iterable[int], title: str, series: Sequence[Series] = (), chosen: bool = False
) -> Markup:
    """A figure that the page's script draws: of the tasks with these numbers in the page's data.

    Args:
        tasks: the tasks that its means are over.
        title: what they are.
        series: what is drawn for readers without scripts; nothing by default.
        chosen: whether the sampler that each model's card names is pointed out.
    """
    drawn = drawing(series, title) if series else '<svg class="plot-area" aria-hidden="true"></svg>'
    keys = "".join(map(_key, series))
    facts = f'data-tasks="{" ".join(map(str, tasks))}" data-title="{attribute(title)}"'
    facts += ' data-chosen=""' if chosen else ""
    wide = " wideplot" if chosen else ""
    legends = f'<ul class="legend">{keys}</ul>' if keys else ""
    lids = any(dot.ceiling is not None for one in series for dot in one.dots)
    signs = KEY if lids else KEY[:-1]
    explained = "".join(_explained(*sign) for sign in signs) if chosen else ""
    key = f'<p class="key">{explained}</p>' if explained else ""
    inner = f'{drawn}<div class="legends">{legends}</div>{key}'
    return Markup(f'<figure class="plot{wide}" {facts}>{inner}</figure>')


def _explained(kind: str, told: str) -> str:
    """An entry of what the signs of a plot mean."""
    path = "M0,-7V7" if kind == "bar" else "M-13,0H13"
    sign = f'<svg viewBox="-14 -7 28 14" aria-hidden="true"><path class="{kind}" d="{path}"/></svg>'
    return f"<span>{sign} {told}</span>"


def drawing(series: Sequence[Series], title: str) -> str:
    """The plot itself as SVG; empty without points."""
    dots = [dot for one in series for dot in one.dots]
    if not dots and not any(one.level for one in series):
        return ""
    axis = _Axis.of(dots, [one.level for one in series if one.level])
    bands = []
    for model in dict.fromkeys(one.model for one in series):
        own = [one for one in series if one.model == model]
        front = sorted({(dot.x, dot.y) for one in own for dot in one.dots if dot.on_front})
        if drawn := _path("front", front, axis):
            bands.append(f'<g data-model="{attribute(model)}">{drawn}</g>')
    groups = [_series(one, axis) for one in series]
    names = ", ".join(printable(one.name, 60) for one in series)
    # for screen readers
    told = f"{title}: score in % over tokens per step; {names}. The figures are in the tables."
    body = f"{_axes(axis)}{''.join(bands)}{''.join(groups)}"
    return (
        f'<svg class="plot-area" viewBox="0 0 {WIDE} {HEIGHT}" role="img"'
        f' aria-label="{attribute(told)}">{body}</svg>'
    )


def _key(one: Series) -> str:
    """The series' entry in the legend."""
    drawn = (
        f"{_line([(-13, 0), (13, 0)], one.look.dash)}{'' if one.level else marker(one.look, 0, 0)}"
    )
    sign = (
        f'<svg viewBox="-14 -7 28 14" aria-hidden="true" class="s{one.look.colour}">{drawn}</svg>'
    )
    return f'<li data-model="{attribute(one.model)}">{sign} {text(one.name)}</li>'


def marker(look: Look, x: float, y: float) -> str:
    """The shape of a series at a point: filled, hollow, or with a dot within.

    Args:
        look: of the series.
        x: its place in the drawing, in the SVG's units.
        y: likewise, downwards.
    """
    stroked = look.marker in (5, 6)
    kind = "mark stroke" if stroked else "mark open" if look.hollow else "mark"
    drawn = f'<path d="{SHAPES[look.marker]}" class="{kind}" transform="translate({x:g} {y:g})"/>'
    if look.dotted or (stroked and look.hollow):
        inner = "pip" if look.hollow or stroked else "pip light"
        drawn += f'<circle cx="{x:g}" cy="{y:g}" r="{3.2 if stroked else 1.8}" class="{inner}"/>'
    return drawn


@dataclass(frozen=True, slots=True)
class _Axis:
    """Rates from 2**left to 2**right over a plot's width, and scores from `low` to `high` in steps
    of `step` over its height.
    """

    left: float
    right: float
    low: float
    high: float
    step: float

    @classmethod
    def of(cls, dots: Sequence[Dot], levels: Sequence[LevelBounds]) -> "_Axis":
        """Both axes from where the data begin to where they end."""
        rates = [math.log2(dot.x) for dot in dots] or [0.0, 1.0]
        left = min(rates)
        right = max(rates)
        if right - left < 0.5:
            left, right = left - 0.5, right + 0.5
        known = [value for dot in dots for value in (dot.y, dot.low, dot.high, dot.ceiling)]
        known += [value for level in levels for value in level]
        scores = [value for value in known if value is not None]
        step = tick_step(min(scores), max(scores))
        low = max(0.0, math.floor(min(scores) / step + 1e-9) * step)
        high = min(100.0, math.ceil(max(scores) / step - 1e-9) * step)
        if high <= low:
            low, high = max(0.0, low - step), low + step
        return cls(left, right, low, high, step)

    def x(self, rate: float) -> float:
        inner = WIDE - LEFT - RIGHT - 2 * INSET
        share = (math.log2(rate) - self.left) / (self.right - self.left)
        return round(LEFT + INSET + inner * share, 1)

    def y(self, score: float) -> float:
        inner = HEIGHT - TOP - BOTTOM
        return round(TOP + inner * (self.high - score) / (self.high - self.low), 1)


def tick_step(low: float, high: float) -> float:
    """A round step of which at most six lie between two scores."""
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / 6))
    return next(part * power for part in STEPS if span / (part * power) <= 6)


def _axes(axis: _Axis) -> str:
    right = WIDE - RIGHT
    bottom = HEIGHT - BOTTOM
    lines = []
    for place in range(round((axis.high - axis.low) / axis.step) + 1):
        score = axis.low + place * axis.step
        lines.append(
            f'<path class="grid" d="M{LEFT},{axis.y(score)}H{right}"/><text x="{LEFT - 6}"'
            f' y="{axis.y(score) + 4}">{score:g}</text>'
        )
    for power in range(math.ceil(axis.left - 1e-6), math.floor(axis.right + 1e-6) + 1):
        lines.append(
            f'<g class="tick" transform="translate({axis.x(2.0**power)} 0)"><path class="grid"'
            f' d="M0,{TOP}V{bottom}"/><text class="mid" y="{bottom + 17}">{2.0**power:g}</text></g>'
        )
    lines.append(
        f'<text class="mid axis" x="{(LEFT + right) / 2}" y="{HEIGHT - 8}">tokens per step</text>'
    )
    cut = f", from {axis.low:g}" if axis.low > 0 else ""
    lines.append(
        f'<text class="mid axis" transform="translate(12 {(TOP + bottom) / 2}) rotate(-90)">score'
        f" (%){cut}</text>"
    )
    return "".join(lines)


def _series(one: Series, axis: _Axis) -> str:
    if one.level:
        score, low, high = one.level
        right = WIDE - RIGHT
        area = ""
        if low is not None and high is not None:
            area = f'<path class="area" d="M{LEFT},{axis.y(low)}H{right}V{axis.y(high)}H{LEFT}Z"/>'
        drawn = area + _line([(LEFT, axis.y(score)), (right, axis.y(score))], one.look.dash)
    else:
        dots = sorted(one.dots, key=lambda dot: (dot.x, -dot.y))
        drawn = _path(
            "ceiling", [(dot.x, dot.ceiling) for dot in dots if dot.ceiling is not None], axis
        )
        drawn += _path("line", [(dot.x, dot.y) for dot in dots], axis, one.look.dash)
        drawn += "".join(_dot(dot, axis, one.look) for dot in dots)
    start = f'<g data-model="{attribute(one.model)}">'
    return f'{start}<g class="s{one.look.colour}">{drawn}</g></g>'


def _dot(dot: Dot, axis: _Axis, look: Look) -> str:
    x = axis.x(dot.x)
    marks = ""
    if dot.low is not None and dot.high is not None:
        marks = f'<path class="bar" d="M{x},{axis.y(dot.low)}V{axis.y(dot.high)}"/>'
    if dot.ceiling is not None:
        marks += f'<path class="lid" d="M{x - 5:g},{axis.y(dot.ceiling)}h10"/>'
    shape = marker(look, x, axis.y(dot.y))
    return f'<g class="dot"><title>{text(dot.text)}</title>{marks}{shape}</g>'


def _path(kind: str, points: Sequence[tuple[float, float]], axis: _Axis, dash: int = 0) -> str:
    """A line through (rate, score); nothing for a single point."""
    if len(points) < 2:
        return ""
    return _line([(axis.x(x), axis.y(y)) for x, y in points], dash, kind)


def _line(places: Iterable[tuple[float, float]], dash: int, kind: str = "line") -> str:
    dashes = ("", "6 3", "2 3", "8 3 2 3")[dash]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path class="{kind}" d="M{"L".join(f"{x:g},{y:g}" for x, y in places)}"{dashed}/>'
