"""Both SDKs against a local server: what is sent, what is read, and how failures are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pbcore.integrations.servers.clients import client_of
from pbcore.integrations.servers.reply import FINISH_REASONS, Ask, Reply, ended
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from tests.integrations.servers.fake import CANARY, FAILURES, Act, FakeServer, failing, serving

ASK = Ask(({"role": "user", "content": "Say hello."},), 32, 0.0, 5, 0)
SDKS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def spec_of(server: FakeServer, kind: str = "openai", **changes: Any) -> ServerSpec:
    path = "" if kind == "anthropic" else "/v1"
    values: dict[str, Any] = {"retries": 0, "timeout": 5.0, **changes}
    return ServerSpec("mine", "the-model", server.url + path, kind, **values)


def ask(server: FakeServer, kind: str = "openai", **changes: Any) -> Reply:
    return client_of(spec_of(server, kind, **changes)).ask(ASK)


class TestAnswers:
    @SDKS
    @STREAMS
    def test_text_tokens_and_finish_are_the_servers(self, kind: str, stream: bool) -> None:
        """Text blocks alone are the answer; tokens, model and the reason of the end are as the
        server reports them.
        """
        with serving(
            lambda number, body: Act(finish="max_tokens" if kind == "anthropic" else "length")
        ) as server:
            reply = ask(server, kind, stream=stream)
        assert (reply.text, reply.tokens_in, reply.tokens_out, reply.model) == (
            "hello there",
            7,
            3,
            "the-model-2026",
        )
        assert reply.outcomes == ("length",)
        assert (reply.first_token is not None) == stream
        assert reply.first_token is None or 0 < reply.first_token <= reply.seconds

    def test_what_is_not_reported_is_none(self) -> None:
        """Without usage there are no tokens, and no forwards unless a field is declared."""
        with serving(lambda number, body: Act(tokens_in=None)) as server:
            reply = ask(server)
        assert (reply.tokens_in, reply.tokens_out, reply.nfe) == (None, None, None)

    @STREAMS
    def test_declared_field_of_forwards(self, stream: bool) -> None:
        """`nfe_field` names the place of the forwards in the answer."""
        with serving(lambda number, body: Act(extra={"stats": {"forwards": 12}})) as server:
            assert ask(server, nfe_field="stats.forwards", stream=stream).nfe == 12
            assert ask(server, nfe_field="stats.steps", stream=stream).nfe is None

    @SDKS
    def test_parameters(self, kind: str) -> None:
        """Temperature is sent only where it may be; extra_body arrives; the key travels in its
        header alone.
        """
        with serving() as server:
            ask(server, kind, extra_body={"effort": "low"})
            ask(server, kind, temperature=False)
        first, second = (one.body for one in server.asked)
        assert (first["temperature"], first["effort"], first["max_tokens"]) == (0.0, "low", 32)
        assert "temperature" not in second
        assert "seed" not in first

    def test_seed_and_length_field(self) -> None:
        """The seed is sent where that is declared; newer models take the length under another
        name.
        """
        with serving() as server:
            ask(server, seed=True, max_tokens_field="max_completion_tokens")
        assert server.asked[0].body["seed"] == 5
        assert server.asked[0].body["max_completion_tokens"] == 32
        assert "max_tokens" not in server.asked[0].body

    def test_anthropic_takes_the_length_under_one_name(self) -> None:
        """Its API refuses the newer name, which a declaration may have beside other servers of one
        file.
        """
        with serving() as server:
            ask(server, "anthropic", max_tokens_field="max_completion_tokens")
        assert server.asked[0].body["max_tokens"] == 32
        assert "max_completion_tokens" not in server.asked[0].body

    def test_no_key_of_another_server_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server without a declared key never gets one that an SDK would find in the
        environment.
        """
        monkeypatch.setenv("OPENAI_API_KEY", CANARY)
        monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", CANARY)
        with serving() as server:
            ask(server)
            ask(server, "anthropic")
        assert not [
            name for one in server.asked for name, value in one.headers.items() if CANARY in value
        ]


def message(content: Any) -> Act:
    """A whole message of Anthropic's with this content."""
    return Act(raw=json.dumps({"model": "m", "content": content, "stop_reason": "end_turn"}))


def events(*parts: dict[str, Any]) -> Act:
    """A streamed one with these events between its beginning and its end."""
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return Act(events=({"type": "message_start", "message": {"model": "m"}}, *parts, end))


def delta(part: Any) -> Act:
    """A stream with this part of an answer."""
    return events({"type": "content_block_delta", "delta": part})


def start(part: Any) -> Act:
    """A stream with this beginning of a part."""
    return events({"type": "content_block_start", "content_block": part})


def choices(*given: Any) -> Act:
    """A stream of an OpenAI-compatible server with these choices."""
    end = {"delta": {}, "finish_reason": "stop"}
    return Act(events=tuple({"choices": [one]} for one in (*given, end)))


class TestOddAnswers:
    """What can't be read is refused; nothing of an answer is passed over."""

    @pytest.mark.parametrize(
        ("act", "text"),
        [
            (message([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": 5}]), "a"),
            (delta({"type": "text_delta", "text": "b"}), "b"),
            (start({"type": "text", "text": "a"}), "a"),
            (delta({"type": "signature_delta"}), ""),
            (events({"type": "ping"}), ""),
        ],
    )
    def test_read_of_anthropic(self, act: Act, text: str) -> None:
        with serving(lambda number, body: act) as server:
            assert ask(server, "anthropic", stream=bool(act.events)).text == text

    @pytest.mark.parametrize(
        "act",
        [
            message("a"),
            message([5]),
            message([{"text": "a"}]),
            message([{"type": "text", "text": 5}]),
            message(None),
            delta({"text": "a"}),
            delta("a"),
            delta({"type": "text_delta", "text": [5]}),
            events({"type": "content_block_delta"}),
            start(["a"]),
            events({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        ],
    )
    def test_refused_of_anthropic(self, act: Act) -> None:
        with serving(lambda number, body: act) as server, pytest.raises(ModelError) as caught:
            ask(server, "anthropic", stream=bool(act.events))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "given", ["a", ["a"], 5, {"delta": "a"}, {"delta": {"content": 5}}, {"message": ["a"]}]
    )
    def test_refused_choices(self, given: Any) -> None:
        with (
            serving(lambda number, body: choices({"delta": {"content": "x"}}, given)) as server,
            pytest.raises(ModelError, match="its reply can't be read after 1 characters"),
        ):
            ask(server)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("act", "found"),
        [
            (Act(text=" \n"), ("empty",)),
            (Act(text="", finish="length"), ("empty", "length")),
            (Act(finish="content_filter"), ("content_filter",)),
            (Act(text="", refusal="I can't do that."), ("refusal",)),
        ],
    )
    @STREAMS
    def test_openai(self, act: Act, found: tuple[str, ...], stream: bool) -> None:
        """Empty, cut-off, filtered and refused answers are told apart."""
        with serving(lambda number, body: act) as server:
            assert ask(server, stream=stream).outcomes == found

    def test_a_filtered_prompt_is_an_answer(self) -> None:
        """A request that is refused by a content filter counts as such, and does not fail the
        cell.
        """
        body = {"error": {"code": "content_filter", "message": "filtered"}}
        with serving(lambda number, request: Act(status=400, body=body)) as server:
            reply = ask(server)
        assert (reply.text, reply.outcomes) == ("", ("content_filter",))

    @SDKS
    @pytest.mark.parametrize(("word", "outcome"), FINISH_REASONS.items())
    def test_a_known_end(self, kind: str, word: str, outcome: str | None) -> None:
        """Each word of a server is an outcome or none, and the answer counts."""
        with serving(lambda number, body: Act(finish=word)) as server:
            reply = ask(server, kind)
        assert (ended(reply), reply.outcomes) == (True, (outcome,) if outcome else ())

    @SDKS
    @pytest.mark.parametrize("word", ["abort", "error", "pause_turn", "OTHER"])
    def test_another_end_is_none_of_the_models(self, kind: str, word: str) -> None:
        with serving(lambda number, body: Act(finish=word)) as server:
            reply = ask(server, kind)
        assert (ended(reply), reply.finish, reply.outcomes) == (False, word, ())


class TestChoices:
    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    @STREAMS
    def test_only_the_first_answer_is_taken(self, order: tuple[int, int], stream: bool) -> None:
        """A second one isn't mixed into it, whether it comes in the same reply or by itself."""
        texts = ("A", "B")
        key = "delta" if stream else "message"
        given = [
            {"index": index, key: {"content": texts[index]}, "finish_reason": "stop"}
            for index in order
        ]
        acts = [Act(events=({"choices": given},))]
        if stream:
            acts.append(Act(events=tuple({"choices": [choice]} for choice in given)))
        else:
            acts = [Act(raw=json.dumps({"choices": given}))]
        for act in acts:
            with serving(lambda number, body, act=act: act) as server:
                assert ask(server, stream=stream).text == "A"

    def test_parts_of_another_answer_are_not_lost_in_silence(self) -> None:
        """A number that makes a part of the answer one of another, or none."""
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        for index in (3, "one", [None], -1):
            piece = {"choices": [{"index": index, "delta": {"content": "A"}}]}
            with (
                serving(lambda number, body, piece=piece: Act(events=(piece, last))) as server,
                pytest.raises(ModelError, match="its reply can't be read"),
            ):
                ask(server)


OVERLOADED = [
    {"error": {"message": "overloaded"}},
    {"error": "overloaded"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}},
    {"object": "error", "message": "overloaded", "code": 400},
    {"detail": "overloaded"},
    {"message": "overloaded"},
]


class TestReportedErrors:
    @pytest.mark.parametrize("body", OVERLOADED)
    @pytest.mark.parametrize("form", ["whole", "event", "whole for a stream"])
    @SDKS
    def test_the_servers_words_under_status_200(
        self, kind: str, form: str, body: dict[str, Any]
    ) -> None:
        """Also as an event, and as a whole body where a stream was asked for."""
        if kind == "anthropic" and form == "event":
            body = {"type": "error", "error": body}  # its events have a type
        act = Act(raw=json.dumps(body), kind="application/json")
        if form == "event":
            act = Act(events=(body,))
        with serving(lambda number, request: act) as server, pytest.raises(ModelError) as caught:
            ask(server, kind, stream=form != "whole")
        said = str(caught.value)
        assert "it reports an error" in said
        assert "overloaded" in said

    def test_after_a_part_of_the_answer(self) -> None:
        piece = {"choices": [{"index": 0, "delta": {"content": "hi"}}]}
        with (
            serving(lambda number, body: Act(events=(piece, OVERLOADED[3]))) as server,
            pytest.raises(
                ModelError, match=r"it reports an error after 2 characters .* \(overloaded\)"
            ),
        ):
            ask(server)

    @pytest.mark.parametrize(
        ("kind", "whole"),
        [
            ("openai", {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]}),
            (
                "anthropic",
                {
                    "type": "message",
                    "content": [{"type": "text", "text": "A"}],
                    "stop_reason": "end_turn",
                },
            ),
        ],
    )
    def test_a_whole_answer_where_a_stream_was_asked_for(
        self, kind: str, whole: dict[str, Any]
    ) -> None:
        """Is an answer as any other."""
        act = Act(raw=json.dumps(whole), kind="application/json")
        with serving(lambda number, body: act) as server:
            assert ask(server, kind).text == "A"


class TestProxies:
    @SDKS
    def test_a_dead_one_is_named(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        """Without its password; NO_PROXY goes past it."""
        monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
        with serving() as server:
            with pytest.raises(ModelError) as caught:
                ask(server, kind)
            assert "no connection through the proxy 127.0.0.1:9, which" in str(caught.value)
            assert "secret" not in str(caught.value)
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            assert ask(server, kind, stream=False).finish == "stop"


SAID = {
    "401": "it refuses the key in CANARY_KEY (401: ",
    "429": "it limits the rate or the quota; lower concurrency, or wait and use --resume (429: ",
    "500": "it failed (500: ",
    "html": "it failed (502: ",
    "timeout": "no whole answer within 0.5 s; raise timeout",
    "malformed": "reply can't be read",
    "odd": "reply can't be read",
    "reset": "the connection broke",
    "cut": "the answer broke off",
}


class TestFailures:
    @SDKS
    @pytest.mark.parametrize(
        ("failure", "stream"),
        [
            (failure, stream)
            for failure in FAILURES
            for stream in (True, False)
            if stream or failure != "cut"
        ],
    )
    def test_named_without_the_key(
        self, monkeypatch: pytest.MonkeyPatch, kind: str, stream: bool, failure: str
    ) -> None:
        """Every failure is one line that names the server and what to do; a server that repeats the
        key doesn't bring it into the error, its cause or its context.
        """
        monkeypatch.setenv("CANARY_KEY", CANARY)
        with serving(failing(FAILURES[failure])) as server:
            client = client_of(spec_of(server, kind, key="CANARY_KEY", stream=stream, timeout=0.5))
            with pytest.raises(ModelError) as caught:
                client.ask(ASK)
        said = str(caught.value)
        expected = "no connection" if failure == "reset" and not stream else SAID[failure]
        assert expected in said
        assert server.url in said
        assert "\n" not in said
        assert "canary" not in said.replace("CANARY_KEY", "")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None

    @SDKS
    def test_slow_drip_has_a_limit(self, kind: str) -> None:
        """A stream whose every piece comes in time ends with a timeout, as a whole."""
        with (
            serving(lambda number, body: Act(text="x" * 400, pause=0.05)) as server,
            pytest.raises(ModelError, match=r"no whole answer within 0.5 s after \d+ characters"),
        ):
            ask(server, kind, timeout=0.5)

    @SDKS
    def test_busy_servers_are_asked_again(self, kind: str) -> None:
        """429 and 500 are repeated by the SDK, up to `retries` times."""
        busy = {
            0: Act(status=429, body={}, headers={"retry-after": "0.01"}),
            1: Act(status=500, body={}),
        }
        with serving(lambda number, body: busy.get(number, Act())) as server:
            assert ask(server, kind, retries=2).text == "hello there"
        assert len(server.asked) == 3

    def test_refused_request_names_what_was_sent(self) -> None:
        """422 for an unknown field: the server's words and the fields that the request sets."""
        body = {"detail": "Unexpected fields in the request: {'foo'}"}
        with (
            serving(lambda number, request: Act(status=422, body=body)) as server,
            pytest.raises(
                ModelError,
                match=(
                    r"refuses the request, which sets max_tokens, temperature, foo \(422:"
                    r" Unexpected fields"
                ),
            ),
        ):
            ask(server, extra_body={"foo": 1})


class TestPreflight:
    def check(self, server: FakeServer, kind: str = "openai", **changes: Any) -> None:
        client_of(spec_of(server, kind, **changes)).check()

    @SDKS
    def test_known_model(self, kind: str) -> None:
        """Nothing is said, and no answer is asked for."""
        with serving() as server:
            self.check(server, kind)
        assert server.asked == []

    def test_unknown_model(self) -> None:
        """Close matches are named."""
        with (
            serving(models=("the-model-1", "other")) as server,
            pytest.raises(
                ModelError, match=r"doesn't know 'the-model'; did you mean the-model-1\?"
            ),
        ):
            self.check(server)

    def test_unknown_model_of_anthropic(self) -> None:
        with (
            serving(models=()) as server,
            pytest.raises(ModelError, match="doesn't know 'the-model'; check model"),
        ):
            self.check(server, "anthropic")

    @SDKS
    def test_wrong_key(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        """The variable is named, the key is not."""
        monkeypatch.setenv("MY_KEY", "sk-wrong")
        with (
            serving() as server,
            pytest.raises(ModelError, match="it refuses the key in MY_KEY") as caught,
        ):
            self.check(server, kind, key="MY_KEY")
        assert "sk-wrong" not in str(caught.value)

    @SDKS
    def test_missing_key(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        """The variable is named before anything is sent."""
        monkeypatch.delenv("MY_KEY", raising=False)
        with (
            serving() as server,
            pytest.raises(ModelError, match="set the environment variable MY_KEY"),
        ):
            self.check(server, kind, key="MY_KEY")
        assert server.other == []

    @SDKS
    def test_server_down(self, kind: str) -> None:
        with serving() as server:
            pass
        with pytest.raises(
            ModelError, match=f"{server.url}.*no connection; is the server running there"
        ):
            self.check(server, kind)
