"""What positions tell of each other: the bits lost by a decoding's partition (L_T; ParallelBench,
Theorem 1), and the mutual information of two positions, the dependence that attention is hoped to
show. A answers, W open positions.
"""

from collections.abc import Sequence
from math import log2

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.theory.bounds import changed_entropy, label_entropy
from pbcore.theory.canvas import MASKED, AnswerDistribution, Ids, Probabilities, ProductDistribution
from pbcore.theory.chains import Chain
from pbcore.theory.distributions import Listed, Shuffled


def bits_lost(distribution: AnswerDistribution, steps: Sequence[int]) -> float:
    """L_T in bits of the partition in which the masked positions were revealed. `steps[i]` is the
    step of canvas position i; −1 (filled without a prediction) counts as after all others.
    Positions that the others determine lose nothing. Raises InputError for steps that don't cover
    the canvas, and for a shuffle some of whose people have their place already.
    """
    masked = distribution.canvas == MASKED
    if len(steps) < distribution.length:
        raise InputError(
            f"{len(steps)} steps for a canvas of {distribution.length} tokens; give the step of"
            " each token"
        )
    when = np.array(steps[: distribution.length], dtype=np.int64)
    when[when < 0] = max(0, int(when.max())) + 1
    if isinstance(distribution, Shuffled):
        if not masked[distribution.slots].all():
            raise InputError(
                "some people of the shuffle have their place in the given canvas; its loss isn't"
                " derived"
            )
        return _shuffled_bits(
            len(distribution.slots), distribution.identity, when[distribution.slots]
        )
    if isinstance(distribution, ProductDistribution):  # independent: the losses add up
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
    """L_T in bits of equally likely answers (A, W), whose positions are revealed at the steps
    `when` (W,).
    """
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
    return np.asarray(joined, dtype=np.int64).reshape(-1)


def _shuffled_bits(n: int, identity: bool, when: NDArray[np.int64]) -> float:
    """L_T of an order of n people; `when` (n, w) has the step of each name. The first name settles
    a slot.
    """
    entropy: list[float] = []
    for size in range(n):
        if identity:
            entropy.append(sum(log2(n - i) for i in range(size)))
        else:
            entropy.append(changed_entropy(n, size))
    # The last but one settles the last.
    entropy.append(entropy[-1])
    first = when.min(-1)
    total = 0.0
    known = 0
    for step in np.unique(first):
        here = first == step
        total += int((when[here] == step).sum()) * (entropy[known + 1] - entropy[known])
        known += int(here.sum())
    return max(0.0, total - entropy[n])


def mutual_information(distribution: AnswerDistribution, canvas: Ids) -> Probabilities:
    """I(yᵢ; yⱼ | revealed) = H(yᵢ) + H(yⱼ) − H(yᵢ, yⱼ) in nats, exact, (L, L), for a canvas (L,)
    with MASKED at hidden positions; 0 on the diagonal and wherever a position is known. Raises
    InputError for a distribution of another kind than listed answers, shuffles and products of
    them.
    """
    if isinstance(distribution, Listed):
        return _listed_information(distribution, canvas)
    if isinstance(distribution, Shuffled):
        return _shuffled_information(distribution, canvas)
    if isinstance(distribution, ProductDistribution):
        result = np.zeros((distribution.length, distribution.length))
        for number, (part, where) in enumerate(
            zip(distribution.parts, distribution.slices, strict=True)
        ):
            result[where, where] = mutual_information(part, distribution.local(canvas, number))
        return result
    raise InputError(
        "mutual information is known for listed answers and shuffles, not"
        f" {type(distribution).__name__}"
    )


def _listed_information(distribution: Listed, canvas: Ids) -> Probabilities:
    """By counting pairs of tokens among the answers that agree with the canvas."""
    answers = distribution.consistent(canvas)  # (a, L)
    result = np.zeros((distribution.length, distribution.length))
    open_ = ((answers != answers[0]).any(0) & (canvas == MASKED)).nonzero()[0]  # (W,)
    if len(open_):
        v = len(distribution.vocabulary)
        marks = np.zeros((len(answers), len(open_) * v))
        marks[np.arange(len(answers))[:, None], answers[:, open_] + np.arange(len(open_)) * v] = 1.0
        pairs = (marks.T @ marks / len(answers)).reshape(len(open_), v, len(open_), v)
        by_pair = pairs.transpose(0, 2, 1, 3).reshape(len(open_), len(open_), v * v)
        # (W, W): the entropy of each pair of positions, on the diagonal that of each position.
        joint = _entropy(by_pair)
        single = joint.diagonal()
        result[np.ix_(open_, open_)] = single[:, None] + single - joint
    np.fill_diagonal(result, 0.0)
    return result.clip(0)


def _shuffled_information(distribution: Shuffled, canvas: Ids) -> Probabilities:
    """By counting orders: names of one slot tell each other all, those of two slots whatever the
    orders allow.
    """
    n, width = distribution.slots.shape
    assigned = distribution.assigned(canvas.tolist())
    people = distribution.people_given(assigned)  # (n, n)
    own = _entropy(people)  # (n,)
    slots = np.zeros((n, n))
    free = [slot for slot in range(n) if slot not in assigned]
    for i in free:
        joint = np.zeros((n, n, n))  # (j, person in slot i, person in slot j)
        for person in people[i].nonzero()[0].tolist():
            joint[:, person] = people[i, person] * distribution.people_given(
                {**assigned, i: person}
            )
        slots[i, free] = own[i] + own[free] - _entropy(joint.reshape(n, -1))[free]
        slots[i, i] = own[i]
    result = np.zeros((distribution.length, distribution.length))
    places = distribution.slots.ravel()
    result[np.ix_(places, places)] = np.kron(slots, np.ones((width, width)))
    known = canvas != MASKED
    result[known], result[:, known] = 0.0, 0.0
    np.fill_diagonal(result, 0.0)
    return result.clip(0)


def _entropy(probs: Probabilities) -> Probabilities:
    """Entropy (…) in nats of distributions (…, v)."""
    from scipy.special import entr

    return np.asarray(entr(probs).sum(-1))
