"""Speed under load: answers per second, and how long one takes, over rows or requests at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import nnls

from pbcore.base.grouping import grouped
from pbcore.names import recorded
from pbcore.report.looks import LineStyle, marker_looks
from pbcore.report.rows import CellRow, or_nan, undummied
from pbcore.report.style import PANEL, finish, legend, percent, plain_ticks
from pbcore.results.table_row import Row

PERCENTILES = ("p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Roof:
    """Seconds of an answer at B at a time, A / B + C: `fixed` A are shared by all that run together
    (reading weights, starting kernels), `each` C are an answer's own. So no more than B / A and 1 /
    C answers come a second, and the two lines meet at `bend` = A / C.
    """

    fixed: float
    each: float

    @property
    def bend(self) -> float | None:
        return self.fixed / self.each if self.each > 0 else None

    def most(self, at_once: np.ndarray) -> np.ndarray:
        """The most answers per second (B,) at so many at a time (B,)."""
        slope = at_once / self.fixed if self.fixed > 0 else np.full(len(at_once), np.inf)
        return np.minimum(slope, 1 / self.each if self.each > 0 else np.inf)


def roof(at_once: np.ndarray, rates: np.ndarray) -> Roof | None:
    """The least-squares fit of A and C, neither below 0, to answers per second (B,), in relative
    errors; None for fewer than three levels.
    """
    if len(at_once) < 3:
        return None
    (fixed, each), _ = nnls(np.column_stack([rates / at_once, rates]), np.ones(len(rates)))
    return Roof(float(fixed), float(each))


def load_levels(cells: Iterable[CellRow]) -> list[Row]:
    """A row per model, sampler and number at a time, over the tasks that the model has at each of
    its numbers: answers and tokens per second of all, means of score (in %), seconds to the first
    token and percentiles of an answer's seconds. NaN where a cell lacks one; none without cells
    that say how many at a time.
    """
    timed = []
    for cell in undummied(cells):
        if cell["at_once"] is not None and cell["status"] == "ok" and cell["seconds"] > 0:
            timed.append(cell)
    rows: list[Row] = []
    groups = grouped(timed, lambda cell: (cell["model"], _alone(cell["sampler"])))
    for (model, sampler), group in groups.items():
        by_task = grouped(group, itemgetter("task")).values()
        numbers = [{cell["at_once"] for cell in of_task} for of_task in by_task]
        most = max(map(len, numbers))
        whole = [cells for cells, at in zip(by_task, numbers, strict=True) if len(at) == most]
        levels = grouped(chain.from_iterable(whole), itemgetter("at_once"))
        for at_once, level in sorted(levels.items()):
            rows.append({"model": model, "sampler": sampler, "at once": at_once, **_rates(level)})
    return rows


def _alone(sampler: str) -> str:
    """A sampler's name without how many rows it decodes at a time."""
    name = recorded(sampler)
    return sampler if name is None else str(name.alone)


def _rates(level: Sequence[Row]) -> dict[str, Any]:
    """The columns of a model and sampler at one number at a time."""
    seconds = sum(cell["seconds"] for cell in level)
    answers = [cell["samples_per_second"] * cell["seconds"] for cell in level]
    tokens = [cell["tokens_per_second"] * cell["seconds"] for cell in level]
    row = {
        "tasks": len(level),
        "answers/s": sum(count for count in answers if not isnan(count)) / seconds,
        "tokens/s": sum(tokens) / seconds,
    }
    for name, waits in _waits(level).items():
        row[f"{name} s"] = fmean(waits)
    row["score %"] = fmean(cell["score"] for cell in level)
    return row


def _waits(level: Iterable[Row]) -> dict[str, list[float]]:
    """Seconds to the first token and percentiles of an answer's seconds, that servers told of each
    cell; NaN where one didn't.
    """
    waits: dict[str, list[float]] = {name: [] for name in ("first token", *PERCENTILES)}
    for cell in level:
        served = cell["served"] if isinstance(cell["served"], Mapping) else {}
        told = {"first token": served.get("first_token"), **(served.get("requests") or {})}
        for name, values in waits.items():
            values.append(or_nan(told.get(name)))
    return waits


def _lines(levels: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """(model, sampler) → its levels, by rising number at a time."""
    return grouped(levels, itemgetter("model", "sampler"))


def bends(levels: Iterable[Row]) -> list[str]:
    """Where each model and sampler stops gaining, in words; none for fewer than three levels."""
    texts = []
    for (model, sampler), line in _lines(levels).items():
        rates = _numbers(line, "answers/s")
        fit = roof(_numbers(line, "at once"), rates)
        if fit is None or fit.bend is None:
            continue
        gain = rates.max() / rates[0]
        place = "below 1" if fit.bend < 1 else f"at about {fit.bend:.1f}"
        texts.append(
            f"{model} · {sampler}: {gain:.1f} × the answers per second of"
            f" {line[0]['at once']} at a time; the roofline bends {place}"
        )
    return texts


def _numbers(line: Iterable[Row], key: str) -> np.ndarray:
    return np.array([row[key] for row in line], dtype=float)


def under_load_figure(levels: Sequence[Row]) -> Figure:
    """Answers per second over the number at a time, with roofline (dotted); score over answers per
    second, each point with its number; and where a server told them, median (line) and p90 (bar) of
    an answer's seconds.
    """
    panels = 2 if all(isnan(row["p50 s"]) for row in levels) else 3
    figure = Figure(figsize=(PANEL[0] * panels + 0.9, PANEL[1] + 0.75), dpi=150)
    axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
    lines = _lines(levels)
    markers = marker_looks(lines)
    looks = {}
    for (model, sampler), line in lines.items():
        look = markers[model, sampler] | {"markersize": 4, "linewidth": 1.2}
        looks[f"{model} · {sampler}"] = look
        _draw_rates(axes[0], line, look)
        _draw_scores(axes[1], line, look)
        if panels == 3:
            _draw_seconds(axes[2], line, look)
    numbers = sorted({row["at once"] for row in levels})
    _over_levels(axes[0], "answers per second", numbers)
    _over_speed(axes[1], "score over speed")
    if panels == 3:
        _over_levels(axes[2], "seconds of an answer", numbers)
    legend(figure, min(3, len(looks)), looks=looks)
    figure.subplots_adjust(left=0.08, right=0.985, top=0.9, bottom=0.32, wspace=0.3)
    return figure


def _over_levels(axis: Axes, title: str, levels: Sequence[int]) -> None:
    """A panel over the number at a time, both axes logarithmic."""
    finish(axis, title)
    axis.set_xscale("log")
    axis.set_xlabel("at a time", fontsize=8)
    plain_ticks(axis.xaxis, levels)
    axis.set_yscale("log")
    plain_ticks(axis.yaxis)


def _over_speed(axis: Axes, title: str) -> None:
    """A panel of scores over answers per second."""
    finish(axis, title)
    axis.set_xscale("log")
    axis.set_xlabel("answers per second", fontsize=8)
    plain_ticks(axis.xaxis)
    percent(axis)
    axis.set_ylabel("mean score (%)", fontsize=8)


def _draw_rates(axis: Axes, line: Sequence[Row], look: LineStyle) -> None:
    """One model and sampler's answers per second, with their roofline."""
    at_once = _numbers(line, "at once")
    rates = _numbers(line, "answers/s")
    axis.plot(at_once, rates, **look)
    fit = roof(at_once, rates)
    if fit is None:
        return
    places = at_once.tolist()
    if fit.bend is not None and at_once[0] < fit.bend < at_once[-1]:
        places = sorted([*places, fit.bend])
    grid = np.array(places)
    axis.plot(grid, fit.most(grid), color=look["color"], linewidth=0.9, linestyle=":", marker="")


def _draw_scores(axis: Axes, line: Sequence[Row], look: LineStyle) -> None:
    """One model and sampler's scores over answers per second, each with its number at a time."""
    rates = _numbers(line, "answers/s")
    axis.plot(rates, _numbers(line, "score %"), **look)
    for rate, row in zip(rates, line, strict=True):
        if not isnan(row["score %"]):
            axis.annotate(
                f"{row['at once']}",
                (rate, row["score %"]),
                (2, 3),
                textcoords="offset points",
                fontsize=6,
            )


def _draw_seconds(axis: Axes, line: Sequence[Row], look: LineStyle) -> None:
    """The median and p90 of an answer's seconds, where a server told them."""
    median = _numbers(line, "p50 s")
    if np.isnan(median).all():
        return
    above = np.clip(_numbers(line, "p90 s") - median, 0, None)
    axis.errorbar(_numbers(line, "at once"), median, yerr=np.vstack([0 * median, above]), **look)
