"""Requests to Anthropic's API, through the `anthropic` package."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from pbcore.integrations.servers.failures import failure, imported, key_of
from pbcore.integrations.servers.reply import Ask, Reply, count, field_of, outcomes, texts, word
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

# Anthropic's words for an answer's end that are failures of ours to count.
_ENDS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicClient:
    """One model. Retries with back-off, and waiting as long as the server says, are the SDK's."""

    def __init__(self, spec: ServerSpec) -> None:
        sdk = imported("anthropic", spec)
        from pbcore.integrations.servers.clock import time_limit

        self._spec, self._sdk = spec, sdk
        self._client = sdk.Anthropic(
            api_key=key_of(spec),
            base_url=spec.base_url,
            timeout=spec.timeout,
            max_retries=spec.retries,
            http_client=sdk.DefaultHttpxClient(event_hooks=time_limit(spec.timeout)),
        )

    def ask(self, ask: Ask) -> Reply:
        """One answer. Raises ModelError."""
        asked, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        draft = _Draft(self._spec, start)
        try:
            if self._spec.stream:
                for event in self._client.post(
                    "/v1/messages",
                    body=self._body(ask, stream=True),
                    cast_to=object,
                    stream=True,
                    stream_cls=self._sdk.Stream[object],
                ):
                    draft.event(event)
            else:
                draft.whole(self._client.post("/v1/messages", body=self._body(ask), cast_to=object))
            return draft.reply(asked)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  an SDK's frames hold the key: nothing of theirs may surface
            raise failure(error, self._spec, draft.done) from None

    def check(self) -> None:
        """Asks for the model, by id or alias. Raises ModelError."""
        try:
            self._client.get(f"/v1/models/{self._spec.model}", cast_to=object)
        except Exception as error:  # noqa: BLE001  as above
            if getattr(error, "status_code", None) == 404:
                raise ModelError(
                    f"model {self._spec.name}: {self._spec.base_url} doesn't know {self._spec.model!r}; check model"
                ) from None
            raise failure(error, self._spec) from None

    def _body(self, ask: Ask, stream: bool = False) -> dict[str, Any]:
        return {
            "model": self._spec.model,
            "messages": list(ask.messages),
            "max_tokens": ask.max_tokens,
            **({"temperature": ask.temperature} if self._spec.temperature else {}),
            **({"stream": True} if stream else {}),
            **self._spec.extra_body,
        }


class _Draft:
    """An answer put together from a stream's events, or read from a whole message."""

    def __init__(self, spec: ServerSpec, start: float) -> None:
        self._spec, self._start = spec, start
        self._texts: list[str] = []
        self._first: float | None = None
        self._usage: dict[str, int] = {}
        self._model: str | None = None
        self._finish: str | None = None
        self._known = False

    @property
    def done(self) -> str:
        """What has come, for an error."""
        received = sum(map(len, self._texts))
        return f" after {received} characters of the answer" if received else ""

    def event(self, event: Any) -> None:
        kind = field_of(event, "type")
        if kind is None:
            raise ValueError("an event without a type")
        if kind == "message_start":
            self._head(field_of(event, "message"))
        if kind == "content_block_delta" and field_of(event, "delta.type") == "text_delta":
            if self._first is None:
                self._first = time.perf_counter() - self._start
            self._texts.append(texts([field_of(event, "delta.text")]))
        if kind == "message_delta":
            self._finish = word(field_of(event, "delta.stop_reason")) or self._finish
            self._count(field_of(event, "usage"))

    def whole(self, message: Any) -> None:
        content = field_of(message, "content")
        if not isinstance(content, list):
            raise ValueError("a message without content")
        self._head(message)
        self._texts += [texts([field_of(block, "text")]) for block in content if field_of(block, "type") == "text"]
        self._finish = word(field_of(message, "stop_reason"))

    def _head(self, message: Any) -> None:
        self._model = word(field_of(message, "model"))
        self._count(field_of(message, "usage"))

    def _count(self, usage: Any) -> None:
        names = (*_INPUT, "output_tokens")
        self._known = True
        self._usage |= {name: value for name in names if (value := count(field_of(usage, name))) is not None}

    def reply(self, asked: str) -> Reply:
        seconds = time.perf_counter() - self._start
        if self._finish is None and not self._known:
            raise ValueError("nothing of an answer in it")
        if self._finish is None:
            raise ModelError(
                f"model {self._spec.name} at {self._spec.base_url}: the answer broke off{self.done}, without a stop "
                "reason"
            )
        text = "".join(self._texts)
        return Reply(
            text,
            seconds,
            asked,
            first_token=self._first,
            model=self._model,
            finish=self._finish,
            outcomes=outcomes(text, _ENDS.get(self._finish)),
            tokens_in=sum(self._usage.get(name, 0) for name in _INPUT) if "input_tokens" in self._usage else None,
            tokens_out=self._usage.get("output_tokens"),
        )
