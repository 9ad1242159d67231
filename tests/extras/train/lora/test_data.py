"""The examples of an adapter: their split, order, noise and rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.base.errors import InputError
from pbcore.extras.train.lora.data import examples
from pbcore.extras.train.noise import TrainingRow
from pbcore.models import load_model
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import add_tasks_file, load_task
from tests.extras.train.lora.shapes import toy
from tests.models.shapes import checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(str(checkpoint(tmp_path_factory.mktemp("llada"), "llada")))


def row(model: Any, sample: Sample) -> TrainingRow:
    """The first validation example, if it were this sample."""
    return examples(model, toy("m"))._row(-1, sample)


class TestRow:
    def test_an_answer_and_eos_behind_it(self, model: Any) -> None:
        """The prompt is decoding's own, and EOS fills the canvas."""
        sample = load_task("puzzle/sudoku", limit=1).samples[0]
        request = model.encode(sample, None, 0)
        made = row(model, sample)
        assert made.prompt == request.prompt_ids
        assert len(made.canvas) == len(request.canvas) == 64
        assert model.text(made.canvas) == sample.answer
        assert set(made.canvas[made.answer :]) == {model.eos_id}
        assert made.holes is None

    def test_a_given_canvas_keeps_its_tokens(self, model: Any) -> None:
        """Infilling has a hole where decoding has a mask, and the answer there."""
        sample = load_task("list_ops/shuffle", limit=1).samples[0]
        request = model.encode(sample, None, 0)
        made = row(model, sample)
        assert made.holes == tuple(token == model.mask_id for token in request.canvas)
        assert model.text(made.canvas) == sample.answer

    def test_too_long_an_answer(self, model: Any) -> None:
        """It is named with its length and the canvas."""
        sample = replace(load_task("puzzle/sudoku", limit=1).samples[0], max_new_tokens=3)
        with pytest.raises(
            InputError, match=r"sudoku: an answer of \d+ tokens does not fit the canvas of 3"
        ):
            row(model, sample)


class TestBatches:
    def test_an_epoch_has_every_example_once_in_an_order_of_its_own(self, model: Any) -> None:
        """Prompts of the first epoch's three batches are those of the second's, in another
        order.
        """
        data = examples(model, toy("m"))
        epochs = [
            [
                ids.tolist()
                for step in range(first, first + 3)
                for ids in self.clean(data.batch(step))
            ]
            for first in (0, 3)
        ]
        assert data.steps_per_epoch == 3
        assert len({str(ids) for ids in epochs[0]}) == 12
        assert sorted(map(str, epochs[0])) == sorted(map(str, epochs[1]))
        assert epochs[0] != epochs[1]

    def clean(self, batch: Any) -> Any:
        ids = batch.ids.clone()
        ids[batch.masked] = batch.targets
        width = 100  # rows of batches differ in their padding
        return torch.nn.functional.pad(ids, (width - ids.shape[1], 0), value=0).where(
            torch.nn.functional.pad(batch.attend, (width - ids.shape[1], 0)), torch.tensor(0)
        )

    def test_a_step_is_decided_by_seed_and_number(self, model: Any) -> None:
        """Asked again it is the same, and of another seed it is another."""
        one = examples(model, toy("m"))
        two = examples(model, toy("m"))
        two.batch(0)
        assert torch.equal(one.batch(2).ids, two.batch(2).ids)
        other = examples(model, toy("m", seed=1)).batch(2)
        assert other.ids.shape != one.batch(2).ids.shape or not torch.equal(
            other.ids, one.batch(2).ids
        )

    def test_validation_has_other_examples_and_always_the_same_noise(self, model: Any) -> None:
        """No list of it is among those trained on."""
        data = examples(model, toy("m"))
        seen = {sample.messages[-1]["content"] for sample in data.train}
        assert len(data.validation) == 4
        assert seen.isdisjoint(sample.messages[-1]["content"] for sample in data.validation)
        assert torch.equal(data.validation_batch(0).ids, data.validation_batch(0).ids)


class TestShots:
    def test_the_official_way_is_the_last_question_alone(self, model: Any) -> None:
        """Also where the task has a solved example; with shots they stand before it."""
        for shots in (0, 1, 2):
            data = examples(model, toy("m", task="puzzle/sudoku", n=None, shots=shots))
            for sample in (*data.train, *data.validation, *data.task.samples):
                assert len(sample.messages) == 1 + 2 * shots
            assert (
                data.train[0].prompt
                == load_task("puzzle/sudoku", split="train", limit=1).samples[0].prompt
            )

    def test_of_official_rows(self, model: Any, tmp_path: Path) -> None:
        answer = "1234\n3412\n2143\n4321"
        shot = {"input": {"sudoku": answer.replace("3", "0")}, "answer": answer}
        row = {
            "input": {"sudoku": answer.replace("1", "0"), "icl_examples": [shot]},
            "answer": answer,
        }
        (tmp_path / "puzzle").mkdir()
        file = tmp_path / "puzzle" / "sudoku_n4_12.jsonl"
        file.write_text("\n".join(json.dumps(row | {"metadata": {"length": 4}}) for _ in range(12)))
        asked = {"task": "puzzle/sudoku", "n": None, "data_dir": str(tmp_path)}
        assert {len(one.messages) for one in examples(model, toy("m", **asked)).train} == {1}
        assert {len(one.messages) for one in examples(model, toy("m", **asked, shots=1)).train} == {
            3
        }

    def test_texts_have_none(self, model: Any) -> None:
        with pytest.raises(InputError, match="only list operations and puzzles"):
            examples(model, toy("m", task="text_writing/w2s_easy", n=None, shots=1))
        with pytest.raises(InputError, match=r"shots -1 \(at least 0\)"):
            toy("m", shots=-1)


class TestSources:
    def test_rows_of_a_file_are_divided_in_the_proportion_asked_for(
        self, model: Any, tmp_path: Path
    ) -> None:
        """Ten rows for 12 and 4: eight and two; a batch must fit."""
        rows = [
            {"input": {"context": f"{a} {b}"}, "answer": f'["{b}"]'} for a in "ABC" for b in "ABCD"
        ][:10]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / "tasks.yaml").write_text(
            "lora/own: {samples: rows.jsonl, scorer: list_match, max_new_tokens: 8, prompt:"
            " '{context}'}"
        )
        add_tasks_file(tmp_path / "tasks.yaml")
        data = examples(model, toy("m", task="lora/own", n=None))
        assert (len(data.train), len(data.validation)) == (8, 2)
        with pytest.raises(
            InputError, match="10 examples, 8 of them for training, are less than a batch of 9"
        ):
            examples(model, toy("m", task="lora/own", n=None, batch=9))

    def test_the_users_official_rows(self, model: Any, tmp_path: Path) -> None:
        """A folder in the official layout; what it lacks is named."""
        answer = "1234\n3412\n2143\n4321"
        shot = {"input": {"sudoku": answer.replace("3", "0")}, "answer": answer}
        rows = [
            {"input": {"sudoku": answer.replace(d, "0"), "icl_examples": [shot]}, "answer": answer}
            for d in "124"
        ]
        lines = "\n".join(json.dumps(row | {"metadata": {"length": 4}}) for row in rows * 4)
        settings = toy("m", task="puzzle/sudoku", n=None, data_dir=str(tmp_path))
        with pytest.raises(FileNotFoundError, match="sudoku: no file"):
            examples(model, settings)
        (tmp_path / "puzzle").mkdir()
        (tmp_path / "puzzle" / "sudoku_n4_12.jsonl").write_text(lines)
        data = examples(model, settings)
        assert (len(data.train), len(data.validation)) == (9, 3)
        assert {sample.answer for sample in data.train} == {answer}
