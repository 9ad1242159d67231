"""Random weights of a family's small checkpoint, and their names as published.

V tokens, H width.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pbcore.extras.check.engine.published import PUBLISHED
from pbcore.models.architecture import architecture

# Standard deviations. Logits have one near 9, so that confidences fill (0, 1).
HEAD = 1.2  # times 8 / sqrt(H), that of the final norm's output
EMBEDDING = 1.0
MATRIX = 1.5  # over sqrt(inputs)
EXPERT = 2.5  # the same, of experts, whose outputs are weighted
EXPERT_BIAS = 0.02
NORM = 0.1  # around 1
MASKED = 1.0  # of the mask's embedding
# At how many of the masked places the mask and tokens that end an answer are likeliest.
MASK_RATE = 0.005
MASK_RATES = {
    "a2d": 0.05,
    "fast_dllm_v2": 0.05,
    "llada_moe": 0.05,
}  # where few of its prompts are robust
EOS_RATE = 0.08
TIED_TRIES = 4  # of the mask's rate, where the head's row is also the mask's embedding
LONGEST_ROW = 4.0  # times as long as drawn
EOS_RATES = {
    "fast_dllm_v2": 0.005,
    "llada_moe": 0.02,
    "llada2": 0.04,
    "a2d": 0.2,
}  # where answers repeat them


@torch.no_grad()
def random_module(family: str, config: Mapping[str, Any], ids: Mapping[str, int], seed: int) -> Any:
    """transformers' module of a config with random weights, each of which bfloat16 and float16
    hold exactly.

    Args:
        family: a key of PUBLISHED.
        config: its config.json.
        ids: the special tokens' ids by their texts.
        seed: of the draws.
    """
    of = PUBLISHED[family]
    arch = architecture(config, family, given=of.kind)
    make: Any = arch.model_class
    module = make._from_config(arch.config).float()
    generator = torch.Generator().manual_seed(seed)
    mask = ids[of.mask[0]]
    ends = [ids[of.eos[0]], *(ids[text] for text, _ in of.others)]
    for name, parameter in module.named_parameters():
        parameter.copy_(_exact(_drawn(name, parameter, generator)))
    for name, buffer in module.named_buffers():
        if name.endswith("e_score_correction_bias"):
            drawn = torch.randn(buffer.shape, generator=generator) * EXPERT_BIAS
            buffer.copy_(_exact(drawn))
    if not arch.config.tie_word_embeddings:
        embedding = module.model.embed_tokens.weight  # (V, H)
        embedding[mask] = _exact(embedding[mask] * MASKED)
    experts = config.get("num_experts")
    if experts:
        _route(module, int(experts), generator)
    rates = (MASK_RATES.get(family, MASK_RATE), EOS_RATES.get(family, EOS_RATE))
    _set_rates(module, mask, ends, rates, generator)
    return module.eval().requires_grad_(False)


def _set_rates(
    module: Any,
    mask: int,
    ends: list[int],
    wanted: tuple[float, float],
    generator: torch.Generator,
) -> None:
    """Makes the rows of the head of the mask and of the tokens that end an answer so long that
    they are the likeliest ones at the wanted part of masked places.
    """
    head = module.lm_head.weight  # (V, H)
    tied = bool(module.config.tie_word_embeddings)
    ordinary = [token for token in range(3, len(head)) if token not in (mask, *ends)]
    drawn = torch.randint(len(ordinary), (48, 32), generator=generator)
    ids = torch.tensor(ordinary)[drawn]  # (R, T)
    blank = torch.rand(ids.shape, generator=generator) < 0.6
    blank[:, :8] = False
    ids[blank] = mask
    everything = torch.zeros(len(ids), 1, ids.shape[1], ids.shape[1])
    mask_rate, eos_rate = wanted
    rates = [(mask, mask_rate)] * (TIED_TRIES if tied else 1)
    rates += [(end, eos_rate / len(ends)) for end in ends]
    for place, (token, rate) in enumerate(rates):
        if place == 0 or tied:  # the head's row is what a mask is read as, too
            states = module.model(ids, attention_mask=everything).last_hidden_state[blank]  # (N, H)
            logits = states @ head.T  # (N, V)
            logits[:, [mask, *ends]] = -torch.inf
            most = logits.amax(-1)  # (N,)
        own = states @ head[token]  # (N,)
        ratio = torch.where(own > 0, most / own, LONGEST_ROW).clamp(max=LONGEST_ROW)
        head[token] = _exact(head[token] * ratio.quantile(rate))


def _route(module: Any, experts: int, generator: torch.Generator) -> None:
    """Makes routing a matter of tokens, with wide margins: E places of the residual stream hold a
    code of the token, which no layer changes and routers alone read. By random weights one of
    thousands of routing decisions would be a near tie.
    """
    codes = _codes(len(module.model.embed_tokens.weight), experts, generator)  # (V, E)
    module.model.embed_tokens.weight[:, :experts] = _exact(codes)
    module.lm_head.weight[:, :experts] = 0
    for layer in module.model.layers:
        layer.self_attn.o_proj.weight[:experts] = 0
        mlp = layer.mlp
        if not hasattr(mlp, "experts"):
            mlp.down_proj.weight[:experts] = 0
            continue
        mlp.experts.down_proj[:, :experts] = 0
        if hasattr(mlp, "shared_experts"):
            mlp.shared_experts.down_proj.weight[:experts] = 0
        layer.post_attention_layernorm.weight[:experts] = 1
        mlp.gate.weight[:] = 0
        mlp.gate.weight[:, :experts] = torch.eye(experts)


def _codes(tokens: int, experts: int, generator: torch.Generator) -> Tensor:
    """A code (V, E) of each token, whose two largest values stand apart from the others, as do the
    sums of pairs, with any positive factor.
    """
    codes = 0.5 * torch.randn(tokens, experts, generator=generator)
    pair = 2 * torch.randint(experts // 2, (tokens,), generator=generator)  # a group of two
    second = pair + 1
    other = (
        pair + 2 + 2 * torch.randint(experts // 2 - 1, (tokens,), generator=generator)
    ) % experts
    rows = torch.arange(tokens)
    codes = codes.clamp(-1.0, 0.3)
    codes[rows, pair] = 3.0
    flip = torch.rand(tokens, generator=generator) < 0.5
    codes[rows, torch.where(flip, second, other)] = 2.0
    third = torch.where(flip, other, second)
    codes[rows, third] = -0.5
    return codes


def _drawn(name: str, parameter: nn.Parameter, generator: torch.Generator) -> Tensor:
    """Random values of a parameter by what it is for."""
    drawn = torch.randn(parameter.shape, generator=generator)
    if "norm" in name:
        return 1 + NORM * drawn
    if name.endswith("bias"):
        return NORM * drawn
    inputs = parameter.shape[-1]
    if "lm_head" in name:
        return drawn * HEAD * 8 / math.sqrt(inputs)
    if "embed_tokens" in name:
        return drawn * EMBEDDING
    if ".experts." in name:
        return drawn * EXPERT / math.sqrt(inputs)
    return drawn * MATRIX / math.sqrt(inputs)


def _exact(values: Tensor) -> Tensor:
    """Values that bfloat16 and float16 both hold."""
    rounded = values.to(torch.bfloat16).to(torch.float16).to(torch.bfloat16)
    return rounded.float()


def published_tensors(module: Any, family: str) -> dict[str, Tensor]:
    """A module's tensors by the names under which its family publishes them, in bfloat16.

    Experts have a tensor each; LLaDA2's q, k and v are one.

    Args:
        module: transformers', without tied tensors' second names.
        family: a key of PUBLISHED.
    """
    tensors: dict[str, Tensor] = {}
    tied = bool(module.config.tie_word_embeddings)
    for name, tensor in module.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        for key, part in _by_expert(name, tensor):
            tensors[key] = part.to(torch.bfloat16).contiguous().clone()
    if family == "llada2":
        _fuse(tensors, module.config.num_hidden_layers)
    return {PUBLISHED[family].published_name(name): tensor for name, tensor in tensors.items()}


def _by_expert(name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
    """The tensors of each expert by their names; others as they are."""
    parts = []
    if name.endswith("experts.gate_up_proj"):
        for number, both in enumerate(tensor):
            gate, up = both.chunk(2)
            stem = name.removesuffix("gate_up_proj")
            parts += [(f"{stem}{number}.gate_proj.weight", gate)]
            parts += [(f"{stem}{number}.up_proj.weight", up)]
        return parts
    if name.endswith("experts.down_proj"):
        stem = name.removesuffix("down_proj")
        return [(f"{stem}{number}.down_proj.weight", down) for number, down in enumerate(tensor)]
    return [(name, tensor)]


def _fuse(tensors: dict[str, Tensor], layers: int) -> None:
    """Makes one matrix of those of queries, keys and values."""
    for number in range(layers):
        stem = f"model.layers.{number}.self_attn"
        parts = [tensors.pop(f"{stem}.{letter}_proj.weight") for letter in "qkv"]
        tensors[f"{stem}.qkv_proj.weight"] = torch.cat(parts)
