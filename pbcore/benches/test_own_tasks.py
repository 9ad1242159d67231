"""Tasks of your own: those of `--tasks FILE` whose category is none of the other files'."""

import pytest


@pytest.mark.cells
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records: a wrong answer is data, which gates and
    --per-sample judge.
    """
    cell.measure(model, task, benchmark)
