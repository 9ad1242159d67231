"""Speed under load: answers per second, and how long one takes, over rows or requests at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import nnls

from pbcore.names import parse
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
    ran = real(cells[cells["at_once"].notna()] if "at_once" in cells else cells[:0])
    ran = ran[(ran["status"] == "ok") & (ran["seconds"] > 0)]
    ran = ran.assign(alone=[str(parse(name).alone) for name in ran["sampler"]])
    for (model, sampler), group in ran.groupby(["model", "alone"], sort=False):
        counts = group.groupby("task")["at_once"].nunique()
        whole = group[group["task"].isin(counts[counts == counts.max()].index)]
        for _, level in whole.groupby("at_once"):
            at_once = int(level["at_once"].iloc[0])
            rows.append({"model": model, "sampler": sampler, "at once": at_once, **_rates(level)})
    return pd.DataFrame(rows)


def _rates(level: pd.DataFrame) -> dict[str, Any]:
    seconds = level["seconds"].sum()
    told = [one if isinstance(one, Mapping) else {} for one in level["served"]]
    waits = pd.DataFrame(
        [{"first token": one.get("first_token")} | (one.get("requests") or {}) for one in told],
        columns=["first token", *PERCENTILES],
        dtype="float64",
    ).mean(skipna=False)
    return {
        "tasks": len(level),
        "answers/s": (level["samples_per_second"] * level["seconds"]).sum() / seconds,
        "tokens/s": (
            (level["tokens_per_second"] * level["seconds"]).sum(min_count=len(level)) / seconds
        ),
        **{f"{name} s": value for name, value in waits.items()},
        "score %": 100 * level["score"].mean(skipna=False),
    }


def bends(table: pd.DataFrame) -> list[str]:
    """Where each model and sampler stops gaining, in words; none for fewer than three levels."""
    lines = []
    for (model, sampler), group in table.groupby(["model", "sampler"], sort=False):
        found = roof(*(group[name].to_numpy(dtype=float) for name in ("at once", "answers/s")))
        if found is not None and found.bend is not None:
            gain = group["answers/s"].max() / group["answers/s"].iloc[0]
            lines.append(
                f"{model} · {sampler}: {gain:.1f} × the answers per second of"
                f" {group['at once'].iloc[0]} at a time; the roofline bends"
                f" {'below 1' if found.bend < 1 else f'at about {found.bend:.1f}'}"
            )
    return lines


def under_load_figure(table: pd.DataFrame) -> Figure:
    """Answers per second over the number at a time, with roofline (dotted); score over answers per
    second, each point with its number; and where a server told them, median (line) and p90 (bar) of
    an answer's seconds.
    """
    timed = table["p50 s"].notna().any()
    drawn = Figure(figsize=(PANEL[0] * (3 if timed else 2) + 0.9, PANEL[1] + 0.75), dpi=150)
    axes: list[Axes] = list(drawn.subplots(1, 3 if timed else 2, squeeze=False)[0])
    known = marker_looks(zip(table["model"], table["sampler"], strict=True))
    looks = {}
    for (model, sampler), group in table.groupby(["model", "sampler"], sort=False):
        looks[f"{model} · {sampler}"] = look = known[str(model), str(sampler)] | {
            "markersize": 4,
            "linewidth": 1.2,
        }
        _draw(axes, group, look)
    places = sorted(set(table["at once"]))
    for axis, title in zip(
        axes, ("answers per second", "score over speed", "seconds of an answer"), strict=False
    ):
        finish(axis, title)
        axis.set_xscale("log")
        axis.set_xlabel("answers per second" if axis is axes[1] else "at a time", fontsize=8)
        plain_ticks(axis.xaxis, None if axis is axes[1] else places)
        if axis is axes[1]:
            percent(axis)
        else:
            axis.set_yscale("log")
            plain_ticks(axis.yaxis)
    axes[1].set_ylabel("mean score (%)", fontsize=8)
    legend(drawn, min(3, len(looks)), looks=looks)
    drawn.subplots_adjust(left=0.08, right=0.985, top=0.9, bottom=0.32, wspace=0.3)
    return drawn


def _draw(axes: list[Axes], group: pd.DataFrame, look: dict[str, Any]) -> None:
    """One model and sampler in each panel."""
    at_once, rates = (group[name].to_numpy(dtype=float) for name in ("at once", "answers/s"))
    axes[0].plot(at_once, rates, **look)
    found = roof(at_once, rates)
    if found is not None:
        bend = found.bend
        inside = [bend] if bend is not None and at_once[0] < bend < at_once[-1] else []
        grid = np.array(sorted(chain(at_once, inside)))
        axes[0].plot(
            grid, found.most(grid), color=look["color"], linewidth=0.9, linestyle=":", marker=""
        )
    axes[1].plot(rates, group["score %"], **look)
    for rate, score, count in zip(rates, group["score %"], group["at once"], strict=True):
        if not np.isnan(score):
            axes[1].annotate(
                f"{count}", (rate, score), (2, 3), textcoords="offset points", fontsize=6
            )
    if len(axes) > 2 and group["p50 s"].notna().any():
        middle, high = (group[name].to_numpy(dtype=float) for name in ("p50 s", "p90 s"))
        axes[2].errorbar(
            at_once, middle, yerr=np.vstack([0 * middle, np.clip(high - middle, 0, None)]), **look
        )
