"""Expected accuracy of the ideal model on the list operations, exactly, by a small Markov recursion (ParallelBench, Section 4.2).

The ideal model's logits are exact conditional log-marginals plus zero-mean noise whose size goes to 0: it breaks ties at random and
nothing else. Every position is then alike, and the state of a canvas is how many items are left, of which how many in the active block.

- shuffle: with m items left each position is uniform over them, so a step that reveals j is right with probability P(m, j) / m^j (Eq. 5).
- replace_random: until the new item is placed, each position takes it with probability 1/m. A step that reveals exactly one settles the
  rest, two are wrong for good, and none leaves m − j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import comb, perm

from pbcore.names import parse
from pbcore.theory.answers import DETERMINISTIC, check_operation
from pbcore.theory.reveals import Rule, rule

LIST_OPS = ("copy", "replace_index", "replace_random", "shuffle")
DERIVED = (*DETERMINISTIC, "replace_random", "shuffle")
MOST_ITEMS = 200


def accuracy(op: str, n: int, sampler: str) -> float:
    """The expected accuracy of the ideal model on `list_ops` under a sampler name, in the limit of small noise.

    `op` is copy, replace_index, replace_random, shuffle (or another operation with one answer, where it is 1). Samplers: random,
    confidence, left_to_right, margin, entropy top-k (or `+s2_1_1`, `+linear4` schedules), threshold and factor, with `+bN` and `+tX`.
    A threshold that equals a confidence is exceeded by half of the noise. Raises ValueError for an operation, sampler or block length
    that this isn't derived for, and for n above 200.
    """
    check_operation(op, n)
    if op not in DERIVED:
        raise ValueError(
            f"{op}: the accuracy is derived for {', '.join(DERIVED)}; for others decode with the model `ideal`"
        )
    how = rule(parse(sampler))
    if op in DETERMINISTIC:
        return 1.0
    if n > MOST_ITEMS:
        raise ValueError(f"{op}, n = {n}: the recursion goes up to n = {MOST_ITEMS}")
    block = how.block or n
    if n % block:
        raise ValueError(f"sampler {sampler}: block length {block} doesn't divide the {n} tokens of {op}, n = {n}")
    return min(1.0, _Decoding(how, block, op == "shuffle").right(n))


@dataclass(frozen=True)
class _Decoding:
    """One operation under one rule. States are (items left, of which in the active block, steps had in it)."""

    rule: Rule
    block: int
    shuffle: bool

    def right(self, n: int) -> float:
        """The probability that a canvas of n masks becomes a right answer."""

        @cache
        def value(m: int, here: int, step: int) -> float:
            if m == 0:
                return 1.0 if self.shuffle else 0.0
            if here == 0:
                return value(m, self.block, 0)
            if self.shuffle:
                return sum(
                    (
                        p * perm(m, j) / m**j * value(m - j, here - j, step + 1)
                        for j, p in self._shuffled(m, here, step)
                    ),
                    0.0,
                )
            total = 0.0
            for kept, placed, p in self._replaced(m, here, step):
                if placed == 1:
                    total += p
                elif placed == 0 and p:
                    total += p * value(m - kept, here - kept, step + 1)
            return total

        return value(n, self.block, 0)

    def _shuffled(self, m: int, here: int, step: int) -> Iterator[tuple[int, float]]:
        """How many are revealed: all confidences are 1/m, the greedy token's a little above, a drawn one's above or below."""
        equal = 1.0 if self.rule.greedy and m > 1 else 0.5
        yield from self.rule.reveals([(1, m, here, equal)], here, step)

    def _replaced(self, m: int, here: int, step: int) -> Iterator[tuple[int, int, float]]:
        """How many keep their item and how many take the new one, and with which probability, in one step."""
        if m == 1:
            yield 0, 1, 1.0
            return
        if m == 2:
            yield from self._tied(here, step)
            return
        new = 0.0 if self.rule.greedy else self.rule.tempered(1, m - 1)
        for drawn in range(here + 1):
            p = comb(here, drawn) * new**drawn * (1 - new) ** (here - drawn)
            if not p:
                continue
            if self.rule.blind:
                ((j, _),) = self.rule.reveals([], here, step)
                for placed in range(max(0, j - (here - drawn)), min(j, drawn) + 1):
                    chosen = comb(drawn, placed) * comb(here - drawn, j - placed) / comb(here, j)
                    yield j - placed, placed, p * chosen
            else:
                yield from self._by_confidence(m, here, drawn, p, step)

    def _by_confidence(self, m: int, here: int, drawn: int, p: float, step: int) -> Iterator[tuple[int, int, float]]:
        """Positions that drew their own item have confidence (m−1)/m and come first, those that drew the new one 1/m."""
        groups = [(m - 1, m, here - drawn, 0.5), (1, m, drawn, 0.5)]
        for j, q in self.rule.reveals(groups, here, step):
            kept = min(j, here - drawn)
            yield kept, j - kept, p * q

    def _tied(self, here: int, step: int) -> Iterator[tuple[int, int, float]]:
        """Two items left, both tokens at one half: whatever is revealed is a fair coin per position."""
        equal = 1.0 if self.rule.greedy else 0.5
        for j, q in self.rule.reveals([(1, 2, here, equal)], here, step):
            for placed in range(j + 1):
                yield j - placed, placed, q * comb(j, placed) / 2**j
