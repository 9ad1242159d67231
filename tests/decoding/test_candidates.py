"""The candidates of a step: what is worked out once follows them, and a given order stands in place
of every score.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pbcore.decoding import Step
from pbcore.decoding.candidates import note_counts
from pbcore.decoding.predicted import hide, see
from pbcore.decoding.prediction import Prediction


def a_step() -> Step:
    """Two rows of three candidates, with numbers alone."""
    confidence = torch.tensor([[0.2, 0.9, 0.5], [0.7, 0.1, 0.4]])
    numbers = {"margin": confidence / 2, "entropy": 1 - confidence}
    return Step.without_model(confidence, numbers, index=0, size=3)


def with_logits(step: Step) -> Step:
    """The same with logits (M, V) that tell the candidates apart."""
    logits = torch.arange(12.0).view(6, 2)
    see(step, Prediction(torch.arange(6), torch.arange(6.0), logits))
    return step


class TestSelection:
    def test_follows_hidden_candidates(self) -> None:
        """Counts, selections and logits are those of the candidates left."""
        step = with_logits(a_step())
        values = torch.arange(6).view(2, 3)
        assert step.candidates() == (3, 3)
        assert step.of_candidates(values).tolist() == [0, 1, 2, 3, 4, 5]
        hide(step, torch.tensor([[True, False, False], [False, True, True]]))
        assert step.candidates() == (2, 1)
        assert step.of_candidates(values).tolist() == [1, 2, 3]
        assert step.logits.tolist() == [[2, 3], [4, 5], [6, 7]]

    def test_follows_another_mask(self) -> None:
        """A copy with other candidates selects its own, the step the ones that it had."""
        step = a_step()
        values = torch.arange(6).view(2, 3)
        step.of_candidates(values)
        other = replace(step, masked=torch.tensor([[True, False, False], [False, False, True]]))
        assert other.of_candidates(values).tolist() == [0, 5]
        assert other.candidates() == (1, 1)
        assert step.candidates() == (3, 3)

    def test_noted_counts_are_believed(self) -> None:
        """What the host knows isn't counted again, nor in a copy with the same candidates."""
        step = a_step()
        note_counts(step, [2, 4])
        assert step.candidates() == (2, 4)
        assert replace(step, quota=step.slots).candidates() == (2, 4)

    def test_written_in_place(self) -> None:
        """A part of the candidates goes back to where it came from."""
        step = replace(a_step(), masked=torch.tensor([[False, True, True], [True, False, False]]))
        values = torch.zeros(2, 3)
        step.to_candidates(values, torch.tensor([1.0, 2.0, 3.0]))
        assert values.tolist() == [[0, 1, 2], [3, 0, 0]]


class TestOrder:
    @pytest.mark.parametrize("score", [torch.zeros(2, 3), torch.tensor([[1.0, 2, 3], [3, 1, 2]])])
    def test_in_place_of_scores(self, score: Tensor) -> None:
        """Ranks, prefixes and counts follow the order, whatever the score."""
        step = a_step().in_order(torch.tensor([[2, 0, 1], [1, 2, 0]]))
        assert step.rank(score).tolist() == [[1, 2, 0], [2, 0, 1]]
        assert step.best_one(score).tolist() == [[False, False, True], [False, True, False]]
        good = torch.tensor([[True, False, True], [True, False, True]])
        assert step.prefix(score, good).tolist() == [[True, False, True], [False, True, False]]

    def test_of_other_slots_scores_count(self) -> None:
        """Ranking among others than the candidates is by the score."""
        step = a_step().in_order(torch.tensor([[2, 0, 1], [1, 2, 0]]))
        among = torch.tensor([[True, True, False], [True, False, True]])
        assert step.rank(step.confidence, among).tolist() == [[1, 0, 2], [0, 2, 1]]

    def test_the_step_keeps_its_own(self) -> None:
        """A policy around another changes nothing for the one outside."""
        step = a_step()
        step.in_order(torch.tensor([[2, 0, 1], [1, 2, 0]]))
        assert step.rank(step.confidence).tolist() == [[2, 0, 1], [0, 2, 1]]
