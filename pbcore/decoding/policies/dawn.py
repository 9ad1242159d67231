"""Anchors and induced slots in the graph of attention."""

from pbcore.decoding.policies.attention import NEEDS, at_columns, between, independent
from pbcore.decoding.policies.registry import Ranged, Whole, register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attending

MOST = 32  # the surest masks, among which axon's anchors are chosen


@register_policy("dawn")
class Dawn:
    """Reveals sure slots, slots that attend to sure visible tokens, and an independent set of the rest (DAWN, arXiv
    2602.06953).

    An edge j → i stands where slot i attends to column j with at least `edge`, mean of the last four layers; columns
    that receive more than `sink` on average have none. Revealed: all with confidence ≥ γ; those ≥ `induce` with an edge
    from an anchor, a visible token predicted again with ≥ γ; and of the others ≥ `least` those that attend to no
    slot that is both, taken greedily by falling confidence without an edge, either way, to one taken. The authors'
    code, but for its dependence on the batch; tokens that were given, the prompt among them, count as anchors, since
    nothing is predicted there.
    """

    gamma: float = 0.9
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
        assert step.attention is not None
        assert step.attention.sinks is not None
        assert step.review is not None
        weights, visible = step.attention.weights, step.attention.visible  # (R, C, T), (R, T)
        own = step.column + step.attention.prompt  # (R, C): the slots' columns
        edges = (weights >= self.edge) & (step.attention.sinks <= self.sink)[:, None, :]  # (R, C, T)
        edges &= torch.arange(visible.shape[1], device=own.device) != own[:, :, None]
        anchors = visible.clone()
        unsure = step.inside & (step.masked | (step.review.confidence < self.gamma))
        anchors[unsure.nonzero()[:, 0], own[unsure]] = False
        sure = step.masked & (step.confidence >= self.gamma)
        induced = (edges & anchors[:, None, :]).any(-1) & step.masked & (step.confidence >= self.induce)
        attends = between(edges, own)  # (R, C, C): i to j
        tied = (attends & (sure & induced)[:, None, :]).any(-1)
        rest = step.masked & (step.confidence >= self.least) & ~sure & ~induced & ~tied
        chosen = independent(attends | attends.transpose(1, 2), rest, step.order(step.confidence, rest))
        return step.at_least_best(sure | induced | chosen, step.confidence)


@register_policy("axon")
class Axon(Ranged):
    """`dawn`, but where the slots that it leaves attend little to those that it reveals, an anchor that unsure slots
    attend to is revealed instead (AXON, arXiv 2606.04236).

    Of the block's masks `dawn` would reveal a share r; the others have mean confidence c, and a mean share g of their
    attention within the block goes to those revealed. Where g < max(r, 1 − c), at most `times` times a block, the
    anchor is the one of the 32 surest masks with the largest sum over masks of A[i, j](1 − cᵢ)cⱼ, A without sinks. With
    `cover` further anchors follow, each adding most to the sum over i of the largest over anchors, until that sum is
    that of dawn's choice over the slots it leaves, or ⌈log₂(m + 1)⌉ are chosen for m masks. The authors' code (gate
    `coverage_gap`, `fixed1` and `cover`); for LLaDA it asks at a block's first step alone, for SDAR, as here, until
    `times` is reached. The parameters without a name here are those of `dawn`.

    State: how often the block has had anchors.
    """

    times: Whole = 1
    gamma: float = 0.9
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
        assert step.attention is not None
        assert step.attention.sinks is not None
        own = step.column + step.attention.prompt  # (R, C): the slots' columns
        weights, sinks = between(step.attention.weights, own), step.attention.sinks.gather(-1, own)
        rest, confidence = step.masked & ~base, step.confidence.double()
        unsure = (1 - confidence).clamp(min=0)[:, :, None] * confidence[:, None, :] * weights  # (R, C, C)
        itself = torch.eye(step.masked.shape[1], dtype=torch.bool, device=used.device)
        fires = (used < self.times) & _badly_covered(step, weights, base, rest)
        target = (unsure * rest[:, :, None] * base[:, None, :]).amax(-1).sum(-1)  # (R,)
        anchors = _anchors(
            unsure.masked_fill((sinks > self.sink)[:, None, :] | itself, 0.0) * step.masked[:, :, None],
            step.masked & (step.rank(step.confidence) < MOST),
            confidence,
            step.masked.sum(-1).add(1).double().log2().ceil() if self.cover else torch.ones_like(used),
            target,
        )
        used += fires
        return torch.where(fires[:, None], anchors, base)


def _badly_covered(step: Step, weights: Tensor, base: Tensor, rest: Tensor) -> Tensor:
    """The gate (R,): the slots `rest` (R, C) attend less to `base` (R, C) than its share, or than they are unsure."""
    last = step.inside.sum(-1)  # (R,)
    place = torch.arange(base.shape[1], device=base.device)
    block = (place >= (last - step.slots)[:, None]) & (place < last[:, None])  # (R, C)
    given = (weights * base[:, None, :]).sum(-1) / ((weights * block[:, None, :]).sum(-1) + 1e-8)  # (R, C)
    left = rest.sum(-1).clamp(min=1)
    share = (given.clamp(max=1) * rest).sum(-1) / left
    doubt = 1 - (step.confidence.double() * rest).sum(-1) / left
    revealed = base.sum(-1) / step.masked.sum(-1).clamp(min=1)
    return rest.any(-1) & (share < doubt.maximum(revealed.double()))


def _anchors(weights: Tensor, among: Tensor, confidence: Tensor, most: Tensor, target: Tensor) -> Tensor:
    """Greedy anchors (R, C) of the slots `among` (R, C), at most `most` (R,), until they cover `target` (R,): the sum
    over i of the largest `weights[r, i, j]`, which slot j gives slot i.
    """
    taken, going = torch.zeros_like(among), among.any(-1)
    covered = torch.zeros_like(confidence)  # (R, C)
    for count in range(int(most.max())):
        gain = (weights - covered[:, :, None]).clamp(min=0).sum(1)  # (R, C)
        pick = (gain + 1e-6 * confidence).masked_fill(~among | taken, -torch.inf).argmax(-1, keepdim=True)  # (R, 1)
        going = going & (count < most) & (among & ~taken).any(-1)
        if count:
            going = going & (gain.gather(-1, pick)[:, 0] > 0) & (covered.sum(-1) < target)
        taken = taken | torch.zeros_like(taken).scatter(-1, pick, going[:, None])
        covered = torch.where(going[:, None], covered.maximum(at_columns(weights, pick[:, 0])), covered)
    return taken
