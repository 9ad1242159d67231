"""Waiting line: ten operations on a list of people (paper, Section 5, prompts in Table 3)."""

import pytest


@pytest.mark.cells("waiting_line")
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records.

    A wrong answer is data, not a failure: gates and --per-sample judge.
    """
    cell.measure(model, task, benchmark)
