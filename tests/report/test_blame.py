"""What the blame of answers says, and its table."""

from __future__ import annotations

import pytest

from pbcore.report.answers import answers_alone
from pbcore.report.blame_section import blame_section, net_loss_text
from pbcore.report.blame_text import blame_sentences
from pbcore.results.record import Blame, BlamedToken, Verdict
from pbcore.results.rundir import StoredCell
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
                    "Step 1 revealed Hannah (.69), Hannah (.74) and end (1) together. Each of the 2"
                    " least sure alone would still have ended right.",
                    "One at a time from the start: right.",
                ],
            ),
            (
                Blame("token", "", 2, [HANNAH, BlamedToken(7, "\n", 0.5, False)]),
                [
                    "Step 3 revealed Hannah (.69) and space (.50) together. Alone, space (.50)"
                    " would have ended wrong, too.",
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


NAMES: dict[str, Verdict | None] = {
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

    def test_cells_without_blame_have_no_row(self) -> None:
        cell, samples = factory.cell()
        section = blame_section([answers_alone(StoredCell(cell, tuple(samples)))])
        assert section.markdown() == ""
