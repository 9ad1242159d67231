"""Requests to Anthropic's API, through the `anthropic` package."""

from typing import Any

from pbcore.integrations.servers.draft import Connection, Draft
from pbcore.integrations.servers.failures import failure
from pbcore.integrations.servers.reply import Ask, Reply, count, field_of, outcomes, text_of, word
from pbcore.integrations.servers.sampler_fields import with_fields
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

# Anthropic's words for an answer's end that are failures of ours to count.
_ENDS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicClient:
    """One model."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec, self._server = (
            spec,
            Connection.through("anthropic", "Anthropic", spec, "x-api-key"),
        )

    def ask(self, ask: Ask) -> Reply:
        """One answer. Raises ModelError."""
        answer = _Answer(self._spec)
        try:
            for part in self._server.post("/v1/messages", self._body(ask), self._spec.stream):
                (answer.event if self._spec.stream else answer.whole)(part)
            return answer.reply()
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  an SDK's frames hold the key: nothing of theirs may surface
            raise failure(error, self._spec, answer.draft.done) from None

    def check(self) -> None:
        """Asks for the model, by id or alias. Raises ModelError."""
        try:
            self._server.get(f"/v1/models/{self._spec.model}")
        except Exception as error:  # noqa: BLE001  as above
            if getattr(error, "status_code", None) == 404:
                raise ModelError(
                    f"model {self._spec.name}: {self._spec.base_url} doesn't know {self._spec.model!r}; check model"
                ) from None
            raise failure(error, self._spec) from None

    def _body(self, ask: Ask) -> dict[str, Any]:
        body = {
            "model": self._spec.model,
            "messages": list(ask.messages),
            "max_tokens": ask.max_tokens,
            **({"temperature": ask.temperature} if self._spec.temperature else {}),
            **({"stream": True} if self._spec.stream else {}),
            **self._spec.extra_body,
        }
        return with_fields(body, ask.fields)


class _Answer:
    """An answer put together from a stream's events, or read from a whole message."""

    def __init__(self, spec: ServerSpec) -> None:
        self.draft = Draft(spec)
        self._usage: dict[str, int] = {}
        self._model: str | None = None
        self._finish: str | None = None
        self._known = False

    def event(self, event: Any) -> None:
        kind = field_of(event, "type")
        if kind is None:
            raise ValueError("an event without a type")
        if kind == "message_start":
            self._head(field_of(event, "message"))
        if kind == "content_block_delta" and field_of(event, "delta.type") == "text_delta":
            self.draft.began()
            self.draft.text += text_of(field_of(event, "delta.text"))
        if kind == "message_delta":
            self._finish = word(field_of(event, "delta.stop_reason")) or self._finish
            self._count(field_of(event, "usage"))

    def whole(self, message: Any) -> None:
        content = field_of(message, "content")
        if not isinstance(content, list):
            raise ValueError("a message without content")
        self._head(message)
        self.draft.text += "".join(text_of(field_of(one, "text")) for one in content if field_of(one, "type") == "text")
        self._finish = word(field_of(message, "stop_reason"))

    def _head(self, message: Any) -> None:
        self._model = word(field_of(message, "model"))
        self._count(field_of(message, "usage"))

    def _count(self, usage: Any) -> None:
        names = (*_INPUT, "output_tokens")
        self._known = True
        self._usage |= {name: value for name in names if (value := count(field_of(usage, name))) is not None}

    def reply(self) -> Reply:
        draft, seconds = self.draft, self.draft.seconds
        draft.check_end(self._finish, "stop", self._known)
        return Reply(
            draft.text,
            seconds,
            draft.asked,
            first_token=draft.first,
            model=self._model,
            finish=self._finish,
            outcomes=outcomes(draft.text, _ENDS.get(self._finish or "")),
            tokens_in=sum(self._usage.get(name, 0) for name in _INPUT) if "input_tokens" in self._usage else None,
            tokens_out=self._usage.get("output_tokens"),
        )
