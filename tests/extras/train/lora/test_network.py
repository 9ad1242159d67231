"""A model with an adapter: the logits that are trained are those that decoding sees."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.base.errors import InputError
from pbcore.extras.train.lora.run import adapted
from pbcore.models.base import Query
from pbcore.tasks.registry import load_task
from tests.extras.train.lora.shapes import toy
from tests.models.block_models import block_checkpoint
from tests.models.shapes import SHAPES, checkpoint

peft = pytest.importorskip("peft")


def shaken(loss: Any) -> None:
    """Gives the adapter weights that change something; a new one has B = 0."""
    torch.manual_seed(5)
    for value in loss.parameters():
        if value.requires_grad:
            value.data.normal_(std=0.3)


class TestLogits:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_are_decodings(self, shape: str, tmp_path: Path) -> None:
        """Of ragged rows with some masks, as the context of decoding computes them; Dream's are
        read one column earlier.
        """
        model, loss = adapted(toy(checkpoint(tmp_path, shape)), "cpu")
        shaken(loss)
        loss.eval()
        requests = [
            model.encode(sample, None, 0)
            for sample in load_task("list_ops/shuffle", n=[4], limit=2).samples
        ]
        requests.append(model.encode([7, 8, 9], len(requests[0].canvas), 0))
        canvas = torch.tensor([request.canvas for request in requests])
        canvas[2] = torch.arange(20, 20 + canvas.shape[1])
        canvas[2, 0] = canvas[2, 3] = model.mask_id
        want = canvas == model.mask_id
        expected = model.prepare(requests, cache=None, seed=0).logits(
            Query(canvas, want, torch.zeros(3))
        )
        width = max(len(request.prompt_ids) for request in requests)
        pads = [width - len(request.prompt_ids) for request in requests]
        rows = [
            [0] * pad + list(request.prompt_ids)
            for pad, request in zip(pads, requests, strict=True)
        ]
        ids = torch.cat([torch.tensor(rows), canvas], 1)
        attend = torch.arange(ids.shape[1])[None] >= torch.tensor(pads)[:, None]
        masked = torch.cat([torch.zeros(3, width, dtype=torch.bool), want], 1)
        logits = loss.logits(ids, attend, masked)
        kept = expected > -torch.inf  # Dream's own decoder filters its logits
        assert (logits - expected)[kept].abs().max() < 1e-4
        assert logits.std() > 0.1


class TestAdapted:
    def test_only_the_adapter_learns_and_it_starts_as_nothing(self, tmp_path: Path) -> None:
        """Rank × (columns + rows) numbers for each of q, k and v of both layers; the logits are the
        model's.
        """
        _, loss = adapted(toy(checkpoint(tmp_path, "llada")), "cpu")
        sizes = [value.numel() for value in loss.parameters() if value.requires_grad]
        assert sum(sizes) == 2 * 4 * ((32 + 32) + 2 * (32 + 16))
        loss.eval()
        ids = torch.arange(10, 18)[None]
        masked = torch.zeros(1, 8, dtype=torch.bool)
        masked[0, 5] = True
        with torch.no_grad():
            logits = loss.logits(ids, torch.ones_like(masked), masked)
            with loss.adapted.disable_adapter():
                assert torch.equal(loss.logits(ids, torch.ones_like(masked), masked), logits)

    def test_the_first_weights_are_the_seeds(self, tmp_path: Path) -> None:
        """Equal by seed, whatever was drawn before."""
        folder = checkpoint(tmp_path, "llada")
        first = [self.a(toy(folder, seed=seed)) for seed in (3, 3, 4)]
        assert torch.equal(first[0], first[1])
        assert not torch.equal(first[0], first[2])

    def a(self, settings: Any) -> torch.Tensor:
        torch.rand(3)
        _, loss = adapted(settings, "cpu")
        return next(value for value in loss.parameters() if value.requires_grad).detach()

    def test_other_models(self, tmp_path: Path) -> None:
        """`ideal` has no weights, and block models need another attention in training."""
        for name in ("ideal", str(block_checkpoint(tmp_path))):
            with pytest.raises(InputError, match="masked diffusion models with full attention"):
                adapted(toy(name), "cpu")

    def test_unknown_modules(self, tmp_path: Path) -> None:
        """The option is named with what was given."""
        with pytest.raises(InputError, match="--targets query: "):
            adapted(toy(checkpoint(tmp_path, "llada"), targets=("query",)), "cpu")

    def test_without_peft(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message says what to install."""
        monkeypatch.setitem(sys.modules, "peft", None)
        with pytest.raises(InputError, match=r"-e '\.\[lora\]'"):
            adapted(toy("tiny"), "cpu")
