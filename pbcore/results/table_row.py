"""A cell as one flat row, and as the properties of pytest reports, JUnit files and pytest-benchmark
JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from pbcore.base.check import encodable, plain
from pbcore.results import record
from pbcore.results.measures import BY_KEY, MEASURES
from pbcore.results.packed import packed
from pbcore.results.record import BlameShares, CellRecord, Score
from pbcore.tasks.naming import PAPER_TASKS, REWRITE, category
from pbcore.theory.ceiling import Ceiling

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]  # of any table: what its columns show, by their keys
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
RATES = tuple(measure.key for measure in MEASURES if measure.kind != "theory")
SERVED: tuple[str, ...] = getattr(record.part_class(), "COLUMNS", ())
THEORY = ("ceiling", "ceiling_low", "ceiling_high", "gap", "bits_lost")
# Of wrong answers (--blame), as shares of all answers.
BLAME = (
    "net_loss",
    "lost_together",
    "lost_together_low",
    "lost_together_high",
    "lost_token",
    "lost_undecided",
    "gained",
    "model_errors",
    "blame_forwards",
    "blame_seconds",
)
# Fields of a record that a row has as they are.
_FACTS = ("error", "absent", "failures", "decoding", "text_after_eos", "unclosed_think")
CONDITIONS = (*_FACTS, "served", "ceiling_kind", *record.CONDITIONS)


def cell_row(cell: CellRecord) -> dict[str, Any]:
    """One cell as a flat row: identity, headline score, every score with `_low` and `_high`, rates,
    conditions. `n` is the number of samples, `length` the values of n among them, `prompts` the
    source of the questions (`v1`, the paper's; `rewrite-2026`; `own` for other tasks), `nfe` and
    `rows` the means over samples; None: not measured.
    """
    ran = cell.status == "ok"
    headline = cell.scores.get(cell.headline)
    row: dict[str, Any] = {
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
    }
    for name, score in {"score": headline, **cell.scores}.items():
        row |= _interval(name, score)
    for name in RATES:
        row[name] = cell_rate(cell, name) if ran else None
    row |= _served_columns(cell)
    row |= _interval("ceiling", cell.ceiling)
    row["gap"] = None
    if cell.ceiling is not None and headline is not None:
        row["gap"] = cell.ceiling.mean - headline.mean
    row["bits_lost"] = cell.bits_lost
    row |= _blame_columns(cell.blame)
    row["ceiling_kind"] = None if cell.ceiling is None else cell.ceiling.kind
    for name in _FACTS:
        row[name] = getattr(cell, name)
    for name in record.CONDITIONS:
        row[name] = getattr(cell.conditions, name)
    row["served"] = asdict(cell.served) if is_dataclass(cell.served) else cell.served
    row["seeds"] = ",".join(map(str, cell.conditions.seeds))
    row["text_after_eos"] = cell.text_after_eos if ran else None
    row["unclosed_think"] = cell.unclosed_think if ran else None
    return row


def _prompts(cell: CellRecord) -> str:
    """The source of a cell's questions."""
    if cell.conditions.data_source == REWRITE:
        return REWRITE
    return "v1" if cell.task in PAPER_TASKS else "own"


def _interval(name: str, score: Score | Ceiling | None) -> dict[str, float | None]:
    """The three columns of a mean with its interval, all None without one."""
    if score is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: score.mean, f"{name}_low": score.low, f"{name}_high": score.high}


def _blame_columns(blame: BlameShares | None) -> dict[str, float | None]:
    """The columns BLAME, None without blame."""
    if blame is None:
        return dict.fromkeys(BLAME)
    known = blame.reference is not None
    return {
        "net_loss": blame.net_loss,
        **_interval("lost_together", blame.together),
        "lost_token": blame.token.mean,
        "lost_undecided": blame.undecided.mean,
        "gained": blame.gained.mean if known else None,
        "model_errors": blame.model.mean if known else None,
        "blame_forwards": blame.forwards,
        "blame_seconds": blame.seconds,
    }


def _served_columns(cell: CellRecord) -> dict[str, float | None]:
    """The columns SERVED, None where the model doesn't answer elsewhere."""
    if cell.served is None or isinstance(cell.served, dict):
        return dict.fromkeys(SERVED)
    return dict(zip(SERVED, cell.served.columns(), strict=True))


def cell_rate(cell: CellRecord, name: str) -> float | None:
    """A cell's column of RATES."""
    measure = BY_KEY[name]
    value: float | None = getattr(cell, measure.field or name)
    if value is None and measure.before:
        return cell_rate(cell, measure.before)
    return value


def frame(cells: Iterable[CellRecord]) -> pd.DataFrame:
    """A DataFrame with a row per cell, in the given order; columns as in `cell_row`, missing
    numbers NaN. Lone surrogates are written out (`\\udc80`): pandas can't hold them.
    """
    import pandas as pd  # imported at first use: writing a cell's record doesn't need it

    rows = []
    for cell in cells:
        row = cell_row(cell)
        rows.append({encodable(name): encodable(value) for name, value in row.items()})
    measures = (*RATES, *SERVED, *THEORY, *BLAME)
    known_names = {*COLUMNS, *measures, *CONDITIONS}
    # A dict, as a set that keeps the order.
    scores: dict[str, None] = {}
    for row in rows:
        scores |= dict.fromkeys(name for name in row if name not in known_names)
    numbers = ("score", "score_low", "score_high", *scores, *measures)
    types: dict[str, Any] = dict.fromkeys(numbers, "float64")
    # Nullable: unknown for a cell that failed early.
    types |= {"n": "int64", "shared_device": "boolean", "dummy": "boolean"}
    # Each has its type from the start: pandas takes several times as long to change it later.
    columns: dict[str, Any] = {}
    for name in (*COLUMNS, *scores, *measures, *CONDITIONS):
        values = [row.get(name) for row in rows]
        if name in types or not rows:
            columns[name] = pd.array(values, dtype=types.get(name, "object"))
        else:
            columns[name] = values  # of the type that pandas takes for them
    return pd.DataFrame(columns)


def properties(cell: CellRecord) -> list[tuple[str, Any]]:
    """(name, value) pairs for `user_properties`, `record_property` and `extra_info`: what the cell
    is, its score and what it cost, for people; then the whole record, packed, under `pbcore_record`
    for `pbcore.results.load`. What was not measured is left out. Exact builtins only.
    """
    row = cell_row(cell)
    facts = {
        "model": row["model"],
        "task": row["task"],
        "sampler": row["sampler"],
        "score": _rounded(row["score"]),
        "interval": None,
        "forwards": _rounded(row["nfe"]),
        "seconds": _rounded(row["seconds"]),
    }
    if row["score_low"] is not None and row["score_high"] is not None:
        facts["interval"] = f"{row['score_low']:.3f}–{row['score_high']:.3f}"
    pairs: list[tuple[str, Any]] = []
    for name, value in facts.items():
        # xdist can't send lone surrogates, which texts may hold.
        sent = encodable(plain(value, name))
        if sent is not None:
            pairs.append((name, sent))
    pairs.append((RECORD_PROPERTY, packed(plain(cell.to_json(), f"record of {cell.id}"))))
    return pairs


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
