"""Drafts that are the next steps of one token each."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch


@register_policy("freedave")
@dataclass(frozen=True, slots=True)
class FreeDave:
    """The answers of `confidence-k1` in fewer forwards: drafts its next `drafts` steps and keeps those that it would
    take (FreeDave, arXiv 2510.00294).

    Draft j has the j + 1 surest tokens. The first is what one token a step would write; the next follows while the
    answer to the one before names its last token as the surest. The longest draft reached is taken, with its answer as
    the next step's forward. Drafts without a mask aren't forwarded; the authors forward them, too. At a temperature
    drafts and answers draw by the same random numbers.
    """

    drafts: int = 4
    needs: ClassVar[frozenset[str]] = frozenset({"probe"})

    def __post_init__(self) -> None:
        if self.drafts < 1:
            raise ValueError(f"freedave takes at least 1 draft, not {self.drafts}")

    def select(self, step: Step) -> Move | Probe:
        rank = step.rank(step.confidence)
        counts = 1 + torch.arange(self.drafts, device=rank.device)  # (K,) tokens of each draft
        asked = counts <= step.masked.sum(-1, keepdim=True)  # (R, K)
        row, draft = asked.nonzero(as_tuple=True)  # (W,) each
        if step.answers is None:
            return Probe(row, step.masked[row] & (rank[row] < counts[draft][:, None]), step.token[row])
        follows = step.masked[row] & (rank[row] == counts[draft][:, None])  # (W, C): the next draft's last token
        goes_on = torch.zeros_like(asked).masked_scatter(asked, _surest(step, step.answers, follows))
        streak = goes_on.long().cumprod(-1).sum(-1).clamp(max=self.drafts - 1)  # (R,)
        places = torch.full_like(asked, -1, dtype=torch.long).masked_scatter(asked, torch.arange(len(row)))
        return Move(step.masked & (rank <= streak[:, None]), take=places.gather(1, streak[:, None]).squeeze(1))


def _surest(step: Step, answers: Answers, slots: Tensor) -> Tensor:
    """Whether the marked slot of each what-if row (W,) is its surest one, with the drafted token."""
    token, confidence = answers.predict(answers.masked)  # (W, C) each
    surest = confidence.masked_fill(~answers.masked, -1).argmax(-1, keepdim=True)  # ties to the lowest position
    hit = slots & (token == step.token[answers.row])
    return hit.gather(1, surest).squeeze(1)
