"""One number for two runs: the mean difference over cells, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, nan

import numpy as np

from pbcore.analysis.paired import interval


@dataclass(frozen=True, slots=True)
class Overall:
    """Mean scores of both runs over `cells` cells, which weigh the same, and `change` = head − base with its 95 %
    interval. All are NaN without a cell."""

    cells: int
    base: float
    head: float
    change: float
    low: float
    high: float


def overall(pairs: Sequence[tuple[str, Mapping[int, float], Mapping[int, float]]]) -> Overall:
    """The mean over pairs (task, head's and base's scores by sample), all in [0, 1].

    Cells of one task ask the same questions, so that their differences belong together: a sample counts once, by its
    mean over them. Tasks are independent, and their intervals (`paired.interval`) are combined as Zou and Donner (2008)
    do: each lends the distance of its bound, squared and weighted by its share of the cells.
    """
    if not pairs:
        return Overall(0, nan, nan, nan, nan, nan)
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[Mapping[int, float], Mapping[int, float]]]] = {}
    for task, head, base in pairs:
        groups.setdefault((task, tuple(sorted(base))), []).append((head, base))
    below, above = [], []
    for (_, indices), cells in groups.items():
        differences = [float(np.mean([head[i] - base[i] for head, base in cells])) for i in indices]
        binary = len(cells) == 1 and all(value in (0, 1) for side in cells[0] for value in side.values())
        low, high = interval(differences, binary)
        change, weight = float(np.mean(differences)), len(cells) / len(pairs)
        below.append(weight * (change - low))
        above.append(weight * (high - change))
    before = float(np.mean([np.mean(list(base.values())) for _, _, base in pairs]))
    after = float(np.mean([np.mean(list(head.values())) for _, head, _ in pairs]))
    change = after - before
    return Overall(len(pairs), before, after, change, change - hypot(*below), change + hypot(*above))
