"""A figure with its data: a CSV beside each PNG."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pbcore.results.rundir import write_atomic

Row = dict[str, Any]  # a line of a CSV
Point = tuple[float, float, float, float]  # x, y, low, high


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its data: `rows` become the CSV, `said` the lines on the terminal."""

    name: str
    figure: Figure
    rows: Sequence[Row]
    said: str = ""


def write(drawing: Drawing, folder: Path) -> list[Path]:
    """Writes `<name>.png` and `<name>.csv`; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{drawing.name}.png"
    drawing.figure.savefig(picture)
    return [picture, write_csv(drawing.rows, folder / f"{drawing.name}.csv")]


def write_csv(rows: Sequence[Row], path: Path) -> Path:
    """Rows as CSV, the columns in order of appearance; floats with six digits, None empty."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(dict.fromkeys(column for row in rows for column in row)), lineterminator="\n")
    table.writeheader()
    table.writerows({key: f"{v:.6g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    return write_atomic(path, text.getvalue())
