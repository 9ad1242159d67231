"""Trade-offs of steps against value, as concave curves, random mixtures of samplers included.

A hull is its corners (mean steps, value), from the fewest steps on, each with a higher value at a falling slope. More
steps than the last corner's gain nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

Corner = tuple[float, float]
Hull = tuple[Corner, ...]
TINY = 1e-12


def best_of(hulls: Iterable[Sequence[Corner]]) -> Hull:
    """The concave curve above all corners."""
    corners: list[Corner] = []
    for corner in sorted({corner for hull in hulls for corner in hull}, key=lambda corner: (corner[0], -corner[1])):
        if corners and corner[1] <= corners[-1][1] + TINY:
            continue
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-2], corner) + TINY:
            corners.pop()
        corners.append(corner)
    return tuple(corners)


def mean_of(weighted: Sequence[tuple[float, Hull]]) -> Hull:
    """The trade-off where chance decides which of several applies: steps go first to where they gain most.

    The weights may add up to less than 1; what they lack takes no steps and has value 0.
    """
    steps = sum(weight * hull[0][0] for weight, hull in weighted)
    value = sum(weight * hull[0][1] for weight, hull in weighted)
    edges = [
        (weight * (b[0] - a[0]), weight * (b[1] - a[1]))
        for weight, hull in weighted
        if weight > TINY
        for a, b in pairwise(hull)
    ]
    corners = [(steps, value)]
    for longer, more in sorted(edges, key=lambda edge: -edge[1] / edge[0]):
        steps, value = steps + longer, value + more
        corners.append((steps, value))
    return tuple(corners)


def shifted(hull: Hull, steps: float) -> Hull:
    """The hull with as many more steps."""
    return tuple((s + steps, value) for s, value in hull)


def value_at(hull: Hull, steps: float) -> float:
    """The best value in at most this many steps on average. Raises ValueError below the fewest steps."""
    if steps < hull[0][0] - 1e-9:
        raise ValueError(f"{steps:g} steps: it takes at least {hull[0][0]:g}")
    after = bisect_left(hull, steps, key=lambda corner: corner[0])
    if after in (0, len(hull)):
        return hull[min(after, len(hull) - 1)][1]
    a, b = hull[after - 1], hull[after]
    return a[1] + (b[1] - a[1]) * (steps - a[0]) / (b[0] - a[0])


def steps_for(hull: Hull, value: float) -> float:
    """The fewest mean steps that reach a value, or the hull's highest if that is lower."""
    for a, b in pairwise(hull):
        if value <= a[1]:
            return a[0]
        if value < b[1]:
            return a[0] + (b[0] - a[0]) * (value - a[1]) / (b[1] - a[1])
    return hull[-1][0]


def _slope(a: Corner, b: Corner) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
