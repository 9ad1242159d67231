"""Order, remasks and variety of answers, in report.md."""

import pandas as pd

from pbcore.report.frame_table import word_table
from pbcore.report.page.exploration_table import NOTE, exploration_rows


def exploration_section(cells: pd.DataFrame) -> str:
    """The section; empty where no cell has more than one seed, remasks or a law to compare with."""
    rows = exploration_rows(cells)
    if not rows:
        return ""
    text = word_table(list(rows[0]), (row.values() for row in rows))
    return f"## Order, remasks and variety of the answers\n\n{text}\n\n{NOTE}\n"
