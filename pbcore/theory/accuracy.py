"""The exact expected accuracy of the ideal model on the list operations, by a small Markov recursion (ParallelBench,
Section 4.2).

The ideal model's logits are exact conditional log-marginals plus zero-mean noise whose size goes to 0, so that it only
breaks ties, at random. All positions are then equivalent. The state of a canvas is the number of items left and how
many of them are in the active block.

- shuffle: with m items left each position is uniform over them, so a step that reveals j is right with probability P(m,
  j) / m^j (Eq. 5).
- replace_random: until the new item is placed, each position takes it with probability 1/m. A step that places exactly
  one decides the
  rest, one that places two or more makes the answer wrong, and one that places none leaves m − j items.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import comb, perm

from pbcore.errors import InputError
from pbcore.names import parse
from pbcore.theory.answers import DETERMINISTIC, check_operation
from pbcore.theory.reveals import Rule, rule

LIST_OPS = ("copy", "replace_index", "replace_random", "shuffle")
DERIVED = (*DETERMINISTIC, "replace_random", "shuffle")
MOST_ITEMS = 200


def accuracy(op: str, n: int, sampler: str) -> float:
    """The expected accuracy of the ideal model on `list_ops` under a sampler name, in the limit of small noise.

    `op` is copy, replace_index, replace_random, shuffle (or another operation with one answer, where it is 1).
    Samplers: random, confidence, left_to_right, margin, entropy top-k (or `+s2_1_1`, `+linear4` schedules), threshold
    and factor, with `+bN` and `+tX`. Where a confidence equals the threshold, the noise decides. Raises InputError for
    an operation, sampler or block length without a derivation, and for n above 200.
    """
    check_operation(op, n)
    if op not in DERIVED:
        raise InputError(
            f"{op}: the accuracy is derived for {', '.join(DERIVED)}; for others decode with the model `ideal`"
        )
    sampler_rule = rule(parse(sampler))
    if op in DETERMINISTIC:
        return 1.0
    if n > MOST_ITEMS:
        raise InputError(f"{op}, n = {n}: the recursion goes up to n = {MOST_ITEMS}")
    block = sampler_rule.block or n
    if n % block:
        raise InputError(f"sampler {sampler}: block length {block} doesn't divide the {n} tokens of {op}, n = {n}")
    return min(1.0, _Decoding(sampler_rule, block, op == "shuffle").correct(n))


@dataclass(frozen=True)
class _Decoding:
    """One operation under one rule.

    A state is m items left, b of them in the active block, and the steps done in this block.
    """

    rule: Rule
    block: int
    shuffle: bool

    def correct(self, n: int) -> float:
        """The probability that decoding n masks gives a correct answer."""

        @cache
        def value(m: int, b: int, step: int) -> float:
            if m == 0:
                return 1.0 if self.shuffle else 0.0
            if b == 0:
                return value(m, self.block, 0)
            if self.shuffle:
                return sum(
                    (p * (perm(m, j) / m**j) * value(m - j, b - j, step + 1) for j, p in self._shuffled(m, b, step)),
                    0.0,
                )
            total = 0.0
            for kept, placed, p in self._replaced(m, b, step):
                if placed == 1:
                    total += p
                elif placed == 0 and p:
                    total += p * value(m - kept, b - kept, step + 1)
            return total

        return value(n, self.block, 0)

    def _shuffled(self, m: int, b: int, step: int) -> Iterator[tuple[int, float]]:
        """(number revealed, probability) of one step.

        All confidences are 1/m; noise lifts a greedy token's, and half of the drawn ones.
        """
        equal = 1.0 if self.rule.greedy and m > 1 else 0.5
        yield from self.rule.reveals([(1, m, b, equal)], b, step)

    def _replaced(self, m: int, b: int, step: int) -> Iterator[tuple[int, int, float]]:
        """(positions that keep their item, positions that take the new one, probability) of one step."""
        if m == 1:
            yield 0, 1, 1.0
            return
        if m == 2:
            yield from self._tied(b, step)
            return
        new = 0.0 if self.rule.greedy else self.rule.tempered(1, m - 1)
        for drawn in range(b + 1):
            p = comb(b, drawn) * new**drawn * (1 - new) ** (b - drawn)
            if not p:
                continue
            if self.rule.blind:
                ((j, _),) = self.rule.reveals([], b, step)
                for placed in range(max(0, j - (b - drawn)), min(j, drawn) + 1):
                    chosen = comb(drawn, placed) * comb(b - drawn, j - placed) / comb(b, j)
                    yield j - placed, placed, p * chosen
            else:
                yield from self._by_confidence(m, b, drawn, p, step)

    def _by_confidence(self, m: int, b: int, drawn: int, p: float, step: int) -> Iterator[tuple[int, int, float]]:
        """Positions that drew their own item have confidence (m−1)/m and are revealed first; those that drew the new
        one have 1/m.
        """
        groups = [(m - 1, m, b - drawn, 0.5), (1, m, drawn, 0.5)]
        for j, q in self.rule.reveals(groups, b, step):
            kept = min(j, b - drawn)
            yield kept, j - kept, p * q

    def _tied(self, b: int, step: int) -> Iterator[tuple[int, int, float]]:
        """Two items left: both tokens have probability ½, so each revealed position is a fair coin."""
        equal = 1.0 if self.rule.greedy else 0.5
        for j, q in self.rule.reveals([(1, 2, b, equal)], b, step):
            for placed in range(j + 1):
                yield j - placed, placed, q * comb(j, placed) / 2**j
