"""The official scores to the letter: reference cases, and thousands of odd answers against a second
implementation.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.metrics.answers import any_layout_list, digit_rows, lenient_list, strict_list
from pbcore.tasks import Sample, Task, load_task
from pbcore.tasks.lists import OPERATIONS
from tests.metrics.hostile import SIGNS, hostile_answer
from tests.metrics.twins import (
    latin_scores,
    list_scores,
    official_list,
    official_strict_list,
    sudoku_scores,
)
from tests.reference import reference

OFFICIAL = frozenset({"accuracy", "accuracy_strict"})
TWINS: dict[str, Callable[[Sample, str], dict[str, float]]] = {
    **{f"waiting_line/{operation}": partial(list_scores, operation) for operation in OPERATIONS},
    "puzzle/latin_square": latin_scores,
    "puzzle/sudoku": sudoku_scores,
}
SHORT = {"latin_square_n4": "puzzle/latin_square", "sudoku_n4_12": "puzzle/sudoku"}
ODD_ANSWERS = 600  # per task

odd_text = st.lists(st.sampled_from([*SIGNS, "Ann Lee", "Bob Fox"]), max_size=16).map("".join)


def official_task(name: str) -> Task | None:
    """The official task that a reference case names; None for a text task."""
    group, _, file = name.partition("/")
    ours = SHORT.get(file, f"waiting_line/{file}")
    if ours not in TWINS:
        return None
    return load_task(
        ours, data_dir=reference("official-v1"), n=15 if group.endswith("_n15") else None
    )


class TestReferenceCases:
    @pytest.mark.parametrize(
        ("file", "count"), [("hostile_cases.json", 2400), ("metric_cases.json", 2444)]
    )
    def test_scorers_and_twins_agree_with_every_case(self, file: str, count: int) -> None:
        """All list and puzzle answers that the official code scored: the same two scores here, and
        from the second implementation.
        """
        cases = json.loads(reference("golden", file).read_text(encoding="utf-8"))
        tasks = {name: official_task(name) for name in {case["task"] for case in cases}}
        seen = 0
        for case in cases:
            task = tasks[case["task"]]
            if task is None:
                continue
            sample = task.samples[case["index"]]
            text = case["prediction"]
            expected = {"accuracy": case["score"], "accuracy_strict": case["score_strict"]}
            assert task.score(text, sample, OFFICIAL) == expected, case
            assert TWINS[task.name](sample, text) == expected, case
            seen += 1
        assert seen == count


class TestOddAnswers:
    @pytest.mark.parametrize("name", TWINS)
    def test_scorer_and_twin_agree(self, name: str) -> None:
        """Hundreds of odd answers a task, right and wrong ones among them: the same official scores
        by both implementations.
        """
        random = Random(f"odd answers to {name}")
        task = load_task(name, limit=40)
        right = 0
        for _ in range(ODD_ANSWERS):
            sample = random.choice(task.samples)
            text = hostile_answer(random, sample)
            scores = task.score(text, sample, OFFICIAL)
            assert scores == TWINS[name](sample, text), (sample.index, text)
            right += scores["accuracy"] == 1
        assert ODD_ANSWERS / 10 < right < ODD_ANSWERS * 9 / 10

    @pytest.mark.parametrize("name", TWINS)
    def test_any_layout_is_never_lower_and_says_why(self, name: str) -> None:
        """An answer that is right officially is right in any layout; one right only there has its
        own failure and a reason.
        """
        random = Random(f"layouts of {name}")
        task = load_task(name, limit=40)
        rescued = 0
        for _ in range(ODD_ANSWERS):
            sample = random.choice(task.samples)
            text = hostile_answer(random, sample)
            [scored] = task.score_many([text], [sample])
            free = scored.scores["accuracy_any_layout"]
            official = scored.scores["accuracy"]
            assert free >= official, text
            assert (scored.details.get("failure") == "layout") == (free > official), text
            assert official or scored.details["why"]
            rescued += free > official
        assert rescued > ODD_ANSWERS / 60

    @given(odd_text)
    def test_lists_are_read_the_same(self, text: str) -> None:
        """Any odd text: both implementations find the same items, leniently and strictly."""
        assert lenient_list(text) == official_list(text)
        assert strict_list(text) == official_strict_list(text)

    @given(st.characters())
    def test_a_digit_is_a_decimal_digit_of_any_script(self, sign: str) -> None:
        """Category Nd counts, with its value; superscripts, circled digits and numerals are no
        digits.
        """
        decimal = unicodedata.category(sign) == "Nd"
        assert digit_rows(f"{sign}234") == ([f"{unicodedata.decimal(sign)}234"] if decimal else [])
        assert digit_rows(f"1{sign}234") == ([] if decimal else ["1234"] if sign != "\n" else [])


class TestLayouts:
    @pytest.mark.parametrize(
        ("text", "official", "why"),
        [
            (
                '[\n  "A B",\n  "C D"\n]',
                ['\n  "A B', '\n  "C D"\n'],
                "the list spans several lines",
            ),
            (
                '["A B", "C D"\u00a0]',
                ["A B", 'C D"\u00a0'],
                "an item begins or ends with a no-break space",
            ),
            ('["\tA B", "C D"]', ["\tA B", "C D"], "an item begins or ends with a tab"),
            ('["\u2003A B", "C D"]', ["\u2003A B", "C D"], "an item begins or ends with U+2003"),
            ('["A B", "", "C D"]', ["A B", "", "C D"], 'the empty item "" counts'),
        ],
    )
    def test_a_list_in_another_layout(self, text: str, official: list[str], why: str) -> None:
        """What the official reading keeps is no layout's matter in any layout, and is named."""
        task = load_task("waiting_line/copy", limit=1)
        sample = Sample(task.name, 0, (), {"context": '["A B", "C D"]'}, '["A B", "C D"]', 32)
        [scored] = task.score_many([text], [sample])
        assert lenient_list(text) == official
        assert any_layout_list(text) == ["A B", "C D"]
        assert scored.scores == {
            "accuracy": 0.0,
            "accuracy_strict": 0.0,
            "accuracy_any_layout": 1.0,
        }
        assert scored.details["failure"] == "layout"
        assert scored.details["why"].endswith(f"as the official benchmark reads it: {why}")

    def test_a_wrong_list_over_several_lines_keeps_its_diagnosis(self) -> None:
        """The layout does not hide what else is wrong: here an item is missing, nothing is
        unknown.
        """
        task = load_task("waiting_line/copy", limit=1)
        sample = Sample(task.name, 0, (), {"context": '["A B", "C D"]'}, '["A B", "C D"]', 32)
        [scored] = task.score_many(['[\n  "A B"\n]'], [sample])
        assert scored.details == {"failure": "item missing", "why": '"C D" is missing'}

    @pytest.mark.parametrize(
        "text", ["A B\nB A", "A|B\nB|A", '"A","B"\r"B","A"', "[A, B]\n[B, A]", "A,B,\nB,A,"]
    )
    def test_a_square_in_another_layout(self, text: str) -> None:
        """Blanks, bars, quotes, brackets, other line breaks, a comma at the end: a square, though
        not officially.
        """
        task = load_task("puzzle/latin_square", limit=1)
        sample = Sample(task.name, 0, (), {}, {"symbols": ["A", "B"]}, 64)
        [scored] = task.score_many([text], [sample])
        assert (scored.scores["accuracy"], scored.scores["accuracy_any_layout"]) == (0, 1)
        assert scored.details["failure"] == "layout"

    @pytest.mark.parametrize(
        ("text", "right"),
        [("A,B,A\nB,A,B", 1), ("A,B,A\nB,A,A", 0), ("A,B,A\nB,A", 1), ("A,B,B\nA,B,A", 0)],
    )
    def test_an_extra_cell_in_every_row_makes_a_column(self, text: str, right: float) -> None:
        """It must hold every symbol too; an extra cell in one row makes none."""
        task = load_task("puzzle/latin_square", limit=1)
        sample = Sample(task.name, 0, (), {}, {"symbols": ["A", "B"]}, 64)
        assert task.score(text, sample, OFFICIAL) == {"accuracy": right, "accuracy_strict": right}

    @pytest.mark.parametrize("between", ["", " ", "\r", "\u2028"])
    def test_a_sudoku_in_another_layout(self, between: str) -> None:
        """Rows on one line, or with other line breaks than the official score knows."""
        task = load_task("puzzle/sudoku", limit=1)
        [scored] = task.score_many(
            [str(task.samples[0].answer).replace("\n", between)], [task.samples[0]]
        )
        assert (scored.scores["accuracy"], scored.scores["accuracy_any_layout"]) == (0, 1)
        assert scored.details["failure"] == "layout"
