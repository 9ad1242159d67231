"""The axes on which plots show speed: tokens per step (the paper's, and the default), other rates,
and costs of an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pbcore.base.printable import counted, some
from pbcore.base.speed import SpeedAxis
from pbcore.base.text import name
from pbcore.report.cells import real
from pbcore.results.measures import page_columns
from pbcore.results.rundir import RunFacts

PRICED = "price_seconds:"  # before a price list's name: the column of its seconds per answer
SECONDS = "seconds_per_answer"  # the column of measured seconds


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the plots. `key` is a column of `results.load` or `with_seconds`; `better` says
    which end is good.
    """

    key: str
    label: str
    better: Literal["more", "less"] = "more"

    @property
    def is_cost(self) -> bool:
        """Whether less is better."""
        return self.better == "less"

    @property
    def full_label(self) -> str:
        """The label; of a cost with the direction in which it gets better."""
        return f"{self.label} (lower is better)" if self.is_cost else self.label


def _axes() -> dict[SpeedAxis, Axis]:
    axes: dict[SpeedAxis, Axis] = {}
    for measure in page_columns("page"):
        if measure.axis is not None:
            better: Literal["more", "less"] = "less" if measure.kind == "cost" else "more"
            axes[measure.axis] = Axis(measure.key, measure.axis_label, better)
    axes["seconds"] = Axis(SECONDS, "measured seconds per answer", "less")
    return axes


AXES: Mapping[SpeedAxis, Axis] = _axes()
STEPS = AXES["tokens-per-step"]


def with_seconds(cells: pd.DataFrame) -> pd.DataFrame:
    """A frame of `results.load` with the column of measured seconds per answer."""
    return cells.assign(**{SECONDS: cells["seconds"] / cells["n"]})


def priced_axes(cells: pd.DataFrame) -> list[Axis]:
    """The axes of the price lists that a frame has columns of (`prices.with_prices`)."""
    keys = [key for key in map(str, cells.columns) if key.startswith(PRICED)]
    return [Axis(key, f"seconds per answer by {key.removeprefix(PRICED)}", "less") for key in keys]


def plotted_note(cells: pd.DataFrame, axis: Axis) -> str:
    """Which scored cells the trade-off curves lack since they have no value on the axis; empty
    where there is none.

    Args:
        cells: a frame of `results.load`, with the columns of price lists if there are any.
        axis: of speed.
    """
    scored = with_seconds(real(cells))
    scored = scored[(scored["status"] == "ok") & scored["score"].notna()]
    without = scored[~(scored[axis.key] > 0)]
    if without.empty:
        return ""
    which = "no cell has" if len(without) == len(scored) else f"{len(without)} have no"
    models = some([name(model) for model in dict.fromkeys(without["model"])], 5)
    return (
        f"Curves by {axis.label}: {which} value, of {counted(len(scored), 'scored cell')}, and are"
        f" left out ({models}): a server doesn't report it, or it was not counted."
    )


def chosen_axis(facts: RunFacts, cells: pd.DataFrame) -> Axis:
    """The axis that a run's facts name (`--axis`): seconds are those of the first price list that
    the frame has, and as measured without one.

    Args:
        facts: of run.json.
        cells: a frame of `results.load`, with the columns of price lists if there are any.
    """
    axis = AXES[facts.get("axis") or "tokens-per-step"]
    priced = priced_axes(cells)
    return priced[0] if axis.key == SECONDS and priced else axis
