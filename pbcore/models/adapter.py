"""LoRA adapters (arXiv 2106.09685) in peft's files: read, checked, and merged into a model's
weights.

r rank, I columns and O rows of an adapted matrix.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from pbcore.base.printable import printable, shown, some
from pbcore.models.architecture import Architecture
from pbcore.models.entry import ADAPTER_CONFIG as CONFIG
from pbcore.models.entry import is_adapter
from pbcore.models.errors import ModelError
from pbcore.models.file_keys import ADAPTER, judge
from pbcore.models.info import ModelInfo

WEIGHTS = "adapter_model.safetensors"
_KEY = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight")


def _principal(weight: Tensor, rank: int) -> Tensor:
    """The part (O, I) of a weight that PiSSA (arXiv 2404.02948) moves to the adapter: its largest
    singular values'.
    """
    left, values, right = torch.linalg.svd(weight, full_matrices=False)
    part: Tensor = (left[:, :rank] * values[:rank]) @ right[:rank]
    return part


def _orthonormal(weight: Tensor, rank: int) -> Tensor:
    """The matrices whose product OLoRA (arXiv 2406.01775) takes from a weight, multiplied (O, I):
    the first columns and rows of its QR decomposition.
    """
    columns, rows = torch.linalg.qr(weight)
    product: Tensor = columns[:, :rank] @ rows[:rank]
    return product


# How peft may have initialised an adapter, `init_lora_weights` of its config. These leave the base
# weights as they are.
_BESIDE_THE_BASE = ("gaussian", "eva", "orthogonal", "mica")


@dataclass(frozen=True, slots=True)
class LowRankUpdate:
    """The two matrices of an adapted one, which gets `scale`·B·A added: `a` (r, I), `b` (O, r)."""

    a: Tensor
    b: Tensor
    scale: float

    @property
    def rank(self) -> int:
        return self.a.shape[0]


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter: its pair for each adapted matrix, by its name in the checkpoint. `init` is how
    peft initialised it: after `pissa` and `olora` a part of the pair's rank was taken from the
    matrix first. `info` has its fields of a record.
    """

    folder: Path
    init: str | bool | None
    pairs: Mapping[str, LowRankUpdate]
    info: ModelInfo


def read_adapter(folder: Path) -> Adapter:
    """The adapter of a folder that peft wrote. Raises ModelError for files that are missing,
    damaged or of a kind that can't be merged.
    """
    if not is_adapter(folder):
        raise ModelError(
            f"{folder} is not an adapter: it has no {CONFIG}. Give a folder that peft wrote"
        )
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        sizes = _Sizes.of(config)
    except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise ModelError(
            f"{folder / CONFIG} can't be read ({error!r}); write the adapter again"
        ) from error
    for name, rank in {"r": sizes.r, **sizes.ranks}.items():
        if rank < 1:
            raise ModelError(
                f"{folder / CONFIG}: {printable(name)} is {rank}, it should be at least 1; write"
                " the adapter again"
            )
    judged = judge(config, ADAPTER, lambda key, value: True if value is False else None)
    if odd := [*judged.problems, *judged.refused]:
        raise ModelError(
            f"{folder}: {'; '.join(odd)} can't be merged here; merge it with peft's"
            " merge_and_unload, if that can, and give the merged checkpoint's folder"
        )
    init = _initialised(folder, config)
    matrices = _matrices(folder)
    wrong = [
        f"{printable(name)} {a.shape[0]} instead of {sizes.rank(name)}"
        for name, (a, b) in matrices.items()
        if not a.shape[0] == b.shape[1] == sizes.rank(name)
    ]
    if wrong:
        raise ModelError(
            f"{folder / WEIGHTS}: other ranks than {CONFIG} says (r, rank_pattern):"
            f" {some(wrong, 3)}; write the adapter again"
        )
    lora: dict[str, object] = {
        "rank": sizes.r,
        "alpha": sizes.alpha,
        "targets": sorted({name.rpartition(".")[2] for name in matrices}),
    }
    patterns = {"rank_pattern": sizes.ranks, "alpha_pattern": sizes.alphas}
    lora |= {key: dict(pattern) for key, pattern in patterns.items() if pattern}
    pairs = {name: LowRankUpdate(a, b, sizes.scale(name)) for name, (a, b) in matrices.items()}
    return Adapter(folder, init, pairs, {"lora": lora})


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Ranks and scales, as a config says them: `ranks` and `alphas` map patterns of names to other
    values than `r` and `alpha`.
    """

    r: int
    alpha: float
    ranks: Mapping[str, int]
    alphas: Mapping[str, float]
    rslora: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        ranks = {key: index(rank) for key, rank in (config.get("rank_pattern") or {}).items()}
        alphas = {key: float(alpha) for key, alpha in (config.get("alpha_pattern") or {}).items()}
        for pattern in (*ranks, *alphas):
            re.compile(pattern)
        return cls(
            index(config["r"]),
            float(config["lora_alpha"]),
            ranks,
            alphas,
            bool(config.get("use_rslora")),
        )

    def rank(self, name: str) -> int:
        return self.ranks.get(_pattern(self.ranks, name), self.r)

    def scale(self, name: str) -> float:
        """α/r, or with rsLoRA (arXiv 2312.03732) α/√r."""
        rank = self.rank(name)
        alpha = self.alphas.get(_pattern(self.alphas, name), self.alpha)
        return alpha / (rank**0.5 if self.rslora else rank)


def _pattern(patterns: Iterable[str], name: str) -> str:
    """The first pattern that a module's name ends with, as peft looks for it; "" for none."""
    return next((key for key in patterns if re.match(rf"(.*\.)?({key})$", name)), "")


def _initialised(folder: Path, config: Mapping[str, Any]) -> str | bool | None:
    """How peft initialised the adapter. Raises ModelError where the base weights that it belongs to
    can't be computed again: others depend on data (CorDA, LoftQ, LoRA-GA) or on random numbers
    (PiSSA by a randomised SVD).
    """
    init: Any = config.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() in ("olora", *_BESIDE_THE_BASE):
        return init.lower()
    if init is None or isinstance(init, bool):
        return init
    if init == "pissa":
        return "pissa"
    raise ModelError(
        f"{folder / CONFIG}: init_lora_weights {shown(init)} can't be merged here, as it may have"
        " changed the weights under the adapter in a way that no file tells. Convert it with peft's"
        " save_pretrained(path_initial_model_for_weight_conversion=…), or merge it where it was"
        " trained (merge_and_unload) and give the merged checkpoint's folder"
    )


@torch.no_grad()
def merge_adapter(adapter: Adapter, module: nn.Module, arch: Architecture) -> None:
    """Adds the adapter to the module's weights, computed in float32; what its initialisation took
    from them is taken first, as peft does when it loads the adapter.

    Args:
        adapter: its names may be the checkpoint's own, as those of an adapter trained on the
            authors' code, or transformers'.
        module: the model.
        arch: the model's architecture.

    Raises:
        ModelError: names what doesn't fit the model.
    """
    weights = dict(module.named_parameters())
    odd = []
    for name, pair in adapter.pairs.items():
        a = pair.a
        b = pair.b
        key = arch.rename(f"{name}.weight")
        weight = weights.get(key)
        if weight is None or weight.shape != (b.shape[0], a.shape[1]):
            odd.append(f"{printable(key)} of shape {(b.shape[0], a.shape[1])}")
            continue
        if weight.is_meta:
            raise ModelError(
                f"{adapter.folder}: {key} is offloaded, so nothing can be added to it; let"
                " device_map place the whole model on GPUs, or merge the adapter with peft's"
                " merge_and_unload and give the merged checkpoint"
            )
        base = weight.float()
        if adapter.init == "pissa":
            base = base - _principal(base, pair.rank)
        elif adapter.init == "olora":
            base = base - pair.scale * _orthonormal(base, pair.rank)
        delta = pair.scale * (b.to(weight.device).float() @ a.to(weight.device).float())  # (O, I)
        weight.data = (base + delta).to(weight.dtype)
    if odd:
        names = ", ".join(odd[:3]) + (f" and {len(odd) - 3} more" if len(odd) > 3 else "")
        raise ModelError(
            f"{adapter.folder} belongs to another model: this {arch.kind} has no {names}"
        )


def _matrices(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    file = folder / WEIGHTS
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file} can't be read ({error}); write the adapter again") from error
    found: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        match = _KEY.fullmatch(key)
        if match is None:
            raise ModelError(
                f"{file}: {shown(key)} is no matrix of a LoRA adapter; only those can be merged"
            )
        found.setdefault(match[1], {})[match[2]] = tensor
    odd = [
        name
        for name, pair in found.items()
        if not all(bool(weight.isfinite().all()) for weight in pair.values())
    ]
    if odd:
        raise ModelError(f"{file}: {shown(odd[0])} holds NaN or infinity; train the adapter again")
    lone = [name for name, pair in found.items() if len(pair) < 2]
    if lone or not found:
        what = f"{lone[0]} has one matrix of two" if lone else "it holds no matrices"
        raise ModelError(f"{file}: {what}; write the adapter again")
    return {name: (pair["A"], pair["B"]) for name, pair in found.items()}
