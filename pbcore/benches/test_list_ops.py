"""Operations on lists of single symbols with pre-filled brackets and commas: what the paper's
Section 4 analyses.

For these the accuracy of the ideal model is known in closed form, so a cell of `ideal` fails where
it is not met.
"""

import math

import pytest


@pytest.mark.cells("list_ops")
def test_cell(cell, model, task, benchmark):
    """Decodes under the clock, scores off it, records; then holds `ideal` to the theory."""
    scored = cell.measure(model, task, benchmark)
    if model.name == "ideal" and cell.name.sample is None:
        right = sum(result.scores["accuracy"] for result in scored)
        expected, spread = expectation(
            task, cell.name.sampler, seeds=len(scored) // len(task.samples)
        )
        assert abs(right - expected) <= 5 * spread + 1e-9, (
            f"{right:g} right of {len(scored)}, theory says {expected:.2f} ± {spread:.2f}"
        )


def expectation(task, sampler, seeds):
    """Expected number of right answers and its standard deviation, infinite where theory has no
    closed form.

    Args:
        task: with its samples.
        sampler: its name.
        seeds: how many times each sample is answered.
    """
    from pbcore.theory import accuracy

    try:
        chances = [accuracy(task.kind, sample.length, sampler) for sample in task.samples] * seeds
    except ValueError:
        return 0.0, math.inf
    return sum(chances), math.sqrt(sum(chance * (1 - chance) for chance in chances))
