"""Attention read as a graph of dependence. R rows, C slots."""

from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.outlook import marked
from pbcore.decoding.policies.registry import (
    Ranged,
    Span,
    TunedChance,
    Whole,
    register_policy,
)
from pbcore.decoding.predicted import Predicted
from pbcore.decoding.step import Step
from pbcore.models.base import Attending
from pbcore.models.transfer import on_device

NEEDS = frozenset({"attention"})
MOST = 32  # the surest masks, among which axon's anchors are chosen


def symmetric(step: Predicted) -> Tensor:
    """(A + Aᵀ) / 2 (R, C, C) between candidates; 0 on the diagonal and at all other pairs."""
    weights = step.attention.weights.to(step.confidence.dtype)
    both = (weights + weights.transpose(1, 2)) / 2
    pairs = step.masked[:, :, None] & step.masked[:, None, :]
    return both.masked_fill(~pairs, 0.0) * ~torch.eye(
        both.shape[-1], dtype=torch.bool, device=both.device
    )


def independent(edges: Tensor, among: Tensor, order: Tensor) -> Tensor:
    """A greedy independent set (R, C): none that has an edge to one already taken.

    Args:
        edges: (R, C, C) bool.
        among: (R, C) bool, the slots to take from.
        order: (R, C) slot indices, as they are tried.
    """
    taken = torch.zeros_like(among)
    for slot in order[:, :, None].unbind(1):  # (R, 1)
        own = edges.take_along_dim(slot[:, :, None], 1).squeeze(1)  # (R, C)
        add = among.gather(-1, slot) & ~(own & taken).any(-1, keepdim=True)
        taken = taken.scatter(-1, slot, taken.gather(-1, slot) | add)
    return taken


def relative(step: Step, among: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """DAPD's independent set, whose threshold τ grows with the revealed share of the canvas.

    Args:
        step: with attention.
        among: (R, C) bool, the slots to take from.
        low: τ at the start.
        high: τ at the end.

    Returns:
        The set (R, C), and the revealed share of the canvas (R,).
    """
    raw = symmetric(step)
    # Each row is divided by its own maximum, so this is not symmetric.
    norm = raw / raw.amax(-1, keepdim=True).clamp(min=1e-8)
    progress = 1 - step.left / step.targets  # of the whole canvas
    edges = norm > (low + (high - low) * progress)[:, None, None]
    return independent(edges, among, step.order(raw.sum(-1) * step.confidence, among)), progress


@register_policy("dapd_staged", look=34)
class DapdStaged:
    """Reveals an independent set of the attention graph, from the middle of the answer on all with
    confidence ≥ `sure`, too (DAPD, arXiv 2603.12996).

    Edges: attention, symmetric, mean of the last `share` of layers, divided by the slot's strongest
    one, above τ, which grows from `low` to `high` with the share of the canvas that is revealed.
    Slots are tried by falling sum of attention times confidence. The authors' code; the mask token,
    which it may choose, is excluded here.
    """

    low: Annotated[float, Span(0.003, 0.1, "log")] = 0.01
    high: float = 0.15
    share: float = 0.3
    sure: float = 0.9
    needs = NEEDS
    chooses = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high or not 0 < self.share <= 1:
            raise ValueError(
                f"DAPD takes 0 ≤ low ≤ high and a share of layers in (0, 1], not {self}"
            )

    @property
    def attends(self) -> Attending:
        return Attending(self.share)

    def select(self, step: Step) -> Tensor:
        chosen, progress = relative(step, step.masked, self.low, self.high)
        late = (progress >= 0.5)[:, None]
        return step.at_least_best(chosen | (late & (step.confidence >= self.sure)), step.confidence)


@register_policy("dapd_direct", look=33)
@dataclass(frozen=True, slots=True)
class DapdDirect(DapdStaged):
    """Reveals all with confidence ≥ `sure`, and of the others an independent set of the attention
    graph (DAPD, arXiv 2603.12996).

    The graph is that of `dapd_staged`; sure slots don't block others. In the authors' bfloat16 a
    confidence of 1 means more than .998 (`sure0.998`).
    """

    sure: float = 1.0

    def select(self, step: Step) -> Tensor:
        sure = step.masked & (step.confidence >= self.sure)
        chosen, _ = relative(step, step.masked & ~sure, self.low, self.high)
        return step.at_least_best(chosen | sure, step.confidence)


@register_policy("dapd_clad", look=32)
class DapdClad:
    """The DAPD of CLAD's repository (arXiv 2605.29607): edges where attention itself exceeds τ; in
    the second half of a block all with confidence > `sure` instead.

    τ grows from `low` to `high` with the share of the block that is revealed; attention is that of
    the last four layers. Slots are tried by falling sum of attention times confidence.
    """

    low: Annotated[float, Span(0.003, 0.1, "log")] = 0.01
    high: float = 0.05
    sure: float = 0.9
    needs = NEEDS
    chooses = "tokens"
    attends = Attending(last=4)

    def select(self, step: Step) -> Tensor:
        raw = symmetric(step)
        progress = 1 - step.masked.sum(-1) / step.slots
        edges = raw > (self.low + (self.high - self.low) * progress)[:, None, None]
        chosen = independent(
            edges, step.masked, step.order(raw.sum(-1) * step.confidence, step.masked)
        )
        late = (progress > 0.5)[:, None]
        return step.at_least_best(
            (late & (step.confidence > self.sure)) | (~late & chosen), step.confidence
        )


@register_policy("clad", look=22)
class Clad(Ranged):
    """Threshold γ; of two runs of neighbouring chosen slots that attend to each other most, the
    shorter waits (CLAD, arXiv 2605.29607).

    Attention is the larger of both directions, mean of the last four layers. How much run a reads
    run b is the largest of its slots' means over b; a pair takes the larger direction. Two runs
    that are each other's strongest stay apart if that is at least the mean over the other runs of
    both; of only two runs, if it is at least 1.2 / L for L slots in the block. The authors' code;
    of two equally long runs the left one is revealed. Runs without any attention between them are
    no pair here.
    """

    gamma: TunedChance = 0.7
    needs = NEEDS
    attends = Attending(last=4)
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        reveal = step.at_least_best(step.confidence >= self.gamma, step.confidence)
        weights = step.attention.weights  # (R, C, C)
        weights = weights.maximum(weights.transpose(1, 2))
        weights = weights.cpu()  # runs differ in number and length, so the host compares them
        lengths = step.slots[:, None].expand_as(step.column)
        chosen_slots, columns, lengths = torch.stack([reveal, step.column, lengths]).cpu()
        reveal = chosen_slots.bool()
        for row, slots in enumerate(lengths[:, 0].tolist()):
            chosen = reveal[row].nonzero().squeeze(-1)
            gaps = (columns[row, chosen].diff() != 1).nonzero().squeeze(-1) + 1
            # Each run is of neighbouring columns.
            runs = [part.tolist() for part in chosen.tensor_split(gaps.tolist())]
            if len(runs) > 1:
                for run in _waiting(runs, weights[row], slots):
                    reveal[row, run] = False
        return on_device(reveal, step.masked.device)


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


@register_policy("dawn", look=35)
class Dawn:
    """Reveals sure slots, slots that attend to sure visible tokens, and an independent set of the
    rest (DAWN, arXiv 2602.06953).

    An edge j → i stands where slot i attends to column j with at least `edge`, mean of the last
    four layers; columns that receive more than `sink` on average have none. Revealed: all with
    confidence ≥ γ; those ≥ `induce` with an edge from an anchor, a visible token predicted again
    with ≥ γ; and of the others ≥ `least` those that attend to no slot that is both, taken greedily
    by falling confidence without an edge, either way, to one taken.

    The authors' code, with three differences. Their greedy loop runs on when its candidates are
    used up and then takes column 0, where it overwrites the prompt's first token; here it ends.
    Their code takes minima over the batch; here a row depends on itself alone. Their
    anchors include given tokens that the model predicts surely; here all given tokens are anchors,
    the prompt among them, since nothing is predicted there.
    """

    gamma: Annotated[float, Span(0.5, 0.98, "rest")] = 0.9
    edge: float = 0.07
    induce: float = 0.7
    least: float = 0.7
    sink: float = 0.01
    review = "seen"
    reach = "prefix"
    needs = NEEDS
    chooses = "tokens"
    attends = Attending(last=4, prompt=True, sinks=True)

    def select(self, step: Step) -> Tensor:
        assert step.attention.sinks is not None
        weights = step.attention.weights  # (R, C, T)
        visible = step.attention.visible  # (R, T)
        own = step.column + step.attention.prompt  # (R, C): the slots' columns
        ordinary = step.attention.sinks <= self.sink  # (R, T): no sinks
        edges = (weights >= self.edge) & ordinary[:, None, :]  # (R, C, T)
        edges &= torch.arange(visible.shape[1], device=own.device) != own[:, :, None]
        anchors = visible.clone()
        unsure = step.inside & (step.masked | (step.review.confidence < self.gamma))
        anchors &= ~marked(anchors, own, unsure)
        sure = step.masked & (step.confidence >= self.gamma)
        induced = (
            (edges & anchors[:, None, :]).any(-1) & step.masked & (step.confidence >= self.induce)
        )
        attends = edges.take_along_dim(own[:, None], -1)  # (R, C, C): i to j
        tied = (attends & (sure & induced)[:, None, :]).any(-1)
        rest = step.masked & (step.confidence >= self.least) & ~sure & ~induced & ~tied
        chosen = independent(
            attends | attends.transpose(1, 2), rest, step.order(step.confidence, rest)
        )
        return step.at_least_best(sure | induced | chosen, step.confidence)


@register_policy("axon", look=43)
class Axon(Ranged):
    """`dawn`, but where the slots that it leaves attend little to those that it reveals, an anchor
    that unsure slots attend to is revealed instead (AXON, arXiv 2606.04236).

    Of the block's masks `dawn` would reveal a share r; the others have mean confidence c, and a
    mean share g of their attention within the block goes to those revealed. Where g < max(r, 1 −
    c), at most `times` times a block, the anchor is the one of the 32 surest masks with the largest
    sum over masks of A[i, j](1 − cᵢ)cⱼ, A without sinks. With `cover` further anchors follow, each
    adding most to the sum over i of the largest over anchors, until that sum is that of dawn's
    choice over the slots it leaves, or ⌈log₂(m + 1)⌉ are chosen for m masks. The authors' code
    (gate `coverage_gap`, `fixed1` and `cover`); for LLaDA it asks at a block's first step alone,
    for SDAR, as here, until `times` is reached. The parameters without a name here are those of
    `dawn`.

    State: how often the block has had anchors.
    """

    times: Whole = 1
    gamma: Annotated[float, Span(0.5, 0.98, "rest")] = 0.9
    edge: float = 0.07
    induce: float = 0.7
    least: float = 0.7
    sink: float = 0.01
    cover: bool = False
    review = "seen"
    reach = "prefix"
    needs = NEEDS
    chooses = "tokens"
    attends = Dawn.attends

    def select(self, step: Step) -> Tensor:
        base = Dawn(self.gamma, self.edge, self.induce, self.least, self.sink).select(step)
        used = step.state("axon times", per="row")  # (R,)
        assert step.attention.sinks is not None
        own = step.column + step.attention.prompt  # (R, C): the slots' columns
        weights = step.attention.weights.take_along_dim(own[:, None], -1)
        sinks = step.attention.sinks.gather(-1, own)
        rest = step.masked & ~base
        confidence = step.confidence.double()
        doubt = (1 - confidence).clamp(min=0)  # (R, C)
        unsure = doubt[:, :, None] * confidence[:, None, :] * weights  # (R, C, C)
        itself = torch.eye(step.masked.shape[1], dtype=torch.bool, device=used.device)
        fires = (used < self.times) & _badly_covered(step, weights, base, rest)
        target = (unsure * rest[:, :, None] * base[:, None, :]).amax(-1).sum(-1)  # (R,)
        unsure = unsure.masked_fill((sinks > self.sink)[:, None, :] | itself, 0.0)
        among = step.masked & (step.rank(step.confidence) < MOST)
        if self.cover:
            most = step.masked.sum(-1).add(1).double().log2().ceil()  # (R,)
        else:
            most = torch.ones_like(used)
        anchors = _anchors(unsure * step.masked[:, :, None], among, confidence, most, target)
        used += fires
        return torch.where(fires[:, None], anchors, base)


def _badly_covered(step: Step, weights: Tensor, base: Tensor, rest: Tensor) -> Tensor:
    """The gate (R,): the slots `rest` (R, C) attend less to `base` (R, C) than its share, or than
    they are unsure.
    """
    last = step.inside.sum(-1)  # (R,)
    place = torch.arange(base.shape[1], device=base.device)
    block = (place >= (last - step.slots)[:, None]) & (place < last[:, None])  # (R, C)
    to_base = (weights * base[:, None, :]).sum(-1)  # (R, C)
    to_block = (weights * block[:, None, :]).sum(-1)  # (R, C)
    given = to_base / (to_block + 1e-8)
    left = rest.sum(-1).clamp(min=1)
    share = (given.clamp(max=1) * rest).sum(-1) / left
    doubt = 1 - (step.confidence.double() * rest).sum(-1) / left
    revealed = base.sum(-1) / step.masked.sum(-1).clamp(min=1)
    return rest.any(-1) & (share < doubt.maximum(revealed.double()))


def _anchors(
    weights: Tensor, among: Tensor, confidence: Tensor, most: Tensor, target: Tensor
) -> Tensor:
    """Greedy anchors (R, C) of the slots `among` (R, C), at most `most` (R,), until they cover
    `target` (R,): the sum over i of the largest `weights[r, i, j]`, which slot j gives slot i.
    """
    taken = torch.zeros_like(among)
    going = among.any(-1)
    covered = torch.zeros_like(confidence)  # (R, C)
    for count in range(int(most.max())):
        gain = (weights - covered[:, :, None]).clamp(min=0).sum(1)  # (R, C)
        score = (gain + 1e-6 * confidence).masked_fill(~among | taken, -torch.inf)
        pick = score.argmax(-1, keepdim=True)  # (R, 1)
        going = going & (count < most) & (among & ~taken).any(-1)
        if count:
            going = going & (gain.gather(-1, pick)[:, 0] > 0) & (covered.sum(-1) < target)
        taken = taken | torch.zeros_like(taken).scatter(-1, pick, going[:, None])
        covered = torch.where(
            going[:, None],
            covered.maximum(weights.take_along_dim(pick[:, None], -1)[..., 0]),
            covered,
        )
    return taken
