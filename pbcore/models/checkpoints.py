"""Loads weights: safetensors streamed shard by shard to dtype and device, random weights of a
published shape, quantized loading.

Checkpoints store a projection per tensor, where transformers' classes stack experts; LLaDA2's fuse
q, k and v.
"""

import inspect
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import AutoConfig

from pbcore.base.printable import printable, shown
from pbcore.models.architecture import INVALID, Architecture, refuse_odd_values
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.file_keys import QUANTIZATION, judge
from pbcore.models.shards import shards

# Buffers stored in older checkpoints; every model computes them.
_IGNORED = ("rotary_emb.inv_freq",)
_FUSED = "query_key_value.weight"
_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"
_EXPERTS = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)")


def load_weights(
    arch: Architecture,
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    attn: str | None = None,
) -> nn.Module:
    """A model with a checkpoint's weights.

    It is built on the meta device and compared with the headers of all shards; then each tensor is
    copied straight to its dtype and device, so memory holds one copy. Buffers stay float32.

    Args:
        arch: the architecture.
        folder: the checkpoint.
        device: where the weights go.
        dtype: of the weights.
        attn: transformers' attention implementation; None: its choice.

    Raises:
        ModelError: names missing keys, unexpected keys, wrong shapes, weights that are no numbers
            and what is wrong with config.json.
    """
    model = empty_model(arch, attn)
    files = shards(folder)
    shared = _shared(arch, _compare(arch, model, files, folder))
    _allocate(model, device, dtype, shared)
    slots = _slots(model)
    for file, tensors, key in _stored(files, device):
        for name, part in _split(arch.rename(key), tensors.get_tensor(key), arch.config):
            slots[name].copy_(part)
            if not all_finite(slots[name]):
                raise ModelError(_not_finite(file, key, part, dtype))
    if shared is None and arch.config.tie_word_embeddings:
        shared = _settle_heads(model, arch, folder)
    return _finish(model, arch, device, shared)


def random_weights(
    arch: Architecture,
    device: torch.device,
    dtype: torch.dtype,
    attn: str | None = None,
    seed: int = 0,
) -> nn.Module:
    """A model of the given shape with random weights made on the device: matrices N(0, 0.02²),
    norms
    1, biases 0, deterministic by seed.

    Args:
        arch: the architecture.
        device: where the weights are made.
        dtype: of the weights.
        attn: transformers' attention implementation; None: its choice.
        seed: of the weights.

    Raises:
        ModelError: for a shape with options that no class has.
    """
    refuse_kinds(arch.kind, options=arch.problems)
    model = empty_model(arch, attn)
    if device.type == "meta":  # sizes alone
        return model.to(dtype)
    shared = _HEAD if arch.config.tie_word_embeddings else None
    _allocate(model, device, dtype, shared)
    generator = torch.Generator(device).manual_seed(seed)
    for name, parameter in _finish(model, arch, device, shared).named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(0.0, 0.02, generator=generator)
        else:
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    return model


def load_with_transformers(
    arch: Architecture, folder: Path, device: torch.device, dtype: torch.dtype, options: LoadOptions
) -> nn.Module:
    """Loads through `from_pretrained`, for quantization and for models spread over devices
    (`device_map`).

    Args:
        arch: the architecture.
        folder: the checkpoint.
        device: where the weights go without a device map.
        dtype: of the weights.
        options: quantization and device map.

    Raises:
        ModelError: names the package to install, or the missing and unexpected keys.
    """
    refuse_kinds(folder, options=arch.problems)
    if any("query_key_value" in text for text in arch.keys.values()):
        fused = f"{arch.kind} fuses q, k and v, which transformers' loader can't split"
        given = options.quantization or options.device_map
        remedy = "leave quantization and device_map out" if given else "give it unquantized"
        raise ModelError(f"{folder}: {fused}; {remedy}")
    mapping = {f"^{pattern}$": text for pattern, text in arch.keys.items()}
    options = replace(options, device_map=options.device_map or str(device))
    more = {"config": arch.config, "key_mapping": mapping}
    return _full_attention(
        from_pretrained(arch.model_class, folder, device, dtype, options, **more)
    )


def from_pretrained(
    model_class: Any,
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    options: LoadOptions,
    **more: Any,
) -> nn.Module:
    """A model of one of transformers' classes with a checkpoint's weights, as the options say.

    Args:
        folder: the checkpoint.
        device: where the weights go without a device map.
        dtype: of the weights.
        options: quantization and device map.
        more: goes to transformers' `from_pretrained`.

    Raises:
        ModelError: names the package to install, or the missing and unexpected keys.
    """
    raw = read_config(folder)
    refuse_odd_values(raw, str(folder))
    model, info = with_its_keys(model_class, folder, device, dtype, options, **more)
    unexpected = [key for key in info["unexpected_keys"] if not key.endswith(_IGNORED)]
    refuse_kinds(folder, missing=sorted(info["missing_keys"]), unexpected=sorted(unexpected))
    return model


def with_its_keys(
    model_class: Any,
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    options: LoadOptions,
    **more: Any,
) -> tuple[nn.Module, Mapping[str, Any]]:
    """As `from_pretrained`, whatever keys are missing or unexpected.

    Args:
        folder: the checkpoint.
        device: where the weights go without a device map.
        dtype: of the weights.
        options: quantization and device map.
        more: goes to transformers' `from_pretrained`.

    Returns:
        The model, and what transformers tells of its keys.
    """
    spread = options.device_map or (str(device) if options.quantization else None)
    raw = read_config(folder)
    method = quantized_as(raw, folder)
    _check_stored(folder, method)
    if "quantization_config" in raw and method is None and "config" not in more:
        trusted = more.get("trust_remote_code", False)
        more["config"] = AutoConfig.from_pretrained(folder, trust_remote_code=trusted)
        more["config"].quantization_config = None
    if options.quantization and method is not None:
        raise ModelError(
            f"{folder}: its weights are quantized already ({method}, by its quantization_config),"
            f" so quantization {options.quantization!r} can't be applied; leave it out"
        )
    try:
        if options.quantization:  # a file's own quantization_config stays otherwise
            more["quantization_config"] = quantization(options.quantization, dtype)
        model, info = model_class.from_pretrained(
            folder,
            dtype=dtype,
            device_map=spread,
            attn_implementation=options.attn_implementation,
            output_loading_info=True,
            local_files_only=True,
            **more,
        )
    except ModuleNotFoundError as error:
        raise ModelError(f"{folder}: {error}; install it (pip install {error.name})") from error
    except (ImportError, OSError, RuntimeError, *INVALID) as error:
        raise ModelError(f"{folder}: {printable(' '.join(str(error).split()), 400)}") from error
    model = model if spread else model.to(device)
    refuse_odd_numbers(model, folder)
    return model, info


def quantized_as(raw: Mapping[str, Any], where: Path | str) -> str | None:
    """The method of a config.json's quantization_config; None where it is null, empty or missing.

    Args:
        raw: the content of config.json.
        where: names the file in errors.

    Raises:
        ModelError: for what is no quantization_config, and for a method that transformers lacks.
    """
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as METHODS

    config = raw.get("quantization_config")
    if not config:
        return None
    known = ", ".join(METHODS)
    if not isinstance(config, Mapping):
        raise ModelError(
            f"{where}: quantization_config is {shown(config)}; it should be a mapping with a"
            f" quant_method ({known}). Mend config.json"
        )
    method = config.get("quant_method")
    for bits in ("4bit", "8bit"):
        if config.get(f"load_in_{bits}"):
            method = f"bitsandbytes_{bits}"
    if method not in METHODS:
        raise ModelError(
            f"{where}: quantization_config has the quant_method {shown(method)}, which transformers"
            f" can't load (known: {known}). Give the checkpoint unquantized"
        )
    taken = frozenset(inspect.signature(METHODS[method]).parameters)
    keys = replace(QUANTIZATION, reads=QUANTIZATION.reads | taken)
    if named := judge(config, keys, within="quantization_config").named:
        warnings.warn(
            f"{where}: transformers' {method} doesn't read these keys: {'; '.join(named)}",
            stacklevel=2,
        )
    return str(method)


def _check_stored(folder: Path, method: str | None) -> None:
    """Holds the kinds of numbers in a checkpoint's files against its quantization_config.

    Args:
        folder: the checkpoint.
        method: what its quantization_config says; None: it has none.

    Raises:
        ModelError: for packed numbers without one.
    """
    files = shards(folder)
    if method is None:
        refuse_packed(folder, files)
    elif not any(
        _is_packed(tensors.get_slice(key))
        for _, tensors, key in _stored(files, torch.device("cpu"))
    ):
        warnings.warn(
            f"{folder}: config.json says that the weights are quantized ({method}), but the files"
            " hold plain floating-point numbers",
            stacklevel=2,
        )


def quantization(name: str | None, dtype: torch.dtype) -> Any:
    """transformers' configuration for one of QUANTIZATIONS; it checks that the library behind it is
    installed.
    """
    from transformers import BitsAndBytesConfig, QuantoConfig, TorchAoConfig

    library, _, kind = (name or "").partition("-")
    if library == "bitsandbytes":
        bits: Any = {"load_in_4bit": kind == "4bit", "load_in_8bit": kind == "8bit"}
        make: Any = BitsAndBytesConfig
        return make(**bits, bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_type="nf4")
    if library == "torchao":
        return TorchAoConfig(f"{kind}_weight_only")
    return QuantoConfig(weights=kind) if library else None


def empty_model(arch: Architecture, attn: str | None = None) -> nn.Module:
    """The model on the meta device, without storage."""
    try:
        with torch.device("meta"):
            model: Any = arch.model_class._from_config(arch.config, attn_implementation=attn)
    except (ImportError, ValueError) as error:
        raise ModelError(f"attention implementation {attn!r}: {error}") from error
    model.tie_weights()  # which transformers 5.0 leaves to its loader
    return cast(nn.Module, model)


def all_finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite. A sum shows both; it takes a twentieth of the time of
    looking at each value, which only a sum that overflows needs.
    """
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def refuse_odd_numbers(module: nn.Module, folder: Path) -> None:
    """Raises ModelError for a weight that holds NaN or infinity. Offloaded weights, and those that
    a quantization packs, are not looked at.
    """
    for name, tensor in module.named_parameters():
        plain = type(tensor) is nn.Parameter
        usual = plain and tensor.is_floating_point() and tensor.element_size() > 1
        if usual and not tensor.is_meta and not all_finite(tensor.detach()):
            raise ModelError(
                f"{folder}: {name} holds NaN or infinity as {tensor.dtype}; download the checkpoint"
                " again, or choose another dtype"
            )


def _not_finite(file: Path, key: str, stored: Tensor, dtype: torch.dtype) -> str:
    if all_finite(stored.float()):
        kind = str(dtype).removeprefix("torch.")
        return f"{file}: {shown(key)} has values that {kind} can't hold; choose another dtype"
    return f"{file}: {shown(key)} holds NaN or infinity; download the checkpoint again"


def _shared(arch: Architecture, stored: Collection[str]) -> str | None:
    """Which of output head and embeddings is the other one, as the config says and the shards hold
    it; None if both have weights of their own.
    """
    if not arch.config.tie_word_embeddings or {_HEAD, _EMBEDDING} <= {*stored}:
        return None
    return _EMBEDDING if _HEAD in stored else _HEAD


def _settle_heads(model: nn.Module, arch: Architecture, folder: Path) -> str | None:
    """As `_shared`, where the config says that they are one and the shards hold both: if they
    differ, transformers keeps both, and so does this, with a warning.
    """
    inner: Any = model
    if torch.equal(inner.lm_head.weight, inner.model.embed_tokens.weight):
        return _HEAD
    arch.config.tie_word_embeddings = False
    warnings.warn(
        f"{folder}: config.json says that output head and embeddings are one"
        " (tie_word_embeddings), but the files hold a head of its own, which is kept",
        stacklevel=2,
    )
    return None


def _allocate(
    model: nn.Module, device: torch.device, dtype: torch.dtype, shared: str | None
) -> None:
    """Gives a model's tensors storage, all but the `shared` one."""
    buffers = {name for name, _ in model.named_buffers()}
    storage = {
        name: torch.zeros_like(
            tensor, device=device, dtype=torch.float32 if name in buffers else dtype
        )
        for name, tensor in model.state_dict().items()
        if name != shared
    }
    model.load_state_dict(storage, strict=False, assign=True)


def _slots(model: nn.Module) -> dict[str, Tensor]:
    """Views of the model's tensors by the checkpoint's renamed and split keys, one for each expert
    and projection.
    """
    slots: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if match := _EXPERTS.fullmatch(name):
            for number, expert in enumerate(tensor):
                kinds = ("gate_proj", "up_proj") if match[2] == "gate_up_proj" else ("down_proj",)
                for kind, part in zip(kinds, expert.chunk(len(kinds)), strict=True):
                    slots[f"{match[1]}.{number}.{kind}.weight"] = part
        else:
            slots[name] = tensor
    return slots


def _split(key: str, tensor: Tensor, config: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a checkpoint's tensor holds, by their keys: three for fused q, k and v, else
    itself.
    """
    if not key.endswith(_FUSED) or not tensor.dim():
        yield key, tensor
        return
    queries, keys = (
        count * config.head_dim
        for count in (config.num_attention_heads, config.num_key_value_heads)
    )
    # v takes what is left, so that a tensor with too many rows has a wrong shape.
    for letter, part in zip("qkv", tensor.tensor_split([queries, queries + keys]), strict=True):
        yield f"{key.removesuffix(_FUSED)}{letter}_proj.weight", part


def _finish(
    model: nn.Module, arch: Architecture, device: torch.device, shared: str | None
) -> nn.Module:
    """Ties output head and embeddings if one is `shared` and computes the buffers that checkpoints
    leave out.
    """
    inner: Any = model
    if shared == _HEAD:
        inner.lm_head.weight = inner.model.embed_tokens.weight
    elif shared == _EMBEDDING:
        inner.model.embed_tokens.weight = inner.lm_head.weight
    inner.model.rotary_emb = type(inner.model.rotary_emb)(arch.config).to(device)
    unset = [
        name
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if tensor.is_meta
    ]
    if unset:
        raise ModelError(f"{arch.kind}: {', '.join(unset)} got no values")
    return _full_attention(model)


def _full_attention(model: nn.Module) -> nn.Module:
    """Sets the layers' own `is_causal` too: the config's decides masks, but kernels without a mask
    read the layers'.
    """
    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False  # type: ignore[assignment]
    return model.eval().requires_grad_(False)


def _stored(files: Sequence[Path], device: torch.device) -> Iterator[tuple[Path, Any, str]]:
    """The tensors of some shards: the file, opened too, and the key of each."""
    for file in files:
        try:
            opened = safe_open(file, framework="pt", device=str(device))
        except (SafetensorError, OSError) as error:
            raise ModelError(
                f"{file} can't be read ({error}): it is truncated or not a safetensors file;"
                " download it again"
            ) from error
        with opened as tensors:
            for key in tensors.keys():  # noqa: SIM118
                if not key.endswith(_IGNORED):
                    yield file, tensors, key


def _compare(arch: Architecture, model: nn.Module, files: list[Path], folder: Path) -> set[str]:
    """The names of the model's tensors that the shards hold. Raises ModelError unless these are all
    of them and no others, of their shapes, and config.json has no problems.
    """
    expected = {key: tuple(slot.shape) for key, slot in _slots(model).items()}
    shapes = {}
    packed = []
    for _, tensors, key in _stored(files, torch.device("cpu")):
        header = tensors.get_slice(key)
        whole = torch.empty(header.get_shape(), device="meta")
        for name, part in _split(arch.rename(key), whole, arch.config):
            shapes[name] = tuple(part.shape)
        if _is_packed(header):
            packed.append(f"{printable(key)} ({header.get_dtype()})")
    shared = _shared(arch, shapes)
    refuse_kinds(
        folder,
        options=arch.problems,
        packed=packed,
        missing=sorted(expected.keys() - shapes.keys() - {shared}),
        unexpected=sorted(shapes.keys() - expected.keys()),
        shapes=[
            f"{key} is {shapes[key]}, config.json says {shape}"
            for key, shape in expected.items()
            if shapes.get(key, shape) != shape
        ],
    )
    return {*shapes}


def _is_packed(header: Any) -> bool:
    """Whether a stored tensor holds whole numbers or floats of 8 bits or less, which mean nothing
    without a scale.
    """
    return header.get_dtype() not in ("F64", "F32", "F16", "BF16")


def refuse_packed(folder: Path, files: Sequence[Path]) -> None:
    """Raises ModelError for weights in the `files` of a folder that are whole numbers or floats of
    8 bits, where config.json has no quantization_config that says what they mean.
    """
    refuse_kinds(
        folder,
        packed=[
            f"{printable(key)} ({tensors.get_slice(key).get_dtype()})"
            for _, tensors, key in _stored(files, torch.device("cpu"))
            if key.endswith("weight") and _is_packed(tensors.get_slice(key))
        ],
    )


_KINDS: Mapping[str, str] = {
    "options": "unknown options in config.json",
    "packed": (
        "whole numbers or 8-bit floats as weights, without the quantization_config that scales them"
    ),
    "missing": "missing keys",
    "unexpected": "unexpected keys",
    "shapes": "wrong shapes",
}


def refuse_kinds(where: Path | str, **kinds: Sequence[str]) -> None:
    """Raises ModelError if there is anything of one of the kinds of _KINDS; of each it names
    eight.
    """
    parts = [
        f"{title} ({len(found)}):"
        f" {', '.join(found[:8])}{f' and {len(found) - 8} more' if len(found) > 8 else ''}"
        for kind, title in _KINDS.items()
        if (found := kinds.get(kind, ()))
    ]
    if parts:
        raise ModelError(
            f"{where} doesn't match its config.json. {'; '.join(parts)}. Check that all shards"
            " belong to this checkpoint"
        )
