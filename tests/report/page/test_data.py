"""pbcore.report.page.data: answers as compact JSON, and the choice of those that a page has room
for.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.report.answers import ReportCell
from pbcore.report.page.data import (
    DIGITS,
    LONGEST,
    PackedAnswer,
    answer_verdicts,
    by_key,
    choose_answers,
    confidence_digits,
    packed,
    step_digits,
    token_digits,
)
from pbcore.report.page.html import as_json
from pbcore.results import CellRecord, SampleRecord
from pbcore.results.record import Blame, BlamedToken, Continued
from tests.report.page.films import STEPS, WORDS, filmed
from tests.results import factory


def number(text: str) -> int:
    return DIGITS.index(text[0]) * len(DIGITS) + DIGITS.index(text[1])


def lot(
    n: int, right: float, sampler: str = "confidence-k2", first: frozenset[int] = frozenset()
) -> ReportCell:
    cell, samples = filmed(factory.cell(sampler=sampler, n=n, right=right))
    return ReportCell(cell.id, cell.model, cell, samples, worse=tuple(first))


def shown(answers: list[PackedAnswer]) -> list[object]:
    return [answer["index"] for answer in answers]


class TestPacked:
    @given(st.floats(0, 1))
    def test_confidences(self, share: float) -> None:
        """Two digits hold a confidence to within 1/7,000."""
        text = confidence_digits(share)
        value = 1.0 if text == "!" else number(text) / (len(DIGITS) ** 2 - 1)
        assert value == pytest.approx(share, abs=1 / 7000)

    @given(st.integers(0, 10**7))
    def test_token_numbers(self, token: int) -> None:
        """Two digits hold the first 3,844 tokens of a page, a point and four all others."""
        text = token_digits(token)
        assert len(text) == (2 if token < 3844 else 5)
        high, low = (0, text) if len(text) == 2 else (number(text[1:3]), text[3:])
        assert high * 3844 + number(low) == token

    def test_steps(self) -> None:
        """A digit for each step; `-` where nothing was decoded; plain numbers past 61."""
        assert step_digits([0, 9, 10, 61, -1]) == "09Az-"
        assert step_digits([0, 62]) == [0, 62]

    def test_an_answer(self) -> None:
        """Tokens are numbers of one table, and the text that they make is not repeated."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        tokens: dict[str, int] = {}
        answer = packed(cell, samples[0], tokens)
        assert "text" not in answer
        numbers = [number(answer["tokens"][i : i + 2]) for i in range(0, len(answer["tokens"]), 2)]
        assert [list(tokens)[i] for i in numbers] == list(WORDS)
        assert answer["steps"] == "".join(map(str, STEPS))

    @pytest.mark.parametrize(
        "change",
        [
            {"tokens": None},
            {"text": "something else"},
            {
                "tokens": ["a", "b"],
                "text": "ab",
                "steps": [0, 0, 0],
            },  # `b` repeats to the end of the canvas
            {"tokens": ["x" * 300], "text": "x" * 300},
        ],
    )
    def test_text_that_tokens_do_not_make(self, change: dict[str, object]) -> None:
        """It is kept beside them."""
        cell, samples = filmed(factory.cell(n=1))
        sample = replace(samples[0], **change)  # type: ignore[arg-type]
        assert packed(cell, sample, {})["text"] == sample.text

    def test_a_monstrous_answer(self) -> None:
        """A text of a million characters is cut, and its length told."""
        cell, samples = factory.cell(n=1)
        answer = packed(cell, replace(samples[0], text="x" * 10**6), {})
        assert (len(answer["text"]), answer["cut"]) == (LONGEST, 10**6)

    def test_matches_count_from_the_whole_text(self) -> None:
        """LanguageTool's offsets are those of the stripped text; ours of the answer."""
        cell, samples = factory.cell(n=1)
        match = {"rule": "R", "message": "m", "offset": 2, "length": 3, "category": "C"}
        sample = replace(
            samples[0], text="\n  an apple", details={"matches": [match, {"rule": "no offset"}, 7]}
        )
        assert packed(cell, sample, {})["matches"] == [
            {"start": 5, "length": 3, "rule": "R", "message": "m"}
        ]

    def test_matches_in_a_final_answer(self) -> None:
        """Of an answer with steps the final answer alone was checked."""
        cell, samples = factory.cell(n=1)
        stepwise = replace(cell, conditions=replace(cell.conditions, options={"cot": True}))
        match = {"rule": "R", "message": "m", "offset": 2, "length": 3, "category": "C"}
        text = "an apple first. The answer is: 'an apple'"
        answer = packed(stepwise, replace(samples[0], text=text, details={"matches": [match]}), {})
        start, length = (answer["matches"][0][key] for key in ("start", "length"))
        assert (start, text[start : start + length]) == (text.rfind("apple") - 1, " ap")
        assert (
            packed(stepwise, replace(samples[0], text="no end", details={"matches": [7]}), {})[
                "matches"
            ]
            == []
        )

    def test_what_is_to_blame(self) -> None:
        """Its sentences, the number of its step from 1, and the film of how the answer goes on one
        token at a time, packed as the answer's own.
        """
        cell, samples = filmed(factory.cell(n=1, right=0.0))
        rest = Continued("".join(WORDS[:-1]), list(WORDS), STEPS, [0.5] * len(STEPS))
        blame = Blame("together", "", 1, [BlamedToken(2, " Li", 0.7, True)], rest)
        tokens: dict[str, int] = {}
        shown = packed(cell, replace(samples[0], blame=blame), tokens)["blame"]
        assert shown["step"] == 2
        assert shown["lines"][1] == "One at a time from step 1: right."
        numbers = [number(shown["rest"]["tokens"][i : i + 2]) for i in range(0, 2 * len(WORDS), 2)]
        assert [list(tokens)[i] for i in numbers] == list(WORDS)
        assert shown["rest"]["steps"] == "".join(map(str, STEPS))
        assert "blame" not in packed(cell, replace(samples[0], blame=Blame("gained")), {})

    def test_the_scored_text(self) -> None:
        """With --official-text the whole canvas was scored, so it is what the page shows."""
        cell, samples = factory.cell(n=1)
        official = replace(
            cell, conditions=replace(cell.conditions, options={"official_text": True})
        )
        sample = replace(samples[0], official_text="all of it")
        assert [packed(one, sample, {})["text"] for one in (cell, official)] == [
            "an answer",
            "all of it",
        ]


class TestVerdicts:
    @given(
        st.dictionaries(
            st.tuples(st.integers(0, 9), st.integers(0, 2)),
            st.sampled_from([0.0, 0.5, 1.0, None]),
        )
    )
    def test_one_for_every_answer(self, scores: dict[tuple[int, int], float | None]) -> None:
        """By seed and sample, whatever indices there are; what has no score has no verdict."""
        cell, (sample, *_) = factory.cell(n=1)
        samples = [
            replace(
                sample, index=index, seed=seed, scores={} if score is None else {"accuracy": score}
            )
            for (index, seed), score in scores.items()
        ]
        signs = {
            (index if indices == 0 else indices[index], seed): sign
            for seed, indices, told in answer_verdicts(cell, samples)
            for index, sign in enumerate(told)
        }
        assert signs == {
            place: "-" if score is None else "0" if score == 1 else "1"
            for place, score in scores.items()
        }

    def test_whole_cells_are_short(self) -> None:
        """Samples 0 to n − 1 need no indices."""
        answers = lot(4, 1.0)
        assert answer_verdicts(answers.cell, answers.samples) == [[0, 0, "0000"]]
        assert answer_verdicts(answers.cell, answers.samples[1:]) == [[0, [1, 2, 3], "000"]]


class TestChosen:
    def test_everything_fits(self) -> None:
        """With room for all, all are there in the order of the samples."""
        answers, _ = choose_answers([lot(8, 0.5)], 10**6)
        assert shown(answers[0]) == list(range(8))

    def test_wrong_ones_come_first(self) -> None:
        """With little room each cell has its wrong answers, the other cell's right ones are left
        out.
        """
        lots = [lot(40, 1.0), lot(40, 0.9, "random-k2")]
        answers, _ = choose_answers(lots, 1500)
        wrong = [sample.index for sample in lots[1].samples if not sample.scores["accuracy"]]
        assert len(wrong) == 4
        assert set(wrong) <= set(shown(answers[1]))
        assert len(answers[0]) + len(answers[1]) < 20

    def test_cells_have_the_same_samples(self) -> None:
        """Right answers are taken in turn, so that two samplers can be shown on the same sample."""
        answers, _ = choose_answers([lot(40, 1.0), lot(40, 1.0, "random-k2")], 3000)
        assert shown(answers[0])[:5] == shown(answers[1])[:5] == [0, 1, 2, 3, 4]

    def test_flips_before_all(self) -> None:
        """The samples that a comparison is about come before wrong ones."""
        answers, _ = choose_answers([lot(40, 0.5, first=frozenset({38, 39}))], 400)
        assert {38, 39} <= set(shown(answers[0]))

    def test_room_is_kept(self) -> None:
        """Answers and tokens together stay within the room."""
        room = 2500
        answers, tokens = choose_answers([lot(60, 0.5), lot(60, 0.7, "random-k2")], room)
        size = len(as_json([list(by_key(cell).values()) for cell in answers]))
        size += len(as_json(tokens))
        assert room * 0.8 < size <= room * 1.01

    def test_unscored_answers(self) -> None:
        """Answers without a headline score count as none that are right."""
        cell, samples = factory.cell(n=2)
        unscored = [replace(sample, scores={}) for sample in samples]
        answers, _ = choose_answers(
            [ReportCell(cell.id, cell.model, replace(cell, scores={}), unscored)], 10**6
        )
        assert [answer["scores"] for answer in answers[0]] == [[], []]


def test_records_without_films() -> None:
    """Old records, and those of servers, have no tokens and no steps."""
    cell, samples = factory.cell(n=1)
    assert isinstance(cell, CellRecord)
    assert isinstance(samples[0], SampleRecord)
    answer = packed(cell, samples[0], {})
    assert answer.keys() == {"index", "scores", "nfe", "text"}
