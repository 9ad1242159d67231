"""Requests to servers through their SDKs: `openai` for OpenAI-compatible ones, `anthropic` for
Anthropic's API.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from pbcore.base.printable import printable
from pbcore.base.registry import hint
from pbcore.integrations.servers.keys import (
    ReportedError,
    failure,
    imported,
    key_of,
    mask_logs,
    masked,
)
from pbcore.integrations.servers.reply import (
    FINISH_REASONS,
    Ask,
    Reply,
    body_field,
    reply_outcomes,
    reported_count,
    reported_error,
    steps_of,
    text_of,
    tokens_of,
    word,
)
from pbcore.integrations.servers.spec import KINDS, ServerSpec, with_fields
from pbcore.models.errors import ModelError


def body_of(spec: ServerSpec, ask: Ask) -> dict[str, Any]:
    """The body of a request, as it is sent."""
    kind = KINDS[spec.kind]
    openai = kind.sdk == "openai"
    body: dict[str, Any] = {}
    if spec.seed and openai:
        body["seed"] = ask.seed
    if spec.stream and kind.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body["model"] = spec.model
    body["messages"] = list(ask.messages)
    body[spec.max_tokens_field if openai else "max_tokens"] = ask.max_tokens
    if spec.temperature:
        body["temperature"] = ask.temperature
    if spec.stream:
        body["stream"] = True
    body.update(spec.extra_body)
    return with_fields(body, ask.fields)


class Answer:
    """An answer as it comes: its text so far, and in `facts` what else of a Reply is known."""

    def __init__(self) -> None:
        self.text = ""
        self.refusal = ""
        self.begun = False
        self.others: set[int] = set()  # answers beside this one that have begun and not ended
        self.facts: dict[str, Any] = {}
        self.usage: dict[str, int] = {}  # Anthropic's counts, of which a stream tells some twice
        self.asked = datetime.now(UTC).isoformat(timespec="seconds")
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The time since the request."""
        return time.perf_counter() - self._start

    @property
    def done(self) -> str:
        """What has come, for an error."""
        return f" after {len(self.text)} characters of the answer" if self.text else ""

    def read(self, how: Callable[[Any], Any], value: Any) -> Any:
        """A value that stands beside the text. One that can't be read doesn't lose the text: it is
        None, and `unread` says why.
        """
        try:
            return how(value)
        except ValueError as error:
            self.note(unread=str(error))
            return None

    def note(self, **facts: Any) -> None:
        """Keeps what is known of these facts."""
        self.facts |= {name: value for name, value in facts.items() if value is not None}


class Client(ABC):
    """A model through an SDK, used by several threads at once. Retries with back-off, and waiting
    as long as the server says, are the SDK's. Raises ModelError without package or key.
    """

    sdk_class: ClassVar[str]
    header: ClassVar[tuple[str, str]]  # that of the key, and what stands before it
    path: ClassVar[str]
    end: ClassVar[str]  # the server's word for the reason of an answer's end

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.sdk = imported(KINDS[spec.kind].sdk, spec)
        from pbcore.integrations.servers.http import http_client

        key = key_of(spec)
        header, scheme = self.header
        try:
            self.client: Any = getattr(self.sdk, self.sdk_class)(
                api_key=key,
                base_url=spec.base_url,
                timeout=spec.timeout,
                max_retries=spec.retries,
                http_client=http_client(spec, {header: scheme + key}),
            )
        except Exception as error:  # noqa: BLE001  of its own: an address, a proxy, certificates
            said = printable(masked(f"{type(error).__name__}: {error}", spec), 300)
            raise ModelError(
                f"model {spec.name}: no client for {spec.base_url} ({said}); check base_url, and"
                " the proxy and certificates that the environment names"
            ) from None

    @abstractmethod
    def _take(self, answer: Answer, piece: Any) -> None:
        """Adds a piece of a stream, or the whole answer. Raises ValueError for what is neither."""

    @abstractmethod
    def _find_model(self, listed: list[str]) -> None:
        """Asks for the model, and adds to `listed` those that the server names."""

    def ask(self, ask: Ask) -> Reply:
        """One answer. Raises ModelError without the key."""
        answer = Answer()
        try:
            for piece in self._post(self.path, body_of(self.spec, ask), self.spec.stream):
                said = reported_error(piece)
                if said is not None:
                    raise ReportedError(said)
                self._take(answer, piece)
            return self._reply(answer)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  an SDK's frames hold the key: nothing of theirs may surface
            if getattr(error, "code", None) == "content_filter":
                filtered = "content_filter"
                return Reply(
                    "", answer.seconds, answer.asked, finish=filtered, outcomes=(filtered,)
                )
            raise failure(error, self.spec, answer.done) from None

    def _reply(self, answer: Answer) -> Reply:
        """The whole answer. Raises ModelError for one without an end, ValueError where nothing of
        an answer came.
        """
        seconds = answer.seconds
        finish = answer.facts.get("finish")
        text = answer.text or answer.refusal
        if finish is None and not answer.begun:
            raise ValueError("nothing of an answer in it")
        if answer.others:
            raise ValueError("parts of another answer, which doesn't end")
        if finish is None:
            where = f"model {self.spec.name} at {self.spec.base_url}"
            raise ModelError(
                f"{where}: the answer broke off{answer.done}, without a {self.end} reason"
            )
        refusal = "refusal" if answer.refusal else None
        outcomes = reply_outcomes(text, FINISH_REASONS.get(finish), refusal)
        return Reply(text, seconds, answer.asked, outcomes=outcomes, **answer.facts)

    def check(self) -> None:
        """Raises ModelError if the server is down, refuses the key or doesn't know the model."""
        listed: list[str] = []
        try:
            self._find_model(listed)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  as above
            if getattr(error, "status_code", None) not in (404, 405):
                raise failure(error, self.spec) from None
            near = masked(hint(self.spec.model, listed), self.spec) if listed else "check model"
            raise ModelError(
                f"model {self.spec.name}: {self.spec.base_url} doesn't know {self.spec.model!r};"
                f" {near}"
            ) from None

    def _post(self, path: str, body: Mapping[str, Any], stream: bool) -> Iterator[Any]:
        """The events of a streamed reply, or the one body of a whole reply, also where a stream was
        asked for.
        """
        if not stream:
            yield self.client.post(path, body=body, cast_to=object)
            return
        events = self.client.post(
            path, body=body, cast_to=object, stream=True, stream_cls=self.sdk.Stream[object]
        )
        if events.response.headers.get("content-type", "").startswith("application/json"):
            yield json.loads(events.response.read())
            return
        yield from events


class OpenAIClient(Client):
    """An OpenAI-compatible server's model. A diffusing model's pieces are canvases, of which the
    last is the answer.
    """

    sdk_class = "OpenAI"
    header = ("authorization", "Bearer ")
    path = "/chat/completions"
    end = "finish"

    def _take(self, answer: Answer, piece: Any) -> None:
        choices = body_field(piece, "choices")
        spec = self.spec
        if not isinstance(choices, list):
            raise ValueError("an answer without choices")
        answer.begun = True
        first = None
        for choice in choices:
            index = reported_count(body_field(choice, "index") or 0)
            if index is None:
                raise ValueError("a choice without a number")
            if index and body_field(choice, "finish_reason") is None:
                answer.others.add(index)
            elif index:
                answer.others.discard(index)
            elif first is None:
                first = choice
                self._take_choice(answer, choice)
        answer.note(
            model=word(body_field(piece, "model")),
            tokens_in=reported_count(body_field(piece, "usage.prompt_tokens")),
            tokens_out=reported_count(body_field(piece, "usage.completion_tokens")),
            nfe=reported_count(body_field(piece, spec.nfe_field)),
            step_map=answer.read(steps_of, body_field(piece, spec.step_map_field)),
            tokens=answer.read(tokens_of, body_field(piece, spec.tokens_field)),
        )

    def _take_choice(self, answer: Answer, choice: Any) -> None:
        """Adds the text of a choice, or of its piece of a stream."""
        spec = self.spec
        message = body_field(choice, "delta") or body_field(choice, "message")
        ends = isinstance(choice, dict) and message is None and spec.stream
        if not isinstance(message, dict) and not ends:
            raise ValueError("a choice without a message")
        text = text_of(body_field(message, "content"))
        refusal = text_of(body_field(message, "refusal"))
        if spec.stream and (text or refusal):
            answer.facts.setdefault("first_token", answer.seconds)
        if text and spec.diffusing and not spec.nfe_field:
            answer.note(nfe=answer.facts.get("nfe", 0) + 1)
        if not spec.diffusing:
            answer.text += text
        elif text:
            answer.text = text
        answer.refusal += refusal
        answer.note(finish=word(body_field(choice, "finish_reason")))

    def _find_model(self, listed: list[str]) -> None:
        spec = self.spec
        where = f"model {spec.name}: {spec.base_url}"
        if KINDS[spec.kind].loads:
            self._load_model(where)
            return
        try:
            data = body_field(self.client.get("/models", cast_to=object), "data")
        except self.sdk.NotFoundError:
            return
        if not isinstance(data, list):
            raise ModelError(f"{where}/models is no list of models; check base_url")
        for entry in data:
            model_id = body_field(entry, "id")
            if isinstance(model_id, str):
                listed.append(model_id)
        if spec.model not in listed:
            self.client.get(f"/models/{spec.model}", cast_to=object)

    def _load_model(self, where: str) -> None:
        """Has the server load the model, as `transformers serve` does on request. Raises
        ModelError, which begins with `where`, if it can't.
        """
        spec = self.spec
        address = f"{spec.base_url.removesuffix('/v1')}/load_model"
        for event in self._post(address, {"model": spec.model}, stream=True):
            if body_field(event, "status") == "error":
                message = masked(str(body_field(event, "message")), spec)
                raise ModelError(
                    f"{where.removesuffix('/v1')} can't load {spec.model!r}: {message}"
                )


class AnthropicClient(Client):
    """A model of Anthropic's."""

    sdk_class = "Anthropic"
    header = ("x-api-key", "")
    path = "/v1/messages"
    end = "stop"
    _INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

    def _take(self, answer: Answer, piece: Any) -> None:
        kind = body_field(piece, "type")
        message = piece
        usage = answer.usage
        if kind == "message" or not self.spec.stream:
            content = body_field(piece, "content")
            if not isinstance(content, list):
                raise ValueError("a message without content")
            answer.text = text_of(content)
        elif kind == "message_start":
            message = body_field(piece, "message")
        elif kind == "message_delta":
            message = {
                "stop_reason": body_field(piece, "delta.stop_reason"),
                "usage": body_field(piece, "usage"),
            }
        elif kind is None:
            raise ValueError("an event without a type")
        else:
            if kind == "content_block_start":
                self._add(answer, body_field(piece, "content_block"))
            elif kind == "content_block_delta":
                self._add(answer, body_field(piece, "delta"))
            return
        answer.begun = True
        for name in (*self._INPUT, "output_tokens"):
            tokens = reported_count(body_field(message, f"usage.{name}"))
            if tokens is not None:
                usage[name] = tokens
        tokens_in = None
        if "input_tokens" in usage:
            tokens_in = sum(usage.get(name, 0) for name in self._INPUT)
        answer.note(
            model=word(body_field(message, "model")),
            finish=word(body_field(message, "stop_reason")),
            tokens_in=tokens_in,
            tokens_out=usage.get("output_tokens"),
        )

    def _add(self, answer: Answer, part: Any) -> None:
        """Adds a part of a streamed answer, if it is text and no thinking, say."""
        kind = body_field(part, "type")
        if not isinstance(kind, str):
            raise ValueError("a part of an answer of no type")
        text = text_of(body_field(part, "text")) if kind in ("text", "text_delta") else ""
        if text:
            answer.facts.setdefault("first_token", answer.seconds)
            answer.text += text

    def _find_model(self, listed: list[str]) -> None:
        self.client.get(f"/v1/models/{self.spec.model}", cast_to=object)


def client_of(spec: ServerSpec) -> Client:
    """The client of a server, through its SDK. Raises ModelError without the SDK or the key."""
    mask_logs(spec)
    if KINDS[spec.kind].sdk == "anthropic":
        return AnthropicClient(spec)
    return OpenAIClient(spec)
