"""The points of the official ParallelBench site (its export of 27 March 2026, figures only): which
model, strategy and task reached which score at which speed, and our names for them.

The site sorts a task's points by speed and doesn't say which parameter a point had.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.tasks.naming import PAPER_TASKS

if TYPE_CHECKING:
    import pandas as pd

_SAME = 1e-9  # tokens per step; the site has all digits
MEAN = "avg"  # the site's name of the mean over all tasks
MODELS = {
    "GSAI-ML/LLaDA-8B-Instruct": "llada10",
    "GSAI-ML/LLaDA-1.5": "llada15",
    "Dream-org/Dream-v0-Instruct-7B": "dream",
    "apple/DiffuCoder-7B-Instruct": "diffucoder",
}
_CATEGORIES = {
    "waiting_line": "waitingline",
    "text_writing": "textwriting",
    "puzzle": "puzzles",
}
# The site's strategies → our policies. The static ones reveal k tokens a step.
STATIC = {
    "random": "random",
    "l2r": "left_to_right",
    "confidence-topk": "confidence",
    "entropy-topk": "entropy",
    "topk-margin": "margin",
}
_ADAPTIVE = {
    "confidence-threshold": re.compile(r"threshold-[\d.]+"),
    "confidence-factor": re.compile(r"factor-[\d.]+-ref"),  # the reference code's rule
    "klass": re.compile(r"klass-.+"),
    "dus": re.compile(r"dus-.+"),
    "slowfast": re.compile(r"slowfast-.+"),
    "wino": re.compile(r"wino-.+"),
}
STRATEGIES = (*STATIC, *_ADAPTIVE)
# The paper's grids, from the slowest parameter to the fastest.
_GRIDS = {
    "confidence-threshold": [f"threshold-{gamma}" for gamma in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)],
    "confidence-factor": [f"factor-{factor}-ref" for factor in (0.7, 1.0, 1.3, 1.6, 1.9)],
    "klass": [f"klass-{confidence}" for confidence in (0.95, 0.9, 0.8, 0.7)],
}


def site_task(task: str) -> str:
    """The site's name of one of the 17 tasks: `waiting_line/copy` → `waitingline-copy`."""
    kind, name = task.split("/", 1)
    return f"{_CATEGORIES[kind]}-{name}"


TASKS: Mapping[str, str] = {site_task(task): task for task in PAPER_TASKS}


def strategy_of(sampler: str) -> str | None:
    """The site's strategy of a sampler without modifiers; None if it has none there."""
    policy = sampler.split("-", 1)[0]
    for strategy, own in STATIC.items():
        if policy == own and re.fullmatch(rf"{own}-k\d+", sampler):
            return strategy
    for strategy, pattern in _ADAPTIVE.items():
        if pattern.fullmatch(sampler):
            return strategy
    return None


def policy_of_strategy(strategy: str) -> str:
    """Our policy of one of the site's strategies: `confidence-threshold` → `threshold`."""
    return STATIC.get(strategy, strategy.removeprefix("confidence-"))


def samplers_of(strategy: str, points: int) -> list[str]:
    """Our names of a strategy's points in the grid's order, which that of the means is; where the
    grid is unknown, each has its policy's name.
    """
    return _samplers(strategy, points) or [policy_of_strategy(strategy)] * points


def site_points() -> pd.DataFrame:
    """All points, in the site's order: columns model, strategy, task (`avg` for the mean over all
    tasks), point (from 1, by rising speed), tokens_per_step, score_percent.
    """
    import pandas as pd

    file = files("pbcore.extras.paper").joinpath("data", "site.csv")
    # Numbers are parsed by Python: pandas' own parser may round the last digit otherwise.
    wide = pd.read_csv(io.StringIO(file.read_text(encoding="utf-8")), dtype=str)
    wide["point"] = wide["point"].astype(int)
    keys = ["model", "strategy", "point"]
    tasks = [column for column in wide.columns if column not in (*keys, "measure")]
    long = wide.melt([*keys, "measure"], tasks, "task")
    long["value"] = [float(value) for value in long["value"]]
    measures = {
        name: rows.drop(columns="measure").rename(columns={"value": name})
        for name, rows in long.groupby("measure")
    }
    joined = measures["tokens_per_step"].merge(measures["score_percent"], on=[*keys, "task"])
    order = {task: place for place, task in enumerate(tasks)}
    lines = {line: place for place, line in enumerate(_lines(wide))}
    places = pd.DataFrame(
        {
            "line": [lines[line] for line in _lines(joined)],
            "task": joined["task"].map(order),
            "point": joined["point"],
        }
    )
    return joined.loc[places.sort_values(["line", "task", "point"]).index].reset_index(drop=True)


def _lines(points: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """The model and strategy of each row."""
    return zip(points["model"], points["strategy"], strict=True)


def named_points(points: pd.DataFrame) -> pd.DataFrame:
    """The points of tasks whose parameter is known, with our name of their sampler in the column
    `sampler`.

    Static strategies have k tokens a step. The others have the paper's grid. A task whose speed
    doesn't rise with the parameter has its points in another order than the grid; the means over
    all tasks, which the site has in the grid's order, tell which (`_grid_order`).

    Args:
        points: of `site_points`.

    Raises:
        InputError: for points without a mean.
    """
    import pandas as pd

    parts = []
    for (model, strategy), group in points.groupby(["model", "strategy"], sort=False):
        is_mean = group["task"] == MEAN
        of_tasks = group[~is_mean]
        means = group[is_mean].sort_values("point")
        names = _samplers(str(strategy), len(means))
        if len(means) != group["point"].max():
            raise InputError(f"{model}, {strategy}: not every point has its mean ({MEAN})")
        if names is None:
            continue
        if strategy not in STATIC:
            speeds = of_tasks.pivot(index="point", columns="task", values="tokens_per_step")
            order = _grid_order(speeds.to_numpy(), means["tokens_per_step"].to_numpy())
            if order is None:
                continue
            place = {task: column for column, task in enumerate(speeds.columns)}
            ranks = [
                int(order[point - 1, place[task]])
                for point, task in zip(of_tasks["point"], of_tasks["task"], strict=True)
            ]
        else:
            ranks = [point - 1 for point in of_tasks["point"]]
        parts.append(of_tasks.assign(sampler=[names[rank] for rank in ranks]))
    return pd.concat(parts, ignore_index=True)


def _grid_order(
    speeds: NDArray[np.floating], means: NDArray[np.floating]
) -> NDArray[np.integer] | None:
    """The place in the grid of each point of each task.

    Args:
        speeds: (points, tasks), each task's by rising speed.
        means: (points,) over the tasks, in the grid's order.

    Returns:
        (points, tasks); None unless one way to exchange points of at most two tasks at a place
        gives its mean.
    """
    count, tasks = speeds.shape
    at = np.repeat(np.arange(count)[:, None], tasks, axis=1)  # the point at each place
    for place in range(count):
        wrong = means[place] - speeds[place].mean()
        if abs(wrong) < _SAME:
            continue
        gains = (speeds - speeds[place]) / tasks  # of taking another point, (points, tasks)
        exchanges = np.argwhere(gains != 0).tolist()
        exact = [
            chosen
            for size in (1, 2)
            for chosen in combinations(exchanges, size)
            if abs(sum(gains[point, task] for point, task in chosen) - wrong) < _SAME
        ]
        if len(exact) != 1:
            return None
        for point, task in exact[0]:
            at[place, task] = point
    if not (np.sort(at, axis=0) == np.arange(count)[:, None]).all():
        return None
    return np.argsort(at, axis=0)


def _samplers(strategy: str, points: int) -> list[str] | None:
    """Our names of a strategy's points, in the grid's order; None where its grid is unknown."""
    if strategy in STATIC:
        return [f"{STATIC[strategy]}-k{2**exponent}" for exponent in range(points)]
    grid = _GRIDS.get(strategy, [])
    return grid if len(grid) == points else None
