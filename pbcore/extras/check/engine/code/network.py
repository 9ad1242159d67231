"""The network of a small checkpoint in plain PyTorch, for engines that run a checkpoint's own code.

Its tensors have the names under which the family publishes them. It has no cache.
R rows, T tokens, H width, D width of a head, N tokens of all rows, E experts, V vocabulary.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from .configuration import Config

# What the family has of its own: first, names of layers and of what lies in each, by Llama's.
NAMES: dict[str, str] = {}
FUSED = False  # queries, keys and values come from one matrix
BIAS = False  # queries, keys and values have a bias
NORMED = False  # queries and keys of each head have a norm
TIED = False  # the head is the embedding
BLOCK: int | None = None  # tokens see their block of so many and what precedes it; None: all


def named(name: str) -> str:
    return NAMES.get(name, name)


ROOT = named("model.layers").split(".")[0]


def put(root: nn.Module, path: str, module: nn.Module) -> None:
    """Makes a module part of another, at a path of names."""
    *stems, last = path.split(".")
    for stem in stems:
        if not hasattr(root, stem):
            root.add_module(stem, nn.Module())
        root = root.get_submodule(stem)
    root.add_module(last, module)


def head_width(config: Any) -> int:
    own = getattr(config, "head_dim", None)
    return int(own or config.hidden_size // config.num_attention_heads)


def rope_of(config: Any) -> dict[str, Any]:
    """The rotary embedding's settings, wherever a config keeps them."""
    rope = {"partial_rotary_factor": 1, **vars(config)}
    return rope | dict(rope.get("rope_parameters") or rope.get("rope_scaling") or {})


def frequencies(config: Any, device: torch.device) -> Tensor:
    """Those of the rotary embedding, by YaRN (arXiv 2309.00071) where the config asks for it: slow
    ones are divided by `factor`, fast ones are kept.
    """
    rope = rope_of(config)
    theta = rope["rope_theta"]
    size = int(head_width(config) * (rope["partial_rotary_factor"] or 1))
    place = torch.arange(size // 2, device=device).float()
    frequency = theta ** (-place * 2 / size)  # (size / 2,)
    if rope.get("rope_type") != "yarn":
        return frequency
    ends = []
    for turns in (rope["beta_fast"], rope["beta_slow"]):
        share = math.log(rope["original_max_position_embeddings"] / (turns * 2 * math.pi))
        ends.append(size * share / (2 * math.log(theta)))
    first = max(math.floor(ends[0]), 0)
    last = min(math.ceil(ends[1]), size - 1)
    slow = ((place - first) / max(last - first, 0.001)).clamp(0, 1)
    return frequency * (1 - slow) + frequency / rope["factor"] * slow


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Turns (R, heads, T, D) by angles (R, T, half), on the first 2 · half numbers."""
    half = angle.shape[-1]
    cos, sin = angle[:, None].cos().to(x.dtype), angle[:, None].sin().to(x.dtype)
    first, second = x[..., :half], x[..., half : 2 * half]
    turned = [first * cos - second * sin, second * cos + first * sin, x[..., 2 * half :]]
    return torch.cat(turned, dim=-1)


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        exact = x.float()
        scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (exact * scale).to(x.dtype)


class Layer(nn.Module):
    """Attention and an MLP, dense or of experts."""

    def __init__(self, config: Any, number: int) -> None:
        super().__init__()
        self.config = config
        size = head_width(config)
        queries = config.num_attention_heads * size
        keys = config.num_key_value_heads * size
        self.sizes = [queries, keys, keys]
        parts = [("qkv", sum(self.sizes))] if FUSED else list(zip("qkv", self.sizes, strict=True))
        for letters, width in parts:
            self.linear(f"self_attn.{letters}_proj", config.hidden_size, width, BIAS)
        self.linear("self_attn.o_proj", queries, config.hidden_size)
        for name in ("input_layernorm", "post_attention_layernorm"):
            put(self, named(name), Norm(config.hidden_size, config.rms_norm_eps))
        if NORMED:
            for name in ("self_attn.q_norm", "self_attn.k_norm"):
                put(self, named(name), Norm(size, config.rms_norm_eps))
        frequency = getattr(config, "moe_layer_freq", None)
        dense = number < getattr(config, "first_k_dense_replace", 0)
        self.experts = 0 if dense or (frequency and not frequency[number]) else experts_of(config)
        self.shared = self.experts and getattr(config, "num_shared_experts", 0)
        if not self.experts:
            self.dense("mlp", config.intermediate_size)
            return
        self.linear("mlp.gate", config.hidden_size, self.experts)
        for expert in range(self.experts):
            self.dense(f"mlp.experts.{expert}", config.moe_intermediate_size)
        if self.shared:
            self.dense("mlp.shared_experts", config.moe_intermediate_size * self.shared)
        if getattr(config, "moe_router_enable_expert_bias", False):
            self.part("mlp.gate").register_buffer("expert_bias", torch.zeros(self.experts))

    def linear(self, name: str, inputs: int, outputs: int, bias: bool = False) -> None:
        put(self, named(name), nn.Linear(inputs, outputs, bias=bias))

    def dense(self, stem: str, width: int) -> None:
        self.linear(f"{stem}.gate_proj", self.config.hidden_size, width)
        self.linear(f"{stem}.up_proj", self.config.hidden_size, width)
        self.linear(f"{stem}.down_proj", width, self.config.hidden_size)

    def part(self, name: str) -> Any:
        return self.get_submodule(named(name))

    def gated(self, x: Tensor, stem: str) -> Tensor:
        gate = functional.silu(self.part(f"{stem}.gate_proj")(x))
        return self.part(f"{stem}.down_proj")(gate * self.part(f"{stem}.up_proj")(x))

    def mixture(self, x: Tensor) -> Tensor:
        """What the chosen experts make of tokens (N, H)."""
        share, chosen = self.routed(x)
        out = torch.zeros_like(x)
        for expert in range(self.experts):
            token, place = (chosen == expert).nonzero(as_tuple=True)
            answer = self.gated(x[token], f"mlp.experts.{expert}")
            out = out.index_add(0, token, answer * share[token, place, None].to(x.dtype))
        return out + self.gated(x, "mlp.shared_experts") if self.shared else out

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The shares and numbers of the experts of tokens (N, H): by softmax, or by sigmoid among
        the best groups, chosen with a bias.
        """
        config = self.config
        gate = self.part("mlp.gate")
        scores = functional.linear(x.float(), gate.weight.float())  # (N, E)
        if getattr(config, "score_function", "softmax") == "softmax":
            best = scores.softmax(-1).topk(config.num_experts_per_tok, dim=-1)
            return best.values, best.indices
        scores = scores.sigmoid()
        groups = (scores + gate.expert_bias.float()).unflatten(-1, (config.n_group, -1))
        value = groups.topk(2, dim=-1).values.sum(-1)
        top = value.topk(config.topk_group, dim=-1).indices
        kept = torch.zeros_like(value).scatter(-1, top, 1.0).bool()
        allowed = groups.masked_fill(~kept[..., None], -torch.inf).flatten(1)
        chosen = allowed.topk(config.num_experts_per_tok, dim=-1).indices
        share = scores.gather(-1, chosen)
        share = share / (share.sum(-1, keepdim=True) + 1e-20)
        return share * config.routed_scaling_factor, chosen

    def attended(self, x: Tensor, positions: Tensor, sees: Tensor) -> Tensor:
        size = head_width(self.config)
        if FUSED:
            parts = self.part("self_attn.qkv_proj")(x).split(self.sizes, dim=-1)
        else:
            parts = [self.part(f"self_attn.{letter}_proj")(x) for letter in "qkv"]
        query, key, value = (part.unflatten(-1, (-1, size)).transpose(1, 2) for part in parts)
        if NORMED:
            query = self.part("self_attn.q_norm")(query)
            key = self.part("self_attn.k_norm")(key)
        angle = positions[..., None].float() * frequencies(self.config, x.device)
        query, key = rotate(query, angle), rotate(key, angle)
        rope = rope_of(self.config)
        if rope.get("llama_4_scaling_beta") is not None:  # queries grow with their positions
            times = positions // rope["original_max_position_embeddings"]
            growth = 1 + rope["llama_4_scaling_beta"] * (1 + times.float()).log()
            query = query * growth[:, None, :, None].to(query.dtype)
        groups = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, sees[:, None])
        return self.part("self_attn.o_proj")(mixed.transpose(1, 2).flatten(-2))

    def forward(self, x: Tensor, positions: Tensor, sees: Tensor) -> Tensor:
        x = x + self.attended(self.part("input_layernorm")(x), positions, sees)
        normed = self.part("post_attention_layernorm")(x)
        if not self.experts:
            return x + self.gated(normed, "mlp")
        return x + self.mixture(normed.flatten(0, 1)).view(x.shape)


def experts_of(config: Any) -> int:
    return int(getattr(config, "num_experts", None) or 0)


def visible(mask: Any, positions: Tensor) -> Tensor:
    """Who sees whom, (R, T, T). A mask (R, T) hides padding. One of (R, T, T) or (R, 1, T, T) says
    it all: with booleans, or with numbers that are added to the scores.
    """
    if mask is not None and mask.dim() > 2:
        pairs = mask[:, 0] if mask.dim() == 4 else mask
        return pairs >= 0 if pairs.is_floating_point() else pairs.bool()
    number = torch.zeros_like(positions) if BLOCK is None else positions // BLOCK
    sees = number[:, None] <= number[..., None]
    if mask is not None:
        sees = sees & mask[:, None].bool()
    return sees | torch.eye(sees.shape[-1], dtype=torch.bool, device=sees.device)


class Network(PreTrainedModel):
    """Embedding, layers and final norm."""

    config_class = Config
    base_model_prefix = ROOT
    _supports_sdpa = True
    _supports_flex_attn = True  # a config may ask for it; PyTorch's own attention computes the same

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        layers = [Layer(config, number) for number in range(config.num_hidden_layers)]
        self.put("model.embed_tokens", embedding)
        self.put("model.layers", nn.ModuleList(layers))
        self.put("model.norm", Norm(config.hidden_size, config.rms_norm_eps))
        self.post_init()

    def put(self, name: str, module: nn.Module) -> None:
        put(self, named(name).removeprefix(f"{ROOT}."), module)

    def part(self, name: str) -> Any:
        return self.get_submodule(named(name).removeprefix(f"{ROOT}."))

    def get_input_embeddings(self) -> Any:
        return self.part("model.embed_tokens")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | str | None = None,
        position_ids: Tensor | None = None,
        **others: Any,
    ) -> Any:
        """Hidden states (R, T, H) of tokens (R, T).

        Args:
            input_ids: the tokens.
            attention_mask: which of them are seen, as `visible` says; None or "full": all.
            position_ids: (R, T); None: counted from the first token that isn't padding.
            others: what transformers' models also take, switched off.

        Raises:
            NotImplementedError: for one that is switched on.
        """
        for name, value in others.items():
            if name != "return_dict" and value is not None and value is not False:
                raise NotImplementedError(f"{name}={value!r}: this network has no such thing")
        mask = None if isinstance(attention_mask, str) else attention_mask
        if position_ids is None:
            real = mask if mask is not None and mask.dim() == 2 else torch.ones_like(input_ids)
            position_ids = (real.long().cumsum(-1) - 1).clamp(min=0)
        position_ids = position_ids.expand_as(input_ids)
        sees = visible(mask, position_ids)
        x = self.part("model.embed_tokens")(input_ids)
        for layer in self.part("model.layers"):
            x = layer(x, position_ids, sees)
        return BaseModelOutput(last_hidden_state=self.part("model.norm")(x))


class MaskedNetwork(PreTrainedModel):
    """The network and its head."""

    config_class = Config
    base_model_prefix = ROOT
    _supports_sdpa = True
    _supports_flex_attn = True  # a config may ask for it; PyTorch's own attention computes the same

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.add_module(ROOT, Network(config))
        if not TIED:
            head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
            put(self, named("lm_head"), head)
        self.post_init()

    def get_input_embeddings(self) -> Any:
        return self.get_submodule(named("model.embed_tokens"))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | str | None = None,
        position_ids: Tensor | None = None,
        **others: Any,
    ) -> Any:
        """Logits (R, T, V), as the head gives them at each place; takes what `Network` takes."""
        network = self.get_submodule(ROOT)
        states = network(input_ids, attention_mask, position_ids, **others).last_hidden_state
        head: Any = self.get_submodule(named("model.embed_tokens" if TIED else "lm_head"))
        return MaskedLMOutput(logits=functional.linear(states, head.weight))
