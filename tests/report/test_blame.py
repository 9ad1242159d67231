"""What the blame of answers says, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pbcore.report.answers import answers_alone
from pbcore.report.blame_section import blame_section, net_loss_text, with_wrong_answers
from pbcore.report.blame_text import blame_sentences, broken
from pbcore.results.record import Blame, BlamedToken, BlameVerdict, SampleRecord
from pbcore.results.rundir import StoredCell
from pbcore.tasks.scoring import Repeated
from tests.results import factory

HANNAH = BlamedToken(4, " Hannah", 0.69, True)
AGAIN = BlamedToken(7, "Hannah", 0.74, True)


class TestSentences:
    @pytest.mark.parametrize(
        ("blame", "lines"),
        [
            (
                Blame("together", "", 13, [HANNAH, AGAIN]),
                [
                    "Step 14 revealed Hannah (.69) and Hannah (.74) together. Each alone would"
                    " still have ended right.",
                    "One at a time from step 13: right.",
                ],
            ),
            (
                Blame("together", "", 0, [HANNAH, AGAIN, BlamedToken(9, "<eos>", 1.0)]),
                [
                    "Step 1 revealed Hannah (.69) and Hannah (.74) together. Each alone would"
                    " still have ended right.",
                    "One at a time from the start: right.",
                ],
            ),
            (
                Blame("together", "", 1, [HANNAH, AGAIN, BlamedToken(9, "Bob", 0.8, True)]),
                [
                    "Step 2 revealed Hannah (.69), Hannah (.74) and Bob (.80) together. Each alone"
                    " would still have ended right.",
                    "One at a time from step 1: right.",
                ],
            ),
            (
                Blame(
                    "together",
                    "",
                    1,
                    [HANNAH, BlamedToken(5, "Bo", 0.5, True), AGAIN, BlamedToken(9, ",", 0.6)],
                    clash=[4, 5, 7],
                ),
                [
                    "Step 2 revealed Hannah (.69), Bo (.50) and Hannah (.74) together. Without any"
                    " one of them it would still have ended right.",
                    "One at a time from step 1: right.",
                ],
            ),
            (
                Blame("token", "", 2, [HANNAH, BlamedToken(7, "\n", 0.5, False)]),
                [
                    "Step 3 revealed space (.50), which ends wrong one at a time, too.",
                    "One at a time from step 2: right.",
                ],
            ),
            (
                Blame("token", "", 2, [BlamedToken(4, "Bo", 0.5, False)]),
                [
                    "Step 3 revealed Bo (.50), which ends wrong one at a time, too.",
                    "One at a time from step 2: right.",
                ],
            ),
            (
                Blame("model"),
                ["One token at a time from the start: wrong, too. The model is to blame."],
            ),
            (
                Blame("undecided", "it can't", 2),
                [
                    "Step 3 broke it. Not decided by which token: it can't.",
                    "One at a time from step 2: right.",
                ],
            ),
            (Blame("undecided", "it can't"), ["Not decided which step broke it: it can't."]),
        ],
    )
    def test_each_verdict(self, blame: Blame, lines: list[str]) -> None:
        assert blame_sentences(blame) == lines


def answer(text: str, *words: tuple[str, int], repeated: Sequence[Repeated]) -> SampleRecord:
    """An answer of these tokens, each with its step, in which these items repeat."""
    return SampleRecord(
        index=0,
        text=text,
        scores={"accuracy": 0.0},
        nfe=5,
        canvas_tokens=len(words),
        answer_tokens=len(words),
        details={"repeated": list(repeated)},
        tokens=[word for word, _ in words],
        steps=[step for _, step in words],
    )


TWICE = (
    ('["', 0), ("Ann", 2), (" Li", 1), ('", "', 0), ("Ann", 1), (" Li", 3), ('"]', 0), ("<eos>", 4),
)  # fmt: skip
ANN: Repeated = {"item": "Ann Li", "allowed": 1, "at": [2, 12]}


class TestBroken:
    def test_the_step_that_wrote_an_item_again(self) -> None:
        """It is the one that completed the second; all tokens of both clash."""
        why = broken(answer('["Ann Li", "Ann Li"]', *TWICE, repeated=[ANN]))
        assert why is not None
        assert (why.step, why.places, why.verdict) == (3, [1, 2, 4, 5], "")
        assert why.lines == ["Step 4 wrote Ann Li for the second time."]

    def test_the_model_is_to_blame(self) -> None:
        """No step broke it, but one wrote an item again."""
        record = answer('["Ann Li", "Ann Li"]', *TWICE, repeated=[ANN])
        why = broken(replace(record, blame=Blame("model")))
        assert why is not None
        assert (why.step, why.verdict) == (3, "model")
        assert why.lines[1] == "Step 4 wrote Ann Li for the second time."

    def test_the_step_of_its_blame_goes_first(self) -> None:
        record = answer('["Ann Li", "Ann Li"]', *TWICE, repeated=[ANN])
        blame = Blame("together", "", 1, [HANNAH, AGAIN], clash=[4, 7])
        why = broken(replace(record, blame=blame))
        assert why is not None
        assert (why.step, why.places, why.verdict) == (1, [4, 7], "together")

    def test_an_item_that_may_stand_twice(self) -> None:
        """Its third time is the one too many; here the second step wrote the last of three."""
        words = (("[A", 0), (", A", 2), (", A", 1), ("]", 0))
        entry: Repeated = {"item": "A", "allowed": 2, "at": [1, 4, 7]}
        why = broken(answer("[A, A, A]", *words, repeated=[entry]))
        assert why is not None
        assert (why.step, list(why.places)) == (2, [0, 2, 1])
        assert why.lines == ["Step 3 wrote A for the third time."]

    def test_a_symbol_of_a_row(self) -> None:
        words = (("A,", 0), ("B,", 1), ("B", 2), ("\n", 0), ("<eos>", 0))
        entry: Repeated = {"item": "B", "allowed": 1, "at": [2, 4], "within": "row 1"}
        why = broken(answer("A,B,B\n", *words, repeated=[entry]))
        assert why is not None
        assert why.lines == ["Step 3 wrote B for the second time in row 1."]

    def test_steps_before_the_final_answer(self) -> None:
        """Items of a final answer begin where they stand in it, not in the steps before."""
        words = (("A, A. The answer is: [", 0), ("A", 1), (", A", 2), ("]", 0))
        entry: Repeated = {"item": "A", "allowed": 1, "at": [1, 4]}
        why = broken(answer("A, A. The answer is: [A, A]", *words, repeated=[entry]))
        assert why is not None
        assert (why.step, why.places) == (2, [1, 2])

    @pytest.mark.parametrize(
        "changes",
        [
            {"details": {"why": "Ann Li twice"}},
            {"steps": []},
            {"tokens": None},
            {"tokens": ["other", "words"], "steps": [0, 1]},
        ],
    )
    def test_what_a_record_does_not_tell(self, changes: dict[str, Any]) -> None:
        """Without items that repeat, or steps, or tokens that join to its text, nothing is said."""
        record = answer('["Ann Li", "Ann Li"]', *TWICE, repeated=[ANN])
        assert broken(replace(record, **changes)) is None

    def test_a_right_answer_that_was_gained(self) -> None:
        record = replace(answer("[]", ("[]", 0), repeated=[]), blame=Blame("gained"))
        assert broken(record) is None


NAMES: dict[str, BlameVerdict | None] = {
    "m": "model",
    "t": "together",
    "o": "token",
    "u": "undecided",
    "g": "gained",
    ".": None,
}


def blamed(letters: str, reference: str | None = "confidence-k1") -> StoredCell:
    """A cell whose answers have these verdicts, a letter each."""
    entry = factory.cell(n=len(letters), right=[float(letter in ".g") for letter in letters])
    cell, samples = factory.blamed(entry, [NAMES[letter] for letter in letters], reference)
    return StoredCell(cell, tuple(samples))


class TestSection:
    def test_what_is_lost_adds_up(self) -> None:
        """Of 20 answers 3 are broken together, 1 by a token, 1 undecided, 2 gained, 4 the
        model's.
        """
        entry = blamed("tttou" + "gg" + "mmmm" + "." * 9)
        assert entry.cell.blame is not None
        assert net_loss_text(entry.cell.blame) == (
            "15 = 15 together + 5 token + 5 undecided − 10 gained"
        )
        section = blame_section([answers_alone(entry)])
        (row,) = section.rows
        assert (row["together"], row["errors"]) == ("15 [5–36]", "20 [8–42]")
        assert "20 [8–42]" in section.markdown()

    def test_without_a_reference_the_loss_is_unknown(self) -> None:
        (row,) = blame_section([answers_alone(blamed("uu..", None))]).rows
        assert row["net"] == "unknown: 50 undecided"

    def test_cells_in_which_nothing_is_wrong(self) -> None:
        """The page leaves them out and counts them; a gain is no reason for that."""
        cells = [blamed(letters) for letters in ("....", "t...", "g...", "....")]
        section = with_wrong_answers(blame_section(map(answers_alone, cells)))
        assert [row["net"] for row in section.rows] == [
            "25 = 25 together + 0 token − 0 gained",
            "−25 = 0 together + 0 token − 25 gained",
        ]
        assert section.note.endswith("Left out: 2 cells in which no answer is wrong.")
        whole = blame_section([answers_alone(cells[1])])
        assert with_wrong_answers(whole) == whole

    def test_cells_without_blame_have_no_row(self) -> None:
        cell, samples = factory.cell()
        section = blame_section([answers_alone(StoredCell(cell, tuple(samples)))])
        assert section.markdown() == ""
