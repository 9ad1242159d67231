"""Requests to servers through their SDKs: `openai` for OpenAI-compatible ones, `anthropic` for Anthropic's API."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from pbcore.integrations.servers.keys import failure, imported, key_of, mask_logs, masked
from pbcore.integrations.servers.reply import Ask, Reply, count, field_of, outcomes, steps_of, text_of, tokens_of, word
from pbcore.integrations.servers.spec import KINDS, ServerSpec, with_fields
from pbcore.models.errors import ModelError
from pbcore.registry import hint


class Answer(ABC):
    """An answer put together as it comes: its text so far, and what else of a Reply is known."""

    end: ClassVar[str]  # the server's word for the reason of an answer's end
    ends: ClassVar[Mapping[str, str]] = {}  # its reasons that are outcomes under another name

    def __init__(self, spec: ServerSpec) -> None:
        self.spec, self.text, self.refusal, self.begun = spec, "", "", False
        self.known: dict[str, Any] = {}
        self.asked = datetime.now(UTC).isoformat(timespec="seconds")
        self._start = time.perf_counter()

    @abstractmethod
    def take(self, piece: Any) -> None:
        """Adds a piece of a stream, or the whole answer. Raises ValueError for what is neither."""

    @property
    def seconds(self) -> float:
        """The time since the request."""
        return time.perf_counter() - self._start

    @property
    def done(self) -> str:
        """What has come, for an error."""
        return f" after {len(self.text)} characters of the answer" if self.text else ""

    def note(self, **facts: Any) -> None:
        """Keeps what is known of these facts."""
        self.known |= {name: value for name, value in facts.items() if value is not None}

    def note_first(self) -> None:
        """Keeps the time of a stream's first text."""
        if self.spec.stream:
            self.known.setdefault("first_token", self.seconds)

    def reply(self) -> Reply:
        """The whole answer. Raises ModelError for one without an end, ValueError where nothing of an answer came."""
        seconds, finish, text = self.seconds, self.known.get("finish"), self.text or self.refusal
        if finish is None and not self.begun:
            raise ValueError("nothing of an answer in it")
        if finish is None:
            where = f"model {self.spec.name} at {self.spec.base_url}"
            raise ModelError(f"{where}: the answer broke off{self.done}, without a {self.end} reason")
        found = outcomes(text, self.ends.get(finish, finish), "refusal" if self.refusal else None)
        return Reply(text, seconds, self.asked, outcomes=found, **self.known)


class Client(ABC):
    """A model through an SDK, used by several threads at once. Retries with back-off, and waiting as long as the server
    says, are the SDK's. Raises ModelError without package or key.
    """

    sdk_class: ClassVar[str]
    header: ClassVar[tuple[str, str]]  # that of the key, and what stands before it
    path: ClassVar[str]
    answer: ClassVar[type[Answer]]

    def __init__(self, spec: ServerSpec) -> None:
        self.spec, self.sdk = spec, imported(KINDS[spec.kind].sdk, spec)
        from pbcore.integrations.servers.http import http_client

        key, (header, scheme) = key_of(spec), self.header
        self.client: Any = getattr(self.sdk, self.sdk_class)(
            api_key=key,
            base_url=spec.base_url,
            timeout=spec.timeout,
            max_retries=spec.retries,
            http_client=http_client(spec, {header: scheme + key}),
        )

    def ask(self, ask: Ask) -> Reply:
        """One answer. Raises ModelError without the key."""
        answer = self.answer(self.spec)
        try:
            for piece in self._post(self.path, with_fields(self._body(ask), ask.fields), self.spec.stream):
                answer.take(piece)
            return answer.reply()
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  an SDK's frames hold the key: nothing of theirs may surface
            if getattr(error, "code", None) == "content_filter":
                filtered = "content_filter"
                return Reply("", answer.seconds, answer.asked, finish=filtered, outcomes=(filtered,))
            raise failure(error, self.spec, answer.done) from None

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
                f"model {self.spec.name}: {self.spec.base_url} doesn't know {self.spec.model!r}; {near}"
            ) from None

    @abstractmethod
    def _find_model(self, listed: list[str]) -> None:
        """Asks for the model, and adds to `listed` those that the server names."""

    def _body(self, ask: Ask) -> dict[str, Any]:
        spec = self.spec
        return {
            "model": spec.model,
            "messages": list(ask.messages),
            spec.max_tokens_field: ask.max_tokens,
            **({"temperature": ask.temperature} if spec.temperature else {}),
            **({"stream": True} if spec.stream else {}),
            **spec.extra_body,
        }

    def _get(self, path: str) -> Any:
        return self.client.get(path, cast_to=object)

    def _post(self, path: str, body: Mapping[str, Any], stream: bool) -> Iterator[Any]:
        """The events of a streamed reply, or the one body of a whole reply."""
        if not stream:
            yield self.client.post(path, body=body, cast_to=object)
            return
        yield from self.client.post(path, body=body, cast_to=object, stream=True, stream_cls=self.sdk.Stream[object])


class OpenAIAnswer(Answer):
    """The choices of OpenAI's format. A diffusing model's pieces are canvases, of which the last is the answer."""

    end = "finish"

    def take(self, piece: Any) -> None:
        choices = piece.get("choices") if isinstance(piece, dict) else None
        if not isinstance(choices, list):
            raise ValueError("an answer without choices")
        self.begun, spec = True, self.spec
        for choice in choices[:1]:
            part = field_of(choice, "delta") or field_of(choice, "message") or {}
            text, refusal = text_of(field_of(part, "content")), text_of(field_of(part, "refusal"))
            if text or refusal:
                self.note_first()
            if not spec.diffusing:
                self.text += text
            elif text:
                self.text = text
                if not spec.nfe_field:
                    self.known["nfe"] = self.known.get("nfe", 0) + 1
            self.refusal += refusal
            self.note(finish=word(field_of(choice, "finish_reason")))
        tokens_in, tokens_out = (count(field_of(piece, f"usage.{which}_tokens")) for which in ("prompt", "completion"))
        self.note(model=word(field_of(piece, "model")), tokens_in=tokens_in, tokens_out=tokens_out)
        if spec.nfe_field:
            self.note(nfe=count(field_of(piece, spec.nfe_field)))
        if spec.step_map_field:
            self.note(step_map=steps_of(field_of(piece, spec.step_map_field)))
        if spec.tokens_field:
            self.note(tokens=tokens_of(field_of(piece, spec.tokens_field)))


class OpenAIClient(Client):
    """An OpenAI-compatible server's model."""

    sdk_class, header, path, answer = "OpenAI", ("authorization", "Bearer "), "/chat/completions", OpenAIAnswer

    def _body(self, ask: Ask) -> dict[str, Any]:
        usage = self.spec.stream and KINDS[self.spec.kind].stream_usage
        return {
            **({"seed": ask.seed} if self.spec.seed else {}),
            **({"stream_options": {"include_usage": True}} if usage else {}),
            **super()._body(ask),
        }

    def _find_model(self, listed: list[str]) -> None:
        where = f"model {self.spec.name}: {self.spec.base_url}"
        if KINDS[self.spec.kind].loads:
            self._load()
            return
        try:
            body = self._get("/models")
        except self.sdk.NotFoundError:
            return
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, list):
            raise ModelError(f"{where}/models is no list of models; check base_url")
        listed += [name for entry in data if isinstance(name := field_of(entry, "id"), str)]
        if self.spec.model not in listed:
            self._get(f"/models/{self.spec.model}")

    def _load(self) -> None:
        """Has the server load the model, as `transformers serve` does on request."""
        at = self.spec.base_url.removesuffix("/v1")
        for event in self._post(f"{at}/load_model", {"model": self.spec.model}, stream=True):
            if field_of(event, "status") == "error":
                said = masked(str(field_of(event, "message")), self.spec)
                raise ModelError(f"model {self.spec.name}: {at} can't load {self.spec.model!r}: {said}")


class AnthropicAnswer(Answer):
    """The events of Anthropic's stream, or its whole message."""

    end = "stop"
    ends: ClassVar[Mapping[str, str]] = {"max_tokens": "length", "model_context_window_exceeded": "length"}
    _INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

    def __init__(self, spec: ServerSpec) -> None:
        super().__init__(spec)
        self._usage: dict[str, int] = {}

    def take(self, piece: Any) -> None:
        if not self.spec.stream:
            content = field_of(piece, "content")
            if not isinstance(content, list):
                raise ValueError("a message without content")
            self.text = "".join(text_of(field_of(one, "text")) for one in content if field_of(one, "type") == "text")
            self._head(piece)
            return
        kind = field_of(piece, "type")
        if kind is None:
            raise ValueError("an event without a type")
        if kind == "message_start":
            self._head(field_of(piece, "message"))
        if kind == "content_block_delta" and field_of(piece, "delta.type") == "text_delta":
            self.note_first()
            self.text += text_of(field_of(piece, "delta.text"))
        if kind == "message_delta":
            self.note(finish=word(field_of(piece, "delta.stop_reason")))
            self._count(field_of(piece, "usage"))

    def _head(self, message: Any) -> None:
        self.note(model=word(field_of(message, "model")), finish=word(field_of(message, "stop_reason")))
        self._count(field_of(message, "usage"))

    def _count(self, usage: Any) -> None:
        self.begun = True
        for name in (*self._INPUT, "output_tokens"):
            value = count(field_of(usage, name))
            if value is not None:
                self._usage[name] = value
        if "input_tokens" in self._usage:
            self.note(tokens_in=sum(self._usage.get(name, 0) for name in self._INPUT))
        self.note(tokens_out=self._usage.get("output_tokens"))


class AnthropicClient(Client):
    """A model of Anthropic's."""

    sdk_class, header, path, answer = "Anthropic", ("x-api-key", ""), "/v1/messages", AnthropicAnswer

    def __init__(self, spec: ServerSpec) -> None:
        super().__init__(replace(spec, max_tokens_field="max_tokens"))  # the only name that its API has

    def _find_model(self, listed: list[str]) -> None:
        self._get(f"/v1/models/{self.spec.model}")


def client_of(spec: ServerSpec) -> Client:
    """The client of a server, through its SDK. Raises ModelError without the SDK or the key."""
    mask_logs(spec)
    return (AnthropicClient if KINDS[spec.kind].sdk == "anthropic" else OpenAIClient)(spec)
