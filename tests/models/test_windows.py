"""Sliding windows: which columns a layer sees, and layer types that can't be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.masking_utils import create_bidirectional_sliding_window_mask

from pbcore.models import load_model
from pbcore.models.errors import ModelError
from pbcore.models.network import Columns
from pbcore.models.windows import layer_windows, near
from tests.models.checkpoints import llama_checkpoint

WINDOW = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}


def checkpoint(folder: Path, **changes: Any) -> str:
    """A Qwen3 checkpoint of two layers with these keys."""
    from safetensors.torch import load_file, save_file

    shape = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8}
    llama_checkpoint(folder, **shape, **changes)
    tensors = load_file(folder / "model.safetensors")
    norms = {
        f"model.layers.{layer}.self_attn.{part}_norm.weight": torch.ones(8)
        for layer in range(2)
        for part in "qk"
    }
    save_file(tensors | norms, folder / "model.safetensors")
    return str(folder)


def test_each_layer_has_its_own(tmp_path: Path) -> None:
    """`max_window_layers` and `layer_types` say which layers have the window."""
    loaded: Any = load_model(checkpoint(tmp_path / "upper", **WINDOW))
    assert layer_windows(loaded.network.module) == (None, 3)
    kinds = ["sliding_attention", "full_attention"]
    loaded = load_model(checkpoint(tmp_path / "types", **WINDOW, layer_types=kinds))
    assert layer_windows(loaded.network.module) == (3, None)
    off = WINDOW | {"use_sliding_window": False}
    loaded = load_model(checkpoint(tmp_path / "off", **off))
    assert layer_windows(loaded.network.module) == (None, None)


def test_the_window_is_that_of_transformers(tmp_path: Path) -> None:
    """Without padding a column sees what transformers' mask for both sides shows it."""
    loaded: Any = load_model(checkpoint(tmp_path, **WINDOW))
    positions = torch.arange(12)[None]
    theirs = create_bidirectional_sliding_window_mask(
        loaded.network.module.config, torch.zeros(1, 12, 32), None
    )
    assert torch.equal(near(positions, positions, 3), theirs[:, 0])


@pytest.mark.parametrize(
    ("changes", "options", "named"),
    [
        ({"layer_types": ["sliding_attention"] * 2}, {}, "sliding_attention without a window"),
        (
            {"layer_types": ["full_attention", "chunked_attention"]},
            {},
            r"layer_types chunked_attention \(known: full_attention, sliding_attention\)",
        ),
        (
            WINDOW,
            {"attn_implementation": "flex_attention"},
            "attention flex_attention has no sliding window on both sides",
        ),
    ],
)
def test_layers_that_no_mask_serves(
    changes: dict[str, Any], options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """Layer types without a window or of another kind, and kernels whose window is another, are
    refused.
    """
    with pytest.raises(ModelError, match=named):
        load_model(checkpoint(tmp_path, **changes), **options)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("lowest", [0, 1])
@torch.inference_mode()
def test_a_cache_keeps_what_a_window_sees(tmp_path: Path, lowest: int, attention: str) -> None:
    """Columns that run again beside the cache of a ragged batch get the states that they had in the
    whole forward.
    """
    folder = checkpoint(tmp_path, **WINDOW | {"max_window_layers": lowest})
    loaded: Any = load_model(folder, attn_implementation=attention)
    network = loaded.network
    ids = torch.randint(6, 20, (2, 12), generator=torch.Generator().manual_seed(0))
    seen = torch.ones(2, 12, dtype=torch.bool)
    seen[0, :4] = False
    positions = (seen.long().cumsum(-1) - 1).clamp(min=0)
    cache = network.cache(12)
    whole = network.hidden(Columns(ids, positions, seen, cache, keys=positions))
    again = Columns(ids[:, 5:9], positions[:, 5:9], seen, cache, 5, keys=positions)
    torch.testing.assert_close(network.hidden(again), whole[:, 5:9], rtol=1e-5, atol=1e-5)
