"""The config.json of a SEDD checkpoint, in the layout of its authors. Doesn't import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pbcore.models.errors import ModelError
from pbcore.printable import shown

GRAPHS = ("absorb", "uniform")
_ALLOWED = {"graph": GRAPHS, "noise": ("loglinear", "geometric")}
_KEYS = {  # a field's place in config.json
    "tokens": "tokens",
    "graph": "graph.type",
    "noise": "noise.type",
    "sigma_min": "noise.sigma_min",
    "sigma_max": "noise.sigma_max",
    "width": "model.hidden_size",
    "condition": "model.cond_dim",
    "blocks": "model.n_blocks",
    "heads": "model.n_heads",
    "length": "model.length",
    "scale_by_sigma": "model.scale_by_sigma",
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


def read(raw: Mapping[str, Any], where: str) -> SeddConfig:
    """The config in a config.json. Raises ModelError that names every key that is missing or not allowed."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for field in fields(SeddConfig):
        key = _KEYS[field.name]
        value: Any = raw
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        values[field.name] = value
        if allowed := _ALLOWED.get(field.name):
            wanted = None if value in allowed else " or ".join(allowed)
        elif field.type is bool:
            wanted = None if type(value) is bool else "true or false"
        elif field.type is int:
            wanted = None if type(value) is int and value > 0 else "a positive number"
        else:
            values[field.name] = float(value) if type(value) in (int, float) else 0.0
            wanted = None
        if wanted:
            problems.append(f"{key} is {shown(value)}, not {wanted}")
    if values["noise"] == "geometric" and not 0 < values["sigma_min"] < values["sigma_max"]:
        low, high = values["sigma_min"], values["sigma_max"]
        problems.append(f"noise.sigma_min and sigma_max are {low} and {high}, not 0 < min < max")
    if not problems and values["width"] % values["heads"]:
        problems.append("model.hidden_size is not a multiple of model.n_heads")
    if problems:
        raise ModelError(f"{where}: config.json is not one of SEDD: {'; '.join(problems)}")
    return SeddConfig(**values)


def to_json(config: SeddConfig) -> dict[str, Any]:
    """The config as its authors' layout has it; `read` is the inverse."""
    result: dict[str, Any] = {"tokens": config.tokens, "graph": {}, "noise": {}, "model": {"type": "ddit"}}
    for name, key in _KEYS.items():
        part, _, leaf = key.rpartition(".")
        (result[part] if part else result)[leaf] = getattr(config, name)
    return result
