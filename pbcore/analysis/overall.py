"""One number for two runs: the mean difference over cells, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from pbcore.analysis.paired import interval
from pbcore.analysis.tradeoff import mean_interval


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
    mean over them. Tasks are independent: their intervals (`paired.interval`) make that of the mean
    (`tradeoff.mean_interval`), weighted by their cells.
    """
    if not pairs:
        return Overall(0, nan, nan, nan, nan, nan)
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[Mapping[int, float], Mapping[int, float]]]] = {}
    for task, head, base in pairs:
        groups.setdefault((task, tuple(sorted(base))), []).append((head, base))
    parts, sizes = [], []
    for (_, indices), cells in groups.items():
        differences = [float(np.mean([head[i] - base[i] for head, base in cells])) for i in indices]
        binary = len(cells) == 1 and all(value in (0, 1) for side in cells[0] for value in side.values())
        parts.append((float(np.mean(differences)), *interval(differences, binary)))
        sizes.append(len(cells))
    before = float(np.mean([np.mean(list(base.values())) for _, _, base in pairs]))
    after = float(np.mean([np.mean(list(head.values())) for _, head, _ in pairs]))
    return Overall(len(pairs), before, after, *mean_interval(parts, sizes))
