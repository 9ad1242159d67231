"""Gating cells that were decoded by several seeds: the sample is the unit, and its mean over seeds
is what counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pbcore.analysis.paired import compare, detectable_shift, graded_drop, holm
from pbcore.analysis.verdict import judge
from pbcore.analysis.verdict_text import gate_text
from pbcore.results import build_cell
from pbcore.results.baseline import baseline_cell, read_baseline, write_baseline
from pbcore.results.rundir import StoredCell
from pbcore.tasks.scoring import Scored
from tests.results import factory

SAMPLER = "confidence-k2+t1.0"


def stored(scores: np.ndarray, **facts: object) -> StoredCell:
    """A cell from scores (seeds, samples)."""
    record, samples = factory.cell(
        sampler=SAMPLER, right=list(scores.ravel()), seeds=len(scores), **facts
    )  # type: ignore[arg-type]
    return StoredCell(record, tuple(samples))


def drawn(chances: np.ndarray, seeds: int, generator: np.random.Generator) -> np.ndarray:
    return (generator.random((seeds, len(chances))) < chances).astype(float)


class TestRows:
    def test_means_over_seeds(self, tmp_path: Path) -> None:
        """A baseline row has a sample's mean score and the sum of its forwards, and survives the
        file.
        """
        cell = stored(np.array([[1, 0, 1], [1, 0, 0]]), nfe=[3, 4, 5, 6, 7, 8])
        row = baseline_cell(cell)
        assert row.scores == {"accuracy": (1.0, 0.0, 0.5)}
        assert (row.indices, row.seeds, row.nfe) == ((0, 1, 2), (0, 1), (9, 11, 13))
        assert read_baseline(write_baseline(tmp_path / "b.json", [cell])) == {row.id: row}

    def test_the_sample_is_the_unit(self) -> None:
        """Ten samples answered alike by ten seeds are ten samples, not a hundred: the interval
        doesn't shrink.
        """
        scores = [1.0] * 5 + [0.0] * 5
        once = factory.cell(right=scores)
        often = stored(np.tile(scores, (10, 1)))
        assert often.cell.scores == once[0].scores
        assert (often.cell.n_samples, often.cell.conditions.seeds, len(often.samples)) == (
            10,
            list(range(10)),
            100,
        )

    def test_other_seeds_are_refused(self) -> None:
        """Five seeds against three can't be compared."""
        three, five = (stored(np.ones((count, 4))) for count in (3, 5))
        verdict = judge([five], {three.cell.id: baseline_cell(three)})
        assert verdict.judgements[0].reason == (
            "seeds 0, 1, 2, 3, 4, the baseline has 0, 1, 2: add --seed 0,1,2"
        )

    @pytest.mark.parametrize(
        ("indices", "seeds", "named"),
        [
            ([0, 0], [1, 1], "two answers for sample 0 and seed 1"),
            ([0, 0, 1], [1, 2, 1], r"sample 1 \[1\]"),
        ],
    )
    def test_incomplete(self, indices: list[int], seeds: list[int], named: str) -> None:
        """Each sample has one answer of each seed."""
        record, _ = factory.cell()
        answers = [factory.answer()] * len(indices)
        with pytest.raises(ValueError, match=named):
            build_cell(
                record,
                answers,
                [Scored({"accuracy": 1.0})] * len(indices),
                rounds=[1.0],
                indices=indices,
                seeds=seeds,
            )


@pytest.mark.slow
class TestSimulation:
    SAMPLES = 40
    SEEDS = 5
    CELLS = 3
    RUNS = 2000

    def chances(self) -> np.ndarray:
        """Each sample's own chance of a right answer: some easy, some hard."""
        return np.linspace(0.3, 1.0, self.SAMPLES)

    def failing(self, drop: float) -> float:
        """The share of runs that fail where one of the cells has lost `drop` of every sample's
        chance.
        """
        generator = np.random.default_rng(11)
        base = self.chances()
        failed = 0
        for _ in range(self.RUNS):
            worse = [drop, *[0.0] * (self.CELLS - 1)]
            p_values = [
                graded_drop(
                    drawn(base - lost, self.SEEDS, generator).mean(0)
                    - drawn(base, self.SEEDS, generator).mean(0)
                )
                for lost in worse
            ]
            failed += min(holm(p_values)) <= 0.05
        return failed / self.RUNS

    def test_false_alarms(self) -> None:
        """Of 2,000 unchanged reruns with fresh draws at most 5 % fail (a standard error is half a
        point).
        """
        assert self.failing(0.0) <= 0.05 + 2 * 0.005

    def test_power_is_as_computed(self) -> None:
        """A drop that the formula calls detectable with 80 % power fails about 80 % of 2,000
        runs.
        """
        base = self.chances()
        spread = float(np.sqrt((2 * base * (1 - base)).mean() / self.SEEDS))
        drop = detectable_shift(self.SAMPLES, spread, level=0.05 / self.CELLS)
        assert 0.1 < drop < 0.2
        assert self.failing(drop) == pytest.approx(0.8, abs=0.05)

    def test_judge_itself(self) -> None:
        """Through `judge`: fresh draws of the same chances pass, a clear drop fails, and the
        summary names what it could see.
        """
        generator = np.random.default_rng(5)
        base = self.chances()
        before, same, worse = (
            stored(drawn(np.clip(chances, 0, 1), self.SEEDS, generator))
            for chances in (base, base, base - 0.25)
        )
        rows = {before.cell.id: baseline_cell(before)}
        assert judge([same], rows).ok
        verdict = judge([worse], rows)
        assert verdict.judgements[0].status == "worse"
        assert "means over seeds" in gate_text(verdict)


def test_more_seeds_see_more() -> None:
    """The same drop is clearer over ten seeds than over one: noise of single draws averages out."""
    generator = np.random.default_rng(2)
    chances = np.full(60, 0.6)
    found = []
    for seeds in (1, 10):
        before, after = (drawn(chances - lost, seeds, generator).mean(0) for lost in (0.0, 0.15))
        found.append(compare(dict(enumerate(after)), dict(enumerate(before))).p)
    assert found[1] < found[0]
    assert found[1] < 0.01
