"""The interface between decoding and models: the three kinds of models, their inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from pbcore.lazy_torch import Tensor, torch
from pbcore.models.errors import ModelError
from pbcore.models.rows import Attending, Attention, Former, Generation, Prompt, Query, Request, Stored
from pbcore.names import SamplerName

__all__ = [
    "Attending",
    "Attention",
    "AttentionContext",
    "BatchDecoder",
    "BlockContext",
    "Context",
    "Denoiser",
    "Former",
    "Generation",
    "Model",
    "ModelError",
    "OwnDecoder",
    "Prompt",
    "Query",
    "Request",
    "Stored",
]


class Context(Protocol):
    """A batch being decoded: its prompts, padding and caches."""

    def logits(self, query: Query) -> Tensor:
        """Logits (M, V) in the model's dtype, on its device: a row for each of the M positions in `query.want`, in
        row-major order.

        The loop may overwrite the returned tensor. `-inf` is allowed; NaN and `+inf` end the decoding with an error.
        """
        ...

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        """One forward for `query.want`, as `logits`, and for the N positions in `query.review`: logits (M, V) and (N,
        V).

        Called only if the model's `reviews` has the kind that a policy requests; other models don't need it.
        """
        ...

    def keep(self, rows: Tensor) -> None:
        """Goes on with these rows: `rows` (R',) are indices into the current rows.

        It must rebind its tensors, not change them in place: the loop narrows a shallow copy where only some rows run.
        An index may come several times in a shallow copy that runs one what-if forward.
        """
        ...


class AttentionContext(Context, Protocol):
    """The context of a model with `attention`."""

    def logits_and_attention(self, query: Query) -> tuple[Tensor, Tensor | None, Attention]:
        """One forward as `logits`, with logits (N, V) of the positions in `query.review` (None without any), and the
        attention weights of `query.attending`.
        """
        ...


class BlockContext(Context, Protocol):
    """The context of a block model."""

    def store(self, canvas: Tensor, block: Tensor, rows: Tensor) -> Stored:
        """One forward of what precedes each row's active `block` (R,) and isn't in the cache yet, for `rows` (R,) bool;
        rows without such columns don't run. `canvas` is (R, L).
        """
        ...


@runtime_checkable
class Denoiser(Protocol):
    """A masked diffusion model: predicts a distribution over tokens at every masked position.

    `info` is the model's entry in the record: source, revision, family, parameters, dtype, embedded or dummy.

    A model of your own may leave out these members; `complete` fills in the defaults:
    - `caches`, the KV caches it can run with (`prefix`, `dual`): none;
    - `reviews`, the ways in which it can re-predict revealed tokens (`seen`: visible to the model; `hidden`: hidden
      from it): none;
    - `attention`, whether it returns attention weights: no;
    - `deterministic`, whether a row's logits follow from its request and canvas alone, not from step, seed or the rows
      beside it, so that they can be shared (`--share-forwards`): no;
    - `batch_size`, how many rows it decodes together best: None, 8 on a CPU and 32 on a GPU;
    - `block`, the block length of a model with block-causal attention, whose context has `store`: None, full attention;
    - `frequencies`, the background probability (V,) of each token: None;
    - `stop_ids`, the tokens that end an answer: the EOS;
    - `whole_text`, the canvas as text with what follows the first EOS, as the official benchmark reads answers: None,
      not available.
    """

    name: str
    mask_id: int
    eos_id: int
    vocab_size: int
    device: torch.device
    info: Mapping[str, Any]
    caches: frozenset[str]
    reviews: frozenset[str]
    attention: bool
    deterministic: bool
    frequencies: Tensor | None
    batch_size: int | None
    block: int | None
    stop_ids: frozenset[int]

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row. Raises ModelError if the model can't encode it (e.g. words outside its vocabulary)."""
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """Canvas tokens as text, up to the first EOS, special tokens left out."""
        ...

    def whole_text(self, token_ids: Sequence[int]) -> str | None:
        """All canvas tokens as text, special tokens left out."""
        ...

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Context:
        """A batch ready for decoding."""
        ...


_REQUIRED = ("name", "mask_id", "eos_id", "vocab_size", "device", "info", "encode", "text", "prepare")
_OPTIONAL: Mapping[str, Callable[[Any], Any]] = {
    "caches": lambda model: frozenset(),
    "reviews": lambda model: frozenset(),
    "attention": lambda model: False,
    "deterministic": lambda model: False,
    "frequencies": lambda model: None,
    "batch_size": lambda model: None,
    "block": lambda model: None,
    "stop_ids": lambda model: frozenset({model.eos_id}),
    "whole_text": lambda model: lambda token_ids: None,
}


def missing_members(model: object) -> list[str]:
    """The members that every Denoiser must have and `model` lacks."""
    return [member for member in _REQUIRED if not hasattr(model, member)]


def complete(model: Any) -> Denoiser:
    """The model itself if it has all members of `Denoiser`, else the model with the defaults of those that it may leave
    out.

    Raises ValueError for an object that lacks required members.
    """
    missing = missing_members(model)
    if missing:
        raise ValueError(
            f"model {model!r} is neither a Denoiser nor an OwnDecoder: it has no {', '.join(missing)}; "
            "load one with pbcore.load_model(name)"
        )
    result: Denoiser = model if all(hasattr(model, member) for member in _OPTIONAL) else _Completed(model)
    return result


class _Completed:
    """A user's model with the defaults of `Denoiser` for what it leaves out."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, member: str) -> Any:
        if member in _OPTIONAL and not hasattr(self._model, member):
            return _OPTIONAL[member](self._model)
        return getattr(self._model, member)


class _Own(Protocol):
    """What models with a decoding loop of their own have."""

    name: str
    info: Mapping[str, Any]

    def check(self, sampler: SamplerName) -> None:
        """Raises ValueError for a sampler this model can't run, naming those it can."""
        ...


@runtime_checkable
class OwnDecoder(_Own, Protocol):
    """A model with its own decoding loop (DiffusionGemma, APIs): it gets the prompts and returns answers."""

    def generate(
        self, prompts: Sequence[Prompt], sampler: SamplerName, *, max_new_tokens: int | None, seed: int
    ) -> list[Generation]:
        """One Generation per prompt."""
        ...


@runtime_checkable
class BatchDecoder(_Own, Protocol):
    """A model with its own decoding loop that answers batches of rows (autoregressive models).

    `decode` forms the batches, as for a Denoiser, and halves them when memory runs out; a row's answer must not depend
    on the others.
    """

    device: torch.device

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row, whose canvas is as long as the answer can get. Raises ModelError if that can't be."""
        ...

    def answer(self, requests: Sequence[Request], sampler: SamplerName, *, seed: int) -> list[Generation]:
        """One Generation per row."""
        ...


Model = Denoiser | OwnDecoder | BatchDecoder
