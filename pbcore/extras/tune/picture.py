"""The picture of a tuning: each sampler by how many times fewer it takes and by its difference; the
samplers of the proof with their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from pbcore.analysis.beside import Beside
from pbcore.base.printable import counted
from pbcore.extras.tune.proof import Trial
from pbcore.extras.tune.state import TuningState
from pbcore.extras.tune.tuning import Tuning
from pbcore.report import style
from pbcore.report.style import CsvRow, Drawing

NAME = "tune"
GREY = "#9A9A9A"
GOOD = "#0072B2"
BAD = "#D55E00"
LOWEST = -60.0  # points that are drawn


def picture(state: TuningState, result: Tuning) -> Drawing:
    """The picture and its data, in points and times fewer."""
    margin = state.request.max_loss
    words = state.axis_words
    x = f"times fewer {words} than {state.reference}"
    title = f"{state.request.model}: mean over {counted(len(state.tasks), 'task')}"
    drawn, [axis] = style.panels([1], 1, x, "difference in points")
    drawn.set_size_inches(5.6, 3.4)
    left = [left.paired for left in result.left if left.paired is not None]
    shown = [one for one in left if one.cost_share]
    axis.plot(
        [1 / one.cost_share for one in shown],
        [max(LOWEST, 100 * one.change) for one in shown],
        linestyle="none",
        marker="o",
        markersize=3,
        color=GREY,
        alpha=0.7,
        label="left the race",
    )
    for confirmed, colour in ((True, GOOD), (False, BAD)):
        _draw_trials(axis, [one for one in result.trials if one.confirmed == confirmed], colour)
    if result.chosen is not None:
        own = result.chosen.paired
        place = (1 / own.cost_share, 100 * own.change)
        axis.annotate(
            style.label(own.sampler),
            place,
            xytext=(4, -20),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    axis.axhline(-margin, color=BAD, linewidth=0.9, linestyle="--", label=f"{margin:g} points lost")
    axis.set_xscale("log")
    style.plain_ticks(axis.xaxis)
    style.finish(axis, style.label(title))
    style.legend(drawn, 4, 7)
    rows = [_row(one, "left the race") for one in shown]
    for trial in result.trials:
        rows.append(_row(trial.paired, _verdict(trial)))
    return Drawing(NAME, drawn, rows)


def _draw_trials(axis: Axes, trials: Sequence[Trial], colour: str) -> None:
    """Draws trials of one verdict, with their bounds."""
    if not trials:
        return
    own = [trial.paired for trial in trials]
    differences = [100 * one.change for one in own]
    style.draw_points(
        axis,
        [1 / one.cost_share for one in own],
        differences,
        [100 * one.bound for one in own],
        differences,
        linestyle="none",
        marker="o",
        markersize=4.5,
        color=colour,
        label=f"{_verdict(trials[0])}, with its bound",
    )


def _verdict(trial: Trial) -> str:
    return "confirmed" if trial.confirmed else "not confirmed"


def _row(one: Beside, verdict: str) -> CsvRow:
    return {
        "sampler": one.sampler,
        "verdict": verdict,
        "times_fewer": 1 / one.cost_share,
        "difference": 100 * one.change,
        "bound": 100 * one.bound,
        "questions": one.questions,
    }
