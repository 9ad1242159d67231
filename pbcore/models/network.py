"""The transformer of a masked model: hidden states, output projection, KV caches. transformers' classes, or a
checkpoint's own code.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import transformers
from packaging.version import Version
from torch import Tensor, nn
from transformers import StaticCache

from pbcore.models.attention import AttentionReader, reading
from pbcore.models.last_layer import last_layer

# Before 5.2 transformers' own masks are causal whatever the config says, and before 5.4 caches are told their columns.
OLD = Version(transformers.__version__) < Version("5.4")


@dataclass(frozen=True, slots=True)
class Columns:
    """What one forward runs: `ids` (R, Q) at `positions` (R, Q); nobody reads the first `skip` columns. `mask` (R, T)
    is False at hidden columns, None without any.

    A `pairwise` network also takes a mask (R, Q, T): False where column q may not attend to column t. A `reader` gets
    the attention weights; only pairwise networks have them. With a cache the columns start at its slot `start` and
    overwrite its contents.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor | None = None
    cache: Any = None
    start: int = 0
    skip: int = 0
    reader: AttentionReader | None = None


class Network(Protocol):
    """One forward of R rows over Q columns, H wide."""

    caches: frozenset[str]

    @property
    def pairwise(self) -> bool:
        """Whether it takes a pairwise attention mask."""
        ...

    def hidden(self, run: Columns) -> Tensor:
        """Hidden states (R, Q − skip, H)."""
        ...

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states (M, H) → logits (M, V)."""
        ...

    def cache(self, length: int) -> Any:
        """An empty KV cache for `length` columns."""
        ...


class NativeNetwork:
    """Llama, Qwen2 or Qwen3 with full attention (`config.is_causal = False`)."""

    caches = frozenset({"prefix", "dual"})

    def __init__(self, module: nn.Module) -> None:
        self._module: Any = module
        self._last = last_layer(module)

    @property
    def module(self) -> nn.Module:
        """The model of transformers."""
        module: nn.Module = self._module
        return module

    def hidden(self, run: Columns) -> Tensor:
        ids, positions, mask = (_moved(one, self._module) for one in (run.ids, run.positions, run.mask))
        cache = run.cache
        if mask is None and OLD and self.pairwise:
            mask = torch.ones(1, ids.shape[1] if cache is None else cache.max_cache_len, device=ids.device).bool()
        if mask is not None:
            mask = self._added(mask)
        where: dict[str, Tensor] = {}
        if OLD and cache is not None:
            where["cache_position"] = torch.arange(run.start, run.start + ids.shape[1], device=ids.device)
        elif isinstance(cache, StaticCache):
            layers: Any = cache.layers
            for layer in layers:
                layer.cumulative_length.fill_(run.start)
        # Checkpointed layers run again in the backward pass, where nothing says what to skip.
        again = self._module.training and getattr(self._module.model.layers[-1], "gradient_checkpointing", False)
        narrow = 0 if cache is not None or self._last is None or again or run.reader else run.skip
        skipping = nullcontext() if self._last is None else self._last.skipping(narrow)
        with skipping, reading(self._module, run.reader):
            output = self._module.model(
                ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=cache is not None,
                **where,
            )
        states: Tensor = output.last_hidden_state
        return states[:, run.skip - narrow :]

    def _added(self, mask: Tensor) -> Tensor:
        """A mask (R, T) or (R, Q, T) as numbers that are added to the scores, (R, 1, 1 or Q, T), where that is best.

        PyTorch's kernels for CPUs turn a mask of booleans into numbers in every layer, one for each query and key.
        Kernels for GPUs choose by the mask, and flash attention takes (R, T) alone, so there it stays as it is.
        """
        if mask.dim() == 2 and not (self.pairwise and (mask.device.type == "cpu" or OLD)):
            return mask
        dtype = self._module.dtype
        numbers = torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)
        return numbers[:, None, None] if mask.dim() == 2 else numbers[:, None]

    @property
    def pairwise(self) -> bool:
        """sdpa and eager only: flash attention has no pairwise mask."""
        return self._module.config._attn_implementation in ("sdpa", "eager")

    def project(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._module.lm_head(hidden)
        return logits

    def cache(self, length: int) -> StaticCache:
        return StaticCache(config=self._module.config, max_cache_len=length)


class RemoteNetwork:
    """A checkpoint's own code (trust_remote_code): its forward returns logits at every position, without caches."""

    caches: frozenset[str] = frozenset()
    pairwise: bool = False

    def __init__(self, module: nn.Module) -> None:
        self._module: Any = module

    def hidden(self, run: Columns) -> Tensor:
        """Logits (R, Q − skip, V) instead of hidden states; for padded batches the code must accept attention_mask."""
        ids, mask = (_moved(one, self._module) for one in (run.ids, run.mask))
        given = {} if mask is None else {"attention_mask": mask}
        logits: Tensor = self._module(ids, **given).logits
        return logits[:, run.skip :]

    def project(self, hidden: Tensor) -> Tensor:
        return hidden

    def cache(self, length: int) -> Any:
        raise NotImplementedError("a checkpoint's own code runs without caches")


def _moved(tensor: Any, module: Any) -> Any:
    """The tensor where an MPS module computes, whose sampler works on the CPU; others are as they were."""
    return tensor.to(module.device) if tensor is not None and module.device.type == "mps" else tensor


def count_parameters(module: nn.Module) -> int:
    """The number of parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def default_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 on a GPU, float32 on the CPU."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32
