"""Mutual information of two positions, given what is revealed: the dependence that attention is hoped to show.

I(yᵢ; yⱼ | revealed) = H(yᵢ) + H(yⱼ) − H(yᵢ, yⱼ), in nats, exact for the answer distributions of `ideal`.
"""

import numpy as np
from numpy.typing import NDArray

from pbcore.errors import InputError
from pbcore.theory.canvas import MASKED, AnswerDistribution, Ids
from pbcore.theory.distributions import Listed, Shuffled
from pbcore.theory.products import Product

Matrix = NDArray[np.float64]


def mutual_information(distribution: AnswerDistribution, canvas: Ids) -> Matrix:
    """I(yᵢ; yⱼ | revealed tokens) in nats, (L, L), for a canvas (L,) with MASKED at hidden positions; 0 on the diagonal
    and wherever a position is known. Raises InputError for a distribution of another kind than the package's own."""
    if isinstance(distribution, Listed):
        return _listed(distribution, canvas)
    if isinstance(distribution, Shuffled):
        return _shuffled(distribution, canvas)
    if isinstance(distribution, Product):
        result = np.zeros((distribution.length, distribution.length))
        for number, (part, where) in enumerate(zip(distribution.parts, distribution.slices, strict=True)):
            result[where, where] = mutual_information(part, distribution.local(canvas, number))
        return result
    raise InputError(f"mutual information is known for listed answers and shuffles, not {type(distribution).__name__}")


def _listed(distribution: Listed, canvas: Ids) -> Matrix:
    """By counting pairs of tokens among the answers that agree with the canvas."""
    answers = distribution.consistent(canvas)  # (a, L)
    result = np.zeros((distribution.length, distribution.length))
    open_ = ((answers != answers[0]).any(0) & (canvas == MASKED)).nonzero()[0]  # (W,)
    if len(open_):
        v = len(distribution.vocabulary)
        marks = np.zeros((len(answers), len(open_) * v))
        marks[np.arange(len(answers))[:, None], answers[:, open_] + np.arange(len(open_)) * v] = 1.0
        pairs = (marks.T @ marks / len(answers)).reshape(len(open_), v, len(open_), v)
        joint = _entropy(pairs.transpose(0, 2, 1, 3).reshape(len(open_), len(open_), v * v))  # (W, W)
        own = joint.diagonal()
        result[np.ix_(open_, open_)] = own[:, None] + own - joint
    np.fill_diagonal(result, 0.0)
    return result.clip(0)


def _shuffled(distribution: Shuffled, canvas: Ids) -> Matrix:
    """By counting orders: names of one slot tell each other all, those of two slots whatever the orders allow."""
    n, width = distribution.slots.shape
    assigned = distribution.assigned(canvas.tolist())
    people = distribution.people_given(assigned)  # (n, n)
    own = _entropy(people)  # (n,)
    slots, free = np.zeros((n, n)), [slot for slot in range(n) if slot not in assigned]
    for i in free:
        joint = np.zeros((n, n, n))  # (j, person in slot i, person in slot j)
        for person in people[i].nonzero()[0].tolist():
            joint[:, person] = people[i, person] * distribution.people_given({**assigned, i: person})
        slots[i, free] = own[i] + own[free] - _entropy(joint.reshape(n, -1))[free]
        slots[i, i] = own[i]
    result = np.zeros((distribution.length, distribution.length))
    places = distribution.slots.ravel()
    result[np.ix_(places, places)] = np.kron(slots, np.ones((width, width)))
    known = canvas != MASKED
    result[known], result[:, known] = 0.0, 0.0
    np.fill_diagonal(result, 0.0)
    return result.clip(0)


def _entropy(probs: Matrix) -> Matrix:
    """Entropy (…) in nats of distributions (…, v)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probs > 0, probs * np.log(probs), 0.0)
    result: Matrix = -terms.sum(-1)
    return result
