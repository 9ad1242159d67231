"""The table of answers says what `ideal` says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pbcore.ceilings.table import TableDenoiser, fits
from pbcore.tasks.registry import load_task
from pbcore.theory import answer_distribution
from pbcore.theory.canvas import MASKED


@pytest.mark.parametrize(
    "name",
    [
        "waiting_line/shuffle",
        "waiting_line/insert_random",
        "list_ops/shuffle",
        "puzzle/latin_square",
    ],
)
def test_marginals_on_random_canvases(name: str) -> None:
    """Consistent and contradictory ones alike: impossible tokens are skipped from the left."""
    distribution = answer_distribution(load_task(name, limit=1).samples[0])
    table = TableDenoiser(distribution)
    rng = np.random.default_rng(0)
    answers = np.array(sorted(table.answers))
    for _ in range(40):
        answer = np.array(answers[rng.integers(len(answers))])
        other = np.array(answers[rng.integers(len(answers))])
        mixed = np.where(rng.random(len(answer)) < 0.2, other, answer)
        hidden = (rng.random(len(answer)) < 0.5) & (distribution.canvas == MASKED)
        expected = distribution.marginals(np.where(hidden, MASKED, mixed))
        canvas = torch.from_numpy(np.where(hidden, table.mask_id, mixed))[None]
        found = table.marginals(canvas)[0, :, :-1].numpy()
        assert found == pytest.approx(expected, abs=1e-12)


def test_six_people_fit_and_seven_do_not() -> None:
    six, seven = (
        answer_distribution(load_task("waiting_line/shuffle", n=n, limit=1).samples[0])
        for n in (6, 7)
    )
    assert fits(six)
    assert not fits(seven)
    assert len(TableDenoiser(six).answers) == 719
