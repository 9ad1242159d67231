"""pbcore.report.story: how a wrong answer came about, step by step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.report.story import trajectory, wrong

MASK, EOS = 0, 1
MODEL: Any = SimpleNamespace(name="m", mask_id=MASK, eos_id=EOS, text=lambda ids: "".join(f"t{i}" for i in ids))


def answer(**facts: Any) -> Any:
    return SimpleNamespace(**{"trajectory": None, "steps": (), "confidences": (), "token_ids": (), "nfe": 3} | facts)


class TestTrajectory:
    def test_each_step_names_its_tokens_and_their_confidence(self) -> None:
        """The end of the answer is one span with its least confidence."""
        canvases = ((0, 0, 0, 0), (5, 0, 0, 0), (5, 6, 1, 1))
        told = trajectory(MODEL, answer(trajectory=canvases, steps=(0, 1, 1, 1), confidences=(0.9, 0.5, 0.75, 0.25)))
        assert list(told) == ["step  0  0 't5' 0.90", "step  1  1 't6' 0.50   2-3 <eos> 0.25"]

    def test_tokens_that_are_masked_again_are_named(self) -> None:
        """A confidence stands only where the token stayed."""
        canvases = ((0, 0), (5, 6), (5, 0), (5, 7))
        told = trajectory(MODEL, answer(trajectory=canvases, steps=(0, 2), confidences=(0.9, 0.8)))
        assert list(told) == ["step  0  0 't5' 0.90   1 't6'", "step  1  masked again: 1", "step  2  1 't7' 0.80"]

    def test_ends_apart_are_listed(self) -> None:
        """A span would claim what lies between."""
        (line,) = trajectory(MODEL, answer(trajectory=((0, 5, 0), (1, 5, 1)), steps=(0, -1, 0)))
        assert line == "step  0  0,2 <eos>"
        (line,) = trajectory(MODEL, answer(trajectory=((0, 5), (1, 5)), steps=(0, -1)))
        assert line == "step  0  0 <eos>"

    def test_without_canvases_the_steps_are_enough(self) -> None:
        """A model that decodes by itself may tell the step of each token, or only its forwards, or nothing."""
        told = trajectory(MODEL, answer(steps=(1, 0), token_ids=(5, 6), confidences=(0.5, 0.25)))
        assert list(told) == ["step  0  1 't6' 0.25", "step  1  0 't5' 0.50"]
        assert list(trajectory(MODEL, answer())) == ["m decodes by itself and does not tell its steps; 3 forwards"]
        assert list(trajectory(MODEL, answer(nfe=None))) == ["m decodes by itself and does not tell its steps"]


@pytest.mark.parametrize(
    ("headline", "score", "is_wrong"),
    [("accuracy", 1.0, False), ("accuracy", 0.0, True), ("rouge_l", 0.1, False), ("rouge_l", 0.0, True)],
)
def test_a_graded_answer_is_wrong_only_at_zero(headline: str, score: float, is_wrong: bool) -> None:
    """Every text differs a little from the label's."""
    assert wrong(headline, score) is is_wrong
