"""How long the next block is: the rules that the loop asks, by name.

R rows, A target positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from pbcore.base.errors import InputError
from pbcore.base.lazy_torch import Tensor, torch
from pbcore.base.registry import Registry, hint
from pbcore.decoding.step import Step
from pbcore.models.base import Denoiser
from pbcore.names import POLICY, SamplerName, SamplerNameError

WINDOW = 4  # AdaBlock looks for a delimiter in the next quarter of the answer


class BlockRule(Protocol):
    """Says how long the next block of each row is.

    It is asked when a row has no mask left in its block, with a step of those rows alone: its slots
    are all places that are left, its predictions those of a forward of the whole canvas, which also
    is the new block's first. A rule that needs no prediction may have a method `ahead` besides.
    Then that answers, and the forward predicts the block alone. One that reads no `step.logits` may
    declare `reads = "numbers"`, so that forwards can be shared.
    """

    def __call__(self, step: Step) -> Tensor:
        """The lengths (R,) long, from 1 to the number of places left (`step.slots`)."""
        ...


Ahead = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Equal:
    """Blocks of one length; the last one has what is left."""

    size: int

    def __call__(self, step: Step) -> Tensor:
        return self.ahead(step.slots)

    def ahead(self, left: Tensor) -> Tensor:
        """The lengths (R,), from the number of places left (R,)."""
        return left.clamp(max=self.size)


@dataclass(frozen=True, slots=True)
class AdaBlock:
    """Ends a block at the surest line break that is predicted in the next quarter of the answer, if
    its confidence is at least `threshold`, else after `default` places (AdaBlock, arXiv
    2509.26432).

    By its authors' `generate_adablock.py`: a place counts if its predicted token is one of
    `delimiters`; of equals the leftmost does; a block never goes past the answer's end. The forward
    that tells also reveals the block's first tokens.
    """

    default: int
    threshold: float
    delimiters: tuple[int, ...]
    reads: ClassVar[Literal["numbers"]] = "numbers"

    def __call__(self, step: Step) -> Tensor:
        window = torch.minimum(step.targets // WINDOW, step.slots)  # (R,)
        place = torch.arange(step.masked.shape[1], device=step.masked.device)  # (A,)
        seen = step.masked & (place < window[:, None])
        ends = torch.zeros_like(seen)
        for delimiter in self.delimiters:
            ends |= seen & (step.token == delimiter)
        sure = step.confidence.masked_fill(~ends, -1.0)  # (R, A)
        best = sure.max(-1).values
        first = (sure == best[:, None]).int().argmax(-1)  # (R,)
        return torch.where(best >= self.threshold, first + 1, step.slots.clamp(max=self.default))


def _check(name: str, rule: Any) -> None:
    if not isinstance(name, str) or not POLICY.fullmatch(name):
        raise InputError(f"block rule {name!r}: use lower-case letters, digits and _")
    if isinstance(rule, type) or not callable(rule):
        raise TypeError(f"block rule {name!r}: {rule!r} must be a function of a step")


BLOCKS: Registry[BlockRule] = Registry("block rule", "pbcore.blocks", check=_check)


def register_blocks(name: str, rule: BlockRule) -> None:
    """Makes a rule for lengths of blocks available as `+blocks_NAME` in sampler names. Packages
    register theirs by entry points of the group `pbcore.blocks`.

    Args:
        name: lower-case letters, digits and `_`.
        rule: a function of a step that returns the next block's length for each row (R,), or an
            object with `__call__`; see `BlockRule`.

    Raises:
        InputError: for a name that is taken, or that can't be part of a sampler's name.
        TypeError: for a rule that can't be called.
    """
    BLOCKS.register(name, rule)


def registered(name: SamplerName) -> BlockRule:
    """The rule of `+blocks_NAME`. Raises SamplerNameError, with near ones, for an unknown one."""
    known = BLOCKS.all()
    if name.blocks not in known:
        near = hint(name.blocks, list(known)) if known else "none is registered."
        raise SamplerNameError(
            f"sampler {name}: no rule for blocks is named {name.blocks!r}; {near} Register yours"
            " with pbcore.register_blocks(name, rule)"
        )
    return known[name.blocks]


def rule_of(model: Denoiser, name: SamplerName, size: int) -> BlockRule:
    """The rule of a sampler's blocks.

    Args:
        model: its delimiters end AdaBlock's blocks.
        name: the sampler.
        size: the length of equal blocks, the model's or the sampler's.
    """
    if name.blocks:
        return registered(name)
    if name.ada is not None:
        assert name.block is not None
        return AdaBlock(name.block, name.ada, tuple(sorted(model.delimiter_ids)))
    return Equal(size)


def reads_of(rule: BlockRule) -> Literal["distributions", "numbers"]:
    """What a rule declares to read of a position."""
    if ahead_of(rule) is not None:
        return "numbers"
    reads: Literal["distributions", "numbers"] = getattr(rule, "reads", "distributions")
    return reads


def ahead_of(rule: BlockRule) -> Ahead | None:
    """What a rule answers before a forward; None for one that needs predictions."""
    ahead: Ahead | None = getattr(rule, "ahead", None)
    return ahead
