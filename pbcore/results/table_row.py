"""A cell as one flat row, and as the properties of pytest reports, JUnit files and pytest-benchmark JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pbcore.results import record
from pbcore.results.json_values import encodable, plain
from pbcore.results.record import CellRecord
from pbcore.tasks.naming import PAPER_TASKS, REWRITE, category

if TYPE_CHECKING:
    import pandas as pd

RECORD_PROPERTY = "pbcore_record"
COLUMNS = (
    "id",
    "model",
    "task",
    "category",
    "sampler",
    "status",
    "n",
    "length",
    "prompts",
    "headline",
    "score",
    "score_low",
    "score_high",
)
RATES = (
    "nfe",
    "nfe_median",
    "nfe_max",
    "rows",
    "tokens_per_step",
    "tokens_per_row",
    "tokens_per_forward",
    "seconds",
    "samples_per_second",
    "tokens_per_second",
    "peak_memory_bytes",
    "seconds_estimated",
    "forwards_shared",
    "forwards_computed",
)
SERVED: tuple[str, ...] = getattr(record.part_class(), "COLUMNS", ())
THEORY = ("ceiling", "ceiling_low", "ceiling_high", "gap", "bits_lost")
_FIELDS = {"nfe": "nfe_mean", "rows": "rows_mean"}
_BEFORE_ROWS = {"rows": "nfe", "tokens_per_row": "tokens_per_step"}  # equal in records from before rows were counted
CONDITIONS = (
    "error",
    "absent",
    "failures",
    "decoding",
    "text_after_eos",
    "served",
    "ceiling_kind",
    *record.CONDITIONS,
)


def row(cell: CellRecord) -> dict[str, Any]:
    """One cell as a flat row: identity, headline score, every score with `_low` and `_high`, rates, conditions.

    `n` is the number of samples, `length` the values of n among them, `prompts` the source of the questions (`v1`, the
    paper's; `rewrite-2026`; `own` for other tasks), `nfe` and `rows` the means over samples; values that were not
    measured are None (NaN in a DataFrame).
    """
    ran = cell.status == "ok"
    headline = cell.scores.get(cell.headline)
    flat: dict[str, Any] = {
        "id": cell.id,
        "model": cell.model_at,
        "task": cell.task,
        "category": category(cell.task),
        "sampler": cell.sampler,
        "status": cell.status,
        "n": cell.n_samples,
        "length": cell.length,
        "prompts": _prompts(cell),
        "headline": cell.headline,
        "score": headline.mean if headline else None,
        "score_low": headline.low if headline else None,
        "score_high": headline.high if headline else None,
    }
    for name, score in cell.scores.items():
        flat |= {name: score.mean, f"{name}_low": score.low, f"{name}_high": score.high}
    flat |= {name: rate(cell, name) if ran else None for name in RATES}
    told = cell.served
    values = [None] * len(SERVED) if told is None or isinstance(told, dict) else told.columns()
    flat |= dict(zip(SERVED, values, strict=True))
    flat |= theory(cell)
    flat |= {name: getattr(cell, name) for name in CONDITIONS if name not in (*record.CONDITIONS, "ceiling_kind")}
    flat["served"] = record.part_values(told)
    flat |= {name: getattr(cell.conditions, name) for name in record.CONDITIONS}
    return flat | {
        "seeds": ",".join(map(str, cell.conditions.seeds)),
        "text_after_eos": cell.text_after_eos if ran else None,
    }


def rate(cell: CellRecord, name: str) -> float | None:
    """A cell's column of RATES."""
    value: float | None = getattr(cell, _FIELDS.get(name, name))
    return rate(cell, _BEFORE_ROWS[name]) if value is None and name in _BEFORE_ROWS else value


def theory(cell: CellRecord) -> dict[str, Any]:
    """The ceiling with its interval and kind, `gap`, what the headline score lacks to it, and the bits lost."""
    known, score = cell.ceiling, cell.scores.get(cell.headline)
    values = (None,) * 3 if known is None else (known.mean, known.low, known.high)
    gap = None if known is None or score is None else known.mean - score.mean
    kind = None if known is None else known.kind
    return {**dict(zip(THEORY, (*values, gap, cell.bits_lost), strict=True)), "ceiling_kind": kind}


def _prompts(cell: CellRecord) -> str:
    if cell.conditions.data_source == REWRITE:
        return REWRITE
    return "v1" if cell.task in PAPER_TASKS else "own"


def frame(cells: Iterable[CellRecord]) -> pd.DataFrame:
    """A DataFrame with a row per cell, in the given order; columns as in `row`, missing numbers NaN.

    Lone surrogates are written out (`\\udc80`): pandas can't hold them where pyarrow is installed.
    """
    import pandas as pd  # imported at first use: writing a cell's record doesn't need it

    rows = [{encodable(name): _text(value) for name, value in row(cell).items()} for cell in cells]
    known_names = (*COLUMNS, *RATES, *SERVED, *THEORY, *CONDITIONS)
    scores = dict.fromkeys(name for entry in rows for name in entry if name not in known_names)
    table = pd.DataFrame(rows, columns=[*COLUMNS, *scores, *RATES, *SERVED, *THEORY, *CONDITIONS])
    numeric = ["n", "score", "score_low", "score_high", *scores, *RATES, *SERVED, *THEORY]
    known = dict.fromkeys(("shared_device", "dummy"), "boolean")  # nullable: unknown for a cell that failed early
    return table.astype(dict.fromkeys(numeric, "float64")).astype({"n": "int64", **known})


def _text(value: Any) -> Any:
    return encodable(value) if isinstance(value, str) else value


def properties(cell: CellRecord) -> list[tuple[str, Any]]:
    """(name, value) pairs for `user_properties`, `record_property` and `extra_info`: the flat row for readers and other
    tools, then the whole record as JSON under `pbcore_record` for `pbcore.results.load`. Exact builtins only."""
    scalars = [(name, value) for name, value in row(cell).items() if value is not None and not isinstance(value, dict)]
    return [
        *plain_pairs(scalars),
        (
            RECORD_PROPERTY,
            json.dumps(plain(cell.to_json(), f"record of {cell.id}"), ensure_ascii=True).replace("\x7f", "\\u007f"),
        ),
    ]


def plain_pairs(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The pairs with their values as exact builtins, and lone surrogates in texts, which xdist can't send, as
    `\\udc80`.
    """
    values = [(str(name), plain(value, name)) for name, value in pairs]
    return [(name, _text(value)) for name, value in values]
