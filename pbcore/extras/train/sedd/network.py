"""The network of SEDD: a transformer with full attention that reads the noise level through
adaptive layer norms and returns log-scores.

R rows, T positions, D width, H heads, E width of the condition, N columns (tokens, and the mask
with absorbing noise), M wanted positions. Parameters have the names of the authors' checkpoints,
whose config.json is read here, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pbcore.base.printable import shown
from pbcore.extras.train.sedd import GRAPHS
from pbcore.models.errors import ModelError
from pbcore.models.file_keys import Keys, judge

FREQUENCIES = 128  # of the sinusoids that σ enters by: so many cosines, then as many sines
_ALLOWED = {"graph": GRAPHS, "noise": ("loglinear", "geometric")}


def _at(key: str) -> Any:
    """A field that stands at this place in config.json."""
    return field(metadata={"key": key})


@dataclass(frozen=True, slots=True)
class SeddConfig:
    """A checkpoint's config: sizes, graph (kind of corruption), noise schedule. `length` is the
    longest sequence of its training; `sigma_min` and `sigma_max` are of geometric noise only.
    """

    tokens: int = _at("tokens")
    graph: str = _at("graph.type")
    noise: str = _at("noise.type")
    sigma_min: float = _at("noise.sigma_min")
    sigma_max: float = _at("noise.sigma_max")
    width: int = _at("model.hidden_size")
    condition: int = _at("model.cond_dim")
    blocks: int = _at("model.n_blocks")
    heads: int = _at("model.n_heads")
    length: int = _at("model.length")
    scale_by_sigma: bool = _at("model.scale_by_sigma")

    @property
    def columns(self) -> int:
        """Columns of the score: the tokens, and the mask behind them with the absorbing graph."""
        return self.tokens + (self.graph == "absorb")


_PARTS = {
    "graph": Keys(reads=frozenset(("type",)), ignores=("file", "report_all")),
    "noise": Keys(reads=frozenset(("type", "sigma_min", "sigma_max"))),
    "model": Keys(
        reads=frozenset(
            ("type", "hidden_size", "cond_dim", "n_blocks", "n_heads", "length", "scale_by_sigma")
        ),
        ignores=("name", "dropout"),
    ),
}


def read_sedd(raw: Mapping[str, Any], where: str) -> SeddConfig:
    """The config in a config.json. Raises ModelError that names every key that is missing or not
    allowed.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    for item in fields(SeddConfig):
        key: str = item.metadata["key"]
        value: Any = raw
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if item.type is float:
            value = float(value) if type(value) in (int, float) else 0.0
        elif allowed := _ALLOWED.get(item.name):
            if value not in allowed:
                problems.append(f"{key} is {shown(value)}, not {' or '.join(allowed)}")
        elif type(value) is not item.type or (item.type is int and value < 1):
            wanted = "true or false" if item.type is bool else "a positive number"
            problems.append(f"{key} is {shown(value)}, not {wanted}")
        values[item.name] = value
    if values["noise"] == "geometric" and not 0 < values["sigma_min"] < values["sigma_max"]:
        low, high = (shown(raw["noise"].get(key)) for key in ("sigma_min", "sigma_max"))
        problems.append(f"noise.sigma_min and sigma_max are {low} and {high}, not 0 < min < max")
    if not problems and values["width"] % values["heads"]:
        problems.append("model.hidden_size is not a multiple of model.n_heads")
    for part, keys in _PARTS.items():
        if isinstance(raw.get(part), Mapping):
            odd = judge(raw[part], keys, within=part).refused
            problems += [f"{text} is not a key of its authors' code" for text in odd]
    if problems:
        raise ModelError(f"{where}: config.json is not one of SEDD: {'; '.join(problems)}")
    return SeddConfig(**values)


def config_json(config: SeddConfig) -> dict[str, Any]:
    """The config as its authors' layout has it; `read_sedd` is the inverse."""
    result: dict[str, Any] = {
        "tokens": config.tokens,
        "graph": {},
        "noise": {},
        "model": {"type": "ddit"},
    }
    for item in fields(config):
        part, _, leaf = item.metadata["key"].rpartition(".")
        (result[part] if part else result)[leaf] = getattr(config, item.name)
    return result


class SeddNetwork(nn.Module):
    """Log-scores log p(y)/p(x) for every token y at the wanted positions of a noisy sequence x."""

    def __init__(self, config: SeddConfig) -> None:
        super().__init__()
        self.config = config
        table = nn.init.kaiming_uniform_(torch.empty(config.columns, config.width), a=math.sqrt(5))
        self.vocab_embed = nn.ParameterDict({"embedding": table})
        self.sigma_map = _SigmaMap(config.condition)
        self.rotary_emb = _Rotary(config.width // config.heads)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.blocks))
        self.output_layer = _Output(config)

    def forward(
        self, ids: Tensor, sigma: Tensor, want: Tensor, seen: Tensor | None = None
    ) -> Tensor:
        """Log-scores (M, N) in float32. The entry of the token that stands there is 0.

        Args:
            ids: (R, T).
            sigma: the total noise (R,).
            want: the positions (R, T) that are scored.
            seen: (R, T), false at padding; None without any.
        """
        condition = F.silu(self.sigma_map(sigma))  # (R, E)
        hidden = self.vocab_embed["embedding"][ids]  # (R, T, D)
        rotary = self.rotary_emb(ids.shape[1])  # (T, D/H) each
        mask = None if seen is None else seen[:, None, None, :]  # (R, 1, 1, T)
        for block in self.blocks:
            hidden = block(hidden, condition, rotary, mask)
        row = want.nonzero()[:, 0]  # (M,)
        scores = self.output_layer(hidden[want], condition[row]).float()  # (M, N)
        if self.config.scale_by_sigma:
            total = sigma.float()[row]  # (M,)
            scores = (
                scores - (torch.expm1(total).log() + math.log(self.config.columns - 1))[:, None]
            )
        result: Tensor = scores.scatter(-1, ids[want][:, None], 0.0)
        return result


class _SigmaMap(nn.Module):
    """The noise level as sinusoids, then two linear layers: (R,) → (R, E)."""

    def __init__(self, condition: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(2 * FREQUENCIES, condition), nn.SiLU(), nn.Linear(condition, condition)
        )

    def forward(self, sigma: Tensor) -> Tensor:
        places = torch.arange(FREQUENCIES, dtype=torch.float32, device=sigma.device)
        angles = sigma.float()[:, None] * torch.exp(
            -math.log(10000) * places / FREQUENCIES
        )  # (R, 128)
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1)
        result: Tensor = self.mlp(waves.to(next(self.mlp.parameters()).dtype))
        return result


class _Rotary(nn.Module):
    inv_freq: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, size, 2).float() / size))

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines (T, D/H)."""
        places = torch.arange(length, device=self.inv_freq.device).float()
        angles = torch.outer(places, self.inv_freq).repeat(1, 2)
        return angles.cos(), angles.sin()


class _Block(nn.Module):
    def __init__(self, config: SeddConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attn_qkv = nn.Linear(width, 3 * width, bias=False)
        self.attn_out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.adaLN_modulation = _zero(nn.Linear(config.condition, 6 * width))

    def forward(
        self, hidden: Tensor, condition: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> Tensor:
        """(R, T, D) → (R, T, D)."""
        changes = self.adaLN_modulation(condition)[:, None].chunk(6, dim=-1)  # (R, 1, D) each
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = changes
        qkv = self.attn_qkv(_modulated(self.norm1(hidden), shift, scale))  # (R, T, 3 D)
        query, key, value = qkv.unflatten(-1, (3, self.heads, -1)).permute(
            2, 0, 3, 1, 4
        )  # (R, H, T, D/H) each
        mixed = F.scaled_dot_product_attention(
            _turned(query, rotary), _turned(key, rotary), value, attn_mask=mask
        )
        hidden = hidden + gate * self.attn_out(mixed.transpose(1, 2).flatten(2))
        result: Tensor = hidden + gate_mlp * self.mlp(
            _modulated(self.norm2(hidden), shift_mlp, scale_mlp)
        )
        return result


class _Output(nn.Module):
    def __init__(self, config: SeddConfig) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(config.width, bias=False)
        self.linear = _zero(nn.Linear(config.width, config.columns))
        self.adaLN_modulation = _zero(nn.Linear(config.condition, 2 * config.width))

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        """(M, D) and each position's condition (M, E) → (M, N)."""
        shift, scale = self.adaLN_modulation(condition).chunk(2, dim=-1)
        result: Tensor = self.linear(_modulated(self.norm_final(hidden), shift, scale))
        return result


def _modulated(hidden: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return hidden * (1 + scale) + shift


def _turned(heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of (R, H, T, D/H), by halves."""
    cos, sin = (part.to(heads.dtype) for part in rotary)
    low, high = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-high, low], dim=-1) * sin


def _zero(layer: nn.Linear) -> nn.Linear:
    """A layer that starts at 0, so that each block starts as the identity."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
