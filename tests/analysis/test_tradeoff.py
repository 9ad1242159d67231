"""pbcore.analysis.tradeoff and order: PBx, AUP, Pareto, curves, means, checked against published
figures and loops.
"""

from __future__ import annotations

import itertools
from math import exp

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis import aup, curve_rows, mean_points, pareto, pbx, pbx_rows
from pbcore.analysis.order import method_of, narrow_name, natural, sorted_tasks
from pbcore.analysis.tradeoff import mean_interval
from pbcore.report.rows import cell_rows, frame_rows
from pbcore.results import load
from pbcore.tasks import all_task_names
from tests.reference import bundled
from tests.results import factory

POINTS = st.lists(st.tuples(st.floats(0.5, 64), st.floats(0, 100)), min_size=1, max_size=12)


def slow_pbx(points: list[tuple[float, float]], level: float) -> float | None:
    """The interpolated PBx by walking the curve in small steps."""
    best: dict[float, float] = {}
    for x, y in points:
        best[x] = max(y, best.get(x, 0))
    xs = sorted(best)
    found = None
    for left, right in itertools.pairwise(xs):
        for step in range(2001):
            x = left + (right - left) * step / 2000
            y = best[left] + (best[right] - best[left]) * step / 2000
            if y >= level:
                found = x
    return found if len(xs) > 1 else (xs[0] if best[xs[0]] >= level else None)


def slow_aup(points: list[tuple[float, float]], y_max: float) -> float:
    """AUP by its formula, term by term."""
    kept = [(x, y) for x, y in sorted(points) if y >= sorted(points)[0][1] - 5]

    def weighted(y: float) -> float:
        return y * min(exp(-3 * (1 - y / y_max)), 1)

    total = kept[0][0] * kept[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(kept):
        total += (x1 - x0) * (weighted(y1) + weighted(y0)) / 2
    return total


class TestPbx:
    def test_published_leaderboard(self) -> None:
        """LLaDA 1.5 with thresholds: PB80 is 4.09 interpolated and 3.42 on measured points (the
        rewrite's runs).
        """
        table = pd.read_csv(bundled("parallelbench_v2.csv"))
        chosen = table[
            (table["model"] == "GSAI-ML__LLaDA-1.5")
            & (table["method"] == "confidence_threshold")
            & (table["task"] == "all")
        ]
        points = list(zip(chosen["tokens_per_step"], chosen["score"], strict=True))
        assert pbx(points, 80) == pytest.approx(3.42, abs=0.005)
        assert pbx(points, 80, interpolate=True) == pytest.approx(4.09, abs=0.005)
        assert pbx(points, 99) is None

    @pytest.mark.parametrize(
        ("level", "measured", "between"),
        [(60, 4, 4.0), (60.1, 2, 3.992), (80, 2, 2.4), (85, 2, 2.0), (87, 1, 1.6)],
    )
    def test_a_level_between_scores(self, level: float, measured: float, between: float) -> None:
        """90 % at one token a step, 85 at two, 60 at four: the fastest measured point that is good
        enough, or the place on the line to the next one.
        """
        points = [(4.0, 60.0), (1.0, 90.0), (2.0, 85.0)]
        assert pbx(points, level) == measured
        assert pbx(points, level, interpolate=True) == pytest.approx(between)

    @given(POINTS, st.floats(0, 100))
    def test_interpolated_against_a_walk(
        self, points: list[tuple[float, float]], level: float
    ) -> None:
        """The interpolated form is the last point of the joined curve at or above the level."""
        slow = slow_pbx(points, level)
        fast = pbx(points, level, interpolate=True)
        assert (slow is None) == (fast is None)
        if slow is not None and fast is not None:
            assert fast == pytest.approx(slow, abs=0.04)

    @given(POINTS, st.floats(0, 100), st.floats(0, 100))
    def test_monotone(self, points: list[tuple[float, float]], first: float, second: float) -> None:
        """A stricter level never allows more tokens per step, interpolation never fewer than
        measured points.
        """
        low, high = sorted((first, second))
        for interpolate in (False, True):
            strict = pbx(points, high, interpolate)
            lax = pbx(points, low, interpolate)
            assert strict is None or (lax is not None and lax >= strict)
        plain = pbx(points, low)
        joined = pbx(points, low, interpolate=True)
        assert (plain is None) == (joined is None)
        assert plain is None or joined is None or joined >= plain

    def test_bad_points(self) -> None:
        """What is no rate or no score is refused."""
        for point in ((0, 50), (-1, 50), (1, float("nan")), (float("inf"), 5)):
            with pytest.raises(ValueError, match="positive rate"):
                pbx([point], 50)

    @pytest.mark.parametrize("scores", [(50, 90), (90, 50)])
    def test_the_best_of_two_points_at_one_rate_counts(self, scores: tuple[float, float]) -> None:
        """Two samplers of one rate are one point of the curve, in whatever order they come."""
        points = [(2.0, score) for score in scores]
        assert pbx(points, 80) == 2
        assert pbx([*points, (4, 70)], 80, interpolate=True) == 3

    def test_no_points(self) -> None:
        """Nothing measured reaches nothing."""
        assert pbx([], 50) is None


class TestAup:
    @given(
        st.lists(
            st.tuples(st.floats(0.5, 64), st.floats(1, 100)),
            min_size=1,
            max_size=12,
            unique_by=lambda point: point[0],
        ),
        st.floats(0, 50),
    )
    def test_against_the_formula(self, points: list[tuple[float, float]], above: float) -> None:
        """Equal to the sum written out, whatever the order of the points and the best score
        elsewhere.
        """
        top = max(y for _, y in points) + above
        assert aup(points[::-1], top) == pytest.approx(slow_aup(points, top))

    def test_by_hand(self) -> None:
        """(1, 80), (2, 80) without a better method: 80 + 80; a method at 100 weighs the second part
        by e^-0.6; a fall of 6 ends it.
        """
        assert aup([(1, 80), (2, 80)]) == pytest.approx(160)
        assert aup([(1, 80), (2, 80)], 100) == pytest.approx(80 + 80 * exp(-0.6))
        assert aup([(1, 80), (2, 74)]) == pytest.approx(80)
        assert aup([(1, 80), (2, 80)], 40) == pytest.approx(
            160
        )  # better than the best elsewhere weighs no more than 1

    def test_zero_scores_and_none(self) -> None:
        """A method that is never right has an area of 0; no points are an error."""
        assert aup([(1, 0), (2, 0)]) == 0
        assert aup([(1, 0.4), (2, 0.4)], 0.8) == pytest.approx(0.4 + 0.4 * exp(-1.5))
        with pytest.raises(ValueError, match="at least one point"):
            aup([])


class TestPareto:
    @given(POINTS)
    def test_against_all_pairs(self, points: list[tuple[float, float]]) -> None:
        """A point stays exactly if no other is at least as good in both and better in one."""
        unique = set(points)
        slow = {
            p for p in unique if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in unique)
        }
        assert pareto(points) == sorted(slow)

    @given(POINTS)
    def test_costs(self, points: list[tuple[float, float]]) -> None:
        """Of a cost less is better: the front of the points mirrored."""
        mirrored = [(-x, y) for x, y in pareto([(-x, y) for x, y in points])]
        assert pareto(points, fewer=True) == sorted(mirrored)


class TestCurves:
    def test_means_over_tasks(self) -> None:
        """A point is the plain mean over tasks of score and rate; dummies, errors and incomplete
        samplers are left out.
        """
        entries = [
            factory.cell("tiny", "waiting_line/copy", "threshold-0.9", right=1.0, nfe=8),
            factory.cell("tiny", "waiting_line/sort", "threshold-0.9", right=0.5, nfe=16),
            factory.cell("tiny", "waiting_line/copy", "threshold-0.5", right=1.0, nfe=2),
            factory.cell("toy", "waiting_line/copy", "threshold-0.9", dummy=True),
        ]
        (row,) = curve_rows(cell_rows(record for record, _ in entries))
        assert row["sampler"] == "threshold-0.9"
        assert (row["score"], row["tokens_per_step"], row["tasks"]) == (75.0, 3.0, 2)
        scores = [record.scores["accuracy"] for record, _ in entries[:2]]
        _, low, high = mean_interval([(score.mean, score.low, score.high) for score in scores])
        assert (row["low"], row["high"]) == pytest.approx((100 * low, 100 * high))

    def test_each_task_weighs_the_same(self) -> None:
        """In costs and in scores, whatever its number of answers."""
        entries = [
            factory.cell("tiny", "waiting_line/copy", right=1.0, nfe=8, n=10),
            factory.cell("tiny", "waiting_line/sort", right=0.5, nfe=16, n=30),
        ]
        (row,) = curve_rows(cell_rows(record for record, _ in entries), "nfe")
        assert (row["nfe"], row["score"]) == (12, 75.0)

    def test_a_curve_runs_from_slow_to_fast(self) -> None:
        """Points follow their rate, not their name or the order of the cells; models and families
        stay together.
        """
        rates = {"threshold-0.5": 8, "threshold-0.9": 16, "threshold-0.7": 4, "random-k2": 16}
        entries = [
            factory.cell(model, sampler=name, nfe=nfe)
            for model in ("toy", "tiny")
            for name, nfe in rates.items()
        ]
        points = mean_points(cell_rows(record for record, _ in entries), "tokens_per_step")
        assert [point.model for point in points] == ["tiny"] * 4 + ["toy"] * 4
        assert [point.sampler for point in points] == [
            "random-k2",
            "threshold-0.9",
            "threshold-0.5",
            "threshold-0.7",
        ] * 2
        assert [point.rate for point in points] == [2, 2, 4, 8] * 2

    def test_twice_is_refused(self) -> None:
        """The same cell from two runs is not averaged in silence."""
        with pytest.raises(ValueError, match="occur twice"):
            curve_rows(cell_rows([factory.cell()[0]] * 2))

    def test_nothing(self) -> None:
        """No cells make no curve."""
        assert (curve_rows([]), pbx_rows([])) == ([], [])

    def test_interval_of_a_mean(self) -> None:
        """Of equal half-widths h over t tasks the mean's is h/√t; of one task it is the task's
        own.
        """
        assert mean_interval([(0.5, 0.4, 0.6)] * 4) == pytest.approx((0.5, 0.45, 0.55))
        assert mean_interval([(1.0, 0.9, 1.0)]) == pytest.approx((1.0, 0.9, 1.0))

    def test_published_overall(self) -> None:
        """Plain means over the 17 tasks give the rewrite's published overall score and tokens per
        step of every run.
        """
        pytest.importorskip("pbcore.extras.paper")
        path = bundled("parallelbench_v2.csv")
        table = pd.read_csv(path)
        points = mean_points(frame_rows(load(path)), "tokens_per_step")
        published = table[table["task"] == "all"]
        scores = sorted(published["score"])
        rates = sorted(published["tokens_per_step"])
        assert sorted(point.score for point in points) == pytest.approx(scores, abs=1e-3)
        assert sorted(point.rate for point in points) == pytest.approx(rates, abs=1e-3)


class TestOrder:
    def test_names(self) -> None:
        """Methods drop numbers and keep words and modifiers; sorting counts; short names are
        short.
        """
        assert [
            method_of(name)
            for name in ("confidence-k4+b8", "threshold-0.9", "factor-1.0-ref", "ar")
        ] == [
            "confidence+b8",
            "threshold",
            "factor-ref",
            "ar",
        ]
        assert sorted(["random-k16", "random-k2"], key=natural) == ["random-k2", "random-k16"]
        assert sorted_tasks(["mine/x", "puzzle/sudoku", "waiting_line/copy", "a/b"]) == [
            "waiting_line/copy",
            "puzzle/sudoku",
            "a/b",
            "mine/x",
        ]

    def test_every_task_has_its_place(self) -> None:
        """The paper's tasks stand as its tables have them, then the list operations; each name fits
        a narrow column.
        """
        ordered = sorted_tasks(["a/b", *all_task_names()])
        operations = ("copy", "replace_index", "replace_random", "shuffle")
        assert ordered[17:22] == [*(f"list_ops/{operation}" for operation in operations), "a/b"]
        assert {task.partition("/")[0] for task in ordered[22:]} == {"questions", "walk"}
        assert (
            " ".join(narrow_name(task) for task in ordered[:17])
            == "copy sort reverse shuffle ins_idx ins_rnd rem_idx rem_rnd rep_idx rep_rnd "
            "summar. paraphr. w2s_easy w2s_med w2s_hard latin sudoku"
        )
        assert [narrow_name(name) for name in ("mine/x", "mine/x/y", "x")] == ["x", "x/y", "x"]
