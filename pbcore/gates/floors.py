"""Absolute floors: `"tiny/copy/* accuracy>=0.98"`."""

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase

from pbcore.errors import InputError
from pbcore.printable import shown
from pbcore.results.record import CellRecord
from pbcore.results.table_row import row

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
        return (
            f"{self.cells}"
            f" {self.metric}{self.sign}{format(Decimal(repr(self.value)), 'f').removesuffix('.0')}"
        )


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
    value = Decimal(match["value"]) / (
        100 if match["percent"] else 1
    )  # as floats, 57.1 / 100 is more than 0.571
    return Floor(match["cells"], match["metric"], match["sign"], float(value))


def broken_floors(floors: Iterable[Floor], cells: Iterable[CellRecord]) -> list[tuple[str, str]]:
    """(cell id or pattern, reason) for each violated floor; a floor is also violated if no cell
    matches it or a cell lacks its metric.
    """
    broken = []
    rows = {cell.id: (row(cell), {"score", *cell.scores}) for cell in cells}
    for floor in floors:
        matching = [name for name in sorted(rows) if fnmatchcase(name, floor.cells)]
        found = [] if matching else [(floor.cells, "no cell of the run matches")]
        for name in matching:
            value = rows[name][0].get(floor.metric)
            shares = rows[name][1]
            if not isinstance(value, (int, float)):
                found.append((name, f"{floor.metric} was not measured"))
            elif floor.metric in shares and floor.value > 1:
                found.append(
                    (name, f"{floor.metric} is a share from 0 to 1; write {floor.value:g}%")
                )
            elif not _SIGNS[floor.sign](value, floor.value):
                found.append((name, f"{floor.metric} is {value:.4g}"))
        broken += [(name, f"{reason} (floor '{floor}')") for name, reason in found]
    return broken
