"""The forms of servers' replies, which the strict reader (`pbcore.base.check`) takes: what of them
is read, with its types and limits. Servers may send more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from annotated_types import Interval, MinLen

from pbcore.base.check import Packed, checked

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

Form = TypeVar("Form")
MOST_COUNT = 10**9  # tokens of one answer, its forwards
MOST_AMOUNT = 1e9  # USD of one answer, its seconds
MOST_STEP = 10**15  # that can be read; an answer has far fewer (`steps.most_forwards`)
TEXT_PARTS = ("text", "output_text", "text_delta")  # parts of another type are not the answer


class OrNone:
    """Annotates a field beside the text: it is None where it can't be read."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core.core_schema import with_default_schema

        return with_default_schema(handler(source), default=None, on_error="default")


def reported(cls: type[Form]) -> type[Form]:
    """A `checked` dataclass of what a server sends; fields that it doesn't declare are passed
    over.
    """
    return checked(cls, extra="ignore")


def text_of(content: Any) -> str:
    """The text of an answer's `content`: a text, none, or a list of texts and of typed parts
    (`{"type": "text", …}`; a part of another type, such as thinking, is not the answer). Raises
    ValueError for any other form.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError("it should be a text, or a list of texts and of parts with a type")
    return "".join(part if isinstance(part, str) else part_text(part) for part in content)


def part_text(part: Any) -> str:
    """The text of a typed part of an answer. Raises ValueError for one without a type."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str):
        raise ValueError("a part of an answer should have a type")
    return text_of(part.get("text")) if kind in TEXT_PARTS else ""


def _token(value: Any) -> str | int:
    token = value.get("token") if isinstance(value, Mapping) else value
    if isinstance(token, str) or (type(token) is int and 0 <= token < MOST_COUNT):
        return token
    raise ValueError("it should be a text, an id, or a mapping with `token`")


def listed_models(reply: Any) -> tuple[list[str], bool]:
    """The models that an OpenAI-compatible server lists, and whether in OpenAI's form: entries with
    the `id` that requests name, under `data` or in a plain list. Others list them under `models`,
    by `name` or `model`, or as texts. Raises ValueError for what is no list.
    """
    entries = reply
    official = True
    if isinstance(reply, Mapping):
        entries = reply.get("data")
        official = isinstance(entries, list)
        if not official:
            entries = reply.get("models")
    if not isinstance(entries, list):
        raise ValueError("it is no list of models")
    named = [entry for entry in entries if isinstance(entry, Mapping)]
    ids = [entry["id"] for entry in named if isinstance(entry.get("id"), str)]
    if ids and official:
        return ids, True
    found = [entry for entry in entries if isinstance(entry, str)] + ids
    for key in ("name", "model"):
        found += [entry[key] for entry in named if isinstance(entry.get(key), str)]
    return found, False


ReportedCount = Annotated[int, Interval(ge=0, lt=MOST_COUNT)]
ReportedAmount = Annotated[float, Interval(ge=0, le=MOST_AMOUNT)]
Word = Annotated[str, MinLen(1)]
Usable = Annotated[Form | None, OrNone()]
ReportedText = Annotated[str, Packed(Any, text_of)]
Content = Annotated[str, Packed(list[Any], text_of)]
# 1-based steps, and texts or ids, the latter also as log-probabilities have them.
StepMap = Annotated[
    tuple[int, ...], Packed(list[Annotated[int, Interval(ge=1, lt=MOST_STEP)]], tuple)
]
ReportedTokens = Annotated[
    tuple[str | int, ...], Packed(list[Annotated[Any, Packed(Any, _token)]], tuple)
]


@reported
@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What stands beside the text of an answer, as far as it is known (`reply.Reply`)."""

    model: Word | None = None
    tokens_in: ReportedCount | None = None
    tokens_out: ReportedCount | None = None
    nfe: ReportedCount | None = None
    step_map: StepMap | None = None
    tokens: ReportedTokens | None = None
    finish: Word | None = None
    unread: Word | None = None
    first_token: ReportedAmount | None = None
    engine_seconds: ReportedAmount | None = None


@reported
@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of an OpenAI-compatible server, or its piece of a stream."""

    content: ReportedText = ""
    refusal: ReportedText = ""


@reported
@dataclass(frozen=True, slots=True)
class Choice:
    """One of several answers, or its piece of a stream."""

    index: ReportedCount | None = None
    delta: ChatMessage | None = None
    message: ChatMessage | None = None
    finish_reason: Usable[Word] = None


@reported
@dataclass(frozen=True, slots=True)
class Chat:
    """A reply of an OpenAI-compatible server, or a piece of a stream."""

    choices: list[Choice]


@reported
@dataclass(frozen=True, slots=True)
class Usage:
    """Anthropic's counts."""

    input_tokens: Usable[ReportedCount] = None
    cache_creation_input_tokens: Usable[ReportedCount] = None
    cache_read_input_tokens: Usable[ReportedCount] = None
    output_tokens: Usable[ReportedCount] = None


@reported
@dataclass(frozen=True, slots=True)
class Head:
    """What Anthropic tells beside the text."""

    model: Usable[Word] = None
    stop_reason: Usable[Word] = None
    usage: Usable[Usage] = None


@reported
@dataclass(frozen=True, slots=True)
class Event:
    """An event of Anthropic's stream, or its whole reply. What `delta` is depends on the type."""

    type: Usable[Word] = None
    content: Content | None = None
    message: Usable[Head] = None
    usage: Usable[Usage] = None
    content_block: Any = None
    delta: Any = None


@reported
@dataclass(frozen=True, slots=True)
class Generated:
    """An event of Diffulex's `/generate`, or its whole reply. `token_ids` are those of the answer,
    or of a `buffer_snapshot` the canvas from the place `token_offset` of the answer on.
    """

    event: Usable[Word] = None
    text: str | None = None
    token_ids: list[ReportedCount] = field(default_factory=list)
    token_offset: ReportedCount = 0
    nfe: ReportedCount | None = None
    finish_reason: Usable[Word] = None
    engine_decode_time_s: Usable[ReportedAmount] = None
