"""A cell as reports show it: one row with shares in %, and NaN for what was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import Any, TypedDict, cast

import pandas as pd

from pbcore.base.printable import first_line
from pbcore.results.measures import MEASURES

# Columns of shares, and their names in % in a row; those of other numbers, under the same names.
SHARES = {"score": "score", "score_low": "low", "score_high": "high"}
SHARES |= {"ceiling_low": "ceiling_low", "ceiling_high": "ceiling_high"}
SHARES |= {measure.key: measure.key for measure in MEASURES if measure.percent}
NUMBERS = ("n", *(measure.key for measure in MEASURES if not measure.percent))
NAMES = ("id", "model", "task", "category", "sampler", "status")
# What a row has as the record says it; None where it doesn't.
FACTS = (
    "absent",
    "ceiling_kind",
    "data_source",
    "decoding",
    "device",
    "dtype",
    "dummy",
    "failures",
    "length",
    "model_info",
    "prompts",
    "seeds",
    "served",
    "shared_device",
)
Row = Mapping[str, Any]  # of any table: what its columns show, by their keys


class TaskRow(TypedDict):
    """A sampler on one task, as trade-off tables show it: the score with its 95 % interval in %,
    and its rates. NaN is what was not measured; `status` is that of the cell, or `absent` where it
    was not run.
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
    """A cell, with `n` and every number of `measures` under its key, and what its record says of it
    (FACTS); shares are in %. `error` is the first line of its `cause`, empty where it ran.
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
    absent: Mapping[str, str] | None  # metric → why
    ceiling_kind: str | None
    data_source: str | None
    decoding: Mapping[str, Any] | None
    device: str | None
    dtype: str | None
    dummy: bool | None
    failures: Mapping[str, int] | None
    length: str | None
    model_info: Mapping[str, Any] | None
    prompts: str | None
    seeds: str | None
    served: Any
    shared_device: bool | None


def cell_rows(cells: pd.DataFrame) -> list[CellRow]:
    """The rows of a frame of `results.load`."""
    return [_row(record) for record in cells.to_dict("records")]


def _row(record: Mapping[Any, Any]) -> CellRow:
    cause = ""
    if record["status"] != "ok":
        cause = str(record.get("error") or "no cause recorded")
    row: dict[str, Any] = {name: str(record[name]) for name in NAMES}
    row["error"] = first_line(cause)
    row["cause"] = cause
    row["headline"] = _known(record.get("headline")) or ""
    for name in FACTS:
        row[name] = _known(record.get(name))
    for name in NUMBERS:
        row[name] = or_nan(record.get(name))
    for share, percent in SHARES.items():
        row[percent] = 100 * or_nan(record.get(share))
    return cast(CellRow, row)


def _known(value: Any) -> Any:
    """A frame's entry; None where it has none."""
    return value if isinstance(value, Mapping | list) or not pd.isna(value) else None


def scored(rows: Iterable[CellRow]) -> list[CellRow]:
    """Those that ran and have a score."""
    return [row for row in rows if row["status"] == "ok" and not isnan(row["score"])]


def undummied(rows: Iterable[CellRow]) -> list[CellRow]:
    """Those of no dummies, models with random weights."""
    return [row for row in rows if not row["dummy"]]


def or_nan(value: Any) -> float:
    """A number for arithmetic and plots; NaN for what was not measured."""
    return nan if pd.isna(value) else float(value)
