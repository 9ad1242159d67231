"""Branches, drafts and halves that one forward of what-if rows tries."""

from pbcore.decoding.policies.registry import Chance, Count, NotNegative, Ranged, register_policy
from pbcore.decoding.prediction import pieces_of
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch


def numbered(asked: Tensor) -> Tensor:
    """The what-if row of each canvas that is `asked` about (R, B), counted row by row; -1 for the others."""
    return (asked.flatten().cumsum(0) - 1).view_as(asked).masked_fill(~asked, -1)


@register_policy("lopa")
class Lopa(Ranged):
    """Tries all above γ (at least the best) alone and with one further token each, and goes on with the branch whose
    masks are surest in the mean (LoPA, arXiv 2512.16229).

    The further tokens are the next surest, one for each of the other `branches`. All branches are one forward of
    what-if rows, and the chosen one's answer is the next step's forward. A branch that another token would complete
    isn't tried, since nothing would judge it. Ties go to the fewest and surest tokens.
    """

    branches: Count = 3
    gamma: Chance = 0.9
    needs = frozenset({"probe"})

    def select(self, step: Step) -> Move | Probe:
        base = step.at_least_best(step.confidence > self.gamma, step.confidence)  # (R, C)
        rest = step.masked & ~base
        rank = step.rank(step.confidence, rest)
        extra = torch.arange(-1, self.branches - 1, device=rank.device)  # (B,): −1 is the base alone
        tried = (extra < 0) | (extra < rest.sum(-1, keepdim=True)) & (rest.sum(-1, keepdim=True) > 1)  # (R, B)
        row, branch = tried.nonzero(as_tuple=True)  # (W,) each
        write = base[row] | (rest[row] & (rank[row] == extra[branch][:, None]))  # (W, C)
        if step.answers is None:
            return Probe(row, write, step.token[row])
        masked = step.answers.masked
        _, confidence = step.answers.predict(masked)  # (W, C)
        mean = (confidence * masked).sum(-1) / masked.sum(-1).clamp(min=1)  # (W,)
        scores = torch.full(tried.shape, -1.0, dtype=mean.dtype, device=mean.device).masked_scatter(tried, mean)
        best = scores.argmax(-1, keepdim=True)  # the first of equals
        take = numbered(tried).gather(1, best).squeeze(1)  # (R,)
        return Move(write[take], take=take)


@register_policy("freedave")
class FreeDave(Ranged):
    """The answers of `confidence-k1` in fewer forwards: drafts its next `drafts` steps and keeps those that it would
    take (FreeDave, arXiv 2510.00294).

    Draft j has the j + 1 surest tokens. The first is what one token a step would write; the next follows while the
    answer to the one before names its last token as the surest. The longest draft reached is taken, with its answer as
    the next step's forward. Drafts without a mask aren't forwarded; the authors forward them, too. At a temperature
    drafts and answers draw by the same random numbers.
    """

    drafts: Count = 4
    needs = frozenset({"probe"})

    def select(self, step: Step) -> Move | Probe:
        rank = step.rank(step.confidence)
        counts = 1 + torch.arange(self.drafts, device=rank.device)  # (K,) tokens of each draft
        asked = counts <= step.masked.sum(-1, keepdim=True)  # (R, K)
        row, draft = asked.nonzero(as_tuple=True)  # (W,) each
        if step.answers is None:
            return Probe(row, step.masked[row] & (rank[row] < counts[draft][:, None]), step.token[row])
        follows = step.masked[row] & (rank[row] == counts[draft][:, None])  # (W, C): the next draft's last token
        token, confidence = step.answers.predict(step.answers.masked)  # (W, C) each
        surest = confidence.masked_fill(~step.answers.masked, -1).argmax(-1, keepdim=True)  # ties: lowest position
        hit = (follows & (token == step.token[row])).gather(1, surest).squeeze(1)  # (W,)
        goes_on = torch.zeros_like(asked).masked_scatter(asked, hit)
        streak = goes_on.long().cumprod(-1).sum(-1).clamp(max=self.drafts - 1)  # (R,)
        take = numbered(asked).gather(1, streak[:, None]).squeeze(1)
        return Move(step.masked & (rank <= streak[:, None]), take=take)


@register_policy("punt")
class Punt(Ranged):
    """Reveals tokens that leave each other's distributions as they are, up to KL ε, found by halving (PUNT, arXiv
    2510.21961).

    Candidates are ranked by falling confidence. For each bit of the ranks, highest first, one what-if row has the
    tokens of those whose bit is 0; of the others those leave whose distribution moved by more than ε. What is left is
    revealed. A bit that doesn't tell the remaining ones apart takes no forward. So a step takes at most 1 + ⌈log₂ m⌉
    forwards for m masks.
    """

    epsilon: NotNegative = 0.05
    needs = frozenset({"probe"})

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
