"""A local HTTP server that answers as OpenAI-compatible servers and Anthropic's do, and plays the
ways in which they fail. It counts what it is asked.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CANARY = "sk-canary/0123+456789=abcdef"


@dataclass(frozen=True)
class Act:
    """What the server does with one request for an answer.

    An answer has `text`, `finish` and tokens. With `status` it is an error whose body is `body`.
    `pause` waits before each piece; `reset` closes the connection hard after that many pieces,
    `cut` quietly; `raw` is sent as the body, to a stream as an event. `extra` stands in the answer,
    `choice` in its only choice; `pieces` are streamed in place of the text's, `events` in place of
    the whole stream, as the reference's cases ask.
    """

    text: str = "hello there"
    finish: str | None = "stop"
    tokens_in: int | None = 7
    tokens_out: int | None = 3
    model: str = "the-model-2026"
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    reset: int | None = None
    cut: int | None = None
    raw: str | None = None
    refusal: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, Any] = field(default_factory=dict)
    pieces: tuple[str, ...] | None = None
    events: tuple[dict[str, Any], ...] = ()


Script = Callable[[int, dict[str, Any]], Act]


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class FakeServer:
    """`script(number, body)` says what to do with the answer number `number`, from 0; `models` are
    those it knows; `metrics` is its page of that name (None: it fails).
    """

    def __init__(
        self,
        script: Script,
        models: tuple[str, ...] | None = ("the-model",),
        metrics: str | None = "",
    ) -> None:
        self.script = script
        self.models = models
        self.metrics = metrics
        self.version = json.dumps({"version": "9.9"})
        self.pages: dict[str, Any] = {}  # path and query → JSON
        self.raw: dict[str, tuple[str, bytes]] = {}  # path and query → content type, bytes
        self.status: dict[str, int] = {}  # of these; 0 breaks the connection
        self.slow: set[str] = set()  # paths that are not answered
        self.asked: list[Asked] = []
        self.other: list[str] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._http.socket.settimeout(5)  # a client that has gone must not block the loop
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Ends the server; one that doesn't answer any more isn't waited for."""
        stopping = threading.Thread(target=self._http.shutdown, daemon=True)
        stopping.start()
        stopping.join(10)
        self._http.server_close()


@contextmanager
def serving(script: Script = lambda number, body: Act(), **options: Any) -> Iterator[FakeServer]:
    server = FakeServer(script, **options)
    try:
        yield server
    finally:
        server.stop()


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        under_way = 0  # of this connection's requests

        def log_message(self, *words: Any) -> None:
            """Says nothing."""

        def do_GET(self) -> None:
            server.other.append(self.path)
            key = self.headers.get("authorization", "") + self.headers.get("x-api-key", "")
            if self.path in server.slow:
                time.sleep(100)
            elif self.path in server.raw:
                kind, data = server.raw[self.path]
                status = server.status.get(self.path, 200)
                if not status:
                    self._break()
                    return
                self._send(status, data, kind, {"location": "/elsewhere"})
            elif self.path in server.pages:
                self._send(200, json.dumps(server.pages[self.path]))
            elif self.path.endswith("/metrics") and server.metrics is None:
                self._send(503, "{}")
            elif self.path.endswith("/metrics"):
                self._send(200, server.metrics, "text/plain")
            elif self.path.endswith("/version"):
                self._send(200, server.version)
            elif key.endswith("wrong"):
                self._send(401, json.dumps({"error": {"message": f"no such key: {key}"}}))
            elif server.models is None:
                self._send(404, "{}")
            elif self.path.endswith("/models"):
                self._send(
                    200,
                    json.dumps(
                        {"object": "list", "data": [{"id": name} for name in server.models]}
                    ),
                )
            else:
                known = self.path.rpartition("/models/")[2] in server.models
                self._send(200 if known else 404, "{}")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/load_model"):  # of `transformers serve`
                server.other.append(self.path)
                self._send(200, 'data: {"status": "ready"}\n\n', "text/event-stream")
                return
            with server.lock:
                number = len(server.asked)
                server.asked.append(Asked(self.path, dict(self.headers.items()), body))
                self.under_way = 1
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self._play(server.script(number, body), body)
            finally:
                self._ends()

        def _ends(self) -> None:
            """Before an answer's last bytes, with which the client may ask again."""
            with server.lock:
                server.at_once -= self.under_way
                self.under_way = 0

        def _play(self, act: Act, body: dict[str, Any]) -> None:
            if act.status != 200 or act.raw is not None:
                time.sleep(act.pause)
                text = act.raw if act.raw is not None else json.dumps(act.body)
                if act.status == 200 and body.get("stream"):
                    self._send(200, f"event: message_start\ndata: {text}\n\n", "text/event-stream")
                    return
                self._send(act.status, text, headers=act.headers)
                return
            pieces = list(_form(self.path)(act, body))
            if act.events and self.path != "/generate":
                pieces = [
                    f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n"
                    for event in act.events
                ]
            if not body.get("stream"):
                time.sleep(act.pause)
                if act.reset is not None:
                    self._break()
                    return
                self._send(200, pieces[0])
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for place, piece in enumerate(pieces):
                if place == act.reset:
                    self._break()
                    return
                if place == act.cut:
                    break
                time.sleep(act.pause)
                if place == len(pieces) - 1:
                    self._ends()
                self.wfile.write(piece.encode())
                self.wfile.flush()
            self.close_connection = True

        def _break(self) -> None:
            """Closes with a reset instead of an orderly end."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

        def _send(
            self,
            status: int,
            content: str | bytes,
            kind: str = "application/json",
            headers: Any = (),
        ) -> None:
            data = content.encode() if isinstance(content, str) else content
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            for name, value in dict(headers).items():
                self.send_header(name, value)
            self.end_headers()
            self._ends()
            self.wfile.write(data)

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, ValueError):
                self.close_connection = True  # the client has gone, or we have closed

        def finish(self) -> None:
            try:
                super().finish()
            except (ConnectionError, ValueError):
                return

    return Handler


def _form(path: str) -> Callable[[Act, dict[str, Any]], Iterator[str]]:
    if path == "/generate":
        return diffulex_events
    return _anthropic if "messages" in path else _openai


def diffulex_events(act: Act, body: dict[str, Any]) -> Iterator[str]:
    """What Diffulex's `/generate` sends: the events as a stream, or the last one as the body. An
    act without events has its text alone.
    """
    ids = list(range(act.tokens_out or 0))
    text = {"text": act.text, "token_ids": ids, "nfe": len(ids), "finish_reason": act.finish}
    events = act.events or ({"event": "final", "id": "x", **text},)
    *_, last = events
    if not body.get("stream"):
        yield json.dumps({name: value for name, value in last.items() if name != "event"})
        return
    for event in events:
        yield f"data: {json.dumps(event)}\n\n"
    yield "data: [DONE]\n\n"


def _openai(act: Act, body: dict[str, Any]) -> Iterator[str]:
    usage = (
        None
        if act.tokens_in is None
        else {"prompt_tokens": act.tokens_in, "completion_tokens": act.tokens_out}
    )
    head = {"id": "x", "model": act.model, "created": 0, **act.extra}
    if not body.get("stream"):
        message = {"role": "assistant", "content": act.text, "refusal": act.refusal}
        yield json.dumps(
            {
                **head,
                "choices": [
                    {"index": 0, "message": message, "finish_reason": act.finish, **act.choice}
                ],
                "usage": usage,
            }
        )
        return
    for part in _parts(act.text) if act.pieces is None else act.pieces:
        yield (
            "data:"
            f" {json.dumps({**head, 'choices': [{'index': 0, 'delta': {'content': part}}]})}\n\n"
        )
    if act.refusal:
        yield (
            "data:"
            f" {json.dumps({**head, 'choices': [{'index': 0, 'delta': {'refusal': act.refusal}}]})}\n\n"
        )
    if act.finish:
        yield (
            "data:"
            f" {json.dumps({**head, 'choices': [{'index': 0, 'delta': {}, 'finish_reason': act.finish}]})}\n\n"
        )
    if usage and body.get("stream_options", {}).get("include_usage"):
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _anthropic(act: Act, body: dict[str, Any]) -> Iterator[str]:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": act.text}]
    if not body.get("stream"):
        usage = {"input_tokens": act.tokens_in, "output_tokens": act.tokens_out}
        yield json.dumps(
            {
                "type": "message",
                "model": act.model,
                "content": blocks,
                "stop_reason": act.finish,
                "usage": usage,
            }
        )
        return
    start = {"model": act.model, "usage": {"input_tokens": act.tokens_in, "output_tokens": 1}}
    yield _event("message_start", message=start)
    yield _event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"})
    for part in _parts(act.text):
        yield _event("content_block_delta", index=1, delta={"type": "text_delta", "text": part})
    if act.finish:
        yield _event(
            "message_delta",
            delta={"stop_reason": act.finish},
            usage={"output_tokens": act.tokens_out},
        )
    yield _event("message_stop")


def _event(kind: str, **values: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n"


def _parts(text: str) -> list[str]:
    return [text[i : i + 4] for i in range(0, len(text), 4)]


def vllm_diffusion(number: int, body: dict[str, Any]) -> Act:
    """As vLLM 0.33 does for diffusion models (`sampling_params.py`, `_validate_diffusion`)."""
    if body.get("temperature", 1.0) == 1.0 and body.get("seed") is None:
        return Act()
    message = (
        "The temperature, min_p, seed, min_tokens, logit_bias, bad_words, and allowed_token_ids"
        " sampling parameters are not yet supported with diffusion models."
    )
    return Act(status=400, body={"error": {"message": message, "type": "BadRequestError"}})


def failing(act: Act, first: int = 0) -> Script:
    """Plays `act` from the answer number `first` on, and good ones before."""
    return lambda number, body: act if number >= first else Act()


FAILURES = {
    "401": Act(status=401, body={"error": {"message": f"bad key {CANARY}", "type": "auth"}}),
    "429": Act(
        status=429, body={"error": {"message": f"slow down {CANARY}"}}, headers={"retry-after": "0"}
    ),
    "500": Act(status=500, body={"error": {"message": f"oops Bearer {CANARY}"}}),
    "html": Act(status=502, raw=f"<html>{CANARY}</html>"),
    "timeout": Act(pause=30.0),
    "malformed": Act(raw='{"choices": [' + json.dumps(CANARY)),
    "odd": Act(raw=json.dumps({"choices": CANARY})),
    "reset": Act(text=f"{CANARY} and more", reset=3),
    "cut": Act(text=f"{CANARY} and more", cut=3),
}
