"""Order, remasks and variety of answers, in report.md."""

from __future__ import annotations

import pandas as pd
from tabulate import tabulate

from pbcore.report.page.exploration_table import NOTE, exploration_rows
from pbcore.text import NAME, md


def exploration_section(cells: pd.DataFrame) -> str:
    """The section; empty where no cell has more than one seed, remasks or a law to compare with."""
    rows = exploration_rows(cells)
    if not rows:
        return ""
    lines = [[md(word, NAME) for word in row.values()] for row in rows]
    text = tabulate(lines, list(rows[0]), tablefmt="github", disable_numparse=True)
    return f"## Order, remasks and variety of the answers\n\n{text}\n\n{NOTE}\n"
