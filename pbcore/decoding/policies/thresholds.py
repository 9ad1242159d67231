"""As many of the surest candidates as one bound allows."""

from typing import Annotated

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.registry import (
    Chance,
    NotNegative,
    Positive,
    Ranged,
    Several,
    Span,
    TunedChance,
    register_policy,
)
from pbcore.decoding.step import Step


@register_policy("threshold", look=2)
class Threshold(Ranged):
    """Reveals every position whose confidence is at least γ, and always the best one (Fast-dLLM,
    arXiv 2505.22618).

    The ParallelBench paper says "exceeding"; reference implementations, and this one, include
    equality.
    """

    gamma: TunedChance = 0.9
    reads = "numbers"
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        return step.prefix(step.confidence, step.confidence >= self.gamma)


@register_policy("entropy_threshold", look=36)
class EntropyThreshold(Ranged):
    """Reveals every position whose entropy is at most ε nats, and always the lowest (dParallel,
    arXiv 2509.26488).

    d3LLM uses it, too. The entropy is that of the distribution at temperature 1. `eb` bounds the
    sum of a step's entropies instead.
    """

    epsilon: Annotated[NotNegative, Span(0.02, 1.0, "log")] = 0.5
    reads = "numbers"
    chooses = "positions"

    def select(self, step: Step) -> Tensor:
        entropy = step.entropy()  # (R, C)
        return step.at_least_best(entropy <= self.epsilon, -entropy)


@register_policy("eb", look=7)
class EntropyBounded(Ranged):
    """Reveals the k surest positions with Σ_{i≤k} Hᵢ − max_{i≤k} Hᵢ ≤ γ, the largest such k, at
    least 1 (arXiv 2505.24857).

    Entropies H in nats, in ascending order. The sum without its largest term bounds the loss from
    revealing the k tokens together.
    """

    gamma: Annotated[NotNegative, Span(0.01, 3.0, "log")] = 0.1
    reads = "numbers"
    chooses = "positions"

    def select(self, step: Step) -> Tensor:
        surety = -step.entropy()  # (R, C)
        entropy = step.ordered(surety, -surety)
        within = (entropy.cumsum(-1) - entropy <= self.gamma) & step.ordered(surety, step.masked)
        return step.first(surety, within.cumprod(-1).sum(-1))


@register_policy("factor", look=4)
class Factor(Ranged):
    """The largest n with (n + 1)(1 − cₙ) < f, at least 1; `-ref`, as officially run, adds the last
    if only it fails (arXiv 2505.22618).

    `factor-1.0` is the rule of the Fast-dLLM paper, with confidences in descending order.
    `factor-1.0-ref` is the rule of its code, used by all official runs of the benchmark and by
    `--profile paper`. The code always accepts the first rank, and the others if cₙ ≥ 1 − f/(n + 1);
    if only the last rank fails, it is revealed too. So two candidates are always revealed together,
    and c = .99, .98, .1 with f = 1 gives 3, not 2.
    """

    f: Annotated[Positive, Span(0.5, 2.0)] = 1.0
    ref: bool = False
    reads = "numbers"
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        rank = step.rank(step.confidence)  # (R, C), n − 1
        if self.ref:
            bound = 1 - self.f / (rank + 2).double()
            passes = step.masked & ((rank == 0) | (step.confidence >= bound))
            count = passes.sum(-1)  # (R,); all ranks after a failing one fail too
            candidates = step.masked.sum(-1)  # (R,)
            return step.first(
                step.confidence, torch.where(count >= candidates - 1, candidates, count)
            )
        holds = step.masked & ((rank + 2) * (1 - step.confidence) < self.f)
        largest = torch.where(holds, rank + 1, 0).amax(-1)  # (R,)
        return step.at_least_best(rank < largest[:, None], step.confidence)


@register_policy("frechet", look=26)
class Frechet:
    """Reveals the largest n with Σ_{j≤n} cⱼ − (n − 1) − (1 − cₙ) > δ, at least 1 (arXiv
    2606.02955).

    Confidences c in descending order. Σ cⱼ − (n − 1) is Fréchet's lower bound on the probability
    that all n tokens are correct.
    """

    delta: Annotated[float, Span(0.0, 0.7)] = 0.1
    reads = "numbers"
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        c = step.ordered(step.confidence, step.confidence)  # (R, C) descending
        n = torch.arange(1, c.shape[-1] + 1, device=c.device)
        holds = (c.cumsum(-1) - (n - 1) - (1 - c) > self.delta) & step.ordered(
            step.confidence, step.masked
        )
        return step.first(step.confidence, torch.where(holds, n, 0).amax(-1))


@register_policy("slowfast", look=14)
class SlowFast(Ranged):
    """Explores until the end of the nearly certain part is stable, then fills up to there, in
    cycles (SlowFast, arXiv 2506.10848).

    Exploring, for at most `steps` steps: each step estimates the cycle's end as the last slot with
    confidence ≥ `low` (.3). The end is fixed when two successive estimates have a standard
    deviation below 1, else after the last step at their mean, rounded down. Filling: until no mask
    is left up to that end, where the next cycle starts. Each step reveals all slots with confidence
    ≥ γ from the cycle's start on (when filling, up to its end), at least the best. The paper stops
    exploring once stable, as here; its code always explores for `steps` steps.

    State: the cycle's start and end, the last estimate, exploring steps.
    """

    gamma: TunedChance = 0.9
    low: Chance = 0.3
    steps: Several = 6
    reads = "numbers"
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        slot = torch.arange(step.masked.shape[-1], device=step.index.device)  # (C,)
        start, end, estimate, explored = (
            step.state(f"slowfast {name}", per="row")
            for name in ("start", "end", "estimate", "explored")
        )
        full = (end > 0) & ~(step.masked & (slot < end[:, None])).any(-1)  # (R,)
        start.copy_(torch.where(full, end, start))
        end *= ~full
        explored *= ~full
        exploring = end == 0
        scope = (
            step.masked & (slot >= start[:, None]) & (exploring[:, None] | (slot < end[:, None]))
        )
        reach = torch.where(scope & (step.confidence >= self.low), slot + 1, 0).amax(-1)
        reach = torch.where(reach > 0, reach, start + 1)  # (R,)
        settled = (explored > 0) & ((reach - estimate).abs() / 2 < 1)
        last = exploring & (explored + 1 >= self.steps)
        estimated = torch.where(
            settled, reach, torch.where(last, ((reach + estimate) / 2).floor(), 0.0)
        )
        end.copy_(torch.where(exploring, estimated, end))
        estimate.copy_(reach)
        explored += exploring
        score = step.confidence.masked_fill(~scope, -1.0)
        return step.at_least_best(scope & (step.confidence >= self.gamma), score)
