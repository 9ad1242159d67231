"""The exact expected accuracy of the ideal model on a sample, under a sampler that treats open
positions alike: the answers as states of knowledge, what a step makes of one, and the recursion
over them.

A position is open while its token differs between the answers that are left. A revealed position
never is, so an open one is masked. Parts (the blocks of a sampler, or the steps of a fixed
partition) are decoded one after the other. A step reveals, of each group of positions with the same
probabilities, some number drawn at random, since only noise distinguishes them. A token that
contradicts every answer left makes the final answer wrong. W open positions, A answers.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import comb
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.theory.canvas import EOS, MASKED, AnswerDistribution
from pbcore.theory.distributions import Listed, Shuffled

MOST_WORK = 1_000_000  # outcomes that are followed, some microseconds each
FEW = 64  # answers
MANY = 2000  # outcomes of a step
MOST_STATES = 60_000


class NotExact(InputError):
    """The expected accuracy of this sampler on this sample can't be computed exactly."""


class ExchangeablePositions(NamedTuple):
    """Open positions with the same probabilities, and so with exchangeable noise. `chances` are
    those of a position's tokens, highest first.
    """

    chances: tuple[float, ...]
    positions: int


class Problem(Protocol):
    """A sample's answers in parts of `sizes` masked positions. A state stands for the answers that
    are left.
    """

    sizes: tuple[int, ...]
    start: Any

    def solved(self, state: Any) -> bool:
        """Whether one answer is left."""

    def groups(self, state: Any, part: int) -> tuple[ExchangeablePositions, ...]:
        """The open positions of a part."""

    def moves(
        self, state: Any, part: int, counts: tuple[int, ...] | int, temperature: float
    ) -> Mapping[Any, float]:
        """The states after a step. What contradicts every answer is left out.

        Args:
            state: the answers that are left.
            part: the number of the part that is decoded.
            counts: positions revealed of each group; as one number, of all open positions together.
                Which ones is drawn at random.
            temperature: τ; 0 takes the likeliest tokens.

        Returns:
            State → probability.
        """


# (groups, settled positions, steps done in the part, positions of the part) → (probability,
# positions revealed of each group, or of all open ones together; settled positions revealed)
StepOutcome = tuple[float, Sequence[int] | int, int]
StepOutcomes = Callable[[tuple[ExchangeablePositions, ...], int, int, int], Sequence[StepOutcome]]


def targets(distribution: AnswerDistribution) -> NDArray[np.int64]:
    """The masked positions of the initial canvas, in order."""
    return np.asarray((distribution.canvas == MASKED).nonzero()[0])


def structure(distribution: AnswerDistribution) -> Hashable:
    """A key: distributions with equal keys differ in their tokens' names alone, EOS excepted."""
    masked = (distribution.canvas == MASKED).tobytes()
    if isinstance(distribution, Shuffled):
        slots = distribution.slots
        return (
            "shuffled",
            slots.shape,
            slots.tobytes(),
            distribution.identity,
            distribution.length,
            masked,
        )
    if not isinstance(distribution, Listed):
        raise NotExact(
            f"no ceiling is known for a {type(distribution).__name__.lower()} of answers"
        )
    rows = distribution.rows
    end = distribution.vocabulary.index(EOS)
    named = np.stack([_by_appearance(column) for column in rows.T], axis=1)
    named[rows == end] = -1
    return "listed", named.shape, named.tobytes(), _consistent(distribution), masked


def _by_appearance(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens (R,) numbered by their first appearance, as `pandas.factorize` does, which a cell
    would import late.
    """
    _, first, number = np.unique(tokens, return_index=True, return_inverse=True)
    return np.asarray(first.argsort().argsort()[number])


def _consistent(distribution: Listed) -> int:
    """The answers that agree with the given tokens, as a set of bits."""
    given = distribution.canvas != MASKED
    agree = (distribution.rows[:, given] == distribution.canvas[given]).all(-1)
    return sum(1 << i for i in agree.nonzero()[0].tolist())


def prediction_chances(chances: Sequence[float], temperature: float) -> list[float]:
    """The probabilities with which each of a position's tokens is predicted: greedy, the likeliest,
    ties at random.
    """
    if temperature == 1:
        return list(chances)
    top = max(chances)
    if temperature == 0:
        best = [chance >= top * (1 - 1e-9) for chance in chances]
        return [weight / sum(best) for weight in best]
    heated = [(chance / top) ** (1 / temperature) if chance else 0.0 for chance in chances]
    return [value / sum(heated) for value in heated]


class ListedProblem:
    """Listed answers; a state is the set of those that are left, as bits. Sets that split alike in
    every position, taken in order, are one state. This is looked for among at most `FEW` answers.
    """

    def __init__(
        self, distribution: Listed, parts: NDArray[np.int64], sizes: tuple[int, ...]
    ) -> None:
        self.sizes = sizes
        self.start = _consistent(distribution)
        # Part → positions, each its tokens' answers.
        self._columns: list[list[tuple[int, ...]]] = [[] for _ in sizes]
        # Part and tokens of each of these positions.
        self._labels: list[tuple[int, list[int]]] = []
        for position in targets(distribution):
            column = distribution.rows[:, position]
            answers_by_token = []
            for token in np.unique(column):
                answers = (column == token).nonzero()[0].tolist()
                answers_by_token.append(sum(1 << answer for answer in answers))
            if len(answers_by_token) > 1:
                self._columns[parts[position]].append(tuple(answers_by_token))
                self._labels.append((int(parts[position]), column.tolist()))
        self._few = len(distribution.rows) <= FEW
        self._seen: dict[Hashable, int] = {}
        self._work = 0

    def solved(self, state: int) -> bool:
        return state.bit_count() == 1

    @lru_cache(maxsize=1 << 14)  # noqa: B019  # lives as long as the problem
    def _classes(
        self, state: int, part: int
    ) -> dict[tuple[float, ...], dict[tuple[int, ...], int]]:
        """Probabilities → split of the answers by token → open positions that split them so."""
        total = state.bit_count()
        classes: dict[tuple[float, ...], dict[tuple[int, ...], int]] = {}
        for column in self._columns[part]:
            left_by_token = [token & state for token in column]
            split = tuple(sorted(left for left in left_by_token if left))
            if len(split) > 1:
                chances = tuple(sorted((left.bit_count() / total for left in split), reverse=True))
                splits = classes.setdefault(chances, {})
                splits[split] = splits.get(split, 0) + 1
        return dict(sorted(classes.items(), reverse=True))

    def groups(self, state: int, part: int) -> tuple[ExchangeablePositions, ...]:
        return tuple(
            ExchangeablePositions(chances, sum(splits.values()))
            for chances, splits in self._classes(state, part).items()
        )

    def moves(
        self, state: int, part: int, counts: tuple[int, ...] | int, temperature: float
    ) -> Mapping[int, float]:
        classes = self._classes(state, part)
        reached: Mapping[int, float] = {state: 1.0}
        if isinstance(counts, int):
            everything = [item for splits in classes.values() for item in splits.items()]
            reached = self._drawn(reached, state, everything, counts, temperature)
        else:
            for splits, count in zip(classes.values(), counts, strict=True):
                reached = self._drawn(reached, state, list(splits.items()), count, temperature)
        if not self._few:
            return reached
        merged: defaultdict[int, float] = defaultdict(float)
        for answers, weight in reached.items():
            first_alike = self._seen.setdefault(self._alike(answers), answers)
            merged[first_alike] += weight
        return merged

    def _merged(
        self, table: Mapping[tuple[int, int], float], classes: Sequence[tuple[int, ...]]
    ) -> dict[tuple[int, int], float]:
        """The table with one entry for answers that are alike, also as to the classes to come."""
        merged: dict[tuple[int, int], float] = {}
        first: dict[Hashable, int] = {}
        for (used, answers), weight in table.items():
            left = _members(answers)
            later = tuple(_places(split, left) for split in classes)
            key = used, first.setdefault((later, self._alike(answers)), answers)
            merged[key] = merged.get(key, 0.0) + weight
        return merged

    @lru_cache(maxsize=1 << 16)  # noqa: B019  # lives as long as the problem
    def _alike(self, state: int) -> Hashable:
        """What matters of a state: how each position splits the answers that are left, taken in
        order.
        """
        left = _members(state)
        table = []
        for part, label in self._labels:
            names: dict[int, int] = {}
            split = tuple([names.setdefault(label[answer], len(names)) for answer in left])
            if len(names) > 1:
                table.append((part, split))
        return len(left), tuple(sorted(table))

    def _drawn(
        self,
        reached: Mapping[int, float],
        state: int,
        classes: Sequence[tuple[tuple[int, ...], int]],
        count: int,
        temperature: float,
    ) -> Mapping[int, float]:
        """After revealing `count` positions drawn from the classes, by way of (positions used,
        answers left).
        """
        if not count:
            return reached
        total = state.bit_count()
        left = sum(size for _, size in classes)
        ways = comb(left, count)
        table: dict[tuple[int, int], float] = {(0, one): weight for one, weight in reached.items()}
        for number, (split, size) in enumerate(classes):
            if self._few and len(table) > MANY:
                table = self._merged(table, [later for later, _ in classes[number:]])
            left -= size
            chances = prediction_chances([part.bit_count() / total for part in split], temperature)
            options = [
                (part, chance) for part, chance in zip(split, chances, strict=True) if chance
            ]
            after: defaultdict[tuple[int, int], float] = defaultdict(float)
            for (used, answers), weight in table.items():
                if count - used <= left:
                    after[used, answers] += weight
                for more in range(max(1, count - used - left), min(size, count - used) + 1):
                    scale = weight * comb(size, more)
                    for part, chance in options:
                        if kept := answers & part:
                            after[used + more, kept] += scale * chance**more
            table = after
            self._work += len(table)
            if self._work > MOST_WORK:
                raise NotExact("there are too many outcomes to follow")
        return {
            answers: weight / ways for (used, answers), weight in table.items() if used == count
        }


def _members(state: int) -> list[int]:
    return [answer for answer in range(state.bit_length()) if state >> answer & 1]


def _places(split: Sequence[int], answers: Sequence[int]) -> tuple[int, ...]:
    """Which set of a split each answer is in."""
    places = []
    for answer in answers:
        places.append(next(i for i, subset in enumerate(split) if subset >> answer & 1))
    return tuple(places)


def expected_accuracy(
    problem: Problem, counts: StepOutcomes, temperature: float, *, scheduled: bool = False
) -> float:
    """The probability that decoding reveals an answer.

    Args:
        problem: the sample's answers in parts.
        counts: the sampler: how many positions of each group a step reveals.
        temperature: τ; 0 takes the likeliest tokens.
        scheduled: whether `counts` reads the number of steps done.

    Raises:
        NotExact: for too many states or outcomes, and what `counts` raises.
    """
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
            return value(
                state,
                part + 1,
                problem.sizes[part + 1] - sum(group.positions for group in after),
                0,
            )
        total = 0.0
        for chance, revealed, known in counted(groups, settled, step, problem.sizes[part]):
            used = revealed if isinstance(revealed, int) else sum(revealed)
            moved = problem.moves(
                state, part, revealed if isinstance(revealed, int) else tuple(revealed), temperature
            )
            for next_state, probability in moved.items():
                left = (
                    0
                    if problem.solved(next_state)
                    else sum(g.positions for g in problem.groups(next_state, part))
                )
                rest = settled - known + free - used - left
                total += (
                    chance
                    * probability
                    * value(next_state, part, rest, step + 1 if scheduled else 0)
                )
        return total

    first = (
        sum(group.positions for group in problem.groups(problem.start, 0)) if problem.sizes else 0
    )
    return min(1.0, value(problem.start, 0, problem.sizes[0] - first, 0)) if problem.sizes else 1.0


def everything(
    groups: tuple[ExchangeablePositions, ...], settled: int, step: int, size: int
) -> Iterator[StepOutcome]:
    """The rule of a fixed partition, whose parts are its steps: all positions at once.

    Args:
        groups: the open positions of the part.
        settled: its masked positions whose token is certain.
        step: steps done in the part.
        size: positions of the part.
    """
    yield 1.0, tuple(group.positions for group in groups), settled


def at_random(
    count: int, groups: Sequence[ExchangeablePositions], settled: int
) -> list[StepOutcome]:
    """The outcomes of revealing `count` of all masked positions, each choice equally likely.

    Args:
        count: how many positions are revealed.
        groups: the open positions of the part.
        settled: its masked positions whose token is certain.
    """
    free = sum(group.positions for group in groups)
    ways = comb(free + settled, count)
    return [
        (comb(free, used) * comb(settled, count - used) / ways, used, count - used)
        for used in range(max(0, count - settled), min(count, free) + 1)
    ]
