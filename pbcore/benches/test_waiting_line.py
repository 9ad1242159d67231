"""Waiting line: ten operations on a list of people (paper, Section 5, prompts in Table 3)."""

import pytest


@pytest.mark.cells("waiting_line")
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records: a wrong answer is data, which gates and
    --per-sample judge.
    """
    cell.measure(model, task, benchmark)
