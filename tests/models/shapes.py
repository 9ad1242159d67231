"""Small random checkpoints, shaped and named like LLaDA's and Dream's, with the words of a few
tasks.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

from pbcore.models.architecture import architecture
from pbcore.models.checkpoints import random_weights

SHAPES = ("llada", "dream")
TASKS = ("puzzle/sudoku", "list_ops/shuffle")
# transformers' names → LLaDA's.
LLADA = {
    r"model\.embed_tokens": "model.transformer.wte",
    r"model\.norm": "model.transformer.ln_f",
    "lm_head": "model.transformer.ff_out",
    r"model\.layers\.(\d+)\.input_layernorm": r"model.transformer.blocks.\1.attn_norm",
    r"model\.layers\.(\d+)\.post_attention_layernorm": r"model.transformer.blocks.\1.ff_norm",
    r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj": r"model.transformer.blocks.\1.\2_proj",
    r"model\.layers\.(\d+)\.self_attn\.o_proj": r"model.transformer.blocks.\1.attn_out",
    r"model\.layers\.(\d+)\.mlp\.gate_proj": r"model.transformer.blocks.\1.ff_proj",
    r"model\.layers\.(\d+)\.mlp\.up_proj": r"model.transformer.blocks.\1.up_proj",
    r"model\.layers\.(\d+)\.mlp\.down_proj": r"model.transformer.blocks.\1.ff_out",
}


@cache
def words() -> PreTrainedTokenizerFast:
    """Built as for training; a test that needs it is skipped without that neighbour."""
    made: Any = pytest.importorskip("pbcore.extras.train.vocabulary")
    tokenizer: PreTrainedTokenizerFast = made.build_tokenizer(made.vocabulary(8, names=TASKS))
    return tokenizer


def llada_name(name: str) -> str:
    """A weight's name in LLaDA's own checkpoints."""
    for ours, theirs in LLADA.items():
        name, changed = re.subn(ours, theirs, name)
        if changed:
            return name
    return name


def checkpoint(folder: Path, shape: str, seed: int = 0) -> Path:
    """A checkpoint folder of width 32 with two layers."""
    tokenizer = words()
    ids = {"mask_token_id": tokenizer.mask_token_id, "eos_token_id": tokenizer.eos_token_id}
    raw: dict[str, Any] = {
        "model_type": "llada",
        "d_model": 32,
        "mlp_hidden_size": 48,
        "n_layers": 2,
        "n_heads": 4,
    }
    raw |= {"n_kv_heads": 2, "vocab_size": len(tokenizer), "max_sequence_length": 512, **ids}
    if shape == "dream":
        raw = {
            "model_type": "Dream",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
        }
        raw |= {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            **ids,
        }
        raw |= {"max_position_embeddings": 512, "tie_word_embeddings": False}
    module = random_weights(architecture(raw, shape), torch.device("cpu"), torch.float32, seed=seed)
    rename = llada_name if shape == "llada" else str
    weights = {
        rename(name): value * (10.0 if value.dim() > 1 else 1.0)
        for name, value in module.state_dict().items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(raw))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    return folder
