"""A run in the layout of the official site: a CSV per model and strategy, and a leaderboard per
model, so that the site's authors can take it in.
"""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import pandas as pd

from pbcore.analysis.tradeoff import pbx
from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.base.printable import some
from pbcore.extras.paper.official_site import (
    MEAN,
    MODELS,
    STATIC,
    STRATEGIES,
    TASKS,
    site_task,
    strategy_of,
)
from pbcore.models.registry import sources
from pbcore.report.plots import file_part
from pbcore.results.load import load_stored
from pbcore.results.rundir import StoredCell, write_atomic

LEVELS = (80, 75, 70)  # mean scores in %, of the leaderboard
_BLOCKS_AND_CACHES = ("prefix", "dual")


@dataclass(slots=True)
class _Placed:
    """A run's cells that have a place on the site, as points, and the names of what has none."""

    points: list[dict[str, object]] = field(default_factory=list)
    samplers: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)

    def left_out(self) -> list[str]:
        """What was left out, a line each."""
        lines = []
        for names, why in (
            (self.samplers, "samplers that have no strategy on the site"),
            (self.tasks, "tasks that the site doesn't have"),
        ):
            if names:
                lines.append(f"left out, {why}: {some(list(dict.fromkeys(names)), 12)}")
        return lines


def export_site(run: Path, folder: Path) -> tuple[list[Path], list[str]]:
    """Writes a run's cells of the paper's 17 tasks.

    Args:
        run: a run directory.
        folder: where `figures/MODEL/STRATEGY.csv` and `leaderboard/MODEL.json` are written.

    Returns:
        The files, and what was left out, a line each.

    Raises:
        InputError: if nothing has a place there, or two samplers are the same point there.
    """
    placed = _placed(load_stored(run, refuse))
    left_out = placed.left_out()
    if not placed.points:
        raise InputError(
            "; ".join(
                [
                    "no scored cell of this run has a place on the site, which has the paper's 17"
                    f" tasks and the strategies {', '.join(STRATEGIES)}",
                    *left_out,
                ]
            )
        )
    points = pd.DataFrame(placed.points)
    means, incomplete = _means(points)
    if incomplete:
        left_out.append(
            f"no mean and no place on the leaderboard without all {len(TASKS)} tasks:"
            f" {some(incomplete, 12)}"
        )
    return write_site(pd.concat([points, means], ignore_index=True), folder), left_out


def _placed(cells: Iterable[StoredCell]) -> _Placed:
    """The cells by their place. Raises InputError for two samplers that are one point."""
    hub = sources()
    placed = _Placed()
    samplers: dict[tuple[str, str], str] = {}
    for stored in cells:
        cell = stored.cell
        bare = _without_blocks(cell.sampler)
        strategy = strategy_of(bare)
        if cell.task not in TASKS.values():
            placed.tasks.append(cell.task)
            continue
        if strategy is None:
            placed.samplers.append(cell.sampler)
            continue
        other = samplers.setdefault((cell.model, bare), cell.sampler)
        if other != cell.sampler:
            raise InputError(
                f"{other} and {cell.sampler} of {cell.model} are both {bare} on the site; export"
                " runs with one of them"
            )
        score = _score(stored)
        if score is None or cell.tokens_per_step is None:
            continue
        model = MODELS.get(hub.get(cell.model, cell.model), file_part(cell.model))
        placed.points.append(
            {
                "model": model,
                "strategy": strategy,
                "sampler": bare,
                "task": site_task(cell.task),
                "tokens_per_step": cell.tokens_per_step,
                "score_percent": 100 * score,
            }
        )
    return placed


def write_site(points: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes points in the site's layout.

    Args:
        points: columns model (the site's name), strategy, task (the site's; `avg` is the mean),
            tokens_per_step, score_percent.
        folder: where.

    Returns:
        The files.
    """
    files = []
    order = {task: place for place, task in enumerate((*sorted(TASKS), MEAN))}
    for model, of_model in points.groupby("model", sort=False):
        speeds: dict[str, dict[str, float]] = {}
        for strategy, line in of_model.groupby("strategy"):
            places = line.assign(place=line["task"].map(order))
            rows = places.sort_values(["place", "tokens_per_step"], kind="stable")
            path = folder / "figures" / str(model) / f"{strategy}.csv"
            files.append(write_atomic(path, _csv(rows)))
            mean = line[line["task"] == MEAN]
            if len(mean):
                speeds[str(strategy)] = _speeds(str(strategy), mean)
        if speeds:
            board = {"thresholds": list(LEVELS), "results": speeds}
            path = folder / "leaderboard" / f"{model}.json"
            files.append(write_atomic(path, json.dumps(board, indent=2)))
    return files


def _without_blocks(sampler: str) -> str:
    """A sampler without its blocks and caches, which the site's names don't tell."""
    kept = []
    for part in sampler.split("+"):
        is_block = part[:1] == "b" and part[1:].isdecimal()
        if not is_block and part not in _BLOCKS_AND_CACHES:
            kept.append(part)
    return "+".join(kept)


def _score(stored: StoredCell) -> float | None:
    """The score that the site shows: grammar of texts, accuracy of all others."""
    cell = stored.cell
    name = "grammar" if cell.task.startswith("text_writing/") else "accuracy"
    score = cell.scores.get(name)
    return None if score is None else score.mean


def _means(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The mean of each sampler that has all tasks, and the names of the others."""
    rows = []
    incomplete = []
    for (model, strategy, sampler), group in table.groupby(
        ["model", "strategy", "sampler"], sort=False
    ):
        if len(group) != len(TASKS):
            incomplete.append(f"{model} {sampler}")
            continue
        rows.append(
            {
                "model": model,
                "strategy": strategy,
                "sampler": sampler,
                "task": MEAN,
                "tokens_per_step": fmean(group["tokens_per_step"]),
                "score_percent": fmean(group["score_percent"]),
            }
        )
    return pd.DataFrame(rows, columns=list(table.columns)), incomplete


def _csv(rows: pd.DataFrame) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)  # with the line ends of the site's files
    writer.writerow(["task", "tps", "accuracy"])
    writer.writerows(rows[["task", "tokens_per_step", "score_percent"]].itertuples(index=False))
    return stream.getvalue()


def _speeds(strategy: str, mean: pd.DataFrame) -> dict[str, float]:
    """The speed at each level, 0 where it is never reached: of static strategies the fastest
    measured point, of the others between points.
    """
    points = list(zip(mean["tokens_per_step"], mean["score_percent"], strict=True))
    speeds = {}
    for level in LEVELS:
        speed = pbx(points, level, interpolate=strategy not in STATIC)
        speeds[str(level)] = 0.0 if speed is None else float(speed)
    return speeds
