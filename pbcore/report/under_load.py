"""Speed under load: answers per second, and how long one takes, over rows or requests at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import nnls

from pbcore.names import recorded
from pbcore.report.cells import real
from pbcore.report.looks import marker_looks
from pbcore.report.style import PANEL, finish, legend, percent, plain_ticks

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


def load_levels(cells: pd.DataFrame) -> pd.DataFrame:
    """A row per model, sampler and number at a time, over the tasks that the model has at each of
    its numbers: answers and tokens per second of all, means of score (in %), seconds to the first
    token and percentiles of an answer's seconds. Empty without cells that say how many at a time.
    """
    rows = []
    if "at_once" not in cells:
        return pd.DataFrame()
    ran = real(cells[cells["at_once"].notna()])
    ran = ran[(ran["status"] == "ok") & (ran["seconds"] > 0)]
    ran = ran.assign(alone=[_alone(sampler) for sampler in ran["sampler"]])
    for (model, sampler), group in ran.groupby(["model", "alone"], sort=False):
        counts = group.groupby("task")["at_once"].nunique()
        whole = group[group["task"].isin(counts[counts == counts.max()].index)]
        for _, level in whole.groupby("at_once"):
            at_once = int(level["at_once"].iloc[0])
            rows.append({"model": model, "sampler": sampler, "at once": at_once, **_rates(level)})
    return pd.DataFrame(rows)


def _alone(sampler: str) -> str:
    """A sampler's name without how many rows it decodes at a time."""
    name = recorded(sampler)
    return sampler if name is None else str(name.alone)


def _rates(level: pd.DataFrame) -> dict[str, Any]:
    """The columns of a model and sampler at one number at a time."""
    seconds = level["seconds"].sum()
    answers = (level["samples_per_second"] * level["seconds"]).sum()
    tokens = (level["tokens_per_second"] * level["seconds"]).sum(min_count=len(level))
    waits = _mean_waits(level["served"])
    return {
        "tasks": len(level),
        "answers/s": answers / seconds,
        "tokens/s": tokens / seconds,
        **{f"{name} s": mean for name, mean in waits.items()},
        "score %": 100 * level["score"].mean(skipna=False),
    }


def _mean_waits(served: Iterable[object]) -> dict[str, float]:
    """Mean seconds to the first token and percentiles of an answer's seconds, over what servers
    told of each cell; NaN where one didn't.
    """
    rows = []
    for cell in served:
        record = cell if isinstance(cell, Mapping) else {}
        requests = record.get("requests") or {}
        rows.append({"first token": record.get("first_token")} | requests)
    waits = pd.DataFrame(rows, columns=["first token", *PERCENTILES], dtype="float64")
    return {str(name): float(mean) for name, mean in waits.mean(skipna=False).items()}


def bends(table: pd.DataFrame) -> list[str]:
    """Where each model and sampler stops gaining, in words; none for fewer than three levels."""
    lines = []
    for (model, sampler), group in table.groupby(["model", "sampler"], sort=False):
        fit = roof(_numbers(group, "at once"), _numbers(group, "answers/s"))
        if fit is None or fit.bend is None:
            continue
        gain = group["answers/s"].max() / group["answers/s"].iloc[0]
        place = "below 1" if fit.bend < 1 else f"at about {fit.bend:.1f}"
        lines.append(
            f"{model} · {sampler}: {gain:.1f} × the answers per second of"
            f" {group['at once'].iloc[0]} at a time; the roofline bends {place}"
        )
    return lines


def _numbers(group: pd.DataFrame, column: str) -> np.ndarray:
    return group[column].to_numpy(dtype=float)


def under_load_figure(table: pd.DataFrame) -> Figure:
    """Answers per second over the number at a time, with roofline (dotted); score over answers per
    second, each point with its number; and where a server told them, median (line) and p90 (bar) of
    an answer's seconds.
    """
    panels = 3 if table["p50 s"].notna().any() else 2
    figure = Figure(figsize=(PANEL[0] * panels + 0.9, PANEL[1] + 0.75), dpi=150)
    axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
    markers = marker_looks(zip(table["model"], table["sampler"], strict=True))
    looks = {}
    for (model, sampler), group in table.groupby(["model", "sampler"], sort=False):
        look = markers[str(model), str(sampler)] | {"markersize": 4, "linewidth": 1.2}
        looks[f"{model} · {sampler}"] = look
        _draw_rates(axes[0], group, look)
        _draw_scores(axes[1], group, look)
        if panels == 3:
            _draw_seconds(axes[2], group, look)
    levels = sorted(set(table["at once"]))
    _over_levels(axes[0], "answers per second", levels)
    _over_speed(axes[1], "score over speed")
    if panels == 3:
        _over_levels(axes[2], "seconds of an answer", levels)
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


def _draw_rates(axis: Axes, group: pd.DataFrame, look: dict[str, Any]) -> None:
    """One model and sampler's answers per second, with their roofline."""
    at_once = _numbers(group, "at once")
    rates = _numbers(group, "answers/s")
    axis.plot(at_once, rates, **look)
    fit = roof(at_once, rates)
    if fit is None:
        return
    places = at_once.tolist()
    if fit.bend is not None and at_once[0] < fit.bend < at_once[-1]:
        places = sorted([*places, fit.bend])
    grid = np.array(places)
    axis.plot(grid, fit.most(grid), color=look["color"], linewidth=0.9, linestyle=":", marker="")


def _draw_scores(axis: Axes, group: pd.DataFrame, look: dict[str, Any]) -> None:
    """One model and sampler's scores over answers per second, each with its number at a time."""
    rates = _numbers(group, "answers/s")
    axis.plot(rates, group["score %"], **look)
    for rate, score, count in zip(rates, group["score %"], group["at once"], strict=True):
        if not np.isnan(score):
            axis.annotate(f"{count}", (rate, score), (2, 3), textcoords="offset points", fontsize=6)


def _draw_seconds(axis: Axes, group: pd.DataFrame, look: dict[str, Any]) -> None:
    """The median and p90 of an answer's seconds, where a server told them."""
    median = _numbers(group, "p50 s")
    if np.isnan(median).all():
        return
    above = np.clip(_numbers(group, "p90 s") - median, 0, None)
    axis.errorbar(_numbers(group, "at once"), median, yerr=np.vstack([0 * median, above]), **look)
