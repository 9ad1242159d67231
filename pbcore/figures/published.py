"""The official site's points of real models: mean score over tokens per step, a panel per model."""

from math import ceil
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from pbcore.report.looks import number_look, policy_number
from pbcore.report.style import (
    CsvRow,
    Drawing,
    finish,
    legend,
    log_ticks,
    panels,
    percent,
    plain_ticks,
)
from pbcore.results.official_site import MEAN, STATIC, site_points

TITLE = "Published by the benchmark's authors, drawn by pbcore; not measured here"
REFERENCE = "confidence-topk"  # its first point reveals one token a step
MOST_LOST = 5.0  # points


def published_figure() -> Drawing:
    """Mean score of the 17 tasks over tokens per step, a curve per strategy; a ring marks each
    model's fastest point that loses at most 5 points to one token at a time.
    """
    points = site_points()
    means = points[points["task"] == MEAN]
    groups = list(means.groupby("model", sort=False))
    strategies = list(dict.fromkeys(means["strategy"]))
    columns = 2
    shape = [columns] * (len(groups) // columns)
    keys = ceil(len(strategies) / 4)
    x = "tokens per step (ring: the fastest that loses at most 5 points to one token at a time)"
    figure, axes = panels(shape, keys, x, "mean score of 17 tasks (%)", TITLE)
    speeds = means["tokens_per_step"]
    said = [TITLE]
    rows: list[CsvRow] = []
    for axis, (model, of_model) in zip(axes, groups, strict=True):
        for strategy, line in of_model.groupby("strategy", sort=False):
            axis.plot(line["tokens_per_step"], line["score_percent"], ms=4, **_look(str(strategy)))
        fastest = fastest_as_good(of_model)
        _ring(axis, fastest)
        axis.set_xscale("log")
        plain_ticks(axis.xaxis, log_ticks(speeds.min(), speeds.max()))
        percent(axis)
        short = str(model).rsplit("/", 1)[-1]
        finish(axis, short)
        said.append(
            f"{short}: {fastest['strategy']} at {fastest['tokens_per_step']:.2f} tokens per step,"
            f" {fastest['score_percent']:.1f} % against {fastest['reference']:.1f} %"
        )
        for row in of_model.drop(columns=["task", "point"]).to_dict("records"):
            rows.append({str(name): value for name, value in row.items()})
    legend(figure, 4, looks={name: {**_look(name), "ms": 4} for name in strategies})
    return Drawing("published", figure, rows, "\n  ".join(said))


def fastest_as_good(means: pd.DataFrame) -> dict[str, Any]:
    """A model's fastest mean that is at most 5 points below one token at a time, as the site has
    them: without intervals. Its columns, and `reference`: the score of one token at a time.
    """
    rows: list[dict[str, Any]] = []
    for row in means.to_dict("records"):
        rows.append({str(name): value for name, value in row.items()})
    (reference,) = (
        row["score_percent"] for row in rows if row["strategy"] == REFERENCE and row["point"] == 1
    )
    as_good = [row for row in rows if row["score_percent"] >= reference - MOST_LOST]
    fastest = max(as_good, key=lambda row: float(row["tokens_per_step"]))
    return {**fastest, "reference": reference}


def _ring(axis: Axes, point: dict[str, Any]) -> None:
    x = point["tokens_per_step"]
    y = point["score_percent"]
    axis.plot([x], [y], "o", ms=11, mfc="none", mec="black", mew=1.2)
    axis.annotate(
        f"{point['strategy']}\n{x:.1f} tokens per step, {y:.0f} %",
        (x, y),
        textcoords="offset points",
        xytext=(9, 2),
        fontsize=7.5,
        va="bottom",
    )


def _look(strategy: str) -> dict[str, Any]:
    """The look of its policy in all figures."""
    policy = STATIC.get(strategy, strategy.removeprefix("confidence-"))
    return {**number_look(policy_number(policy)), "linewidth": 1.2}
