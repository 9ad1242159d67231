"""Small checkpoints for tests, as published ones look: config.json, safetensors, and a real
tokenizer file with a chat template.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pbcore.tasks.words import PATTERN, tokens

SPECIALS = ("[PAD]", "[MASK]", "[BOS]", "[UNK]", "[USER]", "[ASSISTANT]")
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}[USER]{% else"
    " %}[ASSISTANT]{% endif %}{{ message['content'] }}{% endfor %}{% if add_generation_prompt"
    " %}[ASSISTANT]{% endif %}"
)
TEXT = (
    'Alice Smith, Bob Jones, Carol Brown. Copy this list: ["Alice Smith", "Bob Jones"] abcd ABCD'
    " 0123456789\n"
)


def word_tokenizer(text: str = TEXT) -> PreTrainedTokenizerFast:
    """A word-level tokenizer over the words of `text`, with a chat template that writes BOS
    itself.
    """
    words = [
        form for word in tokens(text) for form in (word, word.strip(), " " + word.strip()) if form
    ]
    vocabulary = {
        word: i for i, word in enumerate(dict.fromkeys([*SPECIALS, *words, *" ,.:[]\"'\n"]))
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        eos_token="[PAD]",
        mask_token="[MASK]",
        bos_token="[BOS]",
        unk_token="[UNK]",
        additional_special_tokens=["[USER]", "[ASSISTANT]"],
    )
    fast.chat_template = TEMPLATE
    return fast


def llama_checkpoint(
    folder: Path,
    *,
    tied: bool = True,
    layers: int = 2,
    tokenizer: bool = True,
    seed: int = 0,
    text: str = TEXT,
    **extra: Any,
) -> Path:
    """A Llama-shaped masked checkpoint of width 32 with the words of `text`, written by
    transformers; `extra` goes into config.json.
    """
    words = word_tokenizer(text)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=0,
        initializer_range=0.3,
    )
    config.is_causal = False
    LlamaForCausalLM(config).save_pretrained(folder)
    if tokenizer:
        words.save_pretrained(folder)
    edit_config(folder, mask_token_id=1, **extra)
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    """Changes config.json; a value of None removes its key."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def split_shards(folder: Path, tensors: dict[str, torch.Tensor], parts: int) -> None:
    """Writes `tensors` as a sharded checkpoint with an index."""
    names = sorted(tensors)
    files = [f"model-{i + 1:05d}-of-{parts:05d}.safetensors" for i in range(parts)]
    weight_map = {name: files[i % parts] for i, name in enumerate(names)}
    for file in files:
        save_file(
            {name: tensors[name].clone() for name in names if weight_map[name] == file},
            folder / file,
        )
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )


def eager(model: Any, ids: list[int], layers: range) -> tuple[torch.Tensor, torch.Tensor]:
    """What transformers itself returns for one row without padding: logits (T, V), and attention
    weights (T, T), mean over heads and layers.
    """
    module = model.network.module
    before = module.config._attn_implementation
    module.config._attn_implementation = "eager"
    try:
        mask = torch.zeros(1, 1, len(ids), len(ids))
        output = module(torch.tensor([ids]), attention_mask=mask, output_attentions=True)
    finally:
        module.config._attn_implementation = before
    return output.logits[0], torch.stack(
        [output.attentions[layer][0].mean(0) for layer in layers]
    ).mean(0)


def with_own_code(folder: Path, first: str) -> Path:
    """A checkpoint of a kind that only the code in it knows; `first` is what that code does."""
    llama_checkpoint(folder)
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    edit_config(folder, auto_map=auto, model_type="own")
    (folder / "own.py").write_text(
        f"from transformers import LlamaConfig, LlamaForCausalLM\n{first}\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    return folder
