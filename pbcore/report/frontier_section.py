"""Cells beside the optimal frontier, in report.md."""

from collections.abc import Sequence

from tabulate import tabulate

from pbcore.analysis.frontier_gap import Room
from pbcore.printable import fixed
from pbcore.report.page.frontier_table import KINDS, NOTE
from pbcore.text import NAME, code, md

HEAD = ("model", "sampler", "task", "score [95 % interval]", "steps", "chooses", "best", "gap, points")


def frontier_section(found: Sequence[Room]) -> str:
    """The part of report.md with the table; empty without rows."""
    if not found:
        return ""
    rows = [
        (
            md(one.model, NAME),
            code(one.sampler, NAME, cell=True),
            md(one.task, NAME),
            f"{fixed(100 * one.score)} [{fixed(100 * one.low, 0)}–{fixed(100 * one.high, 0)}]",
            fixed(one.steps, 2),
            KINDS[one.kind],
            "unbounded" if one.best is None else fixed(100 * one.best),
            "–" if one.gap is None else fixed(one.gap),
        )
        for one in found
    ]
    text = tabulate(rows, HEAD, tablefmt="github", disable_numparse=True)
    return f"## Frontier: the best accuracy of independent draws in as many steps, in %\n\n{text}\n\n{NOTE}\n"
