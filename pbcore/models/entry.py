"""The registry's entry for a model name (ModelEntry) and the user's loading options. Doesn't import
torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pbcore.base.links import install_command
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName

ADAPTER_CONFIG = "adapter_config.json"
FREQUENCIES = "frequencies.json"  # the table of token frequencies beside a checkpoint
QUANTIZATIONS = (
    "bitsandbytes-4bit",
    "bitsandbytes-8bit",
    "torchao-int8",
    "torchao-int4",
    "quanto-int8",
    "quanto-int4",
)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A resolved model name. Fields left None are read from the checkpoint's config.json.

    One of these says where the model comes from: `source` (hub id, with `revision`), `folder` (a
    local checkpoint), `shape` with `dummy` (random weights), `factory` (registered by a user), or
    `loader`, a neighbour's function that makes it, `module:function`. `config` is the
    config.json of `folder` if it was read already. `loaded_as` is the kind of model, which decides
    the loader (`family` of records). `architecture` is its row in `families`,
    `declared` the one that a user's file says instead of its config.json, `listed` says that it
    comes from such a file,
    `presets` are its authors' settings for `--preset`, `layers` limits the layers of a dummy,
    `gpus` is how many a worker on a cluster reserves, `adapter` the folder of a LoRA adapter to
    merge into the weights.

    A `served` model answers elsewhere, so that device, dtype, batches and the clock here say
    nothing of it; it takes whole questions, no given tokens. It runs `samplers`, `refuses` says why
    not another one, `status` whether it can be asked.
    """

    name: str
    loaded_as: str
    architecture: str | None = None
    declared: str | None = None
    listed: bool = False
    source: str | None = None
    revision: str | None = None
    folder: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    embedded: bool = False
    mask_id: int | None = None
    eos_id: int | None = None
    stop_ids: tuple[int, ...] = ()
    delimiter_ids: tuple[int, ...] | None = None
    shift: bool | None = None
    block: int | None = None
    chat: str | None = None
    shape: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    presets: tuple[str, ...] = ()
    about: str = ""
    dummy: bool = False
    layers: int | None = None
    factory: Callable[..., Any] | None = None
    gpus: int = 1
    adapter: Path | None = None
    loader: str | None = None
    served: bool = False
    samplers: tuple[str, ...] = ()
    refuses: Callable[[SamplerName], str | None] = lambda sampler: None
    status: Callable[[], str] | None = None

    @property
    def has_network(self) -> bool:
        """Whether it is a network that this package loads."""
        return self.loaded_as != "ideal" and self.factory is None and self.loader is None

    @property
    def dummy_name(self) -> str | None:
        """The name of the same shape with random weights; None where there is none."""
        makes_one = self.shape is not None and self.loaded_as != "causal"
        return f"{self.name}:dummy" if makes_one and "/" not in self.name else None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load weights. `revision` overrides the registry's commit. Only with
    `trust_remote_code` is code run that comes with a checkpoint. `quantization` is one of
    QUANTIZATIONS. `device_map` is passed to transformers (`auto` spreads a model over GPUs).
    `mask_id`, `eos_id`, `shift`, `block` (block length) and `chat` (template or plain) override the
    registry and config.json. `draft` names the smaller model whose drafts an autoregressive model
    verifies (`ar-draft5`), `adapter` the folder of a LoRA adapter that is merged into the weights.
    `architecture` says what a checkpoint is, whatever its config.json names: a row of `families`,
    or `causal` for an autoregressive model.
    `delimiter_ids` end the blocks of AdaBlock, in place of the tokenizer's line break.
    """

    revision: str | None = None
    trust_remote_code: bool = False
    quantization: str | None = None
    attn_implementation: str | None = None
    device_map: str | None = None
    mask_id: int | None = None
    eos_id: int | None = None
    shift: bool | None = None
    chat: str | None = None
    block: int | None = None
    draft: str | None = None
    adapter: str | None = None
    architecture: str | None = None
    delimiter_ids: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.quantization is not None and self.quantization not in QUANTIZATIONS:
            raise ModelError(
                f"quantization {self.quantization!r} is not known; choose from"
                f" {', '.join(QUANTIZATIONS)}"
            )
        if (self.quantization or self.device_map) and find_spec("accelerate") is None:
            what = "quantization" if self.quantization else "device_map"
            raise ModelError(
                f"{what} needs accelerate, which is not installed: {install_command('large')}"
            )
        if self.chat not in (None, "template", "plain"):
            raise ModelError(
                f"chat {self.chat!r} is not known; choose template (the tokenizer's own) or plain"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Options by name. Raises ModelError for an unknown name."""
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise ModelError(
                f"unknown model option {', '.join(unknown)}; known: {', '.join(known)}"
            )
        return cls(**options)


def is_adapter(folder: Path) -> bool:
    return (folder / ADAPTER_CONFIG).is_file()
