"""Speed–quality plots: means over tokens per step with intervals and ceilings, a line and a shape
per policy family. The first one of a page is drawn here as plain SVG, for readers without scripts;
the page's script draws all of them on any axes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pbcore.analysis.order import family
from pbcore.base.printable import fixed, printable
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
# Of markers, as in `looks.MARKERS`.
SHAPES = (
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
    per_row = _tokens_per_row(scope)
    with_rate = scope.cells["tokens_per_step"].notna()
    shown = speed_quality(scope.cells[with_rate | elsewhere(scope.cells)], most)
    drawn = []
    for curve in shown.curves:
        if not curve.leads:
            continue
        dots = []
        for point in curve.points:
            about = (
                f"{curve.model} {point.sampler}: {fixed(point.score)} %"
                f"{interval_text(point.low, point.high)} at {fixed(point.rate, 2)} tokens per step"
            )
            if (curve.model, point.sampler) in per_row:
                about += f", {fixed(per_row[curve.model, point.sampler], 2)} per row"
            if point.ceiling is not None:
                about += f", ceiling {fixed(point.ceiling)} %"
            dot = Dot(
                x=point.rate,
                y=point.score,
                low=point.low,
                high=point.high,
                text=about,
                on_front=point.on_front,
                ceiling=point.lid,
            )
            dots.append(dot)
        look = known[curve.model, curve.family]
        drawn.append(Series(f"{curve.model} · {curve.family}", curve.model, look, tuple(dots)))
    for level in shown.levels:
        look = known.get((level.model, family(level.sampler)), ANY_SPEED)
        bounds = level.score, level.low, level.high
        drawn.append(Series(f"{level.name} (any speed)", level.model, look, level=bounds))
    return drawn


def _tokens_per_row(scope: Scope) -> dict[tuple[str, str], float]:
    """(model, sampler) → mean tokens per row, where its rows aren't its calls."""
    means = {}
    for (model, sampler), group in scope.cells.groupby(["model", "sampler"], sort=False):
        mean = group["tokens_per_row"].mean(skipna=False)
        if rows_differ(group) and not math.isnan(mean):
            means[str(model), str(sampler)] = mean
    return means


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
    entries = "".join(_key(shown) for shown in series)
    legend = f'<ul class="legend">{entries}</ul>' if entries else ""
    style = "plot"
    facts = f'data-tasks="{" ".join(map(str, tasks))}" data-title="{attribute(title)}"'
    key = ""
    if chosen:
        style += " wideplot"
        facts += ' data-chosen=""'
        has_ceilings = any(dot.ceiling is not None for shown in series for dot in shown.dots)
        signs = KEY if has_ceilings else KEY[:-1]
        explained = "".join(_explained(kind, meaning) for kind, meaning in signs)
        key = f'<p class="key">{explained}</p>'
    inner = f'{drawn}<div class="legends">{legend}</div>{key}'
    return Markup(f'<figure class="{style}" {facts}>{inner}</figure>')


def _explained(kind: str, meaning: str) -> str:
    """An entry of what the signs of a plot mean."""
    path = "M0,-7V7" if kind == "bar" else "M-13,0H13"
    sign = f'<svg viewBox="-14 -7 28 14" aria-hidden="true"><path class="{kind}" d="{path}"/></svg>'
    return f"<span>{sign} {meaning}</span>"


def drawing(series: Sequence[Series], title: str) -> str:
    """The plot itself as SVG; empty without points."""
    dots = [dot for shown in series for dot in shown.dots]
    levels = [shown.level for shown in series if shown.level]
    if not dots and not levels:
        return ""
    axis = _Axis.of(dots, levels)
    fronts: dict[str, set[tuple[float, float]]] = {}
    for shown in series:
        front = fronts.setdefault(shown.model, set())
        front.update((dot.x, dot.y) for dot in shown.dots if dot.on_front)
    bands = ""
    for model, front in fronts.items():
        band = _path("front", sorted(front), axis)
        if band:
            bands += f'<g data-model="{attribute(model)}">{band}</g>'
    groups = "".join(_series(shown, axis) for shown in series)
    names = ", ".join(printable(shown.name, 60) for shown in series)
    # for screen readers
    about = f"{title}: score in % over tokens per step; {names}. The figures are in the tables."
    return (
        f'<svg class="plot-area" viewBox="0 0 {WIDE} {HEIGHT}" role="img"'
        f' aria-label="{attribute(about)}">{_axes(axis)}{bands}{groups}</svg>'
    )


def _key(series: Series) -> str:
    """The series' entry in the legend."""
    look = series.look
    drawn = _line([(-13, 0), (13, 0)], look.dash)
    if not series.level:
        drawn += marker(look, 0, 0)
    sign = f'<svg viewBox="-14 -7 28 14" aria-hidden="true" class="s{look.colour}">{drawn}</svg>'
    return f'<li data-model="{attribute(series.model)}">{sign} {text(series.name)}</li>'


def marker(look: Look, x: float, y: float) -> str:
    """The shape of a series at a point: filled, hollow, or with a dot within.

    Args:
        look: of the series.
        x: its place in the drawing, in the SVG's units.
        y: likewise, downwards.
    """
    stroked = look.marker in (5, 6)
    kind = "mark"
    if stroked:
        kind = "mark stroke"
    elif look.hollow:
        kind = "mark open"
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
        values: list[float | None] = []
        for dot in dots:
            values += [dot.y, dot.low, dot.high, dot.ceiling]
        for level in levels:
            values += level
        scores = [value for value in values if value is not None]
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
    return next(step * power for step in STEPS if span / (step * power) <= 6)


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


def _series(series: Series, axis: _Axis) -> str:
    look = series.look
    if series.level:
        drawn = _level(series.level, look, axis)
    else:
        dots = sorted(series.dots, key=lambda dot: (dot.x, -dot.y))
        ceilings = [(dot.x, dot.ceiling) for dot in dots if dot.ceiling is not None]
        drawn = _path("ceiling", ceilings, axis)
        drawn += _path("line", [(dot.x, dot.y) for dot in dots], axis, look.dash)
        drawn += "".join(_dot(dot, axis, look) for dot in dots)
    start = f'<g data-model="{attribute(series.model)}">'
    return f'{start}<g class="s{look.colour}">{drawn}</g></g>'


def _level(level: LevelBounds, look: Look, axis: _Axis) -> str:
    """A score at any speed: a line across the plot, and its interval as an area."""
    score, low, high = level
    right = WIDE - RIGHT
    line = _line([(LEFT, axis.y(score)), (right, axis.y(score))], look.dash)
    if low is None or high is None:
        return line
    area = f'<path class="area" d="M{LEFT},{axis.y(low)}H{right}V{axis.y(high)}H{LEFT}Z"/>'
    return area + line


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
    path = "L".join(f"{x:g},{y:g}" for x, y in places)
    return f'<path class="{kind}" d="M{path}"{dashed}/>'
