"""Memory of the output projection for a vocabulary of 126,464: every position against the masked
positions of the active block.

`pytest -m speed benches/test_projection_memory.py -s` prints the table. A policy needs
probabilities at the masked positions of the block alone, so what projection and softmax take should
follow rows × block × vocabulary, whatever the prompt's length.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pbcore.base.tabular import Table, terminal
from pbcore.models.base import Query
from pbcore.models.entry import LoadOptions
from pbcore.models.loading import load_masked
from pbcore.models.masked import MaskedModel
from pbcore.models.memory import peak_memory
from pbcore.models.network import Columns
from pbcore.models.registry import resolve_model

WIDTH = 256
ROWS = 2
CANVAS = 32
BLOCK = 8
PROMPTS = (64, 256, 512)

pytestmark = pytest.mark.speed


@pytest.fixture(scope="module")
def model() -> MaskedModel:
    """LLaDA's vocabulary over two layers of width 256 with random weights."""
    entry = resolve_model("llada-8b:dummy-l2")
    small = {"d_model": WIDTH, "mlp_hidden_size": WIDTH, "n_heads": 4, "n_kv_heads": 4}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return load_masked(
        replace(entry, shape={**(entry.shape or {}), **small}), device, "float32", LoadOptions()
    )


@torch.inference_mode()
def masked_positions(model: MaskedModel, prompt: int) -> int:
    """Bytes that a forward adds when the block's masks alone are projected, softmax included."""
    requests = [model.encode([1] * prompt, CANVAS, row) for row in range(ROWS)]
    context = model.prepare(requests, cache=None, seed=0)
    canvas = torch.full((ROWS, CANVAS), model.mask_id, device=model.device)
    want = torch.zeros_like(canvas, dtype=torch.bool)
    want[:, :BLOCK] = True
    nfe = torch.zeros(ROWS, dtype=torch.long, device=model.device)
    with peak_memory(model.device) as peak:
        torch.softmax(context.logits(Query(canvas, want, nfe)), dim=-1)
    return peak.added


@torch.inference_mode()
def all_positions(model: MaskedModel, prompt: int) -> int:
    """Bytes that the same forward adds when every position of prompt and canvas is projected, as
    the reference loops do.
    """
    length = prompt + CANVAS
    ids = torch.ones(ROWS, length, dtype=torch.long, device=model.device)
    positions = torch.arange(length, device=model.device).expand(ROWS, length)
    with peak_memory(model.device) as peak:
        hidden = model.network.hidden(Columns(ids, positions))  # (R, T, H)
        torch.softmax(model.network.project(hidden.flatten(0, 1)), dim=-1)
    return peak.added


def test_memory_follows_the_masked_positions(
    model: MaskedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """Projecting the block's masks alone takes under a quarter of what all positions take, and
    hardly more for an 8 times longer prompt.
    """
    masked_positions(model, PROMPTS[0])  # the first forward allocates workspaces
    rows = [
        (prompt, all_positions(model, prompt), masked_positions(model, prompt))
        for prompt in PROMPTS
    ]
    table = [
        (prompt, round(every / 2**20), round(some / 2**20), every / some)
        for prompt, every, some in rows
    ]
    with capsys.disabled():
        print(
            f"\n{ROWS} rows, canvas {CANVAS}, block {BLOCK}, vocabulary {model.vocab_size},"
            f" {model.info['dtype']}, {model.device.type}"
        )
        heads = ["prompt tokens", "all positions, MiB", "masked positions, MiB", "ratio"]
        print(terminal(Table(heads, table, forms=".1f")))
    assert all(every > 4 * some for _, every, some in rows)
    assert rows[-1][2] < 1.5 * rows[0][2] + (16 << 20)
