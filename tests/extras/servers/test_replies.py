"""Replies of servers, one a row: what is read of each, or how it is refused. What can't be read is
refused; nothing of an answer is passed over.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pbcore.extras.servers.clients import client_of
from pbcore.extras.servers.reply import FINISH_REASONS, Ask, Reply, ended
from pbcore.models.errors import ModelError
from tests.extras.servers.wire import Wire, spec_of, sse

ASK = Ask(({"role": "user", "content": "Say hello."},), 32, 0.0, 5, 0)
OPENAI, ANTHROPIC = "openai", "anthropic"
WHOLE, STREAM = False, True
UNREAD = "its reply can't be read"
LOST = ("abort", "error", "pause_turn", "OTHER")  # ends that are none of the model's


def ask(wire: Wire, kind: str, stream: bool, reply: Any, status: int = 200, **keys: Any) -> Reply:
    """The answer in a list of events, or in one body."""
    streamed = isinstance(reply, list)
    body = sse(reply, kind) if streamed else json.dumps(reply).encode()
    headers = {"content-type": "text/event-stream" if streamed else "application/json"}
    wire.pages = lambda path: (status, headers, body)
    answer = client_of(spec_of(kind, stream, **keys)).ask(ASK)
    if streamed == stream:
        assert (answer.first_token is not None) == (streamed and bool(answer.text))
    return answer


def test_json_that_calls_itself_text(wire: Wire) -> None:
    """As of dInfer's server is read as JSON; other text is no answer."""
    bodies = [json.dumps(choice("Bo")).encode(), b"<html>"]
    wire.pages = lambda path: (200, {"content-type": "text/plain"}, bodies.pop(0))
    client = client_of(spec_of(OPENAI, WHOLE))
    assert client.ask(ASK).text == "Bo"
    with pytest.raises(ModelError, match=UNREAD):
        client.ask(ASK)


def choice(content: Any, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A whole answer with this content."""
    return message({"content": content}, finish, **more)


def message(given: Any, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A whole answer with this message."""
    return {"choices": [{"message": given, "finish_reason": finish}], **more}


def pieces(*given: Any, finish: str | None = "stop", **more: Any) -> list[Any]:
    """A streamed answer with these pieces; a text is a content."""
    deltas = [{"content": part} if isinstance(part, str) else part for part in given]
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"delta": {}, "finish_reason": finish}]}
    return [*events, end, {"choices": [], **more}]


def content(given: Any, finish: str = "end_turn", **more: Any) -> dict[str, Any]:
    """A whole answer of Anthropic's."""
    return {"type": "message", "content": given, "stop_reason": finish, **more}


def events(*parts: Any, finish: str = "end_turn", **more: Any) -> list[Any]:
    """A stream of Anthropic's with these events between its beginning and its end."""
    start = {"model": "m-1", "usage": {"input_tokens": 8, "output_tokens": 1}}
    delta = {"stop_reason": finish}
    end = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    return [{"type": "message_start", "message": start}, *parts, end, {"type": "message_stop"}]


def delta(part: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": part}


def text(given: Any, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": given}


def two(key: str, *order: int) -> list[Any]:
    """Two answers to one request."""
    return [
        {"index": index, key: {"content": "AB"[index]}, "finish_reason": "stop"} for index in order
    ]


HELLO = {"text": "hello there", "tokens_in": 8, "tokens_out": 3, "model": "m-1", "nfe": None}
CHAT = {"model": "m-1", "usage": {"prompt_tokens": 8, "completion_tokens": 3}}
CACHED = {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 1}
USAGE = {"input_tokens": 5, **CACHED, "output_tokens": 3}
THINKING = {"type": "thinking", "thinking": [text("hm")]}
FILTERED = {"error": {"code": "content_filter", "message": "filtered"}}
NO = {"content": "", "refusal": "I can't do that."}


@pytest.mark.parametrize(
    ("kind", "stream", "reply", "expected"),
    [
        (OPENAI, WHOLE, choice("hello there", **CHAT), HELLO),
        (OPENAI, STREAM, pieces("hello ", "there", **CHAT), HELLO),
        (OPENAI, STREAM, choice("A"), {"text": "A"}),
        (OPENAI, WHOLE, choice("A"), {"tokens_in": None, "tokens_out": None, "nfe": None}),
        (OPENAI, STREAM, pieces("A"), {"tokens_in": None, "tokens_out": None, "nfe": None}),
        (
            ANTHROPIC,
            WHOLE,
            content([THINKING, text("hello there")], model="m-1", usage=USAGE),
            HELLO,
        ),
        (
            ANTHROPIC,
            STREAM,
            events(delta({"type": "thinking_delta"}), delta(text("hello there", "text_delta"))),
            HELLO,
        ),
        (ANTHROPIC, STREAM, content([text("A")]), {"text": "A"}),
        # a content may be a list of texts and typed parts, of which thinking is not the answer
        (OPENAI, WHOLE, choice(None), {"text": "", "outcomes": ("empty",)}),
        (OPENAI, WHOLE, choice([]), {"text": ""}),
        (OPENAI, WHOLE, choice(["a", text("b"), text("c", "output_text")]), {"text": "abc"}),
        (OPENAI, WHOLE, choice([THINKING, text("a")]), {"text": "a"}),
        (
            ANTHROPIC,
            WHOLE,
            content([text("a"), {"type": "thinking", "thinking": 5}]),
            {"text": "a"},
        ),
        (
            ANTHROPIC,
            STREAM,
            events({"type": "content_block_start", "content_block": text("a")}),
            {"text": "a"},
        ),
        (ANTHROPIC, STREAM, events(delta({"type": "signature_delta"})), {"text": ""}),
        (ANTHROPIC, STREAM, events({"type": "ping"}), {"text": ""}),
        # empty, cut-off, filtered and refused answers are told apart
        (OPENAI, WHOLE, choice(" \n"), {"outcomes": ("empty",)}),
        (OPENAI, STREAM, pieces(" \n"), {"outcomes": ("empty",)}),
        (OPENAI, WHOLE, choice("", "length"), {"outcomes": ("empty", "length")}),
        (OPENAI, STREAM, pieces(finish="length"), {"outcomes": ("empty", "length")}),
        (OPENAI, WHOLE, message(NO), {"text": NO["refusal"], "outcomes": ("refusal",)}),
        (OPENAI, STREAM, pieces(NO), {"text": NO["refusal"], "outcomes": ("refusal",)}),
        # of two answers the first is taken, in the same reply or by itself
        (OPENAI, WHOLE, {"choices": two("message", 0, 1)}, {"text": "A"}),
        (OPENAI, WHOLE, {"choices": two("message", 1, 0)}, {"text": "A"}),
        (OPENAI, STREAM, [{"choices": two("delta", 0, 1)}], {"text": "A"}),
        (OPENAI, STREAM, [{"choices": two("delta", 1, 0)}], {"text": "A"}),
        (OPENAI, STREAM, [{"choices": [one]} for one in two("delta", 0, 1)], {"text": "A"}),
        (OPENAI, STREAM, [{"choices": [one]} for one in two("delta", 1, 0)], {"text": "A"}),
    ],
)
def test_read(wire: Wire, kind: str, stream: bool, reply: Any, expected: dict[str, Any]) -> None:
    answer = ask(wire, kind, stream, reply)
    assert {name: getattr(answer, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("kind", "stream", "reply", "said"),
    [
        *[
            (OPENAI, WHOLE, choice(given), f"{UNREAD} (its answer: field choices.0.message.content")
            for given in (5, {"text": "a"}, [{"text": "a"}], [5], [text(5)])
        ],
        *[
            (
                OPENAI,
                STREAM,
                [*pieces("x")[:1], {"choices": [given]}],
                f"{UNREAD} after 1 characters",
            )
            for given in (
                "a",
                ["a"],
                5,
                {"delta": "a"},
                {"delta": {"content": 5}},
                {"message": ["a"]},
            )
        ],
        # a number that makes a part of the answer one of another, or none
        *[
            (
                OPENAI,
                STREAM,
                [{"choices": [{"index": index, "delta": {"content": "A"}}]}, *pieces()],
                UNREAD,
            )
            for index in (3, "one", [None], -1)
        ],
        (OPENAI, WHOLE, {"choices": [{"finish_reason": "stop"}]}, UNREAD),
        (
            OPENAI,
            WHOLE,
            {"choices": 5},
            f"{UNREAD} (its answer: field choices is 5; it should be a",
        ),
        (OPENAI, WHOLE, choice("a", None), "the answer broke off after 1 characters"),
        *[
            (ANTHROPIC, WHOLE, content(given), UNREAD)
            for given in ("a", [5], [{"text": "a"}], [text(5)], None)
        ],
        *[
            (ANTHROPIC, STREAM, events(delta(part)), UNREAD)
            for part in ({"text": "a"}, "a", text([5], "text_delta"), None)
        ],
        (
            ANTHROPIC,
            STREAM,
            events({"type": "content_block_start", "content_block": ["a"]}),
            UNREAD,
        ),
        (ANTHROPIC, STREAM, [{"text": "a"}], UNREAD),
    ],
)
def test_refused(wire: Wire, kind: str, stream: bool, reply: Any, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(wire, kind, stream, reply)
    line = str(caught.value)
    assert line.startswith(f"model mine at http://h/v1: {said}")
    assert "\n" not in line


@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    ("word", "outcome"), [*FINISH_REASONS.items(), *[(word, None) for word in LOST]]
)
def test_ends(wire: Wire, kind: str, word: str, outcome: str | None) -> None:
    """Each word of a server is an outcome or none; another one is no end of the model's."""
    part = delta(text("a", "text_delta"))
    reply = pieces("a", finish=word) if kind == OPENAI else events(part, finish=word)
    answer = ask(wire, kind, STREAM, reply)
    assert (answer.finish, answer.outcomes) == (word, (outcome,) if outcome else ())
    assert ended(answer) == (word not in LOST)


def test_a_filtered_prompt_is_an_answer(wire: Wire) -> None:
    """A request that is refused by a content filter doesn't fail the cell."""
    answer = ask(wire, OPENAI, STREAM, FILTERED, status=400)
    assert (answer.text, answer.outcomes) == ("", ("content_filter",))


OVERLOADED = [
    {"error": {"message": "overloaded"}},
    {"error": "overloaded"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}},
    {"object": "error", "message": "overloaded", "code": 400},
    {"detail": "overloaded"},
    {"message": "overloaded"},
]


@pytest.mark.parametrize("body", OVERLOADED)
@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC])
def test_reported_errors(wire: Wire, kind: str, body: dict[str, Any]) -> None:
    """The server's words under status 200: as a whole body, also where a stream was asked for, as
    an event, and after a part of the answer.
    """
    event = body if kind == OPENAI else {"type": "error", "error": body}  # its events have a type
    begun = pieces("hi")[:1] if kind == OPENAI else events(delta(text("hi", "text_delta")))[:2]
    for stream, reply, done in (
        (WHOLE, body, ""),
        (STREAM, body, ""),
        (STREAM, [event], ""),
        (STREAM, [*begun, event], " after 2 characters of the answer"),
    ):
        with pytest.raises(ModelError, match=rf"it reports an error{done} \(.*overloaded"):
            ask(wire, kind, stream, reply)


@pytest.mark.parametrize(
    ("name", "given", "read", "unread"),
    [
        ("tokens_in", 0, 0, None),
        ("tokens_in", -1, None, None),
        ("tokens_out", 10**9, None, None),
        ("tokens_out", 10**9 - 1, 10**9 - 1, None),
        ("nfe", 12, 12, None),
        ("nfe", True, None, None),
        ("nfe", 1.0, None, None),
        ("nfe", "1", None, None),
        ("model", "x" * 201, "x" * 201, None),
        ("model", "", None, None),
        ("model", 5, None, None),
        ("step_map", [1, 2], (1, 2), None),
        ("step_map", "soon", None, "step_map is 'soon'; it should be a valid list"),
        ("step_map", [0, 1], None, "step_map.0 is 0; it should be greater than or equal to 1"),
        ("step_map", [1, 1.5], None, "step_map.1 is 1.5; it should be a valid integer"),
        ("tokens", ["a", 5, {"token": "b"}], ("a", 5, "b"), None),
        ("tokens", {"a": 1}, None, "tokens is {'a': 1}; it should be a valid list"),
        (
            "tokens",
            [{}],
            None,
            "tokens.0 is {}; it should be a text, an id, or a mapping with `token`",
        ),
    ],
)
@pytest.mark.parametrize("form", [choice, pieces])
def test_beside_the_text(
    wire: Wire, form: Any, name: str, given: Any, read: Any, unread: str | None
) -> None:
    """A value of another type is left out alone; of steps it is said what is wrong."""
    places = {"tokens_in": "usage.prompt_tokens", "tokens_out": "usage.completion_tokens"}
    holder, _, key = places.get(name, name).rpartition(".")
    more = {holder: {key: given}} if holder else {key: given}
    fields = {"nfe_field": "nfe", "step_map_field": "step_map", "tokens_field": "tokens"}
    answer = ask(wire, OPENAI, form is pieces, form("a", **more), **fields)
    assert (answer.text, getattr(answer, name)) == ("a", read)
    assert answer.unread == (f"its steps: field {unread}" if unread else None)


def test_canvases(wire: Wire) -> None:
    """The last one is the answer, and their number that of the forwards."""
    keys = {"extra_body": {"diffusing": True}}
    answer = ask(wire, OPENAI, STREAM, pieces("noise", "nois", "ab"), **keys)
    assert (answer.text, answer.nfe) == ("ab", 3)
