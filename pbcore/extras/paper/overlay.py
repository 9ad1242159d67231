"""The official site's points of real models: mean score over tokens per step, a panel per model;
and a run's own points over them.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes

from pbcore.analysis.tradeoff import by_method, mean_points
from pbcore.base.errors import InputError
from pbcore.extras.paper.official_site import (
    MEAN,
    MODELS,
    TASKS,
    named_points,
    policy_of_strategy,
    samplers_of,
    site_points,
)
from pbcore.report.looks import LineStyle, own_colours
from pbcore.report.plots import file_part
from pbcore.report.rows import cell_rows
from pbcore.report.style import (
    NO_DATE,
    CsvRow,
    CurveEnd,
    Drawing,
    finish,
    fitting_percent,
    label,
    log_ticks,
    name_ends,
    panels,
    plain_ticks,
)

TITLE = "Published by the benchmark's authors, drawn by pbcore; not measured here"
OWN_TITLE = "Published by the benchmark's authors; dashed: measured with pbcore"
REFERENCE = "confidence-k1"
MOST_LOST = 5.0  # points
MOST_STRATEGIES = 8
RING = "#222222"
RATE = "tokens_per_step"
SCORE = "score_percent"


@dataclass(frozen=True, slots=True)
class PublishedMeans:
    """The site's means over the same tasks: columns model, policy, sampler, tokens_per_step,
    score_percent, in the site's order; and the policies that have points there but no means.
    """

    means: pd.DataFrame
    tasks: int
    unknown: Sequence[str] = ()


def published_svg(cells: Sequence[Any], same: Mapping[str, str]) -> str:
    """The figure of a run's points over the published ones as SVG, whose texts are texts; empty for
    a run without a cell of a model and a task that are published.

    Args:
        cells: records of a run.
        same: the run's name of a model → the site's, as `published_figure` takes it; names that the
            site doesn't have are ignored, since other tables may.
    """
    short = {name.rsplit("/", 1)[-1]: name for name in MODELS}
    ran = {stored.cell.model: stored for stored in cells}
    declared = {ours: short.get(theirs, theirs) for ours, theirs in same.items() if ours in ran}
    declared = {ours: theirs for ours, theirs in declared.items() if theirs in MODELS}
    ours = {*declared, *(name for name in ran if name in MODELS)}
    drawn = [
        stored
        for stored in cells
        if stored.cell.model in ours and stored.cell.task in TASKS.values() and _scored(stored)
    ]
    if not drawn:
        return ""
    declared = {name: declared[name] for name in {one.cell.model for one in drawn} & {*declared}}
    stream = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "published"}):
        figure = published_figure(cells=drawn, same=declared).figure
        figure.savefig(stream, format="svg", metadata=NO_DATE["svg"])
    return stream.getvalue()


def _scored(stored: Any) -> bool:
    cell = stored.cell
    return cell.status == "ok" and cell.headline in cell.scores and not cell.conditions.dummy


def published_figure(
    model: str | None = None,
    cells: Sequence[Any] = (),
    same: Mapping[str, str] = MappingProxyType({}),
) -> Drawing:
    """Mean score over tokens per step, a curve per policy, a panel per model; a ring marks each
    model's fastest sampler that loses at most 5 points to one token at a time. Of more than eight
    policies those are drawn that have a ring, then those of most models.

    Args:
        model: one of the site's models; None for all.
        cells: records of a run, whose points are drawn over the published ones of the same tasks.
        same: the run's name of a model → the site's; by default a model's own name.

    Raises:
        InputError: for a model that isn't published, and for a run without a point to draw.
    """
    own = _own_curves(cells, same) if cells else {}
    published = _means(sorted({task for _, table in own.values() for task in table}))
    means = published.means
    models = list(dict.fromkeys(means["model"]))
    if model is not None:
        models = [_known(model, models)]
    elif own:
        models = [name for name in models if name in own]
    means = means[means["model"].isin(models)]
    fastest = {name: fastest_as_good(rows) for name, rows in means.groupby("model", sort=False)}
    policies = _leading(means, [str(point["policy"]) for point in fastest.values()])
    looks = own_colours(policies)
    x = "tokens per step (ring: the fastest that loses at most 5 points to one token at a time)"
    y = f"mean score of {published.tasks} tasks (%)" if published.tasks > 1 else "score (%)"
    shape = [len(models)] if len(models) < 3 else [2] * ((len(models) + 1) // 2)
    wide = len(models) == 1
    title = OWN_TITLE if own else TITLE
    size = (7.4, 3.4) if wide else (4.6, 2.9)
    figure, axes = panels(shape, 0, x, y, title, sharex=False, size=size)
    said = [title]
    rows: list[CsvRow] = []
    scores = list(means[SCORE])
    for lines, _ in own.values():
        for line in lines:
            scores += [score for *_, score in line.points]
    for axis, name in zip(axes, models, strict=False):
        of_model = means[means["model"] == name]
        mine = own[name][0] if name in own else []
        fitting_percent(axis, scores)
        _draw(axis, of_model, looks, fastest[name], mine)
        said.append(_sentence(name, fastest[name]))
        for row in of_model.to_dict("records"):
            rows.append({str(key): value for key, value in row.items()})
        for line in mine:
            said.append(f"{line.name}: {_points_text(line.points)}")
            for sampler, rate, score in line.points:
                policy = line.policy
                values = (line.model, policy, sampler, rate, score)
                rows.append(dict(zip(means.columns, values, strict=True)))
    left_out = [*(p for p in dict.fromkeys(means["policy"]) if p not in policies)]
    if left_out:
        said.append(f"in the CSV alone: {', '.join(left_out)}")
    if published.unknown:
        names = ", ".join(published.unknown)
        said.append(f"without a published parameter, so without these tasks' means: {names}")
    drawn = [line.model for lines, _ in own.values() for line in lines] or models * wide
    parts = ["published", *(file_part(name.rsplit("/", 1)[-1]) for name in dict.fromkeys(drawn))]
    return Drawing("_".join(parts), figure, rows, "\n  ".join(said))


def _known(model: str, models: Sequence[str]) -> str:
    """One of the site's models, by its hub id or the part behind its owner's name."""
    for name in models:
        if model in (name, name.rsplit("/", 1)[-1]):
            return name
    raise InputError(f"{model!r} isn't published; the site has {', '.join(models)}")


def _means(tasks: Sequence[str]) -> PublishedMeans:
    """Means over these tasks; over all 17 without."""
    points = site_points()
    if not tasks or len(tasks) == len(TASKS):
        of_all = points[points["task"] == MEAN]
        parts = []
        for (_, strategy), group in of_all.groupby(["model", "strategy"], sort=False):
            names = samplers_of(str(strategy), len(group))
            parts.append(group.sort_values("point").assign(sampler=names))
        table = pd.concat(parts)
    else:
        named = named_points(points)
        ours = named["task"].map(TASKS)
        table = (
            named[ours.isin(tasks)]
            .groupby(["model", "strategy", "sampler"], sort=False)[[RATE, SCORE]]
            .mean()
            .reset_index()
            .sort_values(["model", "strategy", RATE], kind="stable")
        )
    policies = [policy_of_strategy(str(strategy)) for strategy in table["strategy"]]
    table = table.assign(policy=policies)[["model", "policy", "sampler", RATE, SCORE]]
    everything = {policy_of_strategy(str(strategy)) for strategy in points["strategy"]}
    unknown = sorted(everything - set(policies))
    return PublishedMeans(table.reset_index(drop=True), len(tasks) or len(TASKS), unknown)


def _leading(means: pd.DataFrame, ringed: Sequence[str]) -> list[str]:
    """The policies that are drawn, in the site's order."""
    models = means.groupby("policy", sort=False)["model"].nunique()
    order = list(models.index)
    ranked = sorted(order, key=lambda policy: (policy not in ringed, -models[policy]))
    return [policy for policy in order if policy in ranked[:MOST_STRATEGIES]]


@dataclass(frozen=True, slots=True)
class OwnCurve:
    """A run's samplers of one method: (sampler, tokens per step, score in %)."""

    model: str
    policy: str
    points: Sequence[tuple[str, float, float]]

    @property
    def name(self) -> str:
        """Model and policy."""
        return f"{self.model} · {self.policy}"


def _own_curves(
    records: Sequence[Any], same: Mapping[str, str]
) -> dict[str, tuple[list[OwnCurve], list[str]]]:
    """The site's model → the run's curves that belong over it, and the tasks that they are means
    of.
    """
    models = list(MODELS)
    published = set(TASKS.values())
    cells = cell_rows(stored.cell for stored in records if stored.cell.task in published)
    if not cells:
        raise InputError("the run has no cell of the paper's 17 tasks, which alone are published")
    ours = list(dict.fromkeys(row["model"] for row in cells))
    for name in same:
        if name not in ours:
            raise InputError(f"no model {name!r} in the run; it has {', '.join(ours)}")
    own: dict[str, tuple[list[OwnCurve], list[str]]] = {}
    for name in ours:
        if name not in same and name not in models:
            continue
        theirs = _known(same.get(name, name), models)
        of_model = [row for row in cells if row["model"] == name]
        drawn = []
        for (_, policy), line in by_method(mean_points(of_model, RATE)).items():
            points = [(point.sampler, point.rate, point.score) for point in line]
            drawn.append(OwnCurve(name, policy, points))
        own[theirs] = (drawn, sorted({row["task"] for row in of_model}))
    if not own:
        raise InputError(
            f"none of the run's models ({', '.join(ours)}) is published; say which to set one"
            f" beside: --as {ours[0]}=NAME, where NAME is one of {', '.join(models)}"
        )
    return own


def fastest_as_good(means: pd.DataFrame) -> dict[str, Any]:
    """A model's fastest mean that is at most 5 points below one token at a time, as the site has
    them: without intervals. Its columns, and `reference`: the score of one token at a time.
    """
    rows: list[dict[str, Any]] = []
    for row in means.to_dict("records"):
        rows.append({str(name): value for name, value in row.items()})
    (reference,) = (row[SCORE] for row in rows if row["sampler"] == REFERENCE)
    as_good = [row for row in rows if row[SCORE] >= reference - MOST_LOST]
    fastest = max(as_good, key=lambda row: float(row[RATE]))
    return {**fastest, "reference": reference}


def _sentence(model: str, point: Mapping[str, Any]) -> str:
    return (
        f"{model.rsplit('/', 1)[-1]}: {point['sampler']} at {point[RATE]:.2f} tokens per step,"
        f" {point[SCORE]:.1f} % against {point['reference']:.1f} %"
    )


def _points_text(points: Sequence[tuple[str, float, float]]) -> str:
    return ", ".join(f"{sampler} {score:.1f} % at {rate:.2f}" for sampler, rate, score in points)


def _draw(
    axis: Axes,
    means: pd.DataFrame,
    looks: Mapping[str, LineStyle],
    fastest: Mapping[str, Any],
    own: Sequence[OwnCurve],
) -> None:
    """One model's panel."""
    ends = []
    rates = list(means[RATE])
    for policy, look in looks.items():
        line = means[means["policy"] == policy]
        if line.empty:
            continue
        axis.plot(line[RATE], line[SCORE], ms=4, linewidth=1.2, **look)
        last = line.iloc[-1]
        ends.append(CurveEnd(last[RATE], last[SCORE], label(policy), look["color"]))
    for curve in own:
        colour = looks[curve.policy]["color"] if curve.policy in looks else RING
        xs = [rate for _, rate, _ in curve.points]
        ys = [score for *_, score in curve.points]
        axis.plot(xs, ys, "o--", ms=6, linewidth=1.8, color=colour, mfc="white")
        ends.append(CurveEnd(xs[-1], ys[-1], label(curve.name), colour, bold=True))
        rates += xs
    axis.set_xscale("log")
    plain_ticks(axis.xaxis, log_ticks(min(rates), max(rates)))
    finish(axis, label(str(means["model"].iloc[0].rsplit("/", 1)[-1])))
    _ring(axis, fastest)
    name_ends(axis, ends, room=0.22, size=7.5)


def _ring(axis: Axes, point: Mapping[str, Any]) -> None:
    x = point[RATE]
    y = point[SCORE]
    axis.plot([x], [y], "o", ms=11, mfc="none", mec=RING, mew=1.2)
    low, high = axis.get_ylim()
    axis.set_ylim(top=max(high, y + (high - low) / 7))  # room for two lines
    axis.annotate(
        f"{point['sampler']}\n{x:.1f} tokens per step, {y:.0f} %",
        (x, y),
        textcoords="offset points",
        xytext=(9, 3),
        fontsize=7.5,
        va="bottom",
    )
