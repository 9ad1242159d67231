"""Dependency-aware parallel decoding: an independent set in the attention graph, in two published versions."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.graph import at_rows, independent, symmetric
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor
from pbcore.models.base import Attending

NEEDS = frozenset({"attention"})


def apart(graph: Tensor, bound: Tensor, among: Tensor, order: Tensor) -> Tensor:
    """The greedy set (R, C) in `order` (R, C) whose slots have at most `bound` (R,) with each taken one."""

    def joins(slot: Tensor, taken: Tensor) -> Tensor:
        return ~((at_rows(graph, slot) > bound[:, None]) & taken).any(-1)

    return independent(order, among, joins)


def relative(step: Step, among: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """DAPD's independent set (R, C) of the slots `among` (R, C), and the revealed share of the canvas (R,)."""
    raw = symmetric(step)
    norm = raw / raw.amax(-1, keepdim=True).clamp(min=1e-8)  # each row by its own maximum, so not symmetric
    progress = 1 - step.left / step.targets  # of the whole canvas
    order = step.order(raw.sum(-1) * step.confidence, among)
    return apart(norm, low + (high - low) * progress, among, order), progress


def check_bounds(low: float, high: float, share: float) -> None:
    """Raises ValueError for values outside their ranges."""
    if not 0 <= low <= high or not 0 < share <= 1:
        raise ValueError(
            f"DAPD takes 0 ≤ low ≤ high and a share of layers in (0, 1], not low {low}, high {high} and share {share}"
        )


@register_policy("dapd_staged")
@dataclass(frozen=True, slots=True)
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
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high, self.share)

    @property
    def attends(self) -> Attending:
        return Attending(self.share)

    def select(self, step: Step) -> Tensor:
        chosen, progress = relative(step, step.masked, self.low, self.high)
        late = (progress >= 0.5)[:, None]
        return step.at_least_best(chosen | (late & (step.confidence >= self.sure)), step.confidence)


@register_policy("dapd_direct")
@dataclass(frozen=True, slots=True)
class DapdDirect:
    """Reveals all with confidence ≥ `sure`, and of the others an independent set of the attention graph (DAPD, arXiv
    2603.12996).

    The graph is that of `dapd_staged`; sure slots don't block others. In the authors' bfloat16 a confidence of 1 means
    more than .998 (`sure0.998`).
    """

    low: float = 0.01
    high: float = 0.15
    share: float = 0.3
    sure: float = 1.0
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high, self.share)

    @property
    def attends(self) -> Attending:
        return Attending(self.share)

    def select(self, step: Step) -> Tensor:
        sure = step.masked & (step.confidence >= self.sure)
        chosen, _ = relative(step, step.masked & ~sure, self.low, self.high)
        return step.at_least_best(chosen | sure, step.confidence)


@register_policy("dapd_clad")
@dataclass(frozen=True, slots=True)
class DapdClad:
    """The DAPD of CLAD's repository (arXiv 2605.29607): edges where attention itself exceeds τ; in the second half of a
    block all with confidence > `sure` instead.

    τ grows from `low` to `high` with the share of the block that is revealed; attention is that of the last four
    layers. Slots are tried by falling sum of attention times confidence.
    """

    low: float = 0.01
    high: float = 0.05
    sure: float = 0.9
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"
    attends: ClassVar[Attending] = Attending(last=4)

    def select(self, step: Step) -> Tensor:
        raw = symmetric(step)
        progress = 1 - step.masked.sum(-1) / step.slots
        bound = self.low + (self.high - self.low) * progress
        order = step.order(raw.sum(-1) * step.confidence, step.masked)
        chosen = apart(raw, bound, step.masked, order)
        late = (progress > 0.5)[:, None]
        return step.at_least_best((late & (step.confidence > self.sure)) | (~late & chosen), step.confidence)
