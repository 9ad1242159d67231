"""Latin squares and sudokus."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.tasks import load_task
from pbcore.tasks.puzzles import all_sudokus, has_one_solution, latin_square, rows, solutions


def solved(grid: str) -> bool:
    """Whether 16 digits are a solved sudoku, by the rules as a person would say them."""
    lines = [grid[start : start + 4] for start in range(0, 16, 4)]
    columns = ["".join(column) for column in zip(*lines, strict=True)]
    boxes = [lines[r][c : c + 2] + lines[r + 1][c : c + 2] for r in (0, 2) for c in (0, 2)]
    return all(sorted(unit) == ["1", "2", "3", "4"] for unit in lines + columns + boxes)


class TestLatinSquare:
    @given(st.integers(2, 9), st.integers(0, 10**6))
    def test_rows_and_columns_hold_every_symbol(self, side: int, seed: int) -> None:
        """Any side, any seed: n rows, each row and each column a permutation of the symbols."""
        symbols = list("ABCDEFGHI"[:side])
        square = latin_square(symbols, Random(seed))
        columns = [list(column) for column in zip(*square, strict=True)]
        assert len(square) == side
        assert all(sorted(line) == symbols for line in square + columns)

    def test_every_square_of_side_three_occurs(self) -> None:
        """All 12 Latin squares of three symbols can be drawn."""
        drawn = {str(latin_square("ABC", Random(seed))) for seed in range(200)}
        assert len(drawn) == 12

    def test_task(self) -> None:
        """Four different symbols in the official layout; the example is a square of them."""
        for sample in load_task("puzzle/latin_square").samples:
            symbols = sample.label["symbols"]
            square = [line.split(",") for line in sample.label["example"].split("\n")]
            assert sample.input == {"size": 4, "symbols": f"[{', '.join(symbols)}]"}
            assert len(set(symbols)) == 4
            assert all(symbol.isdigit() or symbol.isupper() for symbol in symbols)
            assert all(set(line) == set(symbols) for line in [*square, *zip(*square, strict=True)])
            assert sample.max_new_tokens == 64


class TestSolutions:
    def test_there_are_288(self) -> None:
        """The known number of solved 4×4 sudokus, all different, all valid."""
        assert len(set(all_sudokus())) == len(all_sudokus()) == 288
        assert all(solved(grid) for grid in all_sudokus())

    @given(st.sampled_from(sorted(all_sudokus())), st.sets(st.integers(0, 15), max_size=4))
    def test_agrees_with_trying_all_digits(self, grid: str, blanks: set[int]) -> None:
        """The solver finds exactly what filling the blanks in every way finds."""
        puzzle = ["0" if cell in blanks else digit for cell, digit in enumerate(grid)]
        found = set()
        for digits in product("1234", repeat=len(blanks)):
            filled = puzzle.copy()
            for cell, digit in zip(sorted(blanks), digits, strict=True):
                filled[cell] = digit
            if solved("".join(filled)):
                found.add("".join(filled))
        assert set(solutions("".join(puzzle))) == found
        assert has_one_solution("".join(puzzle)) == (len(found) == 1)

    def test_contradiction_has_no_solution(self) -> None:
        """Two equal digits in a row leave nothing."""
        assert list(solutions("11" + "0" * 14)) == []

    @pytest.mark.parametrize("grid", ["", "0" * 15, "5" + "0" * 15, "abcd" * 4])
    def test_no_grid(self, grid: str) -> None:
        """Anything but 16 digits from 0 to 4 is refused."""
        with pytest.raises(ValueError, match="give 16 digits"):
            list(solutions(grid))


class TestSudokuTask:
    @pytest.mark.parametrize("seed", [0, 7])
    def test_every_sudoku_has_one_solution(self, seed: int) -> None:
        """108 puzzles with four blanks, shots included, whose only solution is the label."""
        task = load_task("puzzle/sudoku", seed=seed)
        assert len({sample.prompt for sample in task.samples}) == 108
        for sample in task.samples:
            grid = sample.input["sudoku"].replace("\n", "")
            shot = sample.messages[0]["content"].split("Input:\n")[1].split("\nOutput:")[0]
            assert grid.count("0") == 4
            assert [rows(found) for found in solutions(grid)] == [sample.label]
            assert [rows(found) for found in solutions(shot.replace("\n", ""))] == [
                sample.messages[1]["content"]
            ]

    def test_prompt_has_real_newlines(self) -> None:
        """The official prompt writes backslash-n, which becomes a newline around the grid."""
        sample = load_task("puzzle/sudoku", limit=1).samples[0]
        assert sample.prompt.endswith(f"\n\nInput:\n{sample.input['sudoku']}\nOutput:\n")
        assert "\\n" not in sample.prompt


def test_permutations_of_a_row_are_all_first_rows() -> None:
    """The first row of a random square is uniform over orders: all 24 occur."""
    first = {tuple(latin_square("ABCD", Random(seed))[0]) for seed in range(400)}
    assert first == set(permutations("ABCD"))
