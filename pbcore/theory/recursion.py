"""The exact expected accuracy of the ideal model on a sample, under a sampler that treats open positions alike.

The state of a decoding is what the revealed tokens leave open and how many masked positions of the active part are
settled already: their token is the same in all answers left. A step reveals, of each group of positions with the same
probabilities, some number drawn at random, since only noise distinguishes them. A token that contradicts every answer
left makes the final answer wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import comb
from typing import Any

from pbcore.theory.problems import Group, NotExact, Problem

MOST_STATES = 60_000

# (groups, settled positions, steps done in the part, positions of the part) → (probability, positions revealed of each
# group, or of all open ones together; settled positions revealed)
Outcome = tuple[float, Sequence[int] | int, int]
Counts = Callable[[tuple[Group, ...], int, int, int], Sequence[Outcome]]


def expected_accuracy(problem: Problem, counts: Counts, temperature: float, *, scheduled: bool = False) -> float:
    """The probability that decoding reveals an answer. `counts` is the sampler; with `scheduled` it reads the number of
    steps done. Raises NotExact for too many states or outcomes, and what `counts` raises."""
    counted = cache(counts)
    seen = 0

    @cache
    def value(state: Any, part: int, settled: int, step: int) -> float:
        nonlocal seen
        if problem.solved(state):
            return 1.0
        seen += 1
        if seen > MOST_STATES:
            raise NotExact(f"more than {MOST_STATES} states")
        groups = problem.groups(state, part)
        free = sum(group.positions for group in groups)
        if not free + settled:
            after = problem.groups(state, part + 1)
            return value(state, part + 1, problem.sizes[part + 1] - sum(group.positions for group in after), 0)
        total = 0.0
        for chance, revealed, known in counted(groups, settled, step, problem.sizes[part]):
            used = revealed if isinstance(revealed, int) else sum(revealed)
            moved = problem.moves(state, part, revealed if isinstance(revealed, int) else tuple(revealed), temperature)
            for next_state, probability in moved.items():
                left = 0 if problem.solved(next_state) else sum(g.positions for g in problem.groups(next_state, part))
                rest = settled - known + free - used - left
                total += chance * probability * value(next_state, part, rest, step + 1 if scheduled else 0)
        return total

    first = sum(group.positions for group in problem.groups(problem.start, 0)) if problem.sizes else 0
    return min(1.0, value(problem.start, 0, problem.sizes[0] - first, 0)) if problem.sizes else 1.0


def everything(groups: tuple[Group, ...], settled: int, step: int, size: int) -> Iterator[Outcome]:
    """The rule of a fixed partition, whose parts are its steps: all positions at once."""
    yield 1.0, tuple(group.positions for group in groups), settled


def at_random(count: int, groups: Sequence[Group], settled: int) -> list[Outcome]:
    """`count` of all masked positions, each choice equally likely."""
    free = sum(group.positions for group in groups)
    ways = comb(free + settled, count)
    return [
        (comb(free, used) * comb(settled, count - used) / ways, used, count - used)
        for used in range(max(0, count - settled), min(count, free) + 1)
    ]
