"""What changes with a run's factors, in report.md and on the terminal."""

from collections.abc import Sequence

from pbcore.analysis.factors import FactorChange
from pbcore.report.frame_table import word_table
from pbcore.report.page.factor_table import HEAD, NOTE, row


def factor_section(changes: Sequence[FactorChange]) -> str:
    """The section of report.md and of `pbcore vary`; empty for a run without factors."""
    if not changes:
        return ""
    text = word_table(HEAD, map(row, changes))
    return f"## What changes with each factor\n\n{text}\n\n{NOTE}\n"
