"""Answers that a corrected score counts otherwise than the official one."""

from __future__ import annotations

from pbcore.analysis.score_differences import differences
from pbcore.results import CellRecord, Conditions, SampleRecord


def cell(name: str, task: str) -> CellRecord:
    return CellRecord(name, "tiny", task, "random-k2", Conditions.unknown())


def answer(index: int, **scores: float) -> SampleRecord:
    return SampleRecord(index, "", scores, 1, 1, 1)


class TestDifferences:
    def test_by_hand(self) -> None:
        """Higher and lower answers of all cells of a task are named; equal scores and those without
        the pair don't count.
        """
        cells = [
            cell("a", "waiting_line/copy"),
            cell("b", "waiting_line/copy"),
            cell("c", "puzzle/sudoku"),
        ]
        samples = {
            "a": [
                answer(0, accuracy=0, accuracy_any_layout=1),
                answer(1, accuracy=1, accuracy_any_layout=1),
            ],
            "b": [
                answer(0, accuracy=1, accuracy_any_layout=0),
                answer(1, accuracy=1),
                answer(2, accuracy_any_layout=1),
            ],
            "c": [answer(0, accuracy=1, accuracy_as_asked=1, accuracy_any_layout=1)],
        }
        found = differences(cells, samples)
        assert [(one.task, one.score, one.official, one.answers, one.count) for one in found] == [
            ("puzzle/sudoku", "accuracy_any_layout", "accuracy", 1, 0),
            ("puzzle/sudoku", "accuracy_as_asked", "accuracy", 1, 0),
            ("waiting_line/copy", "accuracy_any_layout", "accuracy", 3, 2),
        ]
        assert found[-1].higher == (("a", samples["a"][0]),)
        assert found[-1].lower == (("b", samples["b"][0]),)

    def test_words_in_any_case(self) -> None:
        """A word set's pair is inclusion with and without letter case."""
        samples = {"a": [answer(0, inclusion=0, inclusion_any_case=1)]}
        (found,) = differences([cell("a", "text_writing/w2s_easy")], samples)
        assert (found.score, found.official, found.count) == ("inclusion_any_case", "inclusion", 1)
