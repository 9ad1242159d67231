import pytest

from pbcore.base.errors import InputError
from pbcore.report.measured import question_set
from pbcore.theory import answer_distribution
from pbcore.theory.answers import answer_table, positions
from pbcore.theory.canvas import MASKED

KNOWN = [
    ("copy", 4),
    ("replace_index", 3),
    ("replace_random", 4),
    ("shuffle", 4),
    ("insert_random", 4),
    ("remove_random", 4),
    ("latin_square", 3),
]


class TestQuestions:
    @pytest.mark.parametrize(("op", "n"), KNOWN)
    def test_one_mask_for_each_item(self, op: str, n: int) -> None:
        """The canvas has as many masks as the theory has positions, and the marginals of the
        theory's answers.
        """
        asked = question_set(op, n, 3)
        exact = answer_distribution(asked.samples[0])
        masked = exact.canvas == MASKED
        assert masked.sum() == positions(op, n)
        found = sorted(
            sorted(row[row > 0].round(9)) for row in exact.marginals(exact.canvas)[masked]
        )
        table = answer_table(op, n)
        expected = [
            sorted((table[:, i] == t).mean().round(9) for t in set(table[:, i]))
            for i in range(table.shape[1])
        ]
        assert found == sorted(expected)

    def test_copies_differ_in_their_index_alone(self) -> None:
        """So each has its own random numbers."""
        samples = question_set("shuffle", 3, 4).samples
        assert [sample.index for sample in samples] == [0, 1, 2, 3]
        assert len({sample.prompt for sample in samples}) == 1

    def test_different_questions(self) -> None:
        """For trained models each sample has its own list and is scored by it."""
        asked = question_set("copy", 3, 5, different=True)
        assert len({sample.prompt for sample in asked.samples}) == 5
        first, second = (str(sample.answer) for sample in asked.samples[:2])
        assert [asked.right(0, first), asked.right(1, second), asked.right(0, second)] == [
            True,
            True,
            False,
        ]
        with pytest.raises(InputError, match="different questions"):
            question_set("copy", 2, 400, different=True)

    def test_right_and_wrong(self) -> None:
        """Every listed answer is right; others are wrong."""
        inserted = question_set("insert_random", 2, 1)
        assert [
            inserted.right(0, text) for text in ('["F", "A", "B"]', '["A", "F", "B"]', '["A", "B"]')
        ] == [
            True,
            True,
            False,
        ]
        square = question_set("latin_square", 2, 1)
        assert [square.right(0, text) for text in ("A,B\nB,A", "B,A\nA,B", "A,B\nA,B")] == [
            True,
            True,
            False,
        ]

    def test_others_are_refused(self) -> None:
        """The error says what there is."""
        with pytest.raises(InputError, match="unknown"):
            question_set("x", 3, 1)
