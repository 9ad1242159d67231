"""Data exchanged by the decoding loop and models: rows to decode, forwards, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from pbcore.models.replaced_token import Former
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
class Query:
    """One forward for the rows of a context. R rows, L canvas positions (shorter rows are padded on the right).

    `want` marks the positions whose logits are returned. `nfe` counts each row's earlier forwards. With a cache all
    rows decode the same block: `window` is its (start, stop) in the canvas and `refresh` is true at its first step,
    when the cache is rebuilt. `review` marks revealed positions whose tokens are predicted again, if `hidden` without
    being visible to the model.

    For a block model `block` is each row's active block in its grid, counted from the one that holds the prompt's end,
    and `part` the length of a part of the block, if the policy goes through it part by part.
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


@dataclass(frozen=True, slots=True)
class Stored:
    """What `BlockContext.store` ran: `ran` (R,) bool are the rows, and `logits` (R', V) of those rows predict the first
    token after what is stored, if the model reads it there.
    """

    ran: Tensor
    logits: Tensor | None


@dataclass(frozen=True, slots=True)
class Generation:
    """One decoded answer.

    `token_ids` is the whole canvas, `answer_tokens` the number of tokens before the first EOS, `nfe` the forwards this
    row took part in (None for both: not reported). `steps[i]` is the step (0-based) at which position i was revealed
    for good, −1 if it was given, and `confidences[i]` its probability then. `trajectory` (only when recorded) is the
    canvas before each step, then the final one. `former` are the tokens that were masked again or replaced, in the
    order in which they went, without those revealed and masked again in one step. `official_text` is the text of the
    whole canvas where some follows the first EOS, and else None.

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
    prefill: int | None = None
    store: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
