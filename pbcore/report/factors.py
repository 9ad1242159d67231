"""What changes with a run's factors, in report.md and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from pbcore.analysis.factors import FactorChange
from pbcore.report.page.factor_table import HEAD, NOTE, row
from pbcore.text import NAME, md


def factor_section(changes: Sequence[FactorChange]) -> str:
    """The section of report.md and of `pbcore vary`; empty for a run without factors."""
    if not changes:
        return ""
    text = tabulate(
        [[md(word, NAME) for word in row(one)] for one in changes], HEAD, tablefmt="github", disable_numparse=True
    )
    return f"## What changes with each factor\n\n{text}\n\n{NOTE}\n"
