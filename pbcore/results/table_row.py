"""A cell as one flat row, and as the properties of pytest reports, JUnit files and pytest-benchmark
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from pbcore.results import record
from pbcore.results.check import encodable, plain
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
    "tokens_forwarded",
    "tokens_prefilled",
    "tokens_padded",
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
# Equal in records from before rows were counted.
_BEFORE_ROWS = {"rows": "nfe", "tokens_per_row": "tokens_per_step"}
# A record's fields, as they are.
_FACTS = ("error", "absent", "failures", "decoding", "text_after_eos")
CONDITIONS = (*_FACTS, "served", "ceiling_kind", *record.CONDITIONS)


def cell_row(cell: CellRecord) -> dict[str, Any]:
    """One cell as a flat row: identity, headline score, every score with `_low` and `_high`, rates,
    conditions. `n` is the number of samples, `length` the values of n among them, `prompts` the
    source of the questions (`v1`, the paper's; `rewrite-2026`; `own` for other tasks), `nfe` and
    `rows` the means over samples; None: not measured.
    """
    ran = cell.status == "ok"
    headline = cell.scores.get(cell.headline)
    part = cell.served
    rewrite = cell.conditions.data_source == REWRITE
    flat: dict[str, Any] = {
        "id": cell.id,
        "model": cell.model_at,
        "task": cell.task,
        "category": category(cell.task),
        "sampler": cell.sampler,
        "status": cell.status,
        "n": cell.n_samples,
        "length": cell.length,
        "prompts": REWRITE if rewrite else "v1" if cell.task in PAPER_TASKS else "own",
        "headline": cell.headline,
    }
    for name, score in {"score": headline, **cell.scores}.items():
        means = (None,) * 3 if score is None else (score.mean, score.low, score.high)
        flat |= dict(zip((name, f"{name}_low", f"{name}_high"), means, strict=True))
    flat |= {name: cell_rate(cell, name) if ran else None for name in RATES}
    served = (None,) * len(SERVED) if part is None or isinstance(part, dict) else part.columns()
    flat |= dict(zip(SERVED, served, strict=True))
    known = cell.ceiling
    ceiling = (None,) * 3 if known is None else (known.mean, known.low, known.high)
    gap = None if known is None or headline is None else known.mean - headline.mean
    flat |= dict(zip(THEORY, (*ceiling, gap, cell.bits_lost), strict=True))
    flat["ceiling_kind"] = None if known is None else known.kind
    flat |= {name: getattr(cell, name) for name in _FACTS}
    flat |= {name: getattr(cell.conditions, name) for name in record.CONDITIONS}
    return flat | {
        "served": asdict(part) if is_dataclass(part) else part,
        "seeds": ",".join(map(str, cell.conditions.seeds)),
        "text_after_eos": cell.text_after_eos if ran else None,
    }


def cell_rate(cell: CellRecord, name: str) -> float | None:
    """A cell's column of RATES."""
    value: float | None = getattr(cell, _FIELDS.get(name, name))
    return cell_rate(cell, _BEFORE_ROWS[name]) if value is None and name in _BEFORE_ROWS else value


def frame(cells: Iterable[CellRecord]) -> pd.DataFrame:
    """A DataFrame with a row per cell, in the given order; columns as in `cell_row`, missing
    numbers NaN. Lone surrogates are written out (`\\udc80`): pandas can't hold them.
    """
    import pandas as pd  # imported at first use: writing a cell's record doesn't need it

    rows = [
        {encodable(name): encodable(value) for name, value in cell_row(cell).items()}
        for cell in cells
    ]
    known_names = (*COLUMNS, *RATES, *SERVED, *THEORY, *CONDITIONS)
    scores = dict.fromkeys(name for entry in rows for name in entry if name not in known_names)
    table = pd.DataFrame(rows, columns=[*COLUMNS, *scores, *RATES, *SERVED, *THEORY, *CONDITIONS])
    numeric = ["n", "score", "score_low", "score_high", *scores, *RATES, *SERVED, *THEORY]
    # They are unknown for a cell that failed early.
    nullable = dict.fromkeys(("shared_device", "dummy"), "boolean")
    return table.astype(dict.fromkeys(numeric, "float64")).astype({"n": "int64", **nullable})


def properties(cell: CellRecord) -> list[tuple[str, Any]]:
    """(name, value) pairs for `user_properties`, `record_property` and `extra_info`: the flat row,
    then the whole record as JSON under `pbcore_record` for `pbcore.results.load`. Exact builtins
    only.
    """
    # xdist can't send lone surrogates, which texts may hold.
    pairs = [
        (name, encodable(plain(value, name)))
        for name, value in cell_row(cell).items()
        if not isinstance(value, dict)
    ]
    whole = json.dumps(plain(cell.to_json(), f"record of {cell.id}"), ensure_ascii=True).replace(
        "\x7f", "\\u007f"
    )
    return [
        *((name, value) for name, value in pairs if value is not None),
        (RECORD_PROPERTY, whole),
    ]
