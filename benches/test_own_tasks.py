"""Tasks of your own: those of `--tasks FILE` whose category is none of the other files'."""

import pytest


@pytest.mark.cells
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records. A wrong answer is data, not a failure: gates and --per-sample judge."""
    answers = benchmark.pedantic(cell.decode, args=(model, task.samples), rounds=cell.rounds)
    scored = task.score_many([answer.text for answer in answers], task.samples)
    cell.record(model, task, answers, scored, benchmark)
