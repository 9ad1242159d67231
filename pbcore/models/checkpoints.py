"""Loads weights: safetensors streamed shard by shard to dtype and device, random weights of a published shape,
quantized loading.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from pbcore.models.architecture import Architecture
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.packing import place, slots, split, spread
from pbcore.printable import shown

_IGNORED = ("rotary_emb.inv_freq",)  # buffers stored in older checkpoints; every model computes them


def shards(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, in the index's order. Raises ModelError naming those that are missing."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = dict.fromkeys(map(str, json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{index} can't be read ({error!r}); download the checkpoint again") from error
        outside = [name for name in names if not name or Path(name).name != name]
        if outside:
            raise ModelError(f"{index} names {shown(outside[0])}, which is not a file of this folder")
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            count = f"{len(missing)} of {len(names)} shards are missing ({', '.join(missing)})"
            raise ModelError(f"{folder} is incomplete: {count}; download them again")
        return [folder / name for name in names]
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        others = [path.name for path in folder.glob("*.bin")]
        hint = f"it has {', '.join(others)}; convert them to safetensors" if others else "download the checkpoint again"
        raise ModelError(f"{folder} has no *.safetensors; {hint}")
    single = folder / "model.safetensors"
    return [single] if single in files else files


def load_weights(
    arch: Architecture, folder: Path, device: torch.device, dtype: torch.dtype, attn: str | None = None
) -> nn.Module:
    """A model with a checkpoint's weights.

    The model is built on the meta device and compared with the headers of all shards. Then each tensor is loaded
    straight to its dtype and device, so memory holds one copy; buffers keep their own dtype. Raises ModelError naming
    missing keys, unexpected keys, wrong shapes and what is wrong with config.json.
    """
    model = _empty(arch, attn)
    files, wanted = shards(folder), slots(model)
    _compare(arch, model, files, folder)
    for file in files:
        with _opened(file, device) as tensors:
            for key in tensors.keys():  # noqa: SIM118 (a safe_open handle is not a mapping)
                if not key.endswith(_IGNORED):
                    whole = tensors.get_tensor(key)
                    for name, rows in split(arch.rename(key), arch.config):
                        slot = wanted[name]
                        kind = torch.float32 if slot.buffer else dtype
                        place(model, slot, whole[rows].to(device=device, dtype=kind))
    return _finish(model, arch, device)


def random_weights(
    arch: Architecture, device: torch.device, dtype: torch.dtype, attn: str | None = None, seed: int = 0
) -> nn.Module:
    """A model of the given shape with random weights made on `device`: matrices N(0, 0.02²), norms 1, biases 0.

    Deterministic by seed. Raises ModelError for a shape with options that no class has.
    """
    _refuse(arch.kind, [], [], [], arch.problems)
    model = _empty(arch, attn)
    generator = torch.Generator(device).manual_seed(seed)
    for name, parameter in list(model.named_parameters()):
        tensor = torch.empty(parameter.shape, device=device, dtype=dtype)
        if parameter.dim() > 1:
            tensor.normal_(0.0, 0.02, generator=generator)
        else:
            tensor.fill_(0.0 if name.endswith("bias") else 1.0)
        _assign(model, name, tensor)
    for name, buffer in list(model.named_buffers()):
        if buffer.is_meta and name in model.state_dict():
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, torch.zeros(buffer.shape, device=device, dtype=buffer.dtype))
    return _finish(model, arch, device)


def load_with_transformers(
    arch: Architecture, folder: Path, device: torch.device, dtype: torch.dtype, options: LoadOptions
) -> nn.Module:
    """Loads through transformers' `from_pretrained`, for quantization and for models spread over devices
    (`device_map`).

    Raises ModelError naming the package to install, or the missing and unexpected keys.
    """
    _refuse(folder, [], [], [], arch.problems)
    if any("query_key_value" in text for text in arch.keys.values()):
        raise ModelError(
            f"{folder}: {arch.kind} fuses q, k and v, which transformers' loader can't split; leave quantization and "
            "device_map out"
        )
    mapping = {f"^{pattern}$": text for pattern, text in arch.keys.items()}
    options = replace(options, device_map=options.device_map or str(device))
    return _full_attention(
        from_pretrained(arch.model_class, folder, device, dtype, options, config=arch.config, key_mapping=mapping)
    )


def from_pretrained(
    model_class: Any, folder: Path, device: torch.device, dtype: torch.dtype, options: LoadOptions, **more: Any
) -> nn.Module:
    """A model of one of transformers' classes with a checkpoint's weights, as the options say; `more` goes to
    `from_pretrained`.

    Raises ModelError naming the package to install, or the missing and unexpected keys.
    """
    shards(folder)
    spread = options.device_map or (str(device) if options.quantization else None)
    try:
        model, info = model_class.from_pretrained(
            folder,
            dtype=dtype,
            device_map=spread,
            quantization_config=_quantization(options.quantization, dtype),
            attn_implementation=options.attn_implementation,
            output_loading_info=True,
            local_files_only=True,
            **more,
        )
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"{folder}: {error}") from error
    unexpected = [key for key in info["unexpected_keys"] if not key.endswith(_IGNORED)]
    _refuse(folder, sorted(info["missing_keys"]), sorted(unexpected), [])
    loaded: nn.Module = model if spread else model.to(device)
    return loaded


def _quantization(name: str | None, dtype: torch.dtype) -> Any:
    """transformers' configuration for one of QUANTIZATIONS; transformers checks that the library behind it is
    installed.
    """
    if name is None:
        return None
    import transformers

    library, kind = name.split("-")
    match library:
        case "bitsandbytes":
            make: Any = transformers.BitsAndBytesConfig
            four = kind == "4bit"
            return make(
                load_in_4bit=four, load_in_8bit=not four, bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_type="nf4"
            )
        case "torchao":
            return transformers.TorchAoConfig(f"{kind}_weight_only")
        case _:
            return transformers.QuantoConfig(weights=kind)


def _empty(arch: Architecture, attn: str | None) -> nn.Module:
    """The model on the meta device, without storage."""
    try:
        with torch.device("meta"):
            model: nn.Module = arch.model_class._from_config(arch.config, attn_implementation=attn)
    except (ImportError, ValueError) as error:
        raise ModelError(f"attention implementation {attn!r}: {error}") from error
    return model


def _finish(model: nn.Module, arch: Architecture, device: torch.device) -> nn.Module:
    """Ties the output projection if the config says so and computes the buffers that checkpoints leave out."""
    inner: Any = model
    if arch.config.tie_word_embeddings:
        inner.lm_head.weight = inner.model.embed_tokens.weight
    inner.model.rotary_emb = type(inner.model.rotary_emb)(arch.config).to(device)
    unset = [name for name, tensor in [*model.named_parameters(), *model.named_buffers()] if tensor.is_meta]
    if unset:
        raise ModelError(f"{arch.kind}: {', '.join(unset)} got no values")
    return _full_attention(model)


def _full_attention(model: nn.Module) -> nn.Module:
    """Sets the layers' own `is_causal` too: config.is_causal = False decides the masks, but kernels without a mask read
    the layers.
    """
    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False  # type: ignore[assignment]
    return model.eval().requires_grad_(False)


def _assign(model: nn.Module, name: str, tensor: torch.Tensor) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(parent), leaf, nn.Parameter(tensor, requires_grad=False))


def _opened(file: Path, device: torch.device) -> Any:
    try:
        return safe_open(file, framework="pt", device=str(device))
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{file} can't be read ({error}): it is truncated or not a safetensors file; download it again"
        ) from error


def _shapes(arch: Architecture, files: list[Path]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for file in files:
        with _opened(file, torch.device("cpu")) as tensors:
            for key in tensors.keys():  # noqa: SIM118
                if not key.endswith(_IGNORED):
                    yield arch.rename(key), tuple(tensors.get_slice(key).get_shape())


def _compare(arch: Architecture, model: nn.Module, files: list[Path], folder: Path) -> None:
    """Raises ModelError unless the shards hold exactly the model's tensors and config.json has no problems."""
    expected: Mapping[str, tuple[int, ...]] = {key: slot.shape for key, slot in slots(model).items()}
    tied = {"lm_head.weight"} if arch.config.tie_word_embeddings else set()
    shapes = spread(dict(_shapes(arch, files)), arch.config)
    differing = [
        f"{key} is {shapes[key]}, config.json says {shape}"
        for key, shape in expected.items()
        if key in shapes and shapes[key] != shape
    ]
    missing, unexpected = expected.keys() - shapes.keys() - tied, shapes.keys() - expected.keys()
    _refuse(folder, sorted(missing), sorted(unexpected), differing, arch.problems)


def _refuse(
    folder: Path | str,
    missing: Sequence[str],
    unexpected: Sequence[str],
    differing: Sequence[str],
    options: Sequence[str] = (),
) -> None:
    kinds = {
        "unknown options in config.json": options,
        "missing keys": missing,
        "unexpected keys": unexpected,
        "wrong shapes": differing,
    }
    parts = [f"{title} ({len(keys)}): {_some(keys)}" for title, keys in kinds.items() if keys]
    if parts:
        raise ModelError(
            f"{folder} doesn't match its config.json. {'; '.join(parts)}. Check that all shards belong to this "
            "checkpoint"
        )


def _some(names: Sequence[str], at_most: int = 8) -> str:
    return ", ".join(names[:at_most]) + (f" and {len(names) - at_most} more" if len(names) > at_most else "")
