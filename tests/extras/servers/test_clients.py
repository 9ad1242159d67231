"""Both SDKs against a local server: what is sent, what is read, and how failures are named."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.extras.servers import clients
from pbcore.extras.servers.clients import client_of
from pbcore.extras.servers.reply import Ask, Reply
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from tests.extras.servers.fake import CANARY, FAILURES, Act, FakeServer, failing, serving

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

    def test_a_whole_answer_is_asked_for(self) -> None:
        """In so many words: some servers refuse a request that says nothing of streams."""
        with serving() as server:
            ask(server, stream=False)
        assert server.asked[0].body["stream"] is False

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

    JSON = "application/json"

    @pytest.mark.parametrize(
        ("status", "kind", "data", "told"),
        [
            (
                403,
                JSON,
                b'{"error": {"message": "Missing scopes: api.model.read"}}',
                "403: Missing",
            ),
            (404, JSON, b'{"detail": "Not Found"}', "404: Not Found"),
            (405, JSON, b'{"detail": "Method Not Allowed"}', "405: Method Not Allowed"),
            (400, JSON, b'{"error": "no such route"}', "400: no such route"),
            (501, "text/plain", b"not implemented", "501: not implemented"),
            (503, "text/html", b"<html>busy</html>", "503: <html>busy</html>"),
            (429, JSON, b"{}", "429"),
            (307, JSON, b"", "307: it redirects elsewhere"),
            (200, "text/html", b"<html>hello</html>", "it is no list of models"),
            (200, JSON, b"", ""),
            (200, JSON, b"{", ""),
            (200, JSON, b'"the-model"', "it is no list of models"),
            (200, JSON, b'{"data": null}', "it is no list of models"),
            (200, JSON, b'{"data": {"the-model": {}}}', "it is no list of models"),
            (200, JSON, b'{"object": "list", "data": []}', "404"),
            (200, JSON, b"[]", "404"),
            (200, JSON, b'["another"]', "404"),
            (200, JSON, b'{"models": [{"name": "another"}]}', "404"),
            (0, JSON, b"", "Connection error"),
        ],
    )
    def test_a_list_that_says_nothing(self, status: int, kind: str, data: bytes, told: str) -> None:
        """What couldn't be learned is a line, and no refusal."""
        with serving(models=None) as server:
            server.raw["/v1/models"] = kind, data
            server.status["/v1/models"] = status
            line = client_of(spec_of(server, "openai")).check()
        assert line is not None
        assert line.startswith(
            f"model mine: {server.url}/v1 doesn't tell whether it has 'the-model' ("
        )
        assert told in line
        assert "\n" not in line

    @pytest.mark.parametrize(
        "data",
        [
            b'[{"id": "the-model"}, {"id": "other"}]',
            b'["other", "the-model"]',
            b'{"models": [{"name": "the-model"}]}',
            b'{"models": [{"model": "the-model"}]}',
            b'{"data": ["the-model"]}',
            b'{"data": null, "models": ["the-model"]}',
        ],
    )
    def test_a_list_of_another_form(self, data: bytes) -> None:
        """A list that names the model is enough, whatever its form."""
        with serving(models=None) as server:
            server.raw["/v1/models"] = "application/json", data
            assert client_of(spec_of(server, "openai")).check() is None

    def test_a_plain_list_without_the_model(self) -> None:
        """It says that the server doesn't know the model, as OpenAI's own does."""
        with serving(models=None) as server:
            server.raw["/v1/models"] = "application/json", b'[{"id": "the-model-1"}]'
            with pytest.raises(ModelError, match=r"doesn't know 'the-model'; did you mean"):
                self.check(server)

    def test_a_slow_list(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It isn't waited for longer than a few seconds."""
        monkeypatch.setattr(clients, "CHECK_SECONDS", 0.2)
        with serving() as server:
            server.slow = {"/v1/models"}
            line = client_of(spec_of(server, "openai")).check()
        assert line is not None
        assert "timed out" in line

    def test_of_anthropics_form_without_models(self) -> None:
        """A server that has no such address hasn't refused the model."""
        with serving() as server:
            server.raw["/v1/models/the-model"] = self.JSON, b'{"detail": "Not Found"}'
            server.status["/v1/models/the-model"] = 404
            line = client_of(spec_of(server, "anthropic")).check()
        assert line is not None
        assert "404: Not Found" in line
