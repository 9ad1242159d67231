"""One request to a server and its reply, with the digest by which an answer is found again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from pbcore.integrations.servers.spec import ServerSpec
from pbcore.tasks.base import Message


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request asks. `place` is the sample's number, so that equal prompts are drawn apart."""

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    seed: int
    place: int

    def digest(self, spec: ServerSpec) -> str:
        """Of everything that decides the answer: server, model id, prompt, parameters, seed and sample."""
        parts: dict[str, Any] = {
            "kind": spec.kind,
            "base_url": spec.base_url,
            "model": spec.model,
            "sampler": spec.sampler,
            "extra_body": spec.extra_body,
            "sent": [spec.temperature, spec.seed, spec.max_tokens_field],
            **asdict(self),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. What the server doesn't report is None.

    `finish` is the server's own word for why the answer ends; `outcomes` those of OUTCOMES that apply. `seconds` runs
    from the request to the end of the answer, `first_token` to the first piece of text of a streamed one. Tokens are
    the server's counts. `asked` is the time of the request (ISO 8601, UTC).
    """

    text: str
    seconds: float
    asked: str
    first_token: float | None = None
    model: str | None = None
    finish: str | None = None
    outcomes: tuple[str, ...] = ()
    tokens_in: int | None = None
    tokens_out: int | None = None
    nfe: int | None = None


class Client(Protocol):
    """A server through an SDK; used by several threads at once."""

    def ask(self, ask: Ask) -> Reply:
        """Raises ModelError without the key."""
        ...

    def check(self) -> None:
        """Raises ModelError if the server is down, refuses the key or doesn't know the model."""
        ...


OUTCOMES = ("empty", "length", "refusal", "content_filter")


def outcomes(text: str, *kinds: str | None) -> tuple[str, ...]:
    """The kinds of OUTCOMES that apply to an answer: `empty` from its text, others as the server says."""
    found = {kind for kind in kinds if kind in OUTCOMES} | ({"empty"} if not text.strip() else set())
    return tuple(kind for kind in OUTCOMES if kind in found)


def count(value: Any) -> int | None:
    """A count that a server reports, None for anything else."""
    return value if type(value) is int and 0 <= value < 10**12 else None


def word(value: Any) -> str | None:
    """A text that a server reports, None for anything else."""
    return value if isinstance(value, str) and value else None


def field_of(body: Any, path: str) -> Any:
    """The value at `usage.num_forwards` of an answer as mappings; None where there is none."""
    for part in path.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def text_of(content: Any) -> str:
    """The text of an answer's `content`: a text, none, or a list of texts and of typed parts (`{"type": "text", …}`; a
    part of another type, such as thinking, is not the answer). Raises ValueError for any other form.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"its content is neither a text nor a list, but of type {type(content).__name__}")
    return "".join(map(_text_of_part, content))


def _text_of_part(part: Any) -> str:
    kind = field_of(part, "type")
    if kind in ("text", "output_text"):
        return text_of(field_of(part, "text"))
    if isinstance(part, str):
        return part
    if not isinstance(kind, str):
        raise ValueError("its content is a list with parts of no type")
    return ""
