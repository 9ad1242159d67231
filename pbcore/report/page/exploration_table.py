"""The page's table of order, remasks and variety of answers, which accuracy and steps don't show; report.md has the
same words.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pbcore.report.page.svg import text
from pbcore.report.page.tables import html_table, words
from pbcore.tasks.naming import short

HEAD = (
    *("task", "model", "sampler", "τ", "remasks", "same token again", "texts / seed", "pass@k"),
    *("TV of transitions", "TV of places or visits", "bits (exact)"),
)
NOTE = (
    "τ: Kendall's τ-b between position and step, 1 is left to right. Remasks per answer, and the share after which the "
    "same token came back (2602.06161). Texts / seed: different answers to a question over its seeds; pass@k: at least "
    "one of k seeds is right (unbiased, 2107.03374). TV: total variation between the answers and the exact law, in "
    "brackets that of as many exact draws; transitions and visits of walks (2606.22976), places of the items of right "
    "lists. Bits: entropy per transition of walks, of right answers for lists, and that of exact draws."
)
NONE = "–"
OWN = ("pass_at", "flip_flops", "law")  # a cell with none of them has no row


def exploration_rows(cells: pd.DataFrame) -> list[dict[str, str]]:
    """A row per cell with more than one seed, remasks or a law to compare with; without columns that are empty."""
    told = cells.to_dict("records") if "decoding" in cells else []
    rows = [
        dict(zip(HEAD, _row(str(one["task"]), str(one["model"]), str(one["sampler"]), one["decoding"]), strict=True))
        for one in told
        if isinstance(one["decoding"], Mapping) and any(name in one["decoding"] for name in OWN)
    ]
    used = [name for name in HEAD if any(row[name] != NONE for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def exploration_table(cells: pd.DataFrame) -> str:
    """The part of the page with the table; empty without rows."""
    rows = exploration_rows(cells)
    if not rows:
        return ""
    table = html_table([words(name, name) for name in rows[0]], rows, "order, remasks and variety of the answers")
    return f'<section><h2>Order and variety</h2>{table}<p class="note">{text(NOTE, 1000)}</p></section>'


def _row(task: str, model: str, sampler: str, told: Mapping[str, Any]) -> list[str]:
    law = told.get("law", {})
    passed = told.get("pass_at", {})
    return [
        *(short(task), model, sampler),
        _number(told.get("kendall"), ".2f"),
        _number(told.get("remasks"), ".2f"),
        _number(told.get("flip_flops"), ".0%"),
        _number(told.get("distinct"), ".2f"),
        ", ".join(f"{k}: {100 * value:.0f} %" for k, value in passed.items()) or NONE,
        _beside(law.get("kernel"), law.get("kernel_by_chance"), ".3f"),
        _beside(law.get("places", law.get("stationary")), law.get("places_by_chance"), ".3f"),
        _beside(law.get("entropy"), law.get("entropy_exact"), ".2f"),
    ]


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _beside(value: float | None, exact: float | None, form: str) -> str:
    return _number(value, form) + ("" if exact is None else f" ({exact:{form}})")
