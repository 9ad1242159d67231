"""Training of SEDD: rows of infilling, the command, and what the embedded models show."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.extras.train.command import HERE, main
from pbcore.extras.train.network import ratios, score_entropy
from pbcore.extras.train.noise import TrainingRow, noisy_batch
from pbcore.extras.train.recipe import Recipe, read_recipe
from pbcore.extras.train.rows import encode_rows
from pbcore.extras.train.sedd.diffusion import Graph, Noise
from pbcore.extras.train.vocabulary import build_tokenizer, vocabulary
from pbcore.models import load_model
from pbcore.tasks.registry import generate, load_task
from tests.markdown_tables import unpadded

TASK = "list_ops/shuffle"
KINDS = ("absorb", "uniform")
SMALL = """
objective: sedd
graph: {graph}
tasks: [list_ops/shuffle]
width: 16
layers: 1
heads: 2
inner: 32
condition: 8
seed: 1
vocabulary_samples: 20
warmup: 2
phases:
- {{steps: 4, rows: 4, rate: 0.003, end_rate: 0.0}}
"""


def test_rows_of_infilling_hold_the_answer_and_its_holes() -> None:
    """The canvas is the answer itself; only the symbols are to be decoded."""
    tokenizer = build_tokenizer(vocabulary(20, names=[TASK]))
    sample = next(iter(generate(TASK, "train", seed=0)))
    [row] = encode_rows([sample], tokenizer, Random(0), 0.5)
    assert row.holes is not None
    assert tokenizer.decode(row.canvas) == sample.answer
    symbols = [
        tokenizer.decode([token]) for token, hole in zip(row.canvas, row.holes, strict=True) if hole
    ]
    assert all(len(symbol) == 1 and symbol.isupper() for symbol in symbols)
    assert len(symbols) == str(sample.canvas).count("[MASK]")


class TestCommand:
    @pytest.mark.parametrize("graph", ["absorb", pytest.param("uniform", marks=pytest.mark.slow)])
    def test_a_run_interrupted_is_the_run_itself(self, tmp_path: Path, graph: str) -> None:
        """Two steps, then the rest: the same checkpoint bit for bit; it loads and its card has the
        scores.
        """
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(SMALL.format(graph=graph))
        options = ["--recipe", str(recipe), "--samples", "1", "--threads", "1"]
        assert main([*options, "--out", str(tmp_path / "whole")]) == 0
        assert main([*options, "--out", str(tmp_path / "parts"), "--steps", "2"]) == 0
        assert main([*options, "--out", str(tmp_path / "parts")]) == 0
        whole, parts = (tmp_path / name / "checkpoint" for name in ("whole", "parts"))
        assert (whole / "model.safetensors").read_bytes() == (
            parts / "model.safetensors"
        ).read_bytes()
        assert load_model(str(whole)).info["graph"] == graph
        assert "| list_ops/shuffle | accuracy |" in unpadded(
            (whole / "README.md").read_text(encoding="utf-8")
        )

    def test_a_graph_goes_with_scores(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["--graph", "uniform"])
        assert "--objective sedd" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("change", "named"), [({"graph": "masked"}, "absorb, uniform"), ({"tasks": ("x",)}, "'x'")]
    )
    def test_unknown_graph_or_task(self, change: dict[str, object], named: str) -> None:
        known = asdict(read_recipe(HERE / "recipe-sedd.yaml"))
        with pytest.raises(ValueError, match=named):
            Recipe(**{**known, "phases": (), **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["tiny-sedd", pytest.param("tiny-sedd-uniform", marks=pytest.mark.slow)]
)
def test_fewer_steps_break_what_depends(name: str) -> None:
    """The paper's F.4: with absorbing and with uniform noise shuffles fall with fewer steps."""
    model = load_model(name)
    task = load_task(TASK, limit=20)
    scores = []
    for sampler in ("analytic-s16", "analytic-s1"):
        texts = [answer.text for answer in decode(model, task.samples, sampler, batch_size=20)]
        scored = task.score_many(texts, task.samples, metrics=("accuracy",))
        scores.append(sum(one.scores["accuracy"] for one in scored) / len(scored))
    assert scores[0] > 0.5
    assert scores[1] < 0.25


class TestLoss:
    @given(st.integers(0, 2**32), st.sampled_from(KINDS), st.floats(0.05, 3.0))
    def test_entropy_is_least_at_the_true_ratios(self, seed: int, kind: str, sigma: float) -> None:
        """Score entropy: 0 at the true ratios, positive elsewhere, and its gradient vanishes
        there.
        """
        graph = Graph(kind, 7)
        random = torch.Generator().manual_seed(seed)
        clean = torch.randint(6, (4,), generator=random)
        tokens = (
            torch.full((4,), 6) if kind == "absorb" else torch.randint(7, (4,), generator=random)
        )
        noise = torch.full((4,), sigma)
        ratio, _ = ratios(graph, tokens, clean, noise)
        best = ratio.clamp(min=1e-12).log().requires_grad_()
        value = score_entropy(graph, best, tokens, clean, noise)
        (slope,) = torch.autograd.grad(value.sum(), best)
        assert value.abs().max() < 1e-4 * max(1.0, float(ratio.max()))
        assert slope.abs().max() < 1e-4 * max(1.0, float(ratio.max()))
        other = best.detach() + torch.randn(4, 7, generator=random)
        assert (score_entropy(graph, other, tokens, clean, noise) > 0).all()


class TestNoise:
    @pytest.mark.parametrize("kind", KINDS)
    def test_only_answers_are_corrupted(self, kind: str) -> None:
        """Prompts stay; the share of corrupted tokens is that of the noise level; every row has
        something to learn.
        """
        graph = Graph(kind, 500)
        noise = Noise("loglinear")
        rows = [TrainingRow("t", tuple(range(1, 6)), tuple(range(10, 210)), 150) for _ in range(64)]
        batch = noisy_batch(rows, 0, graph, noise, torch.Generator().manual_seed(0))
        clean = batch.ids.clone()
        clean[batch.masked] = batch.targets
        assert clean[0].tolist() == [*rows[0].prompt, *rows[0].canvas]
        changed = batch.ids != clean
        assert not changed[:, :5].any()
        share = changed[:, 5:].float().mean(1)
        expected = torch.tensor([1 - 2.718281828 ** -noise.total(float(t)) for t in batch.time])
        assert (share - expected).abs().max() < 0.15
        assert batch.masked[:, 5:].any(1).all()
        assert torch.equal(batch.masked, changed) is (kind == "absorb")
        weights = torch.zeros(batch.ids.shape)
        weights[batch.masked] = batch.weights
        assert set(weights[:, 5 : 5 + 151][batch.masked[:, 5 : 5 + 151]].tolist()) == {1.0}
        assert 0 < weights[:, 5 + 151 :].max() < 1
