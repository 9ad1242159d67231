"""`pbcore explain --published`: a published number as one side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pbcore.base.errors import InputError
from pbcore.extras.paper.explained import of_published
from pbcore.extras.paper.published import figures
from tests.explain.test_sides import TASK, explained, side


def test_a_published_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own setting is measured here; the rest between that and the number is not explained."""
    first = replace(side("confidence-k1", [1, 1, 1, 0]), name="mine")
    theirs = of_published(first, "LLaDA", "confidence-k2")
    table = figures()
    row = table[(table["model"] == "LLaDA") & (table["task"] == TASK)]
    assert theirs.means == {TASK: pytest.approx(float(row["score"].iloc[0]))}
    here = {"confidence-k1": [1.0, 1, 1, 0], "confidence-k2": [1.0, 0, 0, 0]}
    found, _ = explained(first, theirs, here, monkeypatch)
    assert found.gap.points == pytest.approx(100 * (theirs.means[TASK] - 0.75))
    assert found.shares[0].part.points == pytest.approx(-50)
    assert found.unexplained is not None
    parts = found.shares[0].part.points + found.unexplained.points
    assert parts == pytest.approx(found.gap.points)
    assert np.isnan(found.gap.low)  # the number has no answers to resample
    assert any("published" in note for note in found.unmeasured)


@pytest.mark.parametrize(
    ("model", "sampler", "said"),
    [
        ("LLaDA", "random-k2", "no random-k2 for these tasks; name one of confidence-k2"),
        ("Llama 3.1 8B", "confidence-k2", "its sampler isn't stated"),
        ("nobody", None, "there are"),
    ],
)
def test_published_numbers_that_are_not_there(model: str, sampler: str | None, said: str) -> None:
    """What there is, is named."""
    with pytest.raises(InputError, match=said):
        of_published(side("confidence-k2", [1, 0]), model, sampler)
