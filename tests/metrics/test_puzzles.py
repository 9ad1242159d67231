"""Scores of puzzles: the official ones case by case, and what is right or wrong by construction."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.tasks import Sample, load_task
from tests.reference import reference

LATIN = load_task("puzzle/latin_square", limit=20)
SUDOKU = load_task("puzzle/sudoku", limit=20)
SQUARE = Sample(
    "puzzle/latin_square", 0, (), {}, {"symbols": ["A", "B"], "example": "A,B\nB,A"}, 64
)


class TestGolden:
    @pytest.mark.parametrize(
        ("official", "name", "count"),
        [
            ("puzzle/latin_square_n4", "puzzle/latin_square", 141),
            ("puzzle/sudoku_n4_12", "puzzle/sudoku", 173),
        ],
    )
    def test_every_official_score_agrees(self, official: str, name: str, count: int) -> None:
        """Accuracy and strict accuracy of all predictions scored by the official benchmark."""
        cases = [
            c
            for c in json.loads(reference("golden", "metric_cases.json").read_text())
            if c["task"] == official
        ]
        task = load_task(name, data_dir=reference("official-v1"))
        assert len(cases) == count
        for case in cases:
            scores = task.score(
                case["prediction"], task.samples[case["index"]], {"accuracy", "accuracy_strict"}
            )
            assert scores == {
                "accuracy": case["score"],
                "accuracy_strict": case["score_strict"],
            }, case


class TestLatinSquare:
    def test_any_square_of_the_symbols_is_right(self) -> None:
        """Of all grids whose rows are orders of three symbols, exactly the 12 Latin squares score
        1.
        """
        symbols = ["A", "B", "C"]
        sample = Sample("puzzle/latin_square", 0, (), {}, {"symbols": symbols}, 64)
        rows = [",".join(row) for row in permutations(symbols)]
        right = [
            grid
            for grid in product(rows, repeat=3)
            if LATIN.score("\n".join(grid), sample)["accuracy"] == 1
        ]
        assert len(right) == 12
        assert all(
            len({row.split(",")[column] for row in grid}) == 3
            for grid in right
            for column in range(3)
        )

    @given(st.integers(0, 19), st.integers(0, 15), st.data())
    def test_one_changed_cell_is_wrong(self, number: int, cell: int, data: st.DataObject) -> None:
        """Any other symbol in any one cell breaks a square."""
        sample = LATIN.samples[number]
        grid = [line.split(",") for line in sample.label["example"].split("\n")]
        row, column = divmod(cell, 4)
        grid[row][column] = data.draw(
            st.sampled_from([s for s in [*sample.label["symbols"], "?"] if s != grid[row][column]])
        )
        [scored] = LATIN.score_many(["\n".join(",".join(line) for line in grid)], [sample])
        assert set(scored.scores.values()) == {0.0}
        assert scored.details["failure"] == "row missing"

    @pytest.mark.parametrize(
        ("answer", "official", "any_layout", "asked"),
        [
            ("A,B\nB,A", 1, 1, 1),
            ("Here:\nA, B\n\nB, A\ndone", 1, 1, 1),
            ("A,B\nB,A\nA,B\nB,A", 1, 1, 1),
            ("A,B,A\nB,A", 1, 1, 0),
            ("A,B\nA,B", 0, 0, 0),
            ("A,B B,A", 0, 0, 0),
            ("", 0, 0, 0),
        ],
    )
    def test_forms(self, answer: str, official: float, any_layout: float, asked: float) -> None:
        """Text around, more rows than needed, and the extra cell that only the official score lets
        pass.
        """
        assert LATIN.score(answer, SQUARE) == {
            "accuracy": official,
            "accuracy_strict": official,
            "accuracy_any_layout": any_layout,
            "accuracy_as_asked": asked,
        }

    @pytest.mark.parametrize(
        ("answer", "failure"),
        [
            ("", "malformed"),
            ("A,B\nA,A", "row missing"),
            ("A,B\nA,B", "column repeats"),
            ("A,B,A\nB,A,A", "extra cell"),
        ],
    )
    def test_kinds(self, answer: str, failure: str) -> None:
        """What is wrong is named."""
        [scored] = LATIN.score_many([answer], [SQUARE])
        assert scored.details["failure"] == failure

    @pytest.mark.parametrize(
        ("answer", "repeated"),
        [
            ("A,B\nA,A", [("A", "row 2", [4, 6]), ("A", "column 1", [0, 4])]),
            ("so\nA,B\nA, B", [("A", "column 1", [3, 7]), ("B", "column 2", [5, 10])]),
            ("A,B\n", []),
            ("A,C\nC,C", []),
        ],
    )
    def test_symbols_that_repeat(
        self, answer: str, repeated: list[tuple[str, str, list[int]]]
    ) -> None:
        """Each stands with its row or column, and where it begins; other signs are no symbols."""
        [scored] = LATIN.score_many([answer], [SQUARE])
        told = scored.details.get("repeated", [])
        assert [(entry["item"], entry["within"], entry["at"]) for entry in told] == repeated


class TestSudoku:
    def test_labels_are_right(self) -> None:
        """Every label scores 1, strictly too; with text or spaces around it no longer strictly."""
        for sample in SUDOKU.samples:
            assert set(SUDOKU.score(sample.label, sample).values()) == {1.0}
            for form in (
                f"Output:\n{sample.label}",
                sample.label.replace("", " "),
                f"```\n{sample.label}\n```",
            ):
                assert SUDOKU.score(form, sample, ["accuracy", "accuracy_strict"]) == {
                    "accuracy": 1.0,
                    "accuracy_strict": 0.0,
                }

    def test_a_right_grid_with_text_around_it_says_why_it_is_not_strictly_right(self) -> None:
        """The grid alone needs no explanation."""
        sample = SUDOKU.samples[0]
        alone, around = SUDOKU.score_many([sample.label, f"Output:\n{sample.label}"], [sample] * 2)
        assert alone.details == {}
        assert around.details == {"why": "right, but with more than four lines of four digits"}

    @given(st.integers(0, 19), st.integers(0, 15), st.sampled_from("01234"))
    def test_one_changed_digit_is_wrong(self, number: int, cell: int, digit: str) -> None:
        """Any other digit in any one cell: wrong, and said to be a changed given or a wrong
        digit.
        """
        sample = SUDOKU.samples[number]
        at = cell + cell // 4
        if sample.label[at] == digit:
            return
        [scored] = SUDOKU.score_many([sample.label[:at] + digit + sample.label[at + 1 :]], [sample])
        blank = sample.input["sudoku"][at] == "0"
        assert set(scored.scores.values()) == {0.0}
        assert scored.details["failure"] == ("wrong digit" if blank else "given changed")
        assert f"row {cell // 4 + 1}, column {cell % 4 + 1}" in scored.details["why"]

    @pytest.mark.parametrize(("times", "failure"), [(0, "malformed"), (2, "extra row")])
    def test_number_of_rows(self, times: int, failure: str) -> None:
        """No grid, and the right grid twice, are wrong."""
        sample = SUDOKU.samples[0]
        [scored] = SUDOKU.score_many(["\n".join([sample.label] * times)], [sample])
        assert scored.scores["accuracy"] == 0
        assert scored.details["failure"] == failure

    def test_missing_row(self) -> None:
        """Three rows are not enough."""
        [scored] = SUDOKU.score_many([SUDOKU.samples[0].label[:14]], [SUDOKU.samples[0]])
        assert scored.details == {
            "failure": "row missing",
            "why": "3 rows of four digits instead of 4",
        }

    def test_a_question_in_an_odd_form_needs_no_diagnosis_of_its_givens(self) -> None:
        """A puzzle whose rows are shorter than the solution's is left out of the diagnosis."""
        sample = replace(SUDOKU.samples[0], input={"sudoku": "1\n2\n3\n4"})
        label = str(sample.label)
        [scored] = SUDOKU.score_many([label[:-1] + ("1" if label[-1] != "1" else "2")], [sample])
        assert scored.details["failure"] == "wrong digit"
