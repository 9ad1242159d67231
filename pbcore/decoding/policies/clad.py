"""Cluster-aware decoding."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attending


@register_policy("clad")
@dataclass(frozen=True, slots=True)
class Clad:
    """Threshold γ; of two runs of neighbouring chosen slots that attend to each other most, the shorter waits (CLAD,
    arXiv 2605.29607).

    Attention is the larger of both directions, mean of the last four layers. How much run a reads run b is the largest
    of its slots' means over b; a pair takes the larger direction. Two runs that are each other's strongest stay apart
    if that is at least the mean over the other runs of both; of only two runs, if it is at least 1.2 / L for L slots in
    the block. The authors' code; of two equally long runs the left one is revealed. Runs without any attention
    between them are no pair here.
    """

    gamma: float = 0.7
    needs: ClassVar[frozenset[str]] = frozenset({"attention"})
    attends: ClassVar[Attending] = Attending(last=4)
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"clad's threshold is a probability in [0, 1], not {self.gamma}")

    def select(self, step: Step) -> Tensor:
        assert step.attention is not None
        reveal = step.at_least_best(step.confidence >= self.gamma, step.confidence)
        weights = step.attention.weights.maximum(step.attention.weights.transpose(1, 2))  # (R, C, C)
        for row, slots in enumerate(step.slots.tolist()):
            runs = _runs(reveal[row], step.column[row])
            if len(runs) > 1:
                for run in _waiting(runs, weights[row], slots):
                    reveal[row, run] = False
        return reveal


def _runs(chosen: Tensor, column: Tensor) -> list[list[int]]:
    """The chosen slots (C,) of a row in runs of neighbouring canvas columns."""
    runs: list[list[int]] = []
    for slot in chosen.nonzero().squeeze(-1).tolist():
        if runs and int(column[slot]) == int(column[runs[-1][-1]]) + 1:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs


def _waiting(runs: list[list[int]], weights: Tensor, slots: int) -> list[list[int]]:
    """The runs that wait for their partner; `weights` (C, C)."""
    count = len(runs)
    related = torch.zeros(count, count, dtype=torch.double)
    for a in range(count):
        for b in range(count):
            if a != b:
                related[a, b] = weights[runs[a]][:, runs[b]].double().mean(-1).max()
    related = related.maximum(related.T)
    mean = related.sum(-1) / (count - 1)
    partner = related.argmax(-1).tolist()
    waiting = []
    for a, b in enumerate(partner):
        least = 1.2 / slots if count == 2 else float(torch.maximum(mean[a], mean[b]))
        if a < b and partner[b] == a and float(related[a, b]) >= least:
            waiting.append(runs[b] if len(runs[a]) >= len(runs[b]) else runs[a])
    return waiting
