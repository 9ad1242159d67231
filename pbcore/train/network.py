"""The network of `tiny` and `tiny-ar`: a small `LlamaForCausalLM` with full or causal attention, and its training
forward.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer


def network(
    vocab_size: int, *, width: int, layers: int, heads: int, inner: int, mask_id: int | None, eos_id: int, seed: int
) -> LlamaForCausalLM:
    """A randomly initialised network: with full attention, or causal if there is no mask token (`mask_id` None).

    The embeddings are tied, with standard deviation 1/√width so that initial logits are near 1.
    """
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=eos_id,
        pad_token_id=eos_id,
        use_cache=mask_id is None,
    )
    if mask_id is not None:
        config.is_causal = False
        config.mask_token_id = mask_id
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(std=width**-0.5)
    return model


def masked_logits(model: LlamaForCausalLM, ids: Tensor, attend: Tensor, where: Tensor) -> Tensor:
    """Logits (M, V) at the M positions where `where` (R, T) is true, in row-major order; `attend` (R, T) is false at
    padding.

    Equal to the model's own forward, but cheaper: the last layer runs only on the columns from the first requested
    position on, and only the requested positions go through the output projection.
    """
    length = ids.shape[1]
    tail = length - int(where.any(0).int().argmax())  # columns from the first requested position on
    hidden = model.model.embed_tokens(ids)  # (R, T, D)
    rotary = model.model.rotary_emb(
        hidden, torch.arange(length, device=ids.device)[None]
    )  # cosines and sines, (1, T, D/H) each
    mask = None if bool(attend.all()) else attend[:, None, None, :]  # (R, 1, 1, T)
    if getattr(model.config, "is_causal", True):
        mask = (attend[:, None] & ids.new_ones(length, length, dtype=torch.bool).tril())[:, None]  # (R, 1, T, T)
    *body, last = model.model.layers
    for layer in body:
        hidden = _layer(layer, hidden, length, rotary, mask)
    hidden = _layer(last, hidden, tail, rotary, mask)  # (R, tail, D)
    return F.linear(model.model.norm(hidden[where[:, -tail:]]), model.lm_head.weight)  # (M, V)


def _layer(
    layer: LlamaDecoderLayer, hidden: Tensor, tail: int, rotary: tuple[Tensor, Tensor], mask: Tensor | None
) -> Tensor:
    """One decoder layer for the last `tail` positions, which attend to all positions."""
    attention = layer.self_attn
    rows = hidden.shape[0]
    normed = layer.input_layernorm(hidden)

    def heads(projected: Tensor) -> Tensor:
        return projected.view(rows, -1, projected.shape[-1] // attention.head_dim, attention.head_dim).transpose(1, 2)

    queries = _rotated(heads(attention.q_proj(normed[:, -tail:])), rotary)  # (R, H, tail, D/H)
    keys, values = _rotated(heads(attention.k_proj(normed)), rotary), heads(attention.v_proj(normed))  # (R, H, T, D/H)
    mask = mask if mask is None else mask[:, :, -tail:]  # (R, 1, 1 or tail, T)
    mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    hidden = hidden[:, -tail:] + attention.o_proj(mixed.transpose(1, 2).reshape(rows, tail, -1))
    result: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return result


def _rotated(vectors: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Applies the rotary embedding to vectors (R, H, positions, D/H) of a row's last positions."""
    cos, sin = (part[:, None, -vectors.shape[2] :] for part in rotary)
    low, high = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat((-high, low), dim=-1) * sin
