"""pbcore.analysis.headline: the reference, the questions that count, speed, and what is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pbcore.analysis.beside import speed_up
from pbcore.analysis.headline import (
    FEW_SAMPLERS,
    NO_ANSWERS,
    NO_COMMON,
    NO_SPEED,
    Headline,
    RecordAndAnswers,
    headline,
    is_own,
)
from pbcore.analysis.noninferiority import lower_bound
from pbcore.base.errors import InputError
from pbcore.costs.kinds import Cost
from pbcore.decoding.policies import register_policy
from pbcore.decoding.policies.registry import POLICIES
from tests.results import factory

N = 200


def scores(wrong: int, n: int = N) -> list[float]:
    """The first `wrong` of n questions are wrong."""
    return [0.0] * wrong + [1.0] * (n - wrong)


def cell(
    sampler: str, right: Sequence[float] | None = None, nfe: int = 16, **facts: Any
) -> RecordAndAnswers:
    """A cell whose answers are all right, unless their scores are given."""
    values = scores(0) if right is None else right
    return factory.cell(sampler=sampler, right=values, nfe=nfe, **facts)


def timed(entry: RecordAndAnswers, seconds: float | None, **conditions: Any) -> RecordAndAnswers:
    record, samples = entry
    known = replace(record.conditions, **conditions)
    return replace(record, seconds=seconds, conditions=known), samples


def told(*cells: RecordAndAnswers, max_loss: float = 5.0) -> Headline:
    return headline("tiny", cells, max_loss)


class TestCost:
    """What speed is, where the user chooses it."""

    CELLS = (
        cell("confidence-k1", nfe=32, rows=32, tokens=3200),
        cell("eb-0.1", nfe=8, rows=8, tokens=1600),
        cell("spec-8", nfe=4, rows=32, tokens=800),
    )

    @pytest.mark.parametrize(
        ("cost", "fastest", "speed"),
        [("calls", "spec-8", 8), ("rows", "eb-0.1", 4), ("tokens", "spec-8", 4)],
    )
    def test_decides(self, cost: Cost, fastest: str, speed: float) -> None:
        """The reference's cost divided by the sampler's."""
        chosen = headline("tiny", self.CELLS, cost=cost).chosen
        assert chosen is not None
        assert (chosen.sampler, chosen.speed) == (fastest, speed)

    def test_measured_seconds(self) -> None:
        """Whatever the counts say."""
        slow, fast, faster = (
            timed(one, time) for one, time in zip(self.CELLS, (9, 2, 3), strict=True)
        )
        chosen = headline("tiny", [slow, fast, faster], cost="seconds").chosen
        assert chosen is not None
        assert (chosen.sampler, chosen.speed) == ("eb-0.1", 4.5)

    def test_what_was_not_counted(self) -> None:
        """No verdict, with the reason."""
        cells = [cell("confidence-k1", nfe=32), cell("eb-0.1", nfe=8)]
        assert headline("tiny", cells, cost="tokens").why == "tokens forwarded were not counted"


class TestReference:
    def test_one_token_at_a_time(self) -> None:
        """`confidence-k1`, also where another sampler is slower."""
        verdict = told(
            cell("confidence-k1", nfe=32), cell("random-k1", nfe=64), cell("eb-0.1", nfe=4)
        )
        assert verdict.reference == "confidence-k1"
        assert verdict.chosen is not None
        assert verdict.chosen.sampler == "eb-0.1"

    def test_the_slowest_without_it(self) -> None:
        """Else the sampler of most forwards, of equally slow ones the better."""
        verdict = told(
            cell("random-k1", scores(20), nfe=32),
            cell("left_to_right-k1", scores(10), nfe=32),
            cell("eb-0.1", nfe=4),
        )
        assert verdict.reference == "left_to_right-k1"

    def test_several_rows_at_a_time(self) -> None:
        """`confidence-k1+x4` stands for it in a run at several batch sizes."""
        verdict = told(cell("random-k1+x4", nfe=64), cell("confidence-k1+x4", nfe=32))
        assert verdict.reference == "confidence-k1+x4"

    def test_no_verdict(self) -> None:
        """One sampler, no answers, no common question: each says so."""
        assert told(cell("eb-0.1")).why == FEW_SAMPLERS
        records = [(record, ()) for record, _ in (cell("confidence-k1"), cell("eb-0.1"))]
        assert told(*records).why == NO_ANSWERS
        other = cell("eb-0.1", data_hash="another")
        assert told(cell("confidence-k1"), other).why == NO_COMMON

    def test_failed_cells_and_dummies_do_not_count(self) -> None:
        """A failed cell and one of random weights leave one sampler."""
        failed = replace(cell("eb-0.1")[0], status="error", error="boom"), ()
        dummy = cell("eb-0.2", dummy=True)
        assert told(cell("confidence-k1"), failed, dummy).why == FEW_SAMPLERS


class TestWeakReference:
    def test_no_sampler_is_named(self) -> None:
        """Of answers that are all wrong nothing can be lost: the reference's score is told, with
        one of its answers.
        """
        slow = cell("confidence-k1", scores(N), nfe=32, task="waiting_line/copy")
        fast = cell("confidence-k4", scores(N), nfe=8, task="waiting_line/copy")
        verdict = told(slow, fast)
        assert (verdict.chosen, verdict.ranked, verdict.why) == (None, (), "")
        assert verdict.weak is not None
        assert (verdict.weak.answers.score, verdict.weak.answers.needed) == (0.0, 0.1)
        assert (verdict.weak.cell.sampler, verdict.weak.question) == ("confidence-k1", 0)

    def test_only_questions_that_another_sampler_answered(self) -> None:
        """A reference that is right elsewhere alone is as weak."""
        tasks = ("waiting_line/copy", "waiting_line/sort")
        slow = [
            cell("confidence-k1", scores(wrong), nfe=32, task=task)
            for wrong, task in zip((N, 0), tasks, strict=True)
        ]
        fast = cell("confidence-k4", scores(N), nfe=8, task=tasks[0])
        assert told(*slow, fast).weak is not None
        both = cell("confidence-k4", scores(0), nfe=8, task=tasks[1])
        assert told(*slow, fast, both).weak is None

    def test_a_larger_loss_asks_for_more(self) -> None:
        """Twice as much: 15 % right is enough for 5 points, not for 10."""
        pair = (
            cell("confidence-k1", scores(170), nfe=32),
            cell("confidence-k4", scores(170), nfe=8),
        )
        assert told(*pair).weak is None
        assert told(*pair, max_loss=10).weak is not None


class TestSpeed:
    def test_sum_over_tasks(self) -> None:
        """Forwards are added up over tasks: 32 + 32 against 1 + 31 are 2 times fewer, not 16.5."""
        verdict = told(
            cell("confidence-k1", nfe=32, task="waiting_line/copy"),
            cell("confidence-k1", nfe=32, task="puzzle/sudoku"),
            cell("eb-0.1", nfe=1, task="waiting_line/copy"),
            cell("eb-0.1", nfe=31, task="puzzle/sudoku"),
        )
        assert verdict.chosen is not None
        assert verdict.chosen.fewer("calls") == 2
        assert verdict.chosen.rows is None
        assert verdict.chosen.fewer("seconds") == 1

    def test_common_questions_alone(self) -> None:
        """A question that one of the two lacks counts in neither speed nor score."""
        base = factory.cell(sampler="confidence-k1", right=scores(0, 40), nfe=[10] * 39 + [1000])
        less = factory.cell(sampler="eb-0.1", right=scores(0, 39), nfe=5)
        chosen = told(base, less, max_loss=20).chosen
        assert chosen is not None
        assert chosen.fewer("calls") == 2
        assert chosen.questions == 39
        assert chosen.fewer("seconds") is None

    def test_rows_that_are_not_forwards(self) -> None:
        """Until seconds are known, the cheaper of few calls and many rows is the one whose calls
        and rows are fewer; seconds decide where they are known.
        """
        base = cell("confidence-k1", nfe=32)
        calls = cell("spec-8", nfe=4, rows=20)
        plain = cell("eb-0.1", nfe=8)
        untimed = [timed(each, None) for each in (base, calls, plain)]
        verdict = told(*untimed)
        assert verdict.chosen is not None
        assert verdict.chosen.sampler == "eb-0.1"
        verdict = told(timed(base, 8.0), timed(calls, 1.0), timed(plain, 2.0))
        assert verdict.chosen is not None
        assert verdict.chosen.sampler == "spec-8"
        assert (verdict.chosen.fewer("calls"), verdict.chosen.rows) == (8, 1.6)

    def test_more_rows_than_the_reference(self) -> None:
        """A sampler of fewer calls and more rows, without times, is not faster."""
        base = timed(cell("confidence-k1", nfe=32), None)
        verdict = told(base, timed(cell("spec-8", nfe=4, rows=40), None))
        assert verdict.chosen is None
        (slower,) = verdict.unranked
        assert slower.reason == "not faster"
        assert slower.beside is not None
        assert (slower.beside.fewer("calls"), slower.beside.rows) == (8, 0.8)

    @pytest.mark.parametrize(
        ("known", "expected"),
        [
            ((4.0, None, 2.0), 4.0),
            ((4.0, 0.5, None), 0.5),
            ((4.0, 0.5, 2.0), 2.0),
            ((4.0, 8.0, 5.0), 4.0),
            ((None, None, 3.0), 3.0),
            ((None, None, None), None),
        ],
    )
    def test_what_decides(
        self, known: tuple[float | None, float | None, float | None], expected: float | None
    ) -> None:
        """Forwards; with rows apart, no more than seconds or else rows; without them, seconds."""
        assert speed_up(*known) == expected

    def test_seconds_need_equal_conditions(self) -> None:
        """Another device, another batch size or a shared device: no ratio of times."""
        base = cell("confidence-k1", nfe=32)
        for conditions in ({"device": "cuda"}, {"batch_size": 1}, {"shared_device": True}):
            chosen = told(base, timed(cell("eb-0.1", nfe=4), 1.0, **conditions)).chosen
            assert chosen is not None
            assert chosen.fewer("seconds") is None

    def test_servers_without_forwards(self) -> None:
        """Models that report no forwards are compared by their times, or not at all."""

        def served(sampler: str, seconds: float | None) -> RecordAndAnswers:
            record, samples = timed(cell(sampler), seconds)
            return record, [replace(sample, nfe=None) for sample in samples]

        verdict = told(served("slow", 8.0), served("quick", 2.0))
        assert verdict.reference == "slow"
        assert verdict.chosen is not None
        assert (verdict.chosen.fewer("calls"), verdict.chosen.speed) == (None, 4)
        assert told(served("slow", None), served("quick", None)).why == NO_SPEED


class TestChoice:
    def test_the_fastest_within_the_loss(self) -> None:
        """The fastest that is shown; a faster one that is not stands beside it."""
        verdict = told(
            cell("confidence-k1", nfe=32),
            cell("eb-0.1", scores(1), nfe=8),
            cell("threshold-0.9", nfe=16),
            cell("threshold-0.5", scores(60), nfe=2),
        )
        assert verdict.chosen is not None
        assert verdict.chosen.sampler == "eb-0.1"
        names = [one.sampler for one in verdict.ranked]
        assert names == ["threshold-0.5", "eb-0.1", "threshold-0.9"]
        assert verdict.chosen.differences == (tuple([-1.0] + [0.0] * (N - 1)),)

    def test_the_bound_is_the_one_that_was_tested(self) -> None:
        """Each at the level of its step: inside the limit if and only if it is shown."""
        right = {"eb-0.1": 0, "eb-0.2": 3, "eb-0.3": 6, "eb-0.4": 60}
        samplers = [cell(name, scores(wrong), nfe=8) for name, wrong in right.items()]
        verdict = told(cell("confidence-k1", nfe=32), *samplers)
        levels = {one.sampler: one.level for one in verdict.ranked}
        assert levels["eb-0.1"] == pytest.approx(0.05 / 4)
        assert levels["eb-0.2"] == pytest.approx(0.05 / 3)
        assert levels["eb-0.3"] == levels["eb-0.4"] == pytest.approx(0.05 / 2)
        assert [one.shown for one in verdict.ranked] == [True, True, False, False]
        for one in verdict.ranked:
            assert (one.lower > -0.05) == one.shown
            assert one.lower == lower_bound(one.differences, 1 - one.level)

    def test_overlapping_intervals_are_not_enough(self) -> None:
        """82 [78–86] beside 91.5 [86–94] is not chosen, nor 71 % beside 100 %."""
        for wrong in (19, 58):
            verdict = told(cell("confidence-k1", nfe=32), cell("eb-0.1", scores(wrong), nfe=4))
            assert verdict.chosen is None

    def test_few_answers_are_not_enough(self) -> None:
        """20 questions without a flip show at most 14 points: more questions would settle it."""
        verdict = told(
            cell("confidence-k1", scores(0, 20), nfe=32), cell("eb-0.1", scores(0, 20), nfe=4)
        )
        assert verdict.chosen is None
        assert verdict.settled is not None
        assert verdict.limit == 59
        assert verdict.settled.lower == pytest.approx(lower_bound([[0.0] * 20]))

    @pytest.mark.parametrize(("copies", "limit"), [((20, 20), 30), ((8, 200), 30), ((20,), 59)])
    def test_the_limit_is_that_of_each_task(self, copies: tuple[int, ...], limit: int) -> None:
        """As many questions of each task as the test needs, whatever each has now; so many do show
        it.
        """

        def run(numbers: Sequence[int]) -> Headline:
            tasks = ("waiting_line/copy", "puzzle/sudoku")
            pairs = list(zip(tasks, numbers, strict=False))
            base = [cell("confidence-k1", scores(0, n), 32, task=task) for task, n in pairs]
            fast = [cell("eb-0.1", scores(0, n), 4, task=task) for task, n in pairs]
            return told(*base, *fast)

        assert run(copies).limit == limit
        assert run([limit] * len(copies)).chosen is not None

    def test_a_larger_loss_allowed(self) -> None:
        """`max_loss` decides."""
        cells = cell("confidence-k1", nfe=32), cell("eb-0.1", scores(6), nfe=4)
        assert told(*cells).chosen is None
        assert told(*cells, max_loss=10).chosen is not None
        with pytest.raises(InputError, match="max_loss 500: must lie between 0 and 100 points"):
            told(*cells, max_loss=500)

    def test_holm(self) -> None:
        """A loss that one sampler alone may have is not shown among five."""
        base = cell("confidence-k1", nfe=32)
        candidate = cell("eb-0.1", scores(4), nfe=4)
        assert told(base, candidate).chosen is not None
        noise = [cell(f"random-k{k}", scores(60), nfe=32 // k) for k in (2, 4, 8, 16)]
        verdict = told(base, candidate, *noise)
        assert verdict.chosen is None
        assert verdict.settled is not None
        assert verdict.settled.sampler == "eb-0.1"
        assert not verdict.settled.shown
        assert lower_bound(verdict.settled.differences) > -0.05 > verdict.settled.lower

    def test_slower_samplers_are_not_compared(self) -> None:
        """Holm's correction counts those that are faster than the reference alone."""
        verdict = told(
            cell("confidence-k1", nfe=32),
            cell("eb-0.1", scores(4), nfe=4),
            *(cell(f"remask-{i}", nfe=40) for i in range(5)),
        )
        assert [one.sampler for one in verdict.ranked] == ["eb-0.1"]
        assert {one.reason for one in verdict.unranked} == {"not faster"}
        assert verdict.chosen is not None

    def test_hopeless(self) -> None:
        """The fastest that loses more than the margin is not settled by more questions; the fastest
        that may be within it is named with their number.
        """
        verdict = told(
            cell("confidence-k1", nfe=32),
            cell("eb-0.1", scores(8), nfe=4),
            cell("threshold-0.5", scores(60), nfe=2),
        )
        assert verdict.ranked[0].sampler == "threshold-0.5"
        assert verdict.settled is not None
        assert verdict.limit is not None
        assert verdict.settled.sampler == "eb-0.1"
        assert verdict.limit > N

    def test_better(self) -> None:
        """A sampler that is better says so, chosen or not."""
        base = cell("confidence-k1", scores(58), nfe=32)
        verdict = told(base, cell("eb-0.1", scores(20), nfe=4), cell("random-k2", nfe=40))
        assert verdict.chosen is not None
        assert verdict.chosen.better
        assert verdict.chosen.lower > 0
        (slow,) = verdict.unranked
        assert slow.beside is not None
        assert (slow.sampler, slow.beside.better) == ("random-k2", True)

    def test_two_tasks_with_other_questions(self) -> None:
        """Each task weighs the same, whatever its number of questions."""
        verdict = told(
            cell("confidence-k1", scores(0, 100), nfe=32, task="waiting_line/copy"),
            cell("confidence-k1", scores(0, 10), nfe=32, task="puzzle/sudoku"),
            cell("eb-0.1", scores(0, 100), nfe=4, task="waiting_line/copy"),
            cell("eb-0.1", scores(1, 10), nfe=4, task="puzzle/sudoku"),
        )
        (fastest,) = verdict.ranked
        assert fastest.change == pytest.approx(-0.05)
        assert fastest.score == pytest.approx(0.95)

    def test_seeds(self) -> None:
        """Several seeds are a question's mean: n stays the number of questions."""
        base = factory.cell(sampler="confidence-k1", right=[1.0] * 40, nfe=32, seeds=2)
        half = factory.cell(sampler="eb-0.1", right=[1.0] * 20 + [0.0] + [1.0] * 19, nfe=4, seeds=2)
        verdict = told(base, half, max_loss=30)
        assert verdict.chosen is not None
        assert verdict.chosen.questions == 20
        assert verdict.chosen.change == pytest.approx(-0.5 / 20)

    def test_partly_failed(self) -> None:
        """A sampler without one of the tasks is not chosen, however fast."""
        tasks = ("waiting_line/copy", "puzzle/sudoku")
        verdict = told(
            *(cell("confidence-k1", nfe=32, task=task) for task in tasks),
            *(cell("eb-0.1", nfe=8, task=task) for task in tasks),
            cell("threshold-0.5", nfe=1, task=tasks[0]),
        )
        assert verdict.chosen is not None
        assert verdict.chosen.sampler == "eb-0.1"
        assert verdict.ranked == (verdict.chosen,)
        (partly,) = verdict.unranked
        assert (partly.sampler, partly.reason, partly.missing) == (
            "threshold-0.5",
            "tasks",
            ("puzzle/sudoku",),
        )


class TestUnranked:
    """Every sampler that ran is ranked, or the reason is given."""

    BASE = (cell("confidence-k1", nfe=32), cell("eb-0.1", nfe=4))

    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            ((replace(cell("x-2")[0], status="error", error="boom"), ()), "no scores"),
            (cell("x-2", nfe=2, data_hash="other"), "other questions"),
            (cell("x-2", scores(0, N - 1), nfe=2), "questions"),
            (
                timed((cell("x-2")[0], [replace(s, nfe=None) for s in cell("x-2")[1]]), None),
                "speed",
            ),
            (cell("x-2", nfe=31), "not faster"),
            (cell("x-2", nfe=40), "not faster"),
        ],
    )
    def test_why(self, other: RecordAndAnswers, reason: str) -> None:
        """No scores, other or fewer questions, no speed, not faster."""
        verdict = told(*self.BASE, other)
        assert [(one.sampler, one.reason) for one in verdict.unranked] == [("x-2", reason)]
        assert [one.sampler for one in verdict.ranked] == ["eb-0.1"]

    @pytest.mark.parametrize(
        ("nfe", "pace"),
        [(30, "faster"), (31, "about as fast"), (33, "about as fast"), (34, "slower")],
    )
    def test_pace(self, nfe: int, pace: str) -> None:
        """A difference of less than 5 % is none."""
        verdict = told(self.BASE[0], cell("x-2", nfe=nfe))
        samplers = [*verdict.ranked, *(one.beside for one in verdict.unranked)]
        assert [one.pace for one in samplers if one is not None] == [pace]


class TestOwn:
    def test_whose(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Policies of pbcore are not the user's, registered ones and unknown names are."""
        monkeypatch.setattr(POLICIES, "_registered", dict(POLICIES.all()))

        @register_policy("headline_own")
        class Own:
            """Reveals all."""

            def select(self, step: Any) -> Any:
                return step

        assert is_own("headline_own-2+b8")
        assert is_own("unknown_policy")
        assert not is_own("confidence-k2+b8")
        assert not is_own("ar")
        assert not is_own("server")
