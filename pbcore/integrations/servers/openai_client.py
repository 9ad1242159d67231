"""Requests to OpenAI-compatible servers, through the `openai` package."""

from typing import Any

from pbcore.integrations.servers.draft import Connection, Draft
from pbcore.integrations.servers.failures import failure
from pbcore.integrations.servers.keys import masked
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.reply import Ask, Reply, count, field_of, outcomes, steps_of, text_of, tokens_of, word
from pbcore.integrations.servers.sampler_fields import with_fields
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from pbcore.registry import hint


class OpenAIClient:
    """One server's model."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._server = Connection.through("openai", "OpenAI", spec, "authorization", "Bearer ")

    def ask(self, ask: Ask) -> Reply:
        """One answer. Raises ModelError."""
        answer = _Answer(self._spec)
        try:
            for piece in self._server.post("/chat/completions", self._body(ask), self._spec.stream):
                answer.take(piece)
            return answer.reply()
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  an SDK's frames hold the key: nothing of theirs may surface
            draft = answer.draft
            if getattr(error, "code", None) == "content_filter":
                filtered = "content_filter"
                return Reply("", draft.seconds, draft.asked, finish=filtered, outcomes=(filtered,))
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
            self._server.get(f"/models/{self._spec.model}")
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
            body = self._server.get("/models")
        except self._server.sdk.NotFoundError:
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
        for event in self._server.post(f"{at}/load_model", {"model": self._spec.model}, stream=True):
            if field_of(event, "status") == "error":
                said = masked(str(field_of(event, "message")), self._spec)
                raise ModelError(f"model {self._spec.name}: {at} can't load {self._spec.model!r}: {said}")

    def _body(self, ask: Ask) -> dict[str, Any]:
        spec = self._spec
        usage = spec.stream and KINDS[spec.kind].stream_usage
        body = {
            "model": spec.model,
            "messages": list(ask.messages),
            spec.max_tokens_field: ask.max_tokens,
            **({"temperature": ask.temperature} if spec.temperature else {}),
            **({"seed": ask.seed} if spec.seed else {}),
            **({"stream": True} if spec.stream else {}),
            **({"stream_options": {"include_usage": True}} if usage else {}),
            **spec.extra_body,
        }
        return with_fields(body, ask.fields)


class _Answer:
    """An answer put together from a stream's pieces, or from the one piece of an answer that came whole."""

    def __init__(self, spec: ServerSpec) -> None:
        self.draft = Draft(spec)
        self._refusal = ""
        self._pieces = self._canvases = 0
        self._known: dict[str, Any] = {}

    def take(self, piece: Any) -> None:
        choices = piece.get("choices") if isinstance(piece, dict) else None
        if not isinstance(piece, dict) or not isinstance(choices, list):
            raise ValueError("an answer without choices")
        self._pieces += 1
        for choice in choices[:1]:
            part = field_of(choice, "delta") or field_of(choice, "message") or {}
            text, refusal = text_of(field_of(part, "content")), text_of(field_of(part, "refusal"))
            if text or refusal:
                self.draft.began()
            if not self.draft.spec.diffusing:
                self.draft.text += text
            elif text:  # a canvas, of which the last is the answer
                self.draft.text, self._canvases = text, self._canvases + 1
            self._refusal += refusal
            self._note("finish", word(field_of(choice, "finish_reason")))
        self._note("model", word(piece.get("model")))
        self._note("tokens_in", count(field_of(piece, "usage.prompt_tokens")))
        self._note("tokens_out", count(field_of(piece, "usage.completion_tokens")))
        spec = self.draft.spec
        if spec.nfe_field:
            self._note("nfe", count(field_of(piece, spec.nfe_field)))
        elif self._canvases:
            self._note("nfe", self._canvases)
        if spec.step_map_field:
            self._note("step_map", steps_of(field_of(piece, spec.step_map_field)))
        if spec.tokens_field:
            self._note("tokens", tokens_of(field_of(piece, spec.tokens_field)))

    def _note(self, name: str, value: Any) -> None:
        if value is not None:
            self._known[name] = value

    def reply(self) -> Reply:
        draft, seconds, finish = self.draft, self.draft.seconds, self._known.get("finish")
        draft.check_end(finish, "finish", self._pieces > 0)
        text = draft.text or self._refusal
        return Reply(
            text,
            seconds,
            draft.asked,
            first_token=draft.first if draft.spec.stream else None,
            outcomes=outcomes(text, finish, "refusal" if self._refusal else None),
            **self._known,
        )
