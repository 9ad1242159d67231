"""What the gate lets through and stops, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from pbcore.analysis.paired import holm, mcnemar, power
from tests.gates.test_judge import Entry, gate
from tests.results import factory


class TestSimulation:
    CELLS = 12
    RUNS = 2000
    N = 100

    def failing(self, drop: float, churn: float) -> float:
        """The share of runs that fail: flips drawn per cell, then what `judge` does with them
        (exact McNemar, Holm).
        """
        rates = [[churn + drop, churn, 1 - 2 * churn - drop]] + [[churn, churn, 1 - 2 * churn]] * (
            self.CELLS - 1
        )
        generator = np.random.default_rng(7)
        draws = np.stack(
            [generator.multinomial(self.N, rate, size=self.RUNS) for rate in rates], axis=1
        )  # (runs, cells, 3)
        p_of = {
            pair: mcnemar(*pair) for pair in {(int(b), int(c)) for b, c, _ in draws.reshape(-1, 3)}
        }
        return float(
            np.mean([min(holm([p_of[int(b), int(c)] for b, c, _ in run])) <= 0.05 for run in draws])
        )

    def test_false_alarms(self) -> None:
        """At most 5 % of 2,000 unchanged reruns of 12 cells fail, at any rate of meaningless
        flips.
        """
        for churn in (0.01, 0.05, 0.15):
            assert self.failing(0.0, churn) <= 0.05

    def test_power_is_as_computed(self) -> None:
        """Of 2,000 runs with one cell 20 points down as many fail as the formula says at the level
        that Holm leaves.
        """
        computed = power(self.N, 0.20, churn=0.03, level=0.05 / self.CELLS)
        assert self.failing(0.20, 0.03) == pytest.approx(computed, abs=0.03)

    def test_judge_itself(self) -> None:
        """The same through `judge`: of 30 unchanged reruns few fail; of 10 that lose half of one
        task's answers all do.
        """
        generator = np.random.default_rng(3)
        truth = (generator.random((3, 100)) < 0.8).astype(float)
        tasks = ["waiting_line/copy", "waiting_line/sort", "puzzle/sudoku"]

        def run(drop: float) -> list[Entry]:
            drawn = np.where(generator.random((3, 100)) < 0.04, 1 - truth, truth)
            drawn[0] = np.where(generator.random(100) < drop, 0.0, drawn[0])
            return [
                factory.cell(task=task, right=list(row))
                for task, row in zip(tasks, drawn, strict=True)
            ]

        def fails(drop: float) -> bool:
            return not gate(run(drop), run(0.0)).ok

        assert sum(fails(0.0) for _ in range(30)) <= 4
        assert sum(fails(0.5) for _ in range(10)) == 10
