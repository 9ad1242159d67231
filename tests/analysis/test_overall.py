"""The mean difference over cells and its interval."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, sqrt

import numpy as np
import pytest

from pbcore.analysis.compare import Overall, overall
from pbcore.analysis.paired import compare, interval, tango

WRONG = dict.fromkeys(range(10), 0.0)
RIGHT = dict.fromkeys(range(10), 1.0)
HALF = {i: float(i < 5) for i in range(10)}


def over(*cells: tuple[str, Mapping[int, float], Mapping[int, float]]) -> Overall:
    """Over cells of (task, head's and base's scores by sample)."""
    return overall([(task, compare(head, base)) for task, head, base in cells])


class TestOverall:
    def test_one_cell_is_its_own_interval(self) -> None:
        mean = over(("a", HALF, WRONG))
        assert (mean.cells, mean.base, mean.head, mean.change) == (1, 0.0, 0.5, 0.5)
        assert (mean.low, mean.high) == pytest.approx(tango(0, 5, 10))

    def test_tasks_lend_their_bounds(self) -> None:
        """Two tasks: half of each distance, in squares."""
        mean = over(("a", HALF, WRONG), ("b", RIGHT, HALF))
        low, high = tango(0, 5, 10)
        assert mean.change == 0.5
        assert mean.low == pytest.approx(0.5 - sqrt(2) * (0.5 - low) / 2)
        assert mean.high == pytest.approx(0.5 + sqrt(2) * (high - 0.5) / 2)

    def test_cells_of_a_task_share_their_samples(self) -> None:
        """Four samplers with the same flips say no more than one; other samples of the task stand
        alone.
        """
        same = over(*[("a", HALF, WRONG)] * 4)
        differences = [HALF[i] for i in range(10)]
        assert (same.low, same.high) == pytest.approx(interval(differences, binary=False))
        elsewhere = {i + 100: score for i, score in HALF.items()}
        apart = over(("a", HALF, WRONG), ("a", elsewhere, dict.fromkeys(elsewhere, 0.0)))
        assert apart.high - apart.low < 0.8 * (same.high - same.low)

    def test_runs_swapped(self) -> None:
        one = over(("a", HALF, WRONG), ("b", RIGHT, HALF))
        other = over(("a", WRONG, HALF), ("b", HALF, RIGHT))
        assert (other.change, other.low, other.high) == pytest.approx(
            (-one.change, -one.high, -one.low)
        )

    def test_nothing(self) -> None:
        assert overall([]).cells == 0
        assert isnan(overall([]).change)

    def test_holds_the_true_difference(self) -> None:
        """In about 95 % of 600 draws: five tasks of 16 samples that flip at different rates, three
        cells of each.
        """
        random = np.random.default_rng(0)
        held = 0
        rounds = 600
        rates = [(0.0, 0.05), (0.05, 0.1), (0.1, 0.3), (0.2, 0.2), (0.3, 0.6)]
        truth = float(np.mean([better - worse for worse, better in rates]))
        for _ in range(rounds):
            pairs = []
            for task, (worse, better) in enumerate(rates):
                luck = random.random(16)  # shared by two of the task's cells, as a hard sample is
                for cell in range(3):
                    drawn = luck if cell < 2 else random.random(16)
                    change = np.where(drawn < worse, -1.0, np.where(drawn > 1 - better, 1.0, 0.0))
                    base = np.where(change < 0, 1.0, 0.0)
                    pairs.append((str(task), dict(enumerate(base + change)), dict(enumerate(base))))
            mean = over(*pairs)
            held += mean.low <= truth <= mean.high
        assert held / rounds > 0.93
