"""The interface between decoding and models: rows, forwards and answers, and the three kinds of
models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.costs.calls import CallShape, RowSize, tokens_forwarded, tokens_prefilled
from pbcore.models.grid import DEFAULT_GRID, Grid
from pbcore.models.info import ModelInfo
from pbcore.names import SamplerName
from pbcore.tasks.base import Message, Sample

Prompt = Sample | Sequence[Message] | str | Sequence[int]
# Which distribution ranks places, and gives confidences, margins and entropies: the model's own
# (raw), what tokens are drawn from (drawn), or that with top-p and top-k at temperature 0, too.
Ranks = Literal["raw", "drawn", "cut"]


@dataclass(frozen=True, slots=True)
class Request:
    """One row to decode: `canvas` has the mask id at each position to predict, any other id where
    the token is given (infilling). `key` seeds every random draw of the row (`row_key`), so results
    don't depend on batch or order. `start` is the canvas that decoding goes on from: `canvas` with
    tokens that were revealed earlier, which are not given ones; None: none were.
    """

    prompt_ids: tuple[int, ...]
    canvas: tuple[int, ...]
    key: int
    sample: Sample | None = None
    start: tuple[int, ...] | None = None

    def revealed(self, mask_id: int) -> int:
        """How many tokens of `start` were revealed earlier."""
        if self.start is None:
            return 0
        pairs = zip(self.canvas, self.start, strict=True)
        return sum(asked == mask_id != token for asked, token in pairs)

    @property
    def label(self) -> str:
        """The row in an error."""
        if self.sample is None:
            return f"prompt {self.key}"
        return f"sample {self.sample.index} of {self.sample.task}"


def row_key(prompt: Prompt, place: int) -> int:
    """What identifies a prompt in random draws: a Sample's key, else its `place` in the list."""
    return prompt.key if isinstance(prompt, Sample) else place


@dataclass(frozen=True, slots=True)
class Attending:
    """The attention weights that a policy reads: mean over heads and over the last `last` layers,
    or the last `share` of n, from layer ⌊n(1 − share)⌋. With `prompt` the keys are all columns,
    prompt included, else the slots alone. `sinks` asks for the mean weight that each column
    receives.
    """

    share: float = 0.3
    last: int | None = None
    prompt: bool = False
    sinks: bool = False

    def layers(self, count: int) -> range:
        """The numbers of the layers read, of a model with `count`."""
        first = int(count * (1 - self.share) + 1e-9) if self.last is None else count - self.last
        return range(min(max(first, 0), count - 1), count)


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention weights of a forward: `weights[r, i, j]` is how much slot i attends to j, a slot
    (R, C, C) or, with the prompt, a column (R, C, T). The first `prompt` of the T columns hold the
    prompt, the others the canvas; `visible` (R, T) are those with a token, neither padding nor
    mask, `sinks` (R, T) their mean weight from unpadded columns.
    """

    weights: Tensor
    visible: Tensor
    prompt: int = 0
    sinks: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One forward for the rows of a context. R rows, L canvas positions (shorter rows are padded on
    the right).

    `want` marks the positions whose logits are returned. `nfe` counts each row's earlier forwards.
    With a cache all rows decode the same block: `window` is its (start, stop) in the canvas and
    `refresh` is true at its first step, when the cache is rebuilt. `review` marks revealed
    positions whose tokens are predicted again, if `hidden` without being visible to the model.

    For a block model `block` is each row's active block in its grid, counted from the one that
    holds the prompt's end, and `part` the length of a part of the block, if the policy goes through
    it part by part. `attending` says which attention weights are asked for, of the canvas positions
    `slots` (R, C). With `causal` a block model predicts each wanted position of the active block, a
    mask or not, from what stands before it.
    """

    canvas: Tensor  # (R, L) long
    want: Tensor  # (R, L) bool
    nfe: Tensor  # (R,) long
    window: tuple[int, int] | None = None
    refresh: bool = False
    review: Tensor | None = None  # (R, L) bool
    hidden: bool = False
    block: Tensor | None = None  # (R,) long
    part: int | None = None
    attending: Attending | None = None
    slots: Tensor | None = None
    causal: bool = False
    wanted: tuple[int, ...] | None = None  # of each row, on the host: positions in `want`,
    shown: tuple[int, ...] | None = None  # positions in `review`,
    blocks: tuple[int, ...] | None = None  # and `block`; without them the host waits to know

    @property
    def count(self) -> int | None:
        """M, where the host knows it."""
        return None if self.wanted is None else sum(self.wanted)

    @property
    def reviewed(self) -> int | None:
        """N, where the host knows it."""
        return None if self.shown is None else sum(self.shown)


@dataclass(frozen=True, slots=True)
class Former:
    """A token revealed at `step` with `confidence`, and masked again or replaced at step `until`,
    both 0-based.
    """

    position: int
    token: int
    step: int
    until: int
    confidence: float


class Reported(TypedDict, total=False):
    """What some models that decode by themselves report of an answer: its limit of tokens, whether
    it ended there (`length`) or by itself (`stop`), the forwards of the model that drafted, and
    what came from a server (`served`).
    """

    max_new_tokens: int
    finish_reason: str
    draft_forwards: int
    served: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Generation:
    """One decoded answer.

    `token_ids` is the whole canvas, `answer_tokens` the number of tokens before the first EOS,
    `nfe` the forwards this row took part in (None for both: not reported), and `rows` the canvases
    forwarded for it: more than `nfe` for samplers that ask about what-if rows, else the same.
    `steps[i]` is the step (0-based) at which position i was revealed for good, −1 if it was given
    or stood in the request's `start`, and `confidences[i]` its probability then. Steps, and the
    forwards that random draws depend on, go on from one for each token revealed in `start`; `nfe`
    counts those taken since. `trajectory` (only when recorded) is the canvas
    before each step, then the final one. `former` are the tokens that were masked again or
    replaced, in the order in which they went, without those revealed and masked again in one step.
    `official_text` is the text of the whole canvas where some follows the first EOS, and else None;
    `text_after_eos` says whether some does (None: not known; a model that sets `official_text` sets
    it, too).

    For a block model `nfe` counts denoising and storing forwards; `store` of them stored a finished
    block, and `prefill`, not in `nfe`, ran the prompt. Both are None for other models. A storing
    forward is no step, and a token that it predicts belongs to the step before. Canvases may go on
    behind the answer, to the end of the last block.

    `calls` says how often the network was called for this answer with each size, prefill and
    storing forwards among them (None: not counted), and `tokens_padded` how many positions were
    computed beside this answer's own, to fill its rows of a batch. `share_of_calls` is its part of
    the batch's calls, each divided among the answers that take part in it (None: not counted). Both
    depend on the batch, so they take no part in comparisons.
    """

    text: str
    token_ids: tuple[int, ...]
    nfe: int | None
    answer_tokens: int | None
    steps: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
    trajectory: tuple[tuple[int, ...], ...] | None = None
    former: tuple[Former, ...] = ()
    official_text: str | None = None
    text_after_eos: bool | None = None
    prefill: int | None = None
    store: int | None = None
    extra: Reported = field(default_factory=Reported)
    rows: int | None = None
    calls: Mapping[CallShape, int] | None = None
    tokens_padded: int | None = field(default=None, compare=False)
    share_of_calls: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.rows is None:
            object.__setattr__(self, "rows", self.nfe)

    @property
    def tokens_forwarded(self) -> int | None:
        """Positions computed for this answer in all calls, prefill included and padding not."""
        return None if self.calls is None else tokens_forwarded(self.calls)

    @property
    def tokens_prefilled(self) -> int | None:
        """The part of `tokens_forwarded` that only stored the prompt."""
        return None if self.calls is None else tokens_prefilled(self.calls)


class Context(Protocol):
    """A batch being decoded: its prompts, padding and caches."""

    def logits(self, query: Query) -> Tensor:
        """Logits (M, V) in the model's dtype, on its device: a row for each of the M positions in
        `query.want`, in row-major order. The loop may overwrite them. `-inf` is allowed; NaN and
        `+inf` end decoding with an error.
        """

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        """For models with `reviews`: one forward for `query.want`, as `logits`, and for the N
        revealed positions in `query.review`: logits (M, V) and (N, V).
        """

    def keep(self, rows: Tensor) -> None:
        """Goes on with these rows: `rows` (R',) are indices into the current rows; for what-if
        forwards one may stand there several times. It must rebind its tensors, not change them in
        place: the loop narrows shallow copies.

        A context may also have `sizes`, see `SizedContext`. Without it, each forward counts as one
        of the row's prompt and canvas; with a cache, or in blocks, nothing is counted.
        """


@runtime_checkable
class SizedContext(Protocol):
    """A context that knows what its forwards compute."""

    def sizes(self, query: Query) -> Sequence[RowSize]:
        """What the latest forward, which answered this query, computed for each of its rows."""


@runtime_checkable
class SizedBlockContext(SizedContext, Protocol):
    """One of a block model. `stored`: what the latest storing forward computed for each row, None
    for rows that took no part.
    """

    stored: Sequence[RowSize | None]


class AttentionContext(Context, Protocol):
    def logits_and_attention(self, query: Query) -> tuple[Tensor, Tensor | None, Attention]:
        """For models with `attention`: one forward as `logits`, with logits (N, V) of the positions
        in `query.review` (None without any), and the attention weights of `query.attending`.
        """


class BlockContext(Context, Protocol):
    def store(self, canvas: Tensor, block: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """For block models: one forward of what precedes each row's active block and isn't in the
        cache
        yet.

        Args:
            canvas: (R, L).
            block: each row's active block (R,).
            rows: which rows (R,) are meant.

        Returns:
            The rows that ran (R,), those with such columns; and logits (R', V) of the first token
            after
            what is stored, if the model reads it there.
        """


@runtime_checkable
class Denoiser(Protocol):
    """A masked diffusion model: predicts a distribution over tokens at every masked position.

    A model of your own may leave out these members; `complete` fills in the defaults:
    - `caches`, the KV caches it can run with (`prefix`, `dual`): none;
    - `reviews`, how it can re-predict revealed tokens (`seen`: visible to it; `hidden`: hidden from
      it): none;
    - `attention`, whether it returns attention weights: no;
    - `deterministic`, whether a row's logits follow from its request and canvas alone, not from
      step, seed or the rows beside it, so that they can be shared (`--share-forwards`): no;
    - `batch_size`, how many rows it decodes together best: None, 8 on a CPU, by its memory on
      a GPU;
    - `block`, the block length of a model with block-causal attention, whose context has `store`:
      None, full attention;
    - `grid`, how its blocks lie and are stored: counted from the row's first token, stored by
      forwards of their own;
    - `counts_mask`, whether its confidences are shares of the whole vocabulary, mask token
      included, as its authors' decoder has them: no;
    - `frequencies`, the background probability (V,) of each token: None;
    - `ranks`, which distribution ranks places: `raw`, the softmax of its logits; `drawn`, what
      tokens are drawn from, after temperature, top-p and top-k; `cut`, that with top-p and top-k at
      temperature 0, too: raw;
    - `delimiter_ids`, the tokens of a line break, which end AdaBlock's blocks: none are known;
    - `stop_ids`, the tokens that end an answer: the EOS;
    - `whole_text`, the canvas as text with what follows the first EOS, as the official benchmark
      reads it: None.
    """

    name: str
    mask_id: int
    eos_id: int
    vocab_size: int
    device: torch.device
    caches: frozenset[str]
    reviews: frozenset[str]
    attention: bool
    deterministic: bool
    frequencies: Tensor | None
    batch_size: int | None
    block: int | None
    grid: Grid
    counts_mask: bool
    ranks: Ranks
    delimiter_ids: frozenset[int]
    stop_ids: frozenset[int]

    @property
    def info(self) -> ModelInfo:
        """Its entry in the record."""

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row.

        Args:
            prompt: a Sample, chat messages, text or token ids.
            max_new_tokens: the canvas length; None: the Sample's.
            key: tells rows' random numbers apart.

        Raises:
            ModelError: if the model can't encode it, such as words outside its vocabulary.
        """

    def text(self, token_ids: Sequence[int]) -> str:
        """Canvas tokens as text, up to the first EOS, special tokens left out."""

    def whole_text(self, token_ids: Sequence[int]) -> str | None:
        """All canvas tokens as text, special tokens left out."""

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Context:
        """A batch ready for decoding.

        Args:
            requests: the rows.
            cache: `prefix`, `dual` or None.
            seed: of the draws.
        """


_REQUIRED = (
    "name",
    "mask_id",
    "eos_id",
    "vocab_size",
    "device",
    "info",
    "encode",
    "text",
    "prepare",
)
_OPTIONAL: Mapping[str, Any] = {
    **dict.fromkeys(("caches", "reviews", "delimiter_ids"), frozenset()),
    **dict.fromkeys(("attention", "deterministic"), False),
    **dict.fromkeys(("frequencies", "batch_size", "block"), None),
    "grid": DEFAULT_GRID,
    "counts_mask": False,
    "ranks": "raw",
    "stop_ids": None,  # the EOS
    "whole_text": lambda token_ids: None,
}


def missing_members(model: object) -> list[str]:
    """The members that every Denoiser must have and `model` lacks."""
    return [member for member in _REQUIRED if not hasattr(model, member)]


def complete(model: Any) -> Denoiser:
    """The model with the defaults of members that it may leave out. Raises ValueError for one that
    lacks others.
    """
    missing = missing_members(model)
    if missing:
        raise ValueError(
            f"model {model!r} is neither a Denoiser nor an OwnDecoder: it has no"
            f" {', '.join(missing)}; load one with pbcore.load_model(name)"
        )
    whole: Denoiser = (
        model if all(hasattr(model, member) for member in _OPTIONAL) else _Completed(model)
    )
    return whole


class _Completed:
    """A user's model with the defaults of `Denoiser` for what it leaves out."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, member: str) -> Any:
        if member not in _OPTIONAL or hasattr(self._model, member):
            return getattr(self._model, member)
        return frozenset({self._model.eos_id}) if member == "stop_ids" else _OPTIONAL[member]


class _DecodesItself(Protocol):
    """What models with a decoding loop of their own have."""

    name: str

    @property
    def info(self) -> ModelInfo:
        """Its entry in the record."""

    def check(self, sampler: SamplerName) -> None:
        """Raises ValueError for a sampler this model can't run, naming those it can."""


@runtime_checkable
class OwnDecoder(_DecodesItself, Protocol):
    """A model with its own decoding loop (DiffusionGemma, APIs): it gets the prompts and returns
    answers.
    """

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampler: SamplerName,
        *,
        max_new_tokens: int | None,
        seed: int,
    ) -> list[Generation]:
        """One Generation per prompt.

        Args:
            sampler: one that `check` accepts.
            max_new_tokens: the length of answers; None: the Samples'.
            seed: of the draws.
        """


@runtime_checkable
class BatchDecoder(_DecodesItself, Protocol):
    """A model with its own decoding loop that answers batches of rows (autoregressive models),
    which `decode` forms as for a Denoiser and halves when memory runs out; a row's answer must not
    depend on the others.
    """

    device: torch.device

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row, whose canvas is as long as the answer can get.

        Args:
            prompt: a Sample, chat messages, text or token ids.
            max_new_tokens: the length of the answer; None: the Sample's.
            key: tells rows' random numbers apart.

        Raises:
            ModelError: if it can't be encoded.
        """

    def answer(
        self, requests: Sequence[Request], sampler: SamplerName, *, seed: int
    ) -> list[Generation]:
        """One Generation per row.

        Args:
            requests: the rows.
            sampler: one that `check` accepts.
            seed: of the draws.
        """


Model = Denoiser | OwnDecoder | BatchDecoder
