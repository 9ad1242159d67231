"""The transformer of a masked model, of transformers or a checkpoint's own code: hidden states,
projection, KV caches.

R rows, Q columns of one forward, T columns of a mask, A skipped columns, H width, D width of a
head, M wanted positions, V tokens.
"""

import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers
from packaging.version import Version
from torch import Tensor, nn
from transformers.cache_utils import Cache, StaticLayer

from pbcore.models.attention import AttentionReader, reading
from pbcore.models.grid import DEFAULT_GRID, Grid
from pbcore.models.rope import RowRotary, rules_by_length
from pbcore.models.windows import Masks, by_layer, layer_windows, near

# Before 5.2 transformers' own masks are causal whatever the config says, and before 5.4 caches are
# told their columns.
OLD = Version(transformers.__version__) < Version("5.4")


@dataclass(frozen=True, slots=True)
class Columns:
    """What one forward runs: `ids` (R, Q) at `positions` (R, Q); nobody reads the first `skip`
    columns. `mask` (R, T) is False at hidden columns, None without any. A `pairwise` network also
    takes a mask (R, Q, T): False where column q may not attend to column t. A `reader`
    gets the attention weights; only pairwise networks have them. With a cache the columns start at
    its slot `start` and overwrite its contents, and `keys` (R, T) are the positions of its columns.
    `lengths` are the tokens of each whole row, also of those that don't run; None: up to its last
    position.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor | None = None
    cache: Any = None
    start: int = 0
    skip: int = 0
    reader: AttentionReader | None = None
    keys: Tensor | None = None
    lengths: Sequence[int] | None = None


class NativeNetwork:
    """Llama, Qwen2, Qwen3 or a mixture of experts of transformers with full attention
    (`config.is_causal = False`).
    """

    caches = frozenset({"prefix", "dual"})
    reads_all = False

    def __init__(self, module: nn.Module) -> None:
        self.module: Any = module
        self._last = last_layer(module)
        self._windows = layer_windows(module)
        self._window = max((window for window in self._windows if window is not None), default=None)
        self._rotaries = [RowRotary(rotary) for rotary in rules_by_length(module)]

    @property
    def pairwise(self) -> bool:
        """Whether it takes a pairwise attention mask: sdpa and eager, not flash attention."""
        return self.module.config._attn_implementation in ("sdpa", "eager")

    def hidden(self, run: Columns) -> Tensor:
        """Hidden states (R, Q − skip, H)."""
        ids, positions, mask = (
            _moved(tensor, self.module) for tensor in (run.ids, run.positions, run.mask)
        )
        cache = run.cache
        if mask is None and OLD and self.pairwise:
            mask = torch.ones(
                1, ids.shape[1] if cache is None else cache.max_cache_len, device=ids.device
            ).bool()
        masks = self._masks(run, positions, mask)
        where: dict[str, Tensor] = {}
        if OLD and cache is not None:
            where["cache_position"] = torch.arange(
                run.start, run.start + ids.shape[1], device=ids.device
            )
        elif isinstance(cache, Cache):
            layers: Any = cache.layers
            for layer in layers:
                layer.cumulative_length.fill_(run.start)
        # Checkpointed layers run again in the backward pass, where nothing says what to skip.
        again = self.module.training and getattr(
            self.module.model.layers[-1], "gradient_checkpointing", False
        )
        narrow = 0 if cache is not None or self._last is None or again or run.reader else run.skip
        narrowed = partial(_narrowed, skip=narrow)
        hook = (
            self._last.register_forward_pre_hook(narrowed, with_kwargs=True)
            if narrow
            else nullcontext()
        )
        with hook, reading(self.module, run.reader), self._row_by_row(run.lengths):
            output = self.module.model(
                ids,
                attention_mask=masks,
                position_ids=positions,
                past_key_values=cache,
                use_cache=cache is not None,
                **where,
            )
        states: Tensor = output.last_hidden_state
        return states[:, run.skip - narrow :]

    def _masks(self, run: Columns, positions: Tensor, mask: Tensor | None) -> Masks:
        """The attention masks of a forward, with `mask` (R, T) or (R, Q, T) where it lies."""
        queries = run.ids.shape[1]
        full = None if mask is None else self._added(mask, queries)
        if self._window is None:
            return full
        keys = positions if run.keys is None else _moved(run.keys, self.module)
        sees = near(positions, keys, self._window)  # (R, Q, T)
        if mask is not None:
            sees = sees & (mask if mask.dim() == 3 else mask[:, None])
        return by_layer(self.module, self._windows, full, self._added(sees, queries))

    @contextmanager
    def _row_by_row(self, lengths: Sequence[int] | None) -> Iterator[None]:
        """Forwards in this context take frequencies that depend on the length row by row."""
        with ExitStack() as hooks:
            for rows in self._rotaries:
                hook = partial(rows, lengths=lengths)
                hooks.enter_context(rows.rotary.register_forward_hook(hook, with_kwargs=True))
            yield

    def _added(self, mask: Tensor, queries: int) -> Tensor:
        """A mask (R, T) or (R, Q, T) as numbers that are added to the scores, (R, 1, 1 or Q, T),
        where that is best. PyTorch's kernels for CPUs turn a mask of booleans into numbers in every
        layer, one for each query and key. Kernels for GPUs choose by the mask, so there it stays
        one of booleans, (R, 1, Q, T) for `queries`, as transformers would make it after waiting to
        know whether there is padding. Flash attention takes (R, T) alone.
        """
        kernel = self.module.config._attn_implementation
        if mask.dim() == 2 and mask.device.type == "cuda" and kernel == "sdpa" and not OLD:
            return mask[:, None, None].expand(-1, -1, queries, -1)
        if mask.dim() == 2 and not (self.pairwise and (mask.device.type == "cpu" or OLD)):
            return mask
        dtype = self.module.dtype
        numbers = torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)
        return numbers[:, None, None] if mask.dim() == 2 else numbers[:, None]

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states (M, H) → logits (M, V)."""
        logits: Tensor = self.module.lm_head(hidden)
        return logits

    def cache(self, length: int) -> Cache:
        """An empty KV cache for `length` columns, all of which every layer keeps: a window may lie
        anywhere in them.
        """
        layers: Any = [StaticLayer(max_cache_len=length) for _ in self._windows]
        for layer in layers:
            if hasattr(layer, "cumulative_length"):  # made on the CPU, and moved in the forward
                layer.cumulative_length = torch.zeros_like(
                    layer.cumulative_length, device=self.module.device
                )
        return Cache(layers=layers)


def cache_of_rows(cache: Any, rows: Tensor) -> Any:
    """A KV cache of some rows (R',), by index; the cache itself stays, for other parts of a
    batch.
    """
    part = copy.copy(cache)
    part.layers = [copy.copy(layer) for layer in cache.layers]
    part.reorder_cache(rows)
    return part


class RemoteNetwork:
    """A checkpoint's own code (trust_remote_code): its forward returns logits at every position,
    without caches.
    """

    caches: frozenset[str] = frozenset()
    pairwise = False
    reads_all = True  # logits are worked out at every position

    def __init__(self, module: nn.Module) -> None:
        self.module: Any = module

    def hidden(self, run: Columns) -> Tensor:
        """Logits (R, Q − skip, V) instead of hidden states; for padded batches the code must accept
        attention_mask.
        """
        ids, mask = (_moved(tensor, self.module) for tensor in (run.ids, run.mask))
        logits: Tensor = self.module(
            ids, **({} if mask is None else {"attention_mask": mask})
        ).logits
        return logits[:, run.skip :]

    def project(self, hidden: Tensor) -> Tensor:
        return hidden

    def cache(self, length: int) -> Any:
        raise NotImplementedError("a checkpoint's own code runs without caches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A network and how its predictions are read. With `shift` the token at position i is predicted
    at i − 1 (Dream, Fast-dLLM v2), with `block` attention is block-causal in blocks of that length,
    which lie and are stored as `grid` says.
    `top_k`, of the checkpoint's generation settings, keeps only that many candidate tokens at each
    position. Samplers work on `device`.
    """

    network: NativeNetwork | RemoteNetwork
    mask_id: int
    eos_id: int
    vocab_size: int
    shift: bool
    device: torch.device
    top_k: int | None = None
    block: int | None = None
    grid: Grid = DEFAULT_GRID

    def read(self, hidden: Tensor) -> Tensor:
        """Logits (M, V) of hidden states (M, H), those of all but the candidates −∞."""
        return self.candidates(self.network.project(hidden).to(self.device))

    def candidates(self, logits: Tensor) -> Tensor:
        """Logits (M, V), the mask token's and all but the `top_k` largest set to −∞; ties with the
        last one stay.
        """
        if self.top_k is None or self.top_k >= self.vocab_size or not len(logits):
            return logits
        logits[:, self.mask_id] = -torch.inf
        worst = logits.topk(self.top_k, dim=-1).values[:, -1:]  # (M, 1)
        return logits.masked_fill_(logits < worst, -torch.inf)


def _narrowed(
    layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], skip: int
) -> tuple[Any, Any]:
    """What a transformers model's last layer runs on, for the columns that are read: queries,
    attention and MLP leave out the first `skip`.

    Only the canvas columns' hidden states reach the output projection, so the prompt needs keys and
    values alone. With prompts three times as long as answers that saves half of the layer's work or
    more. The layer's own code runs on the other columns, and sees the skipped ones' keys and values
    through a cache of this one call.
    """
    (states,) = args  # (R, Q, H)
    cos, sin = kwargs["position_embeddings"]  # (R, Q, D)
    # (R, 1, Q, Q), (R, 1, 1, Q) if the same for all queries, or None.
    mask = kwargs["attention_mask"]
    narrow = {
        "position_embeddings": (cos[:, skip:], sin[:, skip:]),
        "attention_mask": mask if mask is None or mask.shape[2] == 1 else mask[:, :, skip:],
        "position_ids": kwargs["position_ids"][:, skip:],
        "past_key_values": _Rest(layer, states[:, :skip], cos[:, :skip], sin[:, :skip]),
    }
    return (states[:, skip:],), {**kwargs, **narrow}


class _Rest:
    """Keys and values of the skipped columns, in the place of a KV cache."""

    def __init__(self, layer: Any, states: Tensor, cos: Tensor, sin: Tensor) -> None:
        attention = layer.self_attn
        states = layer.input_layernorm(states)  # (R, A, H)
        shape = (*states.shape[:-1], -1, attention.head_dim)
        keys = attention.k_proj(states).view(shape)
        if hasattr(attention, "k_norm"):
            keys = attention.k_norm(keys)
        keys = keys.transpose(1, 2)  # (R, heads, A, D)
        self._keys = _rotate(attention)(keys, keys, cos, sin)[1]
        self._values = attention.v_proj(states).view(shape).transpose(1, 2)

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All columns' keys and values (R, heads, Q, D)."""
        return torch.cat([self._keys, keys], dim=2), torch.cat([self._values, values], dim=2)


def last_layer(module: nn.Module) -> Any:
    """The model's last layer if it can run on some columns alone; None where its attention is of
    another build, its kernel takes other masks, or layers lie on several devices.
    """
    whole: Any = module
    if whole.config._attn_implementation not in ("sdpa", "eager") or getattr(
        whole, "hf_device_map", None
    ):
        return None
    layer = whole.model.layers[-1]
    attention = getattr(layer, "self_attn", None)
    known = all(hasattr(attention, name) for name in ("q_proj", "k_proj", "v_proj", "head_dim"))
    return layer if known and _rotate(attention) is not None else None


def _rotate(attention: Any) -> Any:
    """The rotary function that this attention's own module uses; None for an attention of another
    build.
    """
    return getattr(sys.modules[type(attention).__module__], "apply_rotary_pos_emb", None)


def _moved(tensor: Any, module: Any) -> Any:
    """The tensor where an MPS module computes, whose sampler works on the CPU; others are as they
    were.
    """
    return (
        tensor.to(module.device) if tensor is not None and module.device.type == "mps" else tensor
    )


def count_parameters(module: nn.Module) -> int:
    """The number of parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in module.parameters())
