"""Small random autoregressive checkpoints for tests: Llama, Qwen2 and GPT-2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from tests.models.checkpoints import word_tokenizer

KINDS = ("llama", "qwen2", "gpt2")
POSITIONS = 192


def causal_checkpoint(
    folder: Path,
    kind: str = "llama",
    *,
    seed: int = 0,
    layers: int = 2,
    unused: int = 0,
    **generation: Any,
) -> Path:
    """A checkpoint as transformers writes it, with `unused` embeddings beyond its tokens;
    `generation` goes into its generation_config.json.
    """
    words = word_tokenizer()
    torch.manual_seed(seed)
    ids = {
        "vocab_size": len(words) + unused,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 0,
    }
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
    }
    grouped = {
        **shape,
        "num_key_value_heads": 2,
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.3,
    }
    model: Any
    match kind:
        case "llama":
            model = LlamaForCausalLM(LlamaConfig(**grouped, **ids))
        case "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**grouped, **ids))
        case _:
            model = GPT2LMHeadModel(
                GPT2Config(
                    n_embd=32,
                    n_layer=layers,
                    n_head=4,
                    n_positions=POSITIONS,
                    initializer_range=0.3,
                    **ids,
                )
            )
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    if generation:
        path = folder / "generation_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | generation))
    return folder
