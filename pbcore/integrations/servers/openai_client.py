"""Requests to OpenAI-compatible servers, through the `openai` package."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pbcore.integrations.servers.failures import failure, imported, key_of, masked
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.reply import Ask, Reply, count, field_of, outcomes, texts, word
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from pbcore.registry import hint


class OpenAIClient:
    """One server's model. Retries with back-off, and waiting as long as the server says, are the SDK's."""

    def __init__(self, spec: ServerSpec) -> None:
        sdk = imported("openai", spec)
        from pbcore.integrations.servers.clock import time_limit

        self._spec, self._sdk = spec, sdk
        self._client = sdk.OpenAI(
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
                pieces = self._client.post(
                    "/chat/completions",
                    body=self._body(ask, stream=True),
                    cast_to=object,
                    stream=True,
                    stream_cls=self._sdk.Stream[object],
                )
                draft.take(pieces)
            else:
                draft.take([self._client.post("/chat/completions", body=self._body(ask), cast_to=object)])
            return draft.reply(asked)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  an SDK's frames hold the key: nothing of theirs may surface
            if getattr(error, "code", None) == "content_filter":
                return Reply(
                    "", time.perf_counter() - start, asked, finish="content_filter", outcomes=("content_filter",)
                )
            raise failure(error, self._spec, draft.done) from None

    def check(self) -> None:
        """Asks for the list of models, then for the model. Raises ModelError."""
        kind = KINDS[self._spec.kind]
        try:
            if kind.loads:
                self._load()
                return
            listed = self._listed()
            if listed is None or self._spec.model in listed:
                return
            self._client.get(f"/models/{self._spec.model}", cast_to=object)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  as above
            if getattr(error, "status_code", None) in (404, 405):
                raise ModelError(
                    f"model {self._spec.name}: {self._spec.base_url} doesn't know {self._spec.model!r}; "
                    f"{masked(hint(self._spec.model, listed or []), self._spec)}"
                ) from None
            raise failure(error, self._spec) from None

    def _listed(self) -> list[str] | None:
        """The ids of the server's models; None if it has no list."""
        try:
            body: Any = self._client.get("/models", cast_to=object)
        except self._sdk.NotFoundError:
            return None
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, list):
            raise ModelError(
                f"model {self._spec.name}: {self._spec.base_url}/models is no list of models; check base_url"
            )
        return [name for entry in data if isinstance(name := field_of(entry, "id"), str)]

    def _load(self) -> None:
        """Has the server load the model, as `transformers serve` does on request."""
        at = self._spec.base_url.removesuffix("/v1")
        events = self._client.post(
            f"{at}/load_model",
            body={"model": self._spec.model},
            cast_to=object,
            stream=True,
            stream_cls=self._sdk.Stream[object],
        )
        for event in events:
            if field_of(event, "status") == "error":
                said = masked(str(field_of(event, "message")), self._spec)
                raise ModelError(f"model {self._spec.name}: {at} can't load {self._spec.model!r}: {said}")

    def _body(self, ask: Ask, stream: bool = False) -> dict[str, Any]:
        spec = self._spec
        usage = stream and KINDS[spec.kind].stream_usage
        return {
            "model": spec.model,
            "messages": list(ask.messages),
            spec.max_tokens_field: ask.max_tokens,
            **({"temperature": ask.temperature} if spec.temperature else {}),
            **({"seed": ask.seed} if spec.seed else {}),
            **({"stream": True} if stream else {}),
            **({"stream_options": {"include_usage": True}} if usage else {}),
            **spec.extra_body,
        }


class _Draft:
    """An answer put together from a stream's pieces, or from the one piece of an answer that came whole."""

    def __init__(self, spec: ServerSpec, start: float) -> None:
        self._spec, self._start = spec, start
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._first: float | None = None
        self._pieces = 0
        self._known: dict[str, Any] = {}

    @property
    def done(self) -> str:
        """What has come, for an error."""
        received = sum(map(len, self._texts))
        return f" after {received} characters of the answer" if received else ""

    def take(self, pieces: Iterable[Any]) -> None:
        for piece in pieces:
            choices = piece.get("choices") if isinstance(piece, dict) else None
            if not isinstance(piece, dict) or not isinstance(choices, list):
                raise ValueError("an answer without choices")
            self._pieces += 1
            for choice in choices[:1]:
                part = field_of(choice, "delta") or field_of(choice, "message") or {}
                self._add(texts([field_of(part, "content")]), texts([field_of(part, "refusal")]))
                self._note("finish", word(field_of(choice, "finish_reason")))
            self._note("model", word(piece.get("model")))
            self._note("tokens_in", count(field_of(piece, "usage.prompt_tokens")))
            self._note("tokens_out", count(field_of(piece, "usage.completion_tokens")))
            if self._spec.nfe_field:
                self._note("nfe", count(field_of(piece, self._spec.nfe_field)))

    def _add(self, text: str, refusal: str) -> None:
        if (text or refusal) and self._first is None:
            self._first = time.perf_counter() - self._start
        self._texts.append(text)
        self._refusals.append(refusal)

    def _note(self, name: str, value: Any) -> None:
        if value is not None:
            self._known[name] = value

    def reply(self, asked: str) -> Reply:
        seconds = time.perf_counter() - self._start
        finish = self._known.get("finish")
        if finish is None and not self._pieces:
            raise ValueError("nothing of an answer in it")
        if finish is None:
            raise ModelError(
                f"model {self._spec.name} at {self._spec.base_url}: the answer broke off{self.done}, without a finish "
                "reason"
            )
        refused = any(self._refusals)
        text = "".join(self._texts) or "".join(self._refusals)
        return Reply(
            text,
            seconds,
            asked,
            first_token=self._first if self._spec.stream else None,
            outcomes=outcomes(text, finish, "refusal" if refused else None),
            **self._known,
        )
