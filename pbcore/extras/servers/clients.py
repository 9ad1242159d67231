"""Requests to servers through their SDKs: `openai` for OpenAI-compatible ones, `anthropic` for
Anthropic's API.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from pbcore.base.check import usable_part, validated
from pbcore.base.printable import printable
from pbcore.base.registry import hint
from pbcore.extras.servers.canvases import Canvases
from pbcore.extras.servers.forms import (
    AnswerFacts,
    Chat,
    ChatMessage,
    Choice,
    Event,
    Generated,
    Head,
    Usage,
    listed_models,
    part_text,
)
from pbcore.extras.servers.keys import (
    ReportedError,
    failure,
    imported,
    key_of,
    mask_logs,
    masked,
    told,
    unlearned,
    unreachable,
)
from pbcore.extras.servers.reply import (
    FINISH_REASONS,
    Ask,
    Reply,
    body_field,
    reply_outcomes,
    reported_error,
)
from pbcore.extras.servers.spec import KINDS, ServerSpec, with_fields
from pbcore.extras.servers.steps import most_forwards, most_tokens
from pbcore.models.errors import ModelError

REPLY = "its answer"  # with which an error of the strict reader begins
CHECK_SECONDS = 15.0  # that a run waits for a page before it begins
# What frameworks of servers say of any address that they don't have.
NO_ADDRESS = ({"detail": "Not Found"}, "404 page not found")


def body_of(spec: ServerSpec, ask: Ask) -> dict[str, Any]:
    """The body of a request, as it is sent."""
    kind = KINDS[spec.kind]
    if kind.generates:
        return _generate_body(spec, ask)
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
    if spec.stream or openai:  # dInfer's server refuses requests without it
        body["stream"] = spec.stream
    body.update(spec.extra_body)
    return with_fields(body, ask.fields)


def _generate_body(spec: ServerSpec, ask: Ask) -> dict[str, Any]:
    """The body of a request to `/generate`. Without `max_nfe` Diffulex sets a limit of forwards by
    itself, after the first ones of an answer; the one sent is more than any answer takes.
    """
    prompt: str | list[int] = list(ask.ids)
    if not ask.ids:
        prompt = "\n\n".join(message["content"] for message in ask.messages)
    body: dict[str, Any] = {"prompt": prompt, "max_tokens": ask.max_tokens}
    body["max_nfe"] = most_forwards(most_tokens(ask.max_tokens, None))
    if spec.temperature:
        body["temperature"] = ask.temperature
    if spec.stream:
        body["stream"] = True
        body["stream_mode"] = "denoise"
    body.update(spec.extra_body)
    return with_fields(body, ask.fields)


class Answer:
    """An answer as it comes: its text, its canvases and its facts so far."""

    def __init__(self) -> None:
        self.text = ""
        self.refusal = ""
        self.begun = False
        self.others: set[int] = set()  # answers beside this one that have begun and not ended
        self.facts = AnswerFacts()
        self.canvases = Canvases()
        self.usage = Usage()  # Anthropic's counts, of which a stream tells some twice
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

    def note(self, **facts: Any) -> None:
        """Keeps what is known of these facts."""
        known = {name: value for name, value in facts.items() if value is not None}
        self.facts = replace(self.facts, **known)

    def note_text(self) -> None:
        """Notes that a piece of text has come, and when the first one did."""
        if self.facts.first_token is None:
            self.note(first_token=self.seconds)


class Client(ABC):
    """A model through an SDK, used by several threads at once. Retries with back-off, and waiting
    as long as the server says, are the SDK's. Raises ModelError without package or key.
    """

    sdk_class: ClassVar[str]
    header: ClassVar[tuple[str, str]]  # that of the key, and what stands before it
    path: ClassVar[str]
    end: ClassVar[str]  # the server's word for the reason of an answer's end
    rooted: ClassVar[bool] = False  # whether paths begin at the server's root

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.sdk = imported(KINDS[spec.kind].sdk, spec)
        from pbcore.extras.servers.http import http_client

        key = key_of(spec)
        header, scheme = self.header
        try:
            self.client: Any = getattr(self.sdk, self.sdk_class)(
                api_key=key,
                base_url=spec.root if self.rooted else spec.base_url,
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
    def _find_model(self) -> None:
        """Asks for the model. Raises ModelError where the server says that it doesn't know it."""

    def listed(self) -> list[str]:
        """The models that the server lists; none where it has no list. Raises ModelError where no
        server is there, or it refuses the key.
        """
        return []

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
        finish = answer.facts.finish
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
        return Reply(text, seconds, answer.asked, outcomes=outcomes, **asdict(answer.facts))

    def check(self) -> str | None:
        """Asks for the model before a run.

        Returns:
            A line on what the server didn't tell; None where it has the model.

        Raises:
            ModelError: if no server is there, it refuses the key, or says that it doesn't know the
                model.
        """
        try:
            self._find_model()
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001  as above
            if unreachable(error) or getattr(error, "status_code", None) == 401:
                raise failure(error, self.spec) from None
            spec = self.spec
            return (
                f"model {spec.name}: {spec.base_url} doesn't tell whether it has {spec.model!r}"
                f" ({unlearned(error, spec)}); its answers will show"
            )
        return None

    def _get(self, path: str) -> Any:
        """A page, for which a run isn't kept waiting long."""
        patient = self.client.with_options(
            timeout=min(self.spec.timeout, CHECK_SECONDS), max_retries=min(self.spec.retries, 1)
        )
        return patient.get(path, cast_to=object)

    def _unknown(self, listed: list[str]) -> ModelError:
        spec = self.spec
        near = masked(hint(spec.model, listed), spec) if listed else "check model"
        return ModelError(f"model {spec.name}: {spec.base_url} doesn't know {spec.model!r}; {near}")

    def _post(self, path: str, body: Mapping[str, Any], stream: bool) -> Iterator[Any]:
        """The events of a streamed reply, or the one body of a whole reply, also where a stream was
        asked for.
        """
        if not stream:
            reply = self.client.post(path, body=body, cast_to=object)
            # JSON may come as plain text, as from dInfer's server.
            yield json.loads(reply) if isinstance(reply, str) else reply
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
    models: ClassVar[str] = "/models"
    end = "finish"

    def _take(self, answer: Answer, piece: Any) -> None:
        chat = validated(Chat, piece, REPLY)
        answer.begun = True
        for choice in chat.choices:
            if choice.index and choice.finish_reason is None:
                answer.others.add(choice.index)
            elif choice.index:
                answer.others.discard(choice.index)
        first = [choice for choice in chat.choices if not choice.index]
        if first:
            self._take_choice(answer, first[0])
        spec = self.spec
        places = {
            "model": "model",
            "tokens_in": "usage.prompt_tokens",
            "tokens_out": "usage.completion_tokens",
            "nfe": spec.nfe_field,
            "step_map": spec.step_map_field,
            "tokens": spec.tokens_field,
        }
        facts, odd = usable_part(
            AnswerFacts, {name: body_field(piece, place) for name, place in places.items()}
        )
        answer.note(**asdict(facts or AnswerFacts()))
        for name in odd.keys() & {"step_map", "tokens"}:
            answer.note(unread=told(f"its steps: {odd[name]}", spec))

    def _take_choice(self, answer: Answer, choice: Choice) -> None:
        """Adds the text of a choice, or of its piece of a stream."""
        spec = self.spec
        message = choice.delta or choice.message
        if message is None and not spec.stream:
            raise ValueError("a choice without a message")
        message = message or ChatMessage()
        if spec.stream and (message.content or message.refusal):
            answer.note_text()
        if message.content and spec.diffusing and not spec.nfe_field:
            answer.note(nfe=(answer.facts.nfe or 0) + 1)
        if not spec.diffusing:
            answer.text += message.content
        elif message.content:
            answer.text = message.content
        answer.refusal += message.refusal
        answer.note(finish=choice.finish_reason)

    def listed(self) -> list[str]:
        try:
            listed, _ = listed_models(self._get(self.models))
        except Exception as error:  # noqa: BLE001  as above
            if unreachable(error) or getattr(error, "status_code", None) == 401:
                raise failure(error, self.spec) from None
            return []
        return listed

    def _find_model(self) -> None:
        spec = self.spec
        if KINDS[spec.kind].loads:
            self._load_model(f"model {spec.name}: {spec.base_url}")
            return
        listed, official = listed_models(self._get(self.models))
        if spec.model in listed:
            return
        try:
            self._get(f"{self.models}/{spec.model}")
        except self.sdk.APIStatusError as error:
            if official and error.status_code in (404, 405):
                raise self._unknown(listed) from None
            raise

    def _load_model(self, where: str) -> None:
        """Has the server load the model, as `transformers serve` does on request. Raises
        ModelError, which begins with `where`, if it can't.
        """
        spec = self.spec
        address = f"{spec.root}/load_model"
        for event in self._post(address, {"model": spec.model}, stream=True):
            if body_field(event, "status") == "error":
                message = masked(str(body_field(event, "message")), spec)
                raise ModelError(
                    f"{where.removesuffix('/v1')} can't load {spec.model!r}: {message}"
                )


class DiffulexClient(OpenAIClient):
    """A model of Diffulex's, asked at `/generate`: a stream has the canvas after each forward."""

    path = "/generate"
    models = "/v1/models"
    rooted = True

    def _take(self, answer: Answer, piece: Any) -> None:
        event = validated(Generated, piece, REPLY)
        if event.event in (None, "final"):
            self._take_final(answer, event, piece)
            return
        answer.begun = True
        if event.text:
            answer.note_text()
        if event.event == "buffer_snapshot":
            answer.canvases.add(event.token_offset, event.token_ids, event.nfe)

    def _take_final(self, answer: Answer, event: Generated, piece: Any) -> None:
        if event.text is None:
            raise ValueError("an answer without a text")
        answer.begun = True
        answer.text = event.text
        answer.note(
            # Its own chat completions say stop where it has no word.
            finish=event.finish_reason or "stop",
            nfe=event.nfe,
            tokens_out=len(event.token_ids),
            engine_seconds=event.engine_decode_time_s,
        )
        found: dict[str, Any] = {}
        if self.spec.tokenizer is not None:
            found["tokens"] = event.token_ids
        if answer.canvases.forwards is not None and event.nfe is not None:
            found["step_map"] = list(answer.canvases.steps(event.token_ids, event.nfe))
        facts, odd = usable_part(AnswerFacts, found)
        answer.note(**asdict(facts or AnswerFacts()))
        for name in odd:
            answer.note(unread=told(f"its steps: {odd[name]}", self.spec))


class AnthropicClient(Client):
    """A model of Anthropic's."""

    sdk_class = "Anthropic"
    header = ("x-api-key", "")
    path = "/v1/messages"
    end = "stop"

    def _take(self, answer: Answer, piece: Any) -> None:
        event = validated(Event, piece, REPLY)
        kind = event.type if self.spec.stream else "message"
        if kind is None:
            raise ValueError("an event without a type")
        if kind == "message":
            if event.content is None:
                raise ValueError("a message without content")
            answer.text = event.content
            self._note(answer, validated(Head, piece, REPLY))
        elif kind == "message_start":
            self._note(answer, event.message or Head())
        elif kind == "message_delta":
            end = body_field(event.delta, "stop_reason")
            self._note(answer, validated(Head, {"stop_reason": end, "usage": event.usage}, REPLY))
        elif kind == "content_block_start":
            self._add(answer, part_text(event.content_block))
        elif kind == "content_block_delta":
            self._add(answer, part_text(event.delta))

    def _note(self, answer: Answer, head: Head) -> None:
        """Keeps what is known of an answer beside its text."""
        answer.begun = True
        if head.usage is not None:
            counts = asdict(head.usage)
            known = {name: n for name, n in counts.items() if n is not None}
            answer.usage = replace(answer.usage, **known)
        sums = answer.usage
        tokens_in = None
        if sums.input_tokens is not None:
            cached = (sums.cache_creation_input_tokens, sums.cache_read_input_tokens)
            tokens_in = sums.input_tokens + sum(n or 0 for n in cached)
        answer.note(
            model=head.model,
            finish=head.stop_reason,
            tokens_in=tokens_in,
            tokens_out=sums.output_tokens,
        )

    def _add(self, answer: Answer, text: str) -> None:
        """Adds the text of a part of a streamed answer."""
        if text:
            answer.note_text()
            answer.text += text

    def _find_model(self) -> None:
        try:
            self._get(f"/v1/models/{self.spec.model}")
        except self.sdk.NotFoundError as error:
            if error.body in NO_ADDRESS:
                raise
            raise self._unknown([]) from None


def client_of(spec: ServerSpec) -> Client:
    """The client of a server, through its SDK. Raises ModelError without the SDK or the key."""
    mask_logs(spec)
    if KINDS[spec.kind].sdk == "anthropic":
        return AnthropicClient(spec)
    if KINDS[spec.kind].generates:
        return DiffulexClient(spec)
    return OpenAIClient(spec)
