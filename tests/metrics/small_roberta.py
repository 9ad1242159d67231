"""A RoBERTa of 3 layers with a byte-level tokenizer of its own, as a published folder looks."""

from __future__ import annotations

from pathlib import Path

import torch

SENTENCES = ["the cat sat on the mat", "a dog ran in the park", "the mat sat on a cat", "a park"]


def write(folder: Path) -> Path:
    """Writes the checkpoint, random weights and all, into `folder`."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        SENTENCES, vocab_size=280, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    tokenizer.save_model(str(folder))
    torch.manual_seed(0)
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = RobertaConfig(vocab_size=280, max_position_embeddings=34, pad_token_id=1, **shape)
    RobertaModel(config).save_pretrained(folder)
    return folder
