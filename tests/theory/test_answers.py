import numpy as np
import pytest

from pbcore.theory.answers import (
    OPERATIONS,
    TooManyAnswers,
    answer_table,
    count_latin_squares,
    latin_squares,
    positions,
    valid_lists,
)


class TestValidLists:
    def test_shuffle_changed_leaves_out_the_list_itself(self) -> None:
        """Of the 3! orders the given one is missing."""
        assert ["A", "B", "C"] not in valid_lists("shuffle_changed", ["A", "B", "C"])
        assert len(valid_lists("shuffle_changed", ["A", "B", "C"])) == 5

    def test_insert_remove_replace_at_every_place(self) -> None:
        """One answer per place."""
        assert valid_lists("insert_random", [1, 2], 9) == [[9, 1, 2], [1, 9, 2], [1, 2, 9]]
        assert valid_lists("remove_random", [1, 2, 3]) == [[2, 3], [1, 3], [1, 2]]
        assert valid_lists("replace_random", [1, 2], 9) == [[9, 2], [1, 9]]

    def test_too_many_and_unknown_are_refused(self) -> None:
        """Nine factorial is not listed; copy has no list of answers."""
        with pytest.raises(TooManyAnswers, match="at most 8"):
            valid_lists("shuffle", range(9))
        with pytest.raises(ValueError, match="copy has no list"):
            valid_lists("copy", [1])


class TestAnswerTable:
    @pytest.mark.parametrize("op", OPERATIONS)
    def test_answers_are_different_and_as_wide_as_positions_says(self, op: str) -> None:
        """Every table holds distinct rows of the announced width."""
        table = answer_table(op, 4)
        assert table.shape[1] == positions(op, 4)
        assert len({tuple(row) for row in table.tolist()}) == len(table)

    @pytest.mark.parametrize(
        ("op", "n"),
        [("shufle", 3), ("shuffle", 0), ("shuffle", 2.0), ("remove_random", 1), ("sudoku", 9)],
    )
    def test_bad_operations_and_lengths_are_named(self, op: str, n: int) -> None:
        """The error repeats what was given."""
        with pytest.raises(ValueError, match=str(n) if op != "shufle" else "shufle"):
            positions(op, n)


class TestLatinSquares:
    @pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 2), (3, 12), (4, 576)])
    def test_all_squares_are_found(self, n: int, count: int) -> None:
        """As many as known, all different, every row and column a permutation."""
        squares = latin_squares(n)
        assert (
            len(squares) == len({s.tobytes() for s in squares}) == count == count_latin_squares(n)
        )
        for axis in (1, 2):
            assert (
                np.sort(squares, axis=axis)
                == np.arange(n).reshape((-1, 1) if axis == 1 else (1, -1))
            ).all()

    def test_known_counts(self) -> None:
        """OEIS A002860; side 5 is too many to list, side 10 not kept."""
        assert [count_latin_squares(n) for n in (5, 6, 7)] == [
            161_280,
            812_851_200,
            61_479_419_904_000,
        ]
        with pytest.raises(TooManyAnswers, match="161280"):
            latin_squares(5)
        with pytest.raises(ValueError, match="1 to 9, not 10"):
            count_latin_squares(10)
