"""Bits lost: L_T of the partition that a decoding took (ParallelBench, Theorem 1). A answers, W open positions."""

from collections.abc import Sequence
from math import log2

import numpy as np
from numpy.typing import NDArray

from pbcore.errors import InputError
from pbcore.theory.bounds import changed_entropy, label_entropy
from pbcore.theory.canvas import MASKED, AnswerDistribution
from pbcore.theory.chains import Chain
from pbcore.theory.distributions import Listed, Shuffled
from pbcore.theory.products import Product


def bits_lost(distribution: AnswerDistribution, steps: Sequence[int]) -> float:
    """L_T in bits of the partition in which the masked positions were revealed.

    `steps[i]` is the step of canvas position i; −1 for positions that were filled without a prediction, which count as
    revealed after all others. Positions that the others determine lose nothing. Raises InputError for steps that don't
    cover the canvas, and for a shuffle some of whose people have their place already.
    """
    masked = distribution.canvas == MASKED
    if len(steps) < distribution.length:
        raise InputError(
            f"{len(steps)} steps for a canvas of {distribution.length} tokens; give the step of each token"
        )
    when = np.array(steps[: distribution.length], dtype=np.int64)
    when[when < 0] = max(0, int(when.max())) + 1
    if isinstance(distribution, Shuffled):
        if not masked[distribution.slots].all():
            raise InputError("some people of the shuffle have their place in the given canvas; its loss isn't derived")
        return _shuffled(len(distribution.slots), distribution.identity, when[distribution.slots])
    if isinstance(distribution, Product):  # independent: the losses add up
        parts = zip(distribution.parts, distribution.slices, strict=True)
        return sum(bits_lost(part, when[where].tolist()) for part, where in parts)
    if isinstance(distribution, Chain):
        return distribution.bits_lost(when[: distribution.steps])
    assert isinstance(distribution, Listed)
    if len(np.unique(when[masked])) == int(masked.sum()):
        return 0.0  # one at a time
    rows = distribution.consistent(distribution.canvas)
    varying = (rows != rows[0]).any(0)
    return rows_lost(rows[:, varying], when[varying])


def rows_lost(rows: NDArray[np.int64], when: NDArray[np.int64]) -> float:
    """L_T in bits of equally likely answers (A, W), whose positions are revealed at the steps `when` (W,)."""
    known = np.zeros(len(rows), dtype=np.int64)  # (A,) which answers agree so far
    total = before = 0.0
    for step in np.unique(when):
        together = known
        for position in (when == step).nonzero()[0]:
            total += label_entropy(_joined(known, rows[:, position])) - before
            together = _joined(together, rows[:, position])
        known = together
        before = label_entropy(known)
    return max(0.0, total - before)


def _joined(labels: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels (A,) that are equal where both are."""
    _, joined = np.unique(labels * (int(column.max()) + 1) + column, return_inverse=True)
    result: NDArray[np.int64] = joined.astype(np.int64).reshape(-1)
    return result


def _shuffled(n: int, identity: bool, when: NDArray[np.int64]) -> float:
    """L_T of an order of n people; `when` (n, w) has the step of each name. The first name settles a slot."""
    entropy = [changed_entropy(n, size) if not identity else sum(log2(n - i) for i in range(size)) for size in range(n)]
    entropy.append(entropy[-1])  # the last but one settles the last
    first = when.min(-1)
    total, known = 0.0, 0
    for step in np.unique(first):
        here = first == step
        total += int((when[here] == step).sum()) * (entropy[known + 1] - entropy[known])
        known += int(here.sum())
    return max(0.0, total - entropy[n])
