"""Operations on lists of single symbols with pre-filled brackets and commas: what the paper's Section 4 analyses."""

import pytest


@pytest.mark.cells("list_ops")
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records. A wrong answer is data, not a failure: gates and --per-sample judge."""
    answers = benchmark.pedantic(cell.decode, args=(model, task.samples), rounds=cell.rounds)
    scored = task.score_many([answer.text for answer in answers], task.samples)
    cell.record(model, task, answers, scored, benchmark)
