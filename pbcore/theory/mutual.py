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
    assigned = distribution._assigned(canvas.tolist())
    people = distribution._people(assigned)  # (n, n)
    own = _entropy(people)  # (n,)
    slots = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j and i not in assigned and j not in assigned:
                slots[i, j] = own[i] + own[j] - float(_entropy(_pair(distribution, assigned, people, i, j).ravel()))
            elif i == j and i not in assigned:
                slots[i, i] = own[i]
    result = np.zeros((distribution.length, distribution.length))
    places = distribution.slots.ravel()
    result[np.ix_(places, places)] = np.kron(slots, np.ones((width, width)))
    known = canvas != MASKED
    result[known], result[:, known] = 0.0, 0.0
    np.fill_diagonal(result, 0.0)
    return result.clip(0)


def _pair(distribution: Shuffled, assigned: dict[int, int], people: Matrix, i: int, j: int) -> Matrix:
    """p(person in slot i, person in slot j), (n, n)."""
    n = len(distribution.slots)
    joint = np.zeros((n, n))
    for person in range(n):
        if people[i, person] > 0:
            joint[person] = people[i, person] * distribution._people({**assigned, i: person})[j]
    return joint


def _entropy(probs: Matrix) -> Matrix:
    """Entropy (…) in nats of distributions (…, v)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probs > 0, probs * np.log(probs), 0.0)
    result: Matrix = -terms.sum(-1)
    return result
