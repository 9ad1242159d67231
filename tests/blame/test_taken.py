"""The canvases of an answer, from its record alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pbcore
from pbcore.blame.taken import NoCanvases, taken
from pbcore.decoding import decode
from pbcore.models.base import Generation
from pbcore.models.tokenizer import pieces
from pbcore.results.build import sample_record
from pbcore.results.record import SampleRecord
from pbcore.tasks.scoring import Scored
from tests.decoding.test_former import REMASKING
from tests.decoding.toys import MASK, Toy

PIECE = pieces(Toy())


def recorded(answer: Generation) -> SampleRecord:
    """The record of an answer, as it is read again from its JSON."""
    record = sample_record(0, answer, Scored({}), 0, PIECE)
    return SampleRecord.from_json(record.to_json())


class TestCanvases:
    @pytest.mark.parametrize("sampler", [*REMASKING, "confidence-k3", "random-k4+b8", "t2m-0.9"])
    def test_they_are_those_of_the_decoding(self, sampler: str) -> None:
        """Every canvas before a step, also where tokens were masked again or replaced."""
        for row in ([5], [5, 6]):
            (answer,) = decode(Toy(), [row], sampler, max_new_tokens=16, record=True)
            steps = taken(recorded(answer), (MASK,) * 16, MASK)
            canvases = [steps.canvas(step) for step in range(steps.count + 1)]
            trajectory = answer.trajectory or ()
            assert canvases == list(trajectory)[: len(canvases)]
            # steps at the end that change nothing are left out
            assert set(trajectory[len(canvases) :]) <= {canvases[-1]}

    @pytest.mark.parametrize("sampler", ["confidence-k2", "confidence-k2+eos_stop"])
    def test_a_block_model_and_what_was_filled_behind_the_end(self, sampler: str) -> None:
        """A filled EOS is in the final canvas alone, and no step revealed it."""
        model = pbcore.load_model("tiny-block" if sampler == "confidence-k2" else "tiny")
        samples = pbcore.load_task("waiting_line/reverse", limit=2).samples
        for sample, answer in zip(
            samples, decode(model, samples, sampler, record=True), strict=True
        ):
            record = sample_record(0, answer, Scored({}), 0, pieces(model))
            empty = model.encode(sample, None, 0).canvas
            steps = taken(record, empty, model.mask_id)
            for step in range(steps.count):
                canvas = (answer.trajectory or ())[step][: len(empty)]
                assert steps.canvas(step) == canvas
            final = steps.canvas(steps.count)
            assert final[: len(answer.token_ids)] == answer.token_ids

    def test_what_a_step_revealed(self) -> None:
        """The tokens of a step with the confidences that they had then."""
        (answer,) = decode(Toy(), [[5]], "confidence-k3", max_new_tokens=8)
        steps = taken(recorded(answer), (MASK,) * 8, MASK)
        fresh = steps.revealed(1)
        assert [token.at for token in fresh] == [i for i, at in enumerate(answer.steps) if at == 1]
        assert all(token.confidence == answer.confidences[token.at] for token in fresh)
        assert not steps.took_back(1)

    @pytest.mark.parametrize("sampler", REMASKING)
    def test_what_a_step_revealed_once_more(self, sampler: str) -> None:
        """A token that was masked again has the confidence of the step that is asked for."""
        (answer,) = decode(Toy(), [[5]], sampler, max_new_tokens=16, record=True)
        steps = taken(recorded(answer), (MASK,) * 16, MASK)
        confidence = {(one.position, one.step): one.confidence for one in answer.former}
        for place, step in enumerate(answer.steps):
            confidence[place, step] = answer.confidences[place]
        for step in range(steps.count):
            before, after = (answer.trajectory or ())[step : step + 2]
            fresh = [place for place in range(16) if before[place] == MASK != after[place]]
            revealed = steps.revealed(step)
            assert [token.at for token in revealed] == fresh
            for token in revealed:
                assert token.confidence == confidence[token.at, step]


class TestUntold:
    def test_an_answer_without_steps(self) -> None:
        (answer,) = decode(Toy(), [[5]], "confidence-k3", max_new_tokens=8)
        record = replace(recorded(answer), steps=[])
        with pytest.raises(NoCanvases, match="steps"):
            taken(record, (MASK,) * 8, MASK)

    def test_a_record_from_before_ids_were_kept(self) -> None:
        """It is read, and tells no canvases."""
        (answer,) = decode(Toy(), [[5]], "confidence-k2+rcr", max_new_tokens=8)
        data = recorded(answer).to_json()
        del data["token_ids"]
        for token in data["former"]:
            del token["id"]
        older = SampleRecord.from_json(data)
        with pytest.raises(NoCanvases):
            taken(older, (MASK,) * 8, MASK)
        again = replace(older, token_ids=list(answer.token_ids))
        if again.former:
            with pytest.raises(NoCanvases, match="ids of tokens that did not stay"):
                taken(again, (MASK,) * 8, MASK)
