"""Absolute floors: `"tiny/copy/* accuracy>=0.98"`."""

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase

from pbcore.base.errors import InputError
from pbcore.base.printable import shown
from pbcore.results.record import CellRecord
from pbcore.results.table_row import cell_row

_TEXT = re.compile(
    r"\s*(?P<cells>\S+)\s+(?P<metric>[a-z][a-z0-9_]*)\s*"
    r"(?P<sign>>=|<=|>|<)\s*(?P<value>[0-9]{1,15}(?:\.[0-9]{1,20})?)\s*(?P<percent>%?)\s*"
)
_SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True, slots=True)
class Floor:
    """A requirement: in all cells whose id matches `cells` (shell pattern), `metric` (a score, nfe,
    tokens_per_step …) `sign` `value`.
    """

    cells: str
    metric: str
    sign: str
    value: float

    def __str__(self) -> str:
        """The floor as it can be parsed, with every digit of its value."""
        digits = format(Decimal(repr(self.value)), "f").removesuffix(".0")
        return f"{self.cells} {self.metric}{self.sign}{digits}"


def parse_floor(text: str) -> Floor:
    """Parses `PATTERN METRIC>=VALUE`; the value may be a percentage. Raises InputError that shows
    the form.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InputError(
            f"floor {shown(text)} can't be parsed; give a cell id pattern, a metric, >= > <= or <,"
            " and a number: 'tiny/copy/* accuracy>=0.98'"
        )
    value = Decimal(match["value"])  # as floats, 57.1 / 100 is more than 0.571
    if match["percent"]:
        value /= 100
    return Floor(match["cells"], match["metric"], match["sign"], float(value))


def broken_floors(floors: Iterable[Floor], cells: Iterable[CellRecord]) -> list[tuple[str, str]]:
    """(cell id or pattern, reason) for each violated floor; a floor is also violated if no cell
    matches it or a cell lacks its metric.
    """
    by_id = {cell.id: cell for cell in cells}
    broken = []
    for floor in floors:
        matching = [name for name in sorted(by_id) if fnmatchcase(name, floor.cells)]
        if not matching:
            broken.append((floor.cells, f"no cell of the run matches (floor '{floor}')"))
        for name in matching:
            reason = _violation(floor, by_id[name])
            if reason:
                broken.append((name, f"{reason} (floor '{floor}')"))
    return broken


def _violation(floor: Floor, cell: CellRecord) -> str:
    """How a cell violates a floor; empty if it keeps it."""
    value = cell_row(cell).get(floor.metric)
    if not isinstance(value, (int, float)):
        return f"{floor.metric} was not measured"
    is_share = floor.metric == "score" or floor.metric in cell.scores
    if is_share and floor.value > 1:
        return f"{floor.metric} is a share from 0 to 1; write {floor.value:g}%"
    if not _SIGNS[floor.sign](value, floor.value):
        return f"{floor.metric} is {value:.4g}"
    return ""
