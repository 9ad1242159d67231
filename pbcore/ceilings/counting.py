"""How many positions of each group a sampler reveals in a step, found out by calling its policy.

The policy sees a step whose positions have the exact probabilities; noise only decides between
equals. R rows (trials), C candidates, G groups.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from math import comb, log

import torch
from torch import Tensor

from pbcore.decoding.protocol import Policy, fixed_count, traits
from pbcore.decoding.schedule import quota
from pbcore.decoding.step import Step
from pbcore.names import SamplerName
from pbcore.theory.problems import (
    ExchangeablePositions,
    NotExact,
    StepOutcome,
    StepOutcomes,
    at_random,
)

# Policies that treat positions alike: what they reveal follows from token probabilities, whatever
# their place.
SYMMETRIC = (
    "confidence",
    "margin",
    "entropy",
    "entropy_threshold",
    "threshold",
    "factor",
    "eb",
    "frechet",
)
NUDGE = 3e-7  # what the noise of the ideal model may do to a number


def counts_of(policy: Policy, name: SamplerName) -> StepOutcomes:
    """The sampler as a rule of `theory.problems`. Raises NotExact for a policy that isn't
    symmetric; so does the rule where noise decides in a way that can't be counted.
    """
    if name.policy == "random":
        k = fixed_count(policy) or 0

        def random(
            groups: tuple[ExchangeablePositions, ...], settled: int, step: int, size: int
        ) -> Sequence[StepOutcome]:
            left = settled + sum(group.positions for group in groups)
            count = _quota(name, left, step, size, 1)
            return at_random(min(left, k if count is None else int(count)), groups, settled)

        return random
    if name.policy not in SYMMETRIC:
        raise NotExact(f"{name.policy} doesn't treat positions alike")
    return lambda groups, settled, step, size: list(
        _outcomes(policy, name, groups, settled, step, size)
    )


def _outcomes(
    policy: Policy,
    name: SamplerName,
    groups: Sequence[ExchangeablePositions],
    settled: int,
    step: int,
    size: int,
) -> Iterator[StepOutcome]:
    """The outcomes of a step: the noise of each group that it can move, by how many of the group's
    positions it raises.
    """
    # Whether the tokens drawn have a say.
    drawn = bool(name.temperature) and traits(policy).chooses != "positions"
    if drawn and any(max(group.chances) > min(group.chances) for group in groups):
        raise NotExact("the tokens drawn decide what is revealed")
    numbers: list[int] = []  # the group of each position
    for number, group in enumerate(groups):
        numbers.extend([number] * group.positions)
    group_of = torch.tensor(numbers, dtype=torch.long)
    every = [ExchangeablePositions((1.0, 0.0), settled), *groups]
    # First no noise; then for each group noise that raises, and noise that lowers, all its numbers.
    up = torch.eye(len(groups))
    none = torch.zeros(1, len(groups))
    trials = torch.cat([none, torch.stack([up, -up], 1).flatten(0, 1)])[:, group_of]
    without_noise, *with_noise = _select(policy, name, every, trials, step, size)
    moved = []
    for number in range(len(groups)):
        raised, lowered = with_noise[2 * number : 2 * number + 2]
        if raised != without_noise or lowered != without_noise:
            moved.append(number)
    if not moved:
        yield 1.0, without_noise[1:], without_noise[0]
        return
    lifts = [_lift(groups, number, drawn) for number in moved]
    same_confidences = _select(policy, name, every, trials, step, size, nudge=False)
    if any(revealed != without_noise for revealed in same_confidences):
        raise NotExact("noise decides between sums or between margins")
    chosen = []
    weights = []
    raises = [range(groups[number].positions + 1) for number in moved]  # how many can be raised
    for counts in product(*raises):
        weight = 1.0
        row = torch.zeros(len(group_of))
        for number, lift, high in zip(moved, lifts, counts, strict=True):
            count = groups[number].positions
            weight *= comb(count, high) * lift**high * (1 - lift) ** (count - high)
            row[group_of == number] = torch.tensor([1.0] * high + [-1.0] * (count - high))
        if weight:
            chosen.append(row)
            weights.append(weight)
    outcomes = _select(policy, name, every, torch.stack(chosen), step, size)
    for weight, revealed in zip(weights, outcomes, strict=True):
        yield weight, revealed[1:], revealed[0]


def _lift(groups: Sequence[ExchangeablePositions], place: int, drawn: bool) -> float:
    """The probability that noise raises the confidence of a group's position, independently of the
    others. Raises NotExact where another group is tied with it, or where the number isn't ½ or 1.
    """
    numbers = _numbers(groups[place])
    for other, group in enumerate(groups):
        if other == place:
            continue
        pairs = zip(numbers, _numbers(group), strict=True)
        if any(abs(mine - theirs) < 4 * NUDGE for mine, theirs in pairs):
            raise NotExact("positions with other probabilities are tied")
    chances = groups[place].chances
    if drawn or chances[1] < chances[0] * (1 - 1e-9):
        return 0.5
    if chances[-1] >= chances[0] * (1 - 1e-9):
        return 1.0
    raise NotExact("some but not all tokens of a position are tied")


def _numbers(group: ExchangeablePositions) -> tuple[float, float, float]:
    """Confidence, margin and negative entropy of a position."""
    chances = group.chances
    return chances[0], chances[0] - chances[1], sum(p * log(p + 1e-10) for p in chances)


def _select(
    policy: Policy,
    name: SamplerName,
    groups: Sequence[ExchangeablePositions],
    trials: Tensor,
    step: int,
    size: int,
    nudge: bool = True,
) -> list[tuple[int, ...]]:
    """For each trial, the numbers revealed of each group, the first of which are the settled
    positions. `trials` (R, positions of the others) say which way noise moves a position's numbers:
    down (−1), not (0) or up (1). Without `nudge` the confidences stay.
    """
    of_positions: list[tuple[float, float, float]] = []
    for group in groups:
        of_positions.extend([_numbers(group)] * group.positions)
    numbers = torch.tensor(of_positions, dtype=torch.double)  # (C, 3)
    shift = NUDGE * torch.nn.functional.pad(trials.double(), (groups[0].positions, 0))  # (R, C)
    rows, candidates = shift.shape  # R, C
    known = Step.without_model(
        confidence=numbers[:, 0] + (shift if nudge else 0 * shift),
        numbers={"margin": numbers[:, 1] + shift, "entropy": -(numbers[:, 2] + shift)},
        index=step,
        size=size,
        temperature=name.temperature,
        quota=_quota(name, candidates, step, size, rows),
    )
    reveal = policy.select(known)
    assert isinstance(reveal, Tensor)
    edges = list(accumulate((group.positions for group in groups), initial=0))
    ends = torch.nn.functional.pad(reveal.long().cumsum(-1), (1, 0))[:, edges]  # (R, G + 2)
    return [tuple(row) for row in ends.diff(dim=-1).tolist()]


def _quota(name: SamplerName, left: int, step: int, size: int, rows: int) -> Tensor | None:
    slots, index, masks = (torch.full((rows,), number) for number in (size, step, left))
    return quota(name, slots, index, masks)
