"""The decoders of block models' authors. Their confidences are over the whole vocabulary, mask
token included.
"""

from collections.abc import Callable
from typing import Annotated

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.registry import (
    Count,
    Ranged,
    Span,
    TunedChance,
    register_policy,
)
from pbcore.decoding.protocol import Course
from pbcore.decoding.schedule import share
from pbcore.decoding.step import Step

NEEDS = frozenset({"mask"})  # of policies that use `choose_slots`
SDAR = Course(cut=False, store="all")
STABLE_DIFFCODER = Course(fill="length", pads=True, store="unstopped")


def choose_slots(step: Step, choose: Callable[[Tensor], Tensor]) -> Tensor:
    """The candidates (R, C) to reveal where the mask token is a prediction like any other. `choose`
    takes confidences (R, C) and marks slots. A chosen slot whose likeliest token is the mask stays
    masked. In a row where all chosen ones are so, the authors' code would repeat the step for ever
    or run out of steps; here such a row chooses by its likeliest other tokens.
    """
    assert step.mask is not None, "declare needs = {'mask'}"
    own = step.confidence * (1 - step.mask)  # (R, C)
    blank = step.masked & (step.mask > own)
    picked = choose(torch.where(blank, step.mask, own)) & step.masked & ~blank
    return torch.where(picked.any(-1, keepdim=True), picked, choose(own))


def spread(step: Step, steps: int | Tensor) -> Tensor:
    """How many tokens (R,) SDAR's schedule of `steps` reveals now: its part of the whole block
    length.
    """
    return share(step.size, steps, step.index)


def surer_or_first(step: Step, confidence: Tensor, gamma: float, count: Tensor) -> Tensor:
    """The candidates (R, C) of confidence > γ in rows that have enough of them, else the best ones.

    Args:
        step: as the policy gets it.
        confidence: (R, C), what is compared.
        gamma: γ.
        count: (R,) how many are enough, and how many are taken else.
    """
    sure = step.masked & (confidence > gamma)
    return torch.where(
        (sure.sum(-1) >= count.clamp(min=1))[:, None], sure, step.first(confidence, count)
    )


@register_policy("sdar_static", look=40)
class SdarStatic(Ranged):
    """Reveals the surest tokens, a block's length spread over `steps`, earlier steps more (SDAR,
    arXiv 2510.06303).

    The schedule comes from the block length, so a block that it shares with the prompt takes fewer
    steps. The authors' code lets a count larger than the masks left overwrite given and revealed
    tokens; here it takes what is left.
    """

    steps: Annotated[Count, Span(1, 4, "log")] = 4
    course = SDAR
    needs = NEEDS
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        count = spread(step, self.steps)  # (R,)
        return choose_slots(step, lambda confidence: step.first(confidence, count))


@register_policy("sdar_dynamic", look=38)
class SdarDynamic(Ranged):
    """Reveals all with confidence > γ if these are at least as many as SDAR's schedule says, else
    its count (arXiv 2510.06303).

    The schedule and what is left out of the authors' code are as in `sdar_static`.
    """

    gamma: TunedChance = 0.9
    steps: Count = 4
    course = SDAR
    needs = NEEDS
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        count = spread(step, self.steps)  # (R,)
        return choose_slots(
            step, lambda confidence: surer_or_first(step, confidence, self.gamma, count)
        )


@register_policy("sdar_sequential", look=39)
class SdarSequential(SdarStatic):
    """Reveals the leftmost tokens of a block, as many as SDAR's schedule over `steps` says (SDAR,
    arXiv 2510.06303).
    """

    def select(self, step: Step) -> Tensor:
        leftmost = step.first(-step.position.double(), spread(step, self.steps))
        return choose_slots(step, lambda _: leftmost)


@register_policy("llada2", look=37)
class Llada2(Ranged):
    """Reveals all with confidence > γ if these are at least as many as the schedule says, else its
    count (LLaDA2.0).

    The schedule spreads the block length over min(`steps`, tokens asked for), earlier steps more.
    The answer ends with its first EOS; with `early` a row stops in the step that reveals an EOS
    with no mask before it. The authors' code looks for that EOS in the prompt, too, and then
    answers nothing; here the prompt doesn't count.

    No paper tells the rule.
    """

    gamma: TunedChance = 0.95
    steps: Count = 32
    early: bool = False
    needs = NEEDS
    chooses = "tokens"

    @property
    def course(self) -> Course:
        return Course(stop="revealed" if self.early else "block", ends_at_stop=True)

    def select(self, step: Step) -> Tensor:
        count = spread(step, step.requested.clamp(max=self.steps))  # (R,)
        return choose_slots(
            step, lambda confidence: surer_or_first(step, confidence, self.gamma, count)
        )


@register_policy("fast_dllm_v2", look=19)
class FastDllmV2(Ranged):
    """Goes through a block in parts, left to right; reveals all of a part with confidence > γ, and
    always the best (arXiv 2509.26328).

    `part` is the authors' sub-block; `+dual` adds their cache within a block. It decodes length //
    block blocks from the one that holds the prompt's end, and one token more, and stops at the
    first stop token without a mask before it. The authors' code never sees a prompt of exactly one
    block, and loops for ever where the mask token is predicted; this one does neither.
    """

    gamma: TunedChance = 1.0
    part: Count = 8
    course = Course(fill="blocks", cut=False, stop="token", ends_at_stop=True)
    needs = NEEDS
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        return choose_slots(
            step, lambda confidence: step.at_least_best(confidence > self.gamma, confidence)
        )


@register_policy("stable_diffcoder", look=41)
class StableDiffcoder:
    """Reveals the surest tokens, a block's masks spread over its share of `steps`, earlier steps
    more (Stable-DiffCoder).

    `steps` are those of the whole answer (0: one per token asked for), shared equally by length //
    block blocks: a first block that the prompt begins isn't counted. The answer has exactly the
    length asked for.

    No paper tells the rule.
    """

    steps: int = 0
    course = STABLE_DIFFCODER
    needs = NEEDS
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        blocks = (step.requested // step.size.clamp(min=1)).clamp(min=1)  # (R,)
        steps = torch.full_like(blocks, self.steps) if self.steps else step.requested
        count = share(step.slots, (steps // blocks).clamp(min=1), step.index)  # (R,)
        return choose_slots(step, lambda confidence: step.first(confidence, count))


@register_policy("stable_diffcoder_threshold", look=42)
class StableDiffcoderThreshold(Ranged):
    """Reveals every token of confidence at least γ, and always the best one, as Stable-DiffCoder's
    authors do.

    Beside `threshold` it stops and stores as their code does, with confidences over the whole
    vocabulary. Their code leaves masks in a block where it has too few steps; this one goes on
    until none is left.

    No paper tells the rule.
    """

    gamma: TunedChance = 0.95
    course = STABLE_DIFFCODER
    needs = NEEDS
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        return choose_slots(
            step, lambda confidence: step.at_least_best(confidence >= self.gamma, confidence)
        )
