"""Tokens that don't change each other's distributions."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.prediction import pieces_of
from pbcore.decoding.step import Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch


@register_policy("punt")
@dataclass(frozen=True, slots=True)
class Punt:
    """Reveals tokens that leave each other's distributions as they are, up to KL ε, found by halving (PUNT, arXiv
    2510.21961).

    Candidates are ranked by falling confidence. For each bit of the ranks, highest first, one what-if row has the
    tokens of those whose bit is 0; of the others those leave whose distribution moved by more than ε. What is left is
    revealed. A bit that doesn't tell the remaining ones apart takes no forward. So a step takes at most 1 + ⌈log₂ m⌉
    forwards for m masks.
    """

    epsilon: float = 0.05
    needs: ClassVar[frozenset[str]] = frozenset({"probe"})

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"punt takes a bound of at least 0 on the KL divergence, not {self.epsilon}")

    def select(self, step: Step) -> Tensor | Probe:
        notes = step.notes
        if step.answers is None:
            notes.update(left=step.masked, bit=(step.masked.shape[1] - 1).bit_length(), rank=step.rank(step.confidence))
        else:
            notes["left"] = notes["left"] & ~_moved(step, step.answers, notes["ones"], self.epsilon)
        while notes["bit"]:
            notes["bit"] -= 1
            one = (notes["rank"] >> notes["bit"]) % 2 == 1
            zeros, notes["ones"] = notes["left"] & ~one, notes["left"] & one
            row = (zeros.any(-1) & notes["ones"].any(-1)).nonzero().squeeze(-1)  # (W,)
            if len(row):
                return Probe(row, zeros[row], step.token[row])
        left: Tensor = notes["left"]
        return left


def _moved(step: Step, answers: Answers, slots: Tensor, bound: float) -> Tensor:
    """The marked slots (R, C) of the asked rows whose distribution moved by KL(before ‖ now) > `bound`, in nats."""
    asked = torch.zeros_like(slots)
    asked[answers.row] = slots[answers.row]
    before, now = step.logits[asked[step.masked]], answers.logits(slots[answers.row])  # (N, V) each
    parts = []
    for old, new in zip(pieces_of(before), pieces_of(now), strict=True):
        p, q = torch.log_softmax(old, -1), torch.log_softmax(new, -1)
        parts.append((p.exp() * (p - q)).masked_fill(p == -torch.inf, 0.0).sum(-1) > bound)
    return torch.zeros_like(slots).masked_scatter(asked, torch.cat(parts))
