"""A cell as reports show it: one row with shares in %, and NaN for what was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import TYPE_CHECKING, Any, TypedDict, cast

from pbcore.base.check import encodable
from pbcore.base.printable import first_line
from pbcore.models.info import ModelInfo
from pbcore.results.measures import MEASURES
from pbcore.results.record import CellRecord
from pbcore.results.table_row import Row, cell_row

if TYPE_CHECKING:
    import pandas as pd

# Shares in a record's row, and their names in % here; other numbers, under the same names.
SHARES = {"score": "score", "score_low": "low", "score_high": "high"}
SHARES |= {"ceiling_low": "ceiling_low", "ceiling_high": "ceiling_high"}
SHARES |= {measure.key: measure.key for measure in MEASURES if measure.percent}
NUMBERS = ("n", *(measure.key for measure in MEASURES if not measure.percent))
NAMES = ("id", "model", "task", "category", "sampler", "status")


class TaskRow(TypedDict):
    """A sampler on one task, as trade-off tables show it: the score with its 95 % interval in %,
    and every number of `measures` that scores are shown with. NaN is what was not measured;
    `status` is that of the cell, or `absent` where it was not run.
    """

    id: str
    status: str
    error: str
    score: float
    low: float
    high: float
    tokens_per_step: float
    tokens_per_forward: float
    tokens_per_row: float


class CellRow(TaskRow):
    """A cell: all that `table_row.cell_row` has of it, None where its record doesn't say it; but
    `n` and every number of `measures` is NaN where it wasn't measured, and those that are shares
    are in %, as the score is. `error` is the first line of its `cause`, empty where it ran.
    """

    model: str
    task: str
    category: str
    sampler: str
    cause: str
    headline: str
    n: float
    nfe: float
    rows: float
    seconds: float
    forwards_computed: float
    ceiling: float
    ceiling_low: float
    ceiling_high: float
    gap: float
    bits_lost: float
    seconds_per_answer: float
    absent: Mapping[str, str] | None  # metric → why
    at_once: int | None
    ceiling_kind: str | None
    data_hash: str | None
    data_source: str | None
    decoding: Mapping[str, Any] | None
    device: str | None
    dtype: str | None
    dummy: bool | None
    failures: Mapping[str, int] | None
    length: str | None
    model_info: ModelInfo | None
    options: Mapping[str, Any] | None
    prompts: str | None
    seeds: str | None
    served: Any
    shared_device: bool | None


def cell_rows(cells: Iterable[CellRecord]) -> list[CellRow]:
    """The rows of records."""
    rows = []
    for cell in cells:
        flat = {encodable(key): encodable(value) for key, value in cell_row(cell).items()}
        rows.append(_row(flat))
    return rows


def frame_rows(cells: pd.DataFrame) -> list[CellRow]:
    """The rows of a frame of `results.load`, as published tables are."""
    rows = []
    for record in cells.to_dict("records"):
        rows.append(_row({str(key): _known(value) for key, value in record.items()}))
    return rows


def _known(value: Any) -> Any:
    """A frame's entry; None where it has none."""
    import pandas as pd

    return value if isinstance(value, Mapping | list) or not pd.isna(value) else None


def _row(flat: Row) -> CellRow:
    row = dict(flat)
    cause = ""
    if flat["status"] != "ok":
        cause = str(flat["error"] or "no cause recorded")
    row |= {name: str(flat[name]) for name in NAMES}
    row["error"] = first_line(cause)
    row["cause"] = cause
    row["headline"] = flat["headline"] or ""
    for name in NUMBERS:
        row[name] = or_nan(flat[name])
    for share, percent in SHARES.items():
        row[percent] = 100 * or_nan(flat[share])
    row["seconds_per_answer"] = row["seconds"] / row["n"] if row["n"] else nan
    return cast(CellRow, row)


def scored(rows: Iterable[CellRow]) -> list[CellRow]:
    """Those that ran and have a score."""
    return [row for row in rows if row["status"] == "ok" and not isnan(row["score"])]


def undummied(rows: Iterable[CellRow]) -> list[CellRow]:
    """Those of no dummies, models with random weights."""
    return [row for row in rows if not row["dummy"]]


def or_nan(value: float | None) -> float:
    """A number for arithmetic and plots; NaN for what was not measured."""
    return nan if value is None else float(value)


def is_missing(value: float | None) -> bool:
    """Whether a number wasn't measured."""
    return value is None or isnan(value)
