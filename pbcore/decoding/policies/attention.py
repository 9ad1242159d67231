"""Attention read as a graph of dependence. R rows, C slots."""

from dataclasses import dataclass
from itertools import permutations

from pbcore.decoding.policies.registry import Chance, Ranged, register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attending

NEEDS = frozenset({"attention"})


def symmetric(step: Step) -> Tensor:
    """(A + Aᵀ) / 2 (R, C, C) between candidates; 0 on the diagonal and at all other pairs."""
    assert step.attention is not None
    weights = step.attention.weights.to(step.confidence.dtype)
    both = (weights + weights.transpose(1, 2)) / 2
    pairs = step.masked[:, :, None] & step.masked[:, None, :]
    return both.masked_fill(~pairs, 0.0) * ~torch.eye(both.shape[-1], dtype=torch.bool, device=both.device)


def between(matrix: Tensor, own: Tensor) -> Tensor:
    """Of a matrix from slots to all columns (R, C, T) what goes to the slots' own columns (R, C): (R, C, C)."""
    return matrix.gather(-1, own[:, None, :].expand(-1, own.shape[1], -1))


def independent(edges: Tensor, among: Tensor, order: Tensor) -> Tensor:
    """A greedy independent set (R, C) of `among` (R, C) in `order` (R, C), slot indices: without edges (R, C, C)
    inside.
    """
    taken = torch.zeros_like(among)
    for slot in order[:, :, None].unbind(1):  # (R, 1)
        own = edges.gather(1, slot[:, :, None].expand(-1, 1, edges.shape[-1])).squeeze(1)  # (R, C)
        add = among.gather(-1, slot) & ~(own & taken).any(-1, keepdim=True)
        taken = taken.scatter(-1, slot, taken.gather(-1, slot) | add)
    return taken


def at_columns(matrix: Tensor, slot: Tensor) -> Tensor:
    """Column `slot` (R,) of each matrix (R, C, C): (R, C)."""
    return matrix.gather(2, slot[:, None, None].expand(-1, matrix.shape[1], 1)).squeeze(2)


def relative(step: Step, among: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """DAPD's independent set (R, C) of the slots `among` (R, C), and the revealed share of the canvas (R,)."""
    raw = symmetric(step)
    norm = raw / raw.amax(-1, keepdim=True).clamp(min=1e-8)  # each row by its own maximum, so not symmetric
    progress = 1 - step.left / step.targets  # of the whole canvas
    edges = norm > (low + (high - low) * progress)[:, None, None]
    return independent(edges, among, step.order(raw.sum(-1) * step.confidence, among)), progress


@register_policy("dapd_staged")
class DapdStaged:
    """Reveals an independent set of the attention graph, from the middle of the answer on all with confidence ≥ `sure`,
    too (DAPD, arXiv 2603.12996).

    Edges: attention, symmetric, mean of the last `share` of layers, divided by the slot's strongest one, above τ, which
    grows from `low` to `high` with the share of the canvas that is revealed. Slots are tried by falling sum of
    attention times confidence. The authors' code; the mask token, which it may choose, is excluded here.
    """

    low: float = 0.01
    high: float = 0.15
    share: float = 0.3
    sure: float = 0.9
    needs = NEEDS
    chooses = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high or not 0 < self.share <= 1:
            raise ValueError(f"DAPD takes 0 ≤ low ≤ high and a share of layers in (0, 1], not {self}")

    @property
    def attends(self) -> Attending:
        return Attending(self.share)

    def select(self, step: Step) -> Tensor:
        chosen, progress = relative(step, step.masked, self.low, self.high)
        late = (progress >= 0.5)[:, None]
        return step.at_least_best(chosen | (late & (step.confidence >= self.sure)), step.confidence)


@register_policy("dapd_direct")
@dataclass(frozen=True, slots=True)
class DapdDirect(DapdStaged):
    """Reveals all with confidence ≥ `sure`, and of the others an independent set of the attention graph (DAPD, arXiv
    2603.12996).

    The graph is that of `dapd_staged`; sure slots don't block others. In the authors' bfloat16 a confidence of 1 means
    more than .998 (`sure0.998`).
    """

    sure: float = 1.0

    def select(self, step: Step) -> Tensor:
        sure = step.masked & (step.confidence >= self.sure)
        chosen, _ = relative(step, step.masked & ~sure, self.low, self.high)
        return step.at_least_best(chosen | sure, step.confidence)


@register_policy("dapd_clad")
class DapdClad:
    """The DAPD of CLAD's repository (arXiv 2605.29607): edges where attention itself exceeds τ; in the second half of a
    block all with confidence > `sure` instead.

    τ grows from `low` to `high` with the share of the block that is revealed; attention is that of the last four
    layers. Slots are tried by falling sum of attention times confidence.
    """

    low: float = 0.01
    high: float = 0.05
    sure: float = 0.9
    needs = NEEDS
    chooses = "tokens"
    attends = Attending(last=4)

    def select(self, step: Step) -> Tensor:
        raw = symmetric(step)
        progress = 1 - step.masked.sum(-1) / step.slots
        edges = raw > (self.low + (self.high - self.low) * progress)[:, None, None]
        chosen = independent(edges, step.masked, step.order(raw.sum(-1) * step.confidence, step.masked))
        late = (progress > 0.5)[:, None]
        return step.at_least_best((late & (step.confidence > self.sure)) | (~late & chosen), step.confidence)


@register_policy("clad")
class Clad(Ranged):
    """Threshold γ; of two runs of neighbouring chosen slots that attend to each other most, the shorter waits (CLAD,
    arXiv 2605.29607).

    Attention is the larger of both directions, mean of the last four layers. How much run a reads run b is the largest
    of its slots' means over b; a pair takes the larger direction. Two runs that are each other's strongest stay apart
    if that is at least the mean over the other runs of both; of only two runs, if it is at least 1.2 / L for L slots in
    the block. The authors' code; of two equally long runs the left one is revealed. Runs without any attention
    between them are no pair here.
    """

    gamma: Chance = 0.7
    needs = NEEDS
    attends = Attending(last=4)
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        assert step.attention is not None
        reveal = step.at_least_best(step.confidence >= self.gamma, step.confidence)
        weights = step.attention.weights.maximum(step.attention.weights.transpose(1, 2))  # (R, C, C)
        for row, slots in enumerate(step.slots.tolist()):
            chosen = reveal[row].nonzero().squeeze(-1)
            gaps = (step.column[row, chosen].diff() != 1).nonzero().squeeze(-1) + 1
            runs = [part.tolist() for part in chosen.tensor_split(gaps.tolist())]  # of neighbouring columns
            if len(runs) > 1:
                for run in _waiting(runs, weights[row], slots):
                    reveal[row, run] = False
        return reveal


def _waiting(runs: list[list[int]], weights: Tensor, slots: int) -> list[list[int]]:
    """The runs that wait for their partner; `weights` (C, C)."""
    count = len(runs)
    related = torch.zeros(count, count, dtype=torch.double)
    for a, b in permutations(range(count), 2):
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
