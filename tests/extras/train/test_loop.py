"""The training loop on toy networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

from pbcore.extras.train import loop, rows
from pbcore.extras.train.recipe import Objective, Phase, Recipe
from pbcore.extras.train.vocabulary import build_tokenizer, vocabulary
from pbcore.tasks.registry import task_names

ONLY_SUDOKU = {name: 0.0 for name in task_names() if name != "puzzle/sudoku"}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(vocabulary(1, names=["puzzle/sudoku"]))


def toy(steps: int = 2, objective: Objective = "diffusion") -> Recipe:
    phases = (
        Phase(steps, 0.003, 0.003, rows=2, full_canvas=0.0, weights=ONLY_SUDOKU),
        Phase(2, 0.003, 0.0, rows=3, full_canvas=1.0, masked_shots=0.0, weights=ONLY_SUDOKU),
    )
    return Recipe(
        16, 2, 2, 16, seed=7, vocabulary_samples=1, warmup=2, phases=phases, objective=objective
    )


def quiet(run: loop.TrainingRun) -> None:
    """Reports nothing."""


class TestTrain:
    @pytest.mark.parametrize("objective", ["diffusion", "block", "causal"])
    def test_an_interrupted_run_ends_bit_identically(
        self,
        objective: Objective,
        tokenizer: PreTrainedTokenizerFast,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Saved at step 1 and gone on with in a fresh process' stead, the weights equal those of a
        run in one go, over two phases.
        """
        monkeypatch.setattr(rows, "BATCHES_PER_CHUNK", 2)
        recipe = toy(objective=objective)
        whole = loop.start(recipe, tokenizer)
        loop.train(whole, 4, quiet, every=1)
        first = loop.start(recipe, tokenizer)
        loop.train(first, 1, quiet, every=1)
        loop.save(first, tmp_path)
        torch.manual_seed(999)
        second = loop.start(recipe, tokenizer)
        loop.resume(second, tmp_path)
        assert second.step == 1
        loop.train(second, 4, quiet, every=1)
        for name, tensor in whole.model.state_dict().items():
            assert torch.equal(tensor, second.model.state_dict()[name]), name
        assert [row["loss"] for row in second.log] == [row["loss"] for row in whole.log]

    @pytest.mark.parametrize("objective", ["diffusion", "block", "causal"])
    def test_the_loss_falls(self, objective: Objective, tokenizer: PreTrainedTokenizerFast) -> None:
        """Forty steps on one task bring the loss far below its start."""
        run = loop.start(toy(40, objective), tokenizer)
        loop.train(run, 40, quiet, every=10)
        assert run.log[-1]["loss"] < 0.7 * run.log[0]["loss"]

    def test_starts_from_an_embedded_models_weights(self, embedded: Path) -> None:
        """Before the first step they are those of the file, under causal attention too."""
        tokenizer = PreTrainedTokenizerFast.from_pretrained(embedded)
        recipe = Recipe(
            128, 4, 4, 384, 7, 1, 2, (Phase(1, 0.1, 0.1),), objective="causal", start="tiny"
        )
        run = loop.start(recipe, tokenizer)
        weights = load_file(embedded / "model.safetensors")
        state = run.model.state_dict()
        assert all(torch.equal(state[name], tensor.float()) for name, tensor in weights.items())
        assert torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"])

    @pytest.mark.parametrize("name", ["tinny", "ideal", "llada-8b"])
    def test_starts_from_embedded_models_only(
        self, name: str, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        with pytest.raises(ValueError, match=f"start '{name}' is not an embedded model"):
            loop.start(replace(toy(), start=name), tokenizer)

    def test_the_state_names_a_changed_vocabulary(
        self, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
    ) -> None:
        run = loop.start(toy(), tokenizer)
        loop.save(run, tmp_path)
        other = loop.start(
            toy(), build_tokenizer([*vocabulary(1, names=["puzzle/sudoku"]), "more"])
        )
        with pytest.raises(ValueError, match="start again in another folder"):
            loop.resume(other, tmp_path)


class TestRate:
    def test_warms_up_then_follows_half_a_cosine(self) -> None:
        phase = Phase(100, 0.01, 0.0)
        assert loop.rate_at(phase, 0, 0.25) == pytest.approx(0.0025)
        assert loop.rate_at(phase, 50, 1.0) == pytest.approx(0.005)
        assert loop.rate_at(phase, 100, 1.0) == pytest.approx(0.0)
