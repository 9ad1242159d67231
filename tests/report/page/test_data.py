"""pbcore.report.page.data: answers as JSON, and the choice of those that a page has room
for.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.report.answers import ReportCell
from pbcore.report.page.data import (
    LONGEST,
    PageAnswer,
    answer_verdicts,
    choose_answers,
    page_answer,
    run_data,
)
from pbcore.report.page.html import data_element
from pbcore.results import CellRecord, SampleRecord
from pbcore.results.questions import StoredQuestion
from pbcore.results.record import Blame, BlamedToken, Continued
from tests.report.page.films import STEPS, SURE, WORDS, filmed
from tests.results import factory


def lot(
    n: int, right: float, sampler: str = "confidence-k2", first: frozenset[int] = frozenset()
) -> ReportCell:
    """A cell of answers that hardly get smaller than a kilobyte."""
    cell, films = filmed(factory.cell(sampler=sampler, n=n, right=right))
    drawn = random.Random(sampler)
    samples = [replace(film, text=drawn.randbytes(1000).hex()) for film in films]
    return ReportCell(cell.id, cell.model, cell, samples, worse=tuple(first))


def shown(answers: list[PageAnswer]) -> list[object]:
    return [answer["index"] for answer in answers]


class TestAnswer:
    def test_an_answer(self) -> None:
        """Tokens, steps and confidences stand as they are; what it lacks is left out."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        answer = page_answer(cell, samples[0])
        assert answer["tokens"] == list(WORDS)
        assert answer["steps"] == list(STEPS)
        assert answer["confidences"] == pytest.approx(SURE, abs=0.0005)
        assert answer["text"] == samples[0].text
        assert not answer["wrong"]
        assert answer.keys().isdisjoint({"seed", "near", "why", "former", "blame", "cut"})

    def test_the_nearest_of_several_right_answers(self) -> None:
        """Stands with a wrong answer where it isn't the stored one."""
        cell, samples = factory.cell(n=1, right=0.0)
        question = StoredQuestion(0, "p", '["A", "B", "N"]', False, rule="insert_random",
                                  items=["A", "B"], word="N")  # fmt: skip
        near = {}
        for text in ('["N", "A", "A"]', '["A", "B", "B"]'):
            answer = page_answer(cell, replace(samples[0], text=text), question)
            near[text] = answer.get("near")
        assert near == {'["N", "A", "A"]': '["N", "A", "B"]', '["A", "B", "B"]': None}

    def test_a_monstrous_answer(self) -> None:
        """A text of a million characters is cut, and its length told."""
        cell, samples = factory.cell(n=1)
        answer = page_answer(cell, replace(samples[0], text="x" * 10**6))
        assert (len(answer["text"]), answer["cut"]) == (LONGEST, 10**6)

    def test_matches_count_from_the_whole_text(self) -> None:
        """LanguageTool's offsets are those of the stripped text; ours of the answer."""
        cell, samples = factory.cell(n=1)
        match = {"rule": "R", "message": "m", "offset": 2, "length": 3, "category": "C"}
        sample = replace(
            samples[0], text="\n  an apple", details={"matches": [match, {"rule": "no offset"}, 7]}
        )
        assert page_answer(cell, sample)["matches"] == [
            {"start": 5, "length": 3, "rule": "R", "message": "m"}
        ]

    def test_matches_in_a_final_answer(self) -> None:
        """Of an answer with steps the final answer alone was checked."""
        cell, samples = factory.cell(n=1)
        stepwise = replace(cell, conditions=replace(cell.conditions, options={"cot": True}))
        match = {"rule": "R", "message": "m", "offset": 2, "length": 3, "category": "C"}
        text = "an apple first. The answer is: 'an apple'"
        answer = page_answer(stepwise, replace(samples[0], text=text, details={"matches": [match]}))
        start, length = (answer["matches"][0][key] for key in ("start", "length"))
        assert (start, text[start : start + length]) == (text.rfind("apple") - 1, " ap")
        assert (
            page_answer(stepwise, replace(samples[0], text="no end", details={"matches": [7]}))[
                "matches"
            ]
            == []
        )

    def test_what_is_to_blame(self) -> None:
        """Its sentences, the number of its step from 1, and the film of how the answer goes on one
        token at a time.
        """
        cell, samples = filmed(factory.cell(n=1, right=0.0))
        rest = Continued("".join(WORDS[:-1]), list(WORDS), STEPS, [0.5] * len(STEPS))
        blame = Blame("together", "", 1, [BlamedToken(2, " Li", 0.7, True)], rest)
        shown = page_answer(cell, replace(samples[0], blame=blame))["blame"]
        assert shown["step"] == 2
        assert shown["places"] == [2]
        assert shown["verdict"] == "together"
        assert shown["lines"][1] == "One at a time from step 1: right."
        assert shown["rest"]["tokens"] == list(WORDS)
        assert shown["rest"]["steps"] == list(STEPS)
        assert shown["rest"]["wrong"] is False
        assert "blame" not in page_answer(cell, replace(samples[0], blame=Blame("gained")))

    def test_an_item_that_was_written_again(self) -> None:
        """Its step and all its tokens stand there, without blame too; in a right answer it is no
        fault.
        """
        cell, samples = filmed(factory.cell(n=1, right=0.0))
        twice = {"item": "Ann", "allowed": 1, "at": [2, 12]}
        words = ['["', "Ann", " Li", '", "', "Ann", " Li", '"]', "<eos>"]
        sample = replace(
            samples[0], text="".join(words[:-1]), tokens=words, details={"repeated": [twice]}
        )
        shown = page_answer(cell, sample)["blame"]
        assert shown == {
            "lines": ["Step 3 wrote Ann for the second time."],
            "step": 3,
            "places": [1, 4],
        }
        assert "blame" not in page_answer(cell, replace(sample, scores={"accuracy": 1.0}))

    def test_whose_blame_can_be_found(self) -> None:
        """That of answers whose steps are known and which are right or wrong, once."""
        entry = filmed(factory.cell(n=2, right=0.5))
        graded = factory.cell(task="text_writing/summarization", n=2, headline="rouge_l")
        untold = factory.cell(n=2)
        blamed = factory.blamed(entry, ["together", None])
        served = entry[0], [replace(sample, served={"id": "x"}) for sample in entry[1]]
        shown = []
        for cell, samples in (entry, graded, untold, blamed, served):
            (one,) = run_data([ReportCell(cell.id, cell.model, cell, samples)], "a")["cells"]
            shown.append((one.get("traceable", False), one.get("blamed", False)))
        assert shown == [(True, False), *[(False, False)] * 2, (False, True), (False, False)]

    def test_the_scored_text(self) -> None:
        """With --official-text the whole canvas was scored, so it is what the page shows."""
        cell, samples = factory.cell(n=1)
        official = replace(
            cell, conditions=replace(cell.conditions, options={"official_text": True})
        )
        sample = replace(samples[0], official_text="all of it")
        assert [page_answer(one, sample)["text"] for one in (cell, official)] == [
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
        answers = choose_answers([lot(8, 0.5)], 10**6)
        assert shown(answers[0]) == list(range(8))

    def test_wrong_ones_come_first(self) -> None:
        """With little room each cell has its wrong answers, the other cell's right ones are left
        out.
        """
        lots = [lot(40, 1.0), lot(40, 0.9, "random-k2")]
        answers = choose_answers(lots, 40_000)
        wrong = [sample.index for sample in lots[1].samples if not sample.scores["accuracy"]]
        assert len(wrong) == 4
        assert set(wrong) <= set(shown(answers[1]))
        assert len(answers[0]) + len(answers[1]) < 60

    def test_cells_have_the_same_samples(self) -> None:
        """Right answers are taken in turn, so that two samplers can be shown on the same sample."""
        answers = choose_answers([lot(40, 1.0), lot(40, 1.0, "random-k2")], 60_000)
        assert shown(answers[0])[:5] == shown(answers[1])[:5] == [0, 1, 2, 3, 4]

    def test_flips_before_all(self) -> None:
        """The samples that a comparison is about come before wrong ones."""
        answers = choose_answers([lot(40, 0.5, first=frozenset({38, 39}))], 20_000)
        assert {38, 39} <= set(shown(answers[0]))

    def test_room_is_kept(self) -> None:
        """Answers take about the room that there is, as they stand in the page."""
        room = 200_000
        answers = choose_answers([lot(150, 0.5), lot(150, 0.7, "random-k2")], room)
        assert 0 < sum(map(len, answers)) < 300
        assert room * 0.9 < len(data_element("answers", answers)) <= room * 1.1

    def test_unscored_answers(self) -> None:
        """Answers without a headline score count as none that are right."""
        cell, samples = factory.cell(n=2)
        unscored = [replace(sample, scores={}) for sample in samples]
        answers = choose_answers(
            [ReportCell(cell.id, cell.model, replace(cell, scores={}), unscored)], 10**6
        )
        assert [answer["scores"] for answer in answers[0]] == [[], []]


def test_records_without_films() -> None:
    """Old records, and those of servers, have no tokens and no steps."""
    cell, samples = factory.cell(n=1)
    assert isinstance(cell, CellRecord)
    assert isinstance(samples[0], SampleRecord)
    answer = page_answer(cell, samples[0])
    assert answer.keys() == {"index", "wrong", "scores", "nfe", "text"}
