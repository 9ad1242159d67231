"""What changes with a run's factors, in report.md and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from pbcore.analysis.factors import FactorChange, factor_changes
from pbcore.report.page.factor_table import HEAD, NOTE, row
from pbcore.report.page.write import answers_of
from pbcore.text import NAME, md


def factors_of_runs(cells: pd.DataFrame, sources: Sequence[Path]) -> list[FactorChange]:
    """The changes by each factor of the cells of a frame, from those of its sources that are run directories."""
    varied = cells["level"].notna() | cells["at_once"].notna() | cells["seeds"].str.contains(",", na=False)
    return factor_changes(answers_of(cells[varied], sources)) if varied.any() else []


def factor_section(changes: Sequence[FactorChange]) -> str:
    """The section of report.md and of `pbcore vary`; empty for a run without factors."""
    if not changes:
        return ""
    text = tabulate(
        [[md(word, NAME) for word in row(one)] for one in changes], HEAD, tablefmt="github", disable_numparse=True
    )
    return f"## What changes with each factor\n\n{text}\n\n{NOTE}\n"
