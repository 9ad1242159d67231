"""Data exchanged by the decoding loop and models: rows to decode, forwards, answers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from pbcore.lazy_torch import Tensor
from pbcore.tasks.base import Message, Sample

Prompt = Sample | Sequence[Message] | str | Sequence[int]


@dataclass(frozen=True, slots=True)
class Request:
    """One row to decode.

    `canvas` has the mask id at each position to predict and any other id where the token is given (infilling). `key`
    seeds every random draw of the row, so results don't depend on batch or order.
    """

    prompt_ids: tuple[int, ...]
    canvas: tuple[int, ...]
    key: int
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class Attending:
    """The attention weights that a policy reads: mean over heads and over the last layers.

    Those are the last `last` layers, or the last `share` of them: from layer ⌊n(1 − share)⌋ of n. With `prompt` the
    keys are all columns, prompt included, else the slots alone. `sinks` asks for the mean weight that each column
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
    """Attention weights of a forward: `weights[r, i, j]` is how much slot i attends to j, a slot (R, C, C) or, with the
    prompt, a column (R, C, T). The first `prompt` of the T columns hold the prompt, the others the canvas.

    `visible` (R, T) marks columns with a token, neither padding nor masked; `sinks` (R, T) is the mean weight that each
    column receives from all unpadded columns, if asked for.
    """

    weights: Tensor
    visible: Tensor
    prompt: int = 0
    sinks: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One forward for the rows of a context. R rows, L canvas positions (shorter rows are padded on the right).

    `want` marks the positions whose logits are returned. `nfe` counts each row's earlier forwards. With a cache all
    rows decode the same block: `window` is its (start, stop) in the canvas and `refresh` is true at its first step,
    when the cache is rebuilt. `review` marks revealed positions whose tokens are predicted again, if `hidden` without
    being visible to the model.

    For a block model `block` is each row's active block in its grid, counted from the one that holds the prompt's end,
    and `part` the length of a part of the block, if the policy goes through it part by part. `attending` says which
    attention weights are asked for, of the canvas positions `slots` (R, C). With `causal` a block model predicts each
    wanted position of the active block, a mask or not, from what stands before it.
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


@dataclass(frozen=True, slots=True)
class Stored:
    """What `BlockContext.store` ran: `ran` (R,) bool are the rows, and `logits` (R', V) of those rows predict the first
    token after what is stored, if the model reads it there.
    """

    ran: Tensor
    logits: Tensor | None


@dataclass(frozen=True, slots=True)
class Former:
    """A token that stood at a position of the canvas and was taken away: masked again, or replaced by another one.

    It was revealed at `step` with `confidence`; step `until` took it away (both 0-based).
    """

    position: int
    token: int
    step: int
    until: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Generation:
    """One decoded answer.

    `token_ids` is the whole canvas, `answer_tokens` the number of tokens before the first EOS, `nfe` the forwards
    this row took part in (None for both: not reported), and `rows` the canvases forwarded for it: more than `nfe` for
    samplers that ask about what-if rows, else the same. `steps[i]` is the step (0-based) at which position i was
    revealed for good, −1 if it was given, and `confidences[i]` its probability then. `trajectory` (only when
    recorded) is the canvas before each step, then the final one. `former` are the tokens that were masked again or
    replaced, in the order in which they went, without those revealed and masked again in one step. `official_text` is
    the text of the whole canvas where some follows the first EOS, and else None; `text_after_eos` says whether some
    does (None: not known; a model that sets `official_text` sets it, too).

    For a block model `nfe` counts denoising and storing forwards; `store` of them stored a finished block, and
    `prefill`, not in `nfe`, ran the prompt. Both are None for other models. A storing forward is no step, and a token
    that it predicts belongs to the step before. Canvases may go on behind the answer, to the end of the last block.
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
    extra: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            object.__setattr__(self, "rows", self.nfe)


class PastEos(TypedDict):
    """Two fields of a Generation."""

    official_text: str | None
    text_after_eos: bool | None


def end_of(ids: Sequence[int], stops: Collection[int]) -> int:
    """Where the first of `stops` stands in `ids`; their number if none does."""
    return next((place for place, token in enumerate(ids) if token in stops), len(ids))


def past_eos(
    ids: Sequence[int], stops: Collection[int], text: str, whole_text: Callable[[Sequence[int]], str | None]
) -> PastEos:
    """Whether text of the canvas `ids` follows its first EOS, one of `stops`, and then the text of the whole canvas.

    `text` is the answer; `whole_text` gives the canvas as text without special tokens, or None if it can't be told.
    """
    if all(token in stops for token in ids[end_of(ids, stops) :]):
        return {"official_text": None, "text_after_eos": False}
    whole = whole_text(ids)
    late = None if whole is None else whole != text
    return {"official_text": whole if late else None, "text_after_eos": late}
