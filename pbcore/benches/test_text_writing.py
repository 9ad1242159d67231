"""Text writing: summaries, paraphrases and sentences from given words (paper, Section 5, prompts in Table 3)."""

import pytest


@pytest.mark.cells("text_writing")
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records.

    A wrong answer is data, not a failure: gates and --per-sample judge.
    """
    cell.measure(model, task, benchmark)
