"""What an engine's answers are judged to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.check.engine.judge import judge
from pbcore.extras.check.engine.material import Case, Material
from pbcore.extras.check.engine.report import exit_status, line
from pbcore.extras.check.engine.run import Checker
from tests.extras.check.engine.plain import Plain


def case_of(material: Material, words: str) -> Case:
    """The first case whose name has all words."""
    return next(case for case in material.cases if all(word in case.id for word in words.split()))


def right(case: Case) -> list[Any]:
    """The expected answers."""
    return [list(row.answer) for row in case.rows]


class TestVerdict:
    def test_the_expected_answers_are_equal(self, material: Material) -> None:
        """Every case's own answers pass, and the status is 0."""
        results = [
            judge(case, right(case)) for case in material.cases if case.property != "forwards"
        ]
        assert {result.verdict for result in results} == {"equal"}
        assert exit_status(results) == 0

    def test_what_follows_the_eos_does_not_count(self, material: Material) -> None:
        """An answer may go on behind its first EOS."""
        case = case_of(material, "eos-within")
        longer = [[*row.answer, 1, 2] for row in case.rows]
        assert judge(case, longer).verdict == "equal"

    def test_an_end_that_is_not_told(self, material: Material) -> None:
        """An answer may lack the EOS that ends it, whichever is expected; one that then goes on
        tells nothing, and another answer is a fault.
        """
        case = case_of(material, "eos-within")
        short = [{"ids": row.answer[:-1], "ended": True} for row in case.rows]
        assert judge(case, short).verdict == "equal"
        longer = [{"ids": [*row.answer[:-1], 1], "ended": True} for row in case.rows]
        assert judge(case, longer).verdict == "not tried"
        other = [{"ids": [*row.answer[:-2], 1], "ended": True} for row in case.rows]
        assert judge(case, other).verdict == "fault"
        full = case_of(material, "k4+b8/single")
        cut = [{"ids": row.answer[:-1], "ended": True} for row in full.rows]
        assert judge(full, cut).verdict == "fault"

    def test_the_first_difference_is_the_one_revealed_first(self, material: Material) -> None:
        """Of two wrong tokens the one of the earlier step is named, with the margin there."""
        case = case_of(material, "k4+b8/single")
        answers = right(case)
        row = case.rows[1]
        answers[1] = [token + 1 for token in row.answer]
        result = judge(case, answers)
        assert (result.verdict, result.equal) == ("fault", result.of - 1)
        assert result.first is not None
        assert result.first.prompt == 1
        assert row.steps[result.first.place] == result.first.step == min(row.steps)
        assert exit_status([result]) == 1

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda answers: answers[:-1], "too few answers"),
            (lambda answers: [*answers, answers[0]], "too many answers"),
            (lambda answers: [answers[0][:-1], *answers[1:]], "too few tokens for prompt 0"),
            (lambda answers: [answers[0] * 2, *answers[1:]], "too many tokens for prompt 0"),
            (lambda answers: ["w1w2", *answers[1:]], "a list of ids is expected"),
            (lambda answers: [[1.5], *answers[1:]], "a list of ids is expected"),
            (lambda answers: None, "a list with the ids of each answer is expected"),
        ],
    )
    def test_what_is_no_answer_fails_with_a_sentence(
        self, material: Material, change: Any, said: str
    ) -> None:
        """Too few, too many and wrong types are named."""
        case = case_of(material, "k4+b8/single")
        result = judge(case, change(right(case)))
        assert result.verdict == "failed"
        assert said in line(result)

    def test_a_setting_that_is_skipped_never_passes(self, folder: Path, material: Material) -> None:
        """Nothing tried ends with status 5."""

        class Lacking(Plain):
            def answer(self, *_: Any) -> Any:
                raise NotImplementedError("no such policy")

        result = Checker(folder, material, Lacking()).result(material.cases[0])
        assert result.verdict == "not tried"
        assert exit_status([result]) == 5


class TestForwards:
    def test_another_number_is_a_fault(self, material: Material) -> None:
        """The prompt and both numbers are named."""
        case = case_of(material, "forwards")
        told = [{"ids": row.answer, "forwards": row.forwards + 1} for row in case.rows]
        result = judge(case, told)
        assert result.verdict == "fault"
        assert f"prompt 0: {case.rows[0].forwards + 1} forwards" in line(result)

    def test_an_engine_that_tells_none_is_not_tried(self, material: Material) -> None:
        """Answers alone say nothing of forwards."""
        case = case_of(material, "forwards")
        assert judge(case, right(case)).verdict == "not tried"
