"""The run of an adapter: it learns, resumes bit for bit, and its steps may be shared by
forwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.base.errors import InputError
from pbcore.extras.train.lora import run as lora
from tests.extras.train.lora.shapes import toy
from tests.models.shapes import SHAPES, checkpoint

pytest.importorskip("peft")


def quiet(run: lora.LoraRun) -> None:
    """Reports nothing."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {shape: checkpoint(tmp_path_factory.mktemp(shape), shape) for shape in SHAPES}


def trained(until: int = 6, **settings: Any) -> lora.LoraRun:
    run = lora.start(toy(**settings))
    lora.train(run, until, quiet)
    return run


def weights(run: lora.LoraRun) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in run.weights().values()])


class TestTrain:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_the_loss_falls(self, shape: str, folders: dict[str, Path]) -> None:
        """On the same examples over and over, with every matrix adapted; the weights of the model
        stay.
        """
        every = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        run = lora.start(toy(folders[shape], targets=every, epochs=15, rate=0.02, every=45, n=(3,)))
        frozen = {
            name: value.clone()
            for name, value in run.plain.named_parameters()
            if not value.requires_grad
        }
        lora.train(run, 45, quiet)
        losses = [row["loss"] for row in run.log if "loss" in row]
        assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
        after = dict(run.plain.named_parameters())
        assert all(torch.equal(value, after[name]) for name, value in frozen.items())

    def test_an_interrupted_run_ends_bit_identically(
        self, folders: dict[str, Path], tmp_path: Path
    ) -> None:
        """Saved in the middle of the second epoch and gone on with in a fresh run: weights, log and
        best are equal.
        """
        settings = {"model": folders["llada"], "dropout": 0.3}
        whole = trained(**settings)
        first = trained(4, **settings)
        lora.save(first, tmp_path)
        torch.manual_seed(999)
        second = lora.start(toy(**settings))
        lora.resume(second, tmp_path)
        assert second.step == 4
        lora.train(second, 6, quiet)
        assert torch.equal(weights(whole), weights(second))
        for one, two in zip(whole.log, second.log, strict=True):
            assert {**one, "seconds": 0} == {**two, "seconds": 0}
        assert whole.best is not None
        assert second.best is not None
        assert whole.best["step"] == second.best["step"]
        assert all(
            torch.equal(value, second.best["weights"][name])
            for name, value in whole.best["weights"].items()
        )

    def test_another_runs_folder(self, folders: dict[str, Path], tmp_path: Path) -> None:
        """The setting that differs is named."""
        lora.save(lora.start(toy(folders["llada"])), tmp_path)
        other = lora.start(toy(folders["llada"], rate=0.5))
        with pytest.raises(
            InputError, match=r"holds another run: rate was 0\.01, is 0\.5\. Give its settings"
        ):
            lora.resume(other, tmp_path)

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize(
        "given", [{"accumulate": 4}, {"accumulate": 2, "gradient_checkpointing": True}]
    )
    def test_a_step_shared_by_forwards_is_the_same_step(
        self, shape: str, given: dict[str, Any], folders: dict[str, Path]
    ) -> None:
        """Without dropout, up to rounding, also where layers are computed twice."""
        one = trained(1, model=folders[shape], dropout=0.0)
        other = trained(1, model=folders[shape], dropout=0.0, **given)
        assert one.log[1]["loss"] == pytest.approx(other.log[1]["loss"], rel=1e-5)
        torch.testing.assert_close(self.gradients(one), self.gradients(other), rtol=1e-3, atol=1e-6)
        assert self.gradients(one).abs().max() > 1e-4

    def gradients(self, run: lora.LoraRun) -> torch.Tensor:
        found = [value.grad for value in run.weights().values()]
        return torch.cat([grad.flatten() for grad in found if grad is not None])

    def test_bfloat16(self, folders: dict[str, Path]) -> None:
        """The frozen weights are bfloat16, the adapter float32, and both learn nearly the same."""
        run, exact = (
            trained(3, model=folders["llada"], dtype=dtype) for dtype in ("bfloat16", None)
        )
        assert {value.dtype for value in run.weights().values()} == {torch.float32}
        assert {value.dtype for value in run.plain.parameters()} == {torch.float32, torch.bfloat16}
        assert run.log[-1]["loss"] == pytest.approx(exact.log[-1]["loss"], rel=0.1)

    def test_rows_that_processes_cannot_share(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A batch of four rows, three processes."""
        import accelerate

        monkeypatch.setattr(accelerate.Accelerator, "num_processes", 3)
        with pytest.raises(InputError, match="4 rows can't be shared by 3 processes"):
            lora.start(toy(folders["llada"]))


class TestBest:
    def test_the_best_score_is_kept_then_the_lower_loss(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Scores before the first step, which is no candidate, and after four: of the two best the
        one with the lower loss stays.
        """
        run = lora.start(toy(folders["llada"], epochs=2, every=1))
        scores = iter([1.0, 0.0, 0.5, 0.5, 0.0])

        def score(texts: Any, samples: Any, metrics: Any) -> Any:
            value = next(scores)
            return [type("Scored", (), {"scores": {run.data.task.headline: value}}) for _ in texts]

        monkeypatch.setattr(
            type(run.data.task), "score_many", lambda self, *given, **named: score(*given, **named)
        )
        steps = []
        for step in range(1, 5):
            lora.train(run, step, quiet)
            assert run.best is not None
            steps.append(run.best["step"])
        losses = {row["step"]: row["validation_loss"] for row in run.log}
        assert steps[:2] == [1, 2]
        assert steps[2:] == [3, 3] if losses[3] < losses[2] else [2, 2]
