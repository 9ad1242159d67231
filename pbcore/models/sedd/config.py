"""The config.json of a SEDD checkpoint, in the layout of its authors. Doesn't import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pbcore.models.errors import ModelError
from pbcore.printable import shown

GRAPHS = ("absorb", "uniform")
NOISES = ("loglinear", "geometric")
_NUMBERS: Mapping[str, type] = {
    "tokens": int,
    "model.hidden_size": int,
    "model.cond_dim": int,
    "model.n_blocks": int,
    "model.n_heads": int,
    "model.length": int,
    "model.scale_by_sigma": bool,
}


@dataclass(frozen=True, slots=True)
class SeddConfig:
    """What decoding needs of a checkpoint's config: sizes, graph (the kind of corruption) and noise schedule.

    `length` is the longest sequence of its training; `sigma_min` and `sigma_max` are of geometric noise only.
    """

    tokens: int
    graph: str
    noise: str
    sigma_min: float
    sigma_max: float
    width: int
    condition: int
    blocks: int
    heads: int
    length: int
    scale_by_sigma: bool

    @property
    def columns(self) -> int:
        """Columns of the score: the tokens, and the mask behind them with the absorbing graph."""
        return self.tokens + (self.graph == "absorb")

    @property
    def mask_id(self) -> int | None:
        return self.tokens if self.graph == "absorb" else None


def is_sedd(raw: Mapping[str, Any]) -> bool:
    """Whether a config.json is one of SEDD, which names no model type."""
    return {"tokens", "graph", "noise", "model"} <= raw.keys()


def read(raw: Mapping[str, Any], where: str) -> SeddConfig:
    """The config in a config.json. Raises ModelError that names every key that is missing or not allowed."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for key, kind in _NUMBERS.items():
        value = _at(raw, key)
        positive = isinstance(value, int) and value > 0
        if type(value) is not kind or (kind is int and not positive):
            problems.append(f"{key} is {shown(value)}, not {'true or false' if kind is bool else 'a positive number'}")
        values[key] = value
    for key, allowed in (("graph.type", GRAPHS), ("noise.type", NOISES)):
        values[key] = _at(raw, key)
        if values[key] not in allowed:
            problems.append(f"{key} is {shown(values[key])}, not {' or '.join(allowed)}")
    low, high = (_at(raw, f"noise.{key}") for key in ("sigma_min", "sigma_max"))
    if values["noise.type"] == "geometric" and not (_real(low) and _real(high) and 0 < low < high):
        problems.append(f"noise.sigma_min and sigma_max are {shown(low)} and {shown(high)}, not 0 < min < max")
    if not problems and values["model.hidden_size"] % values["model.n_heads"]:
        problems.append("model.hidden_size is not a multiple of model.n_heads")
    if problems:
        raise ModelError(f"{where}: config.json is not one of SEDD: {'; '.join(problems)}")
    return SeddConfig(
        tokens=values["tokens"],
        graph=values["graph.type"],
        noise=values["noise.type"],
        sigma_min=float(low) if _real(low) else 0.0,
        sigma_max=float(high) if _real(high) else 0.0,
        width=values["model.hidden_size"],
        condition=values["model.cond_dim"],
        blocks=values["model.n_blocks"],
        heads=values["model.n_heads"],
        length=values["model.length"],
        scale_by_sigma=values["model.scale_by_sigma"],
    )


def to_json(config: SeddConfig) -> dict[str, Any]:
    """The config as its authors' layout has it; `read` is the inverse."""
    return {
        "tokens": config.tokens,
        "graph": {"type": config.graph},
        "noise": {"type": config.noise, "sigma_min": config.sigma_min, "sigma_max": config.sigma_max},
        "model": {
            "type": "ddit",
            "hidden_size": config.width,
            "cond_dim": config.condition,
            "n_blocks": config.blocks,
            "n_heads": config.heads,
            "length": config.length,
            "scale_by_sigma": config.scale_by_sigma,
        },
    }


def _at(raw: Mapping[str, Any], key: str) -> Any:
    value: Any = raw
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
