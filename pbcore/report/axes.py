"""The axes on which plots show speed: tokens per step (the paper's, and the default), other rates,
and costs of an answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Literal

from pbcore.base.printable import counted, some
from pbcore.base.text import name
from pbcore.costs.kinds import SpeedAxis
from pbcore.report.rows import CellRow, scored, undummied
from pbcore.results.measures import page_columns
from pbcore.results.rundir import RunFacts
from pbcore.results.table_row import Row

PRICED = "price_seconds:"  # before a price list's name: the key of its seconds per answer
SECONDS = "seconds_per_answer"  # the key of measured seconds


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the plots. `key` is that of a cell's value in its row; `better` says which end is
    good.
    """

    key: str
    label: str
    better: Literal["more", "less"] = "more"

    def of(self, row: Row) -> float:
        """A cell's value; NaN where it has none."""
        value: float = row.get(self.key, nan)
        return value

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


def priced_axes(cells: Iterable[Row]) -> list[Axis]:
    """The axes of the price lists by which a cell has seconds (`prices.with_prices`)."""
    keys = dict.fromkeys(key for row in cells for key in row if key.startswith(PRICED))
    return [Axis(key, f"seconds per answer by {key.removeprefix(PRICED)}", "less") for key in keys]


def plotted_note(cells: Iterable[CellRow], axis: Axis) -> str:
    """Which scored cells the trade-off curves lack since they have no value on the axis; empty
    where there is none.

    Args:
        cells: those of a report, with the seconds by its price lists.
        axis: of speed.
    """
    measured = scored(undummied(cells))
    without = [row for row in measured if not axis.of(row) > 0]
    if not without:
        return ""
    which = "no cell has" if len(without) == len(measured) else f"{len(without)} have no"
    models = some([name(model) for model in dict.fromkeys(row["model"] for row in without)], 5)
    return (
        f"Curves by {axis.label}: {which} value, of {counted(len(measured), 'scored cell')}, and"
        f" are left out ({models}): a server doesn't report it, or it was not counted."
    )


def chosen_axis(facts: RunFacts, cells: Iterable[Row]) -> Axis:
    """The axis that a run's facts name (`--axis`): seconds are those of the first price list that
    cells have, and as measured without one.

    Args:
        facts: of run.json.
        cells: those of a report, with the seconds by its price lists.
    """
    axis = AXES[facts.get("axis") or "tokens-per-step"]
    priced = priced_axes(cells)
    return priced[0] if axis.key == SECONDS and priced else axis
