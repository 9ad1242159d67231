"""The example's network as a module, as adapters give it to other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.models import load_model
from pbcore.models.network import Columns
from tests.extras.check.engine.plain import FILE, MODULE, example


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """module.py, with the engine of this process."""
    monkeypatch.setitem(sys.modules, "engine", MODULE)
    return example(FILE.with_name("module.py"), "plain_module")


@pytest.mark.parametrize("block", [None, 4])
def test_it_gives_our_logits(folder: Path, module: Any, block: int | None) -> None:
    """Of prompts of unequal lengths, with and without blocks."""
    prompts = [[5, 6, 7, 8, 9, 10], [11, 12, 13]]
    ids, real = module.padded(prompts, 0)
    assert real.tolist() == [[1] * 6, [0] * 3 + [1] * 3]
    with torch.inference_mode():
        logits = module.Module(str(folder), block)(ids, attention_mask=real).logits
        network = load_model(str(folder)).network
        places = torch.arange(6)
        for row, prompt in enumerate(prompts):
            numbers = places[-len(prompt) :] // block if block else torch.zeros(len(prompt))
            sees = numbers <= numbers[:, None]
            columns = Columns(torch.tensor([prompt]), places[None, : len(prompt)], sees[None])
            ours = network.project(network.hidden(columns))[0]
            assert torch.allclose(logits[row, -len(prompt) :], ours, atol=1e-4)
