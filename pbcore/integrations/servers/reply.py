"""One request to a server and its reply, and replies on disk as they come, so that none is paid for
twice.
"""

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pbcore.integrations.servers.spec import ServerSpec, fields_of
from pbcore.models.base import Prompt
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName
from pbcore.tasks.base import Message, Sample


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request asks. `place` is the sample's number, so that equal prompts are drawn apart;
    `fields` say the sampler (`sampler_fields`).
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    seed: int
    place: int
    fields: dict[str, Any] = field(default_factory=dict)

    def digest(self, spec: ServerSpec) -> str:
        """Of everything that decides the answer: server, model id, prompt, parameters, seed and
        sample.
        """
        parts: dict[str, Any] = {
            "kind": spec.kind,
            "base_url": spec.base_url,
            "model": spec.model,
            "sampler": spec.sampler,
            "extra_body": spec.extra_body,
            "sent": [spec.temperature, spec.seed, spec.max_tokens_field],
            **{name: value for name, value in asdict(self).items() if name != "fields" or value},
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def ask_of(
    spec: ServerSpec,
    prompt: Prompt,
    sampler: SamplerName,
    max_new_tokens: int | None,
    seed: int,
    place: int = 0,
) -> Ask:
    """A question to a server: the length as asked for, else the task's or the declared one, and the
    sampler's fields. `place` is that of a prompt which is no sample. Raises ModelError for prompts
    that no server can be asked, InputError for a sampler that doesn't fit that length.
    """
    limit = spec.max_tokens
    if isinstance(prompt, Sample):
        if prompt.canvas is not None:
            raise ModelError(
                f"{spec.name} can't do infilling (task {prompt.task}); leave the task out"
            )
        messages = prompt.messages
        place = prompt.index
        limit = prompt.answer_limit(spec.answer_limit(prompt.task))
    elif isinstance(prompt, str):
        messages = ({"role": "user", "content": prompt},)
    else:
        chat = [item for item in prompt if isinstance(item, Mapping)]
        if len(chat) < len(prompt):
            raise ModelError(
                f"{spec.name} takes samples, chats and texts; it can't be sent token ids"
            )
        messages = tuple({"role": item["role"], "content": item["content"]} for item in chat)
    tokens = max_new_tokens or limit
    fields = (
        fields_of(spec.sampler_fields, sampler, tokens, spec.name) if spec.sampler_fields else {}
    )
    return Ask(messages, tokens, sampler.temperature, seed, place, fields)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. What the server doesn't report is None.

    `finish` is the server's own word for why the answer ends; `outcomes` those of OUTCOMES that
    apply. `seconds` runs from the request to the end of the answer, `first_token` to the first
    piece of text of a streamed one. Tokens are the server's counts. `asked` is the time of the
    request (ISO 8601, UTC). `step_map` has the step of each token as the server counts it, `tokens`
    their texts or ids.
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
    step_map: tuple[int, ...] | None = None
    tokens: tuple[str | int, ...] | None = None


class AnswerStore:
    """The answers of one cell, by the digest of what was asked; `path` None keeps them in memory
    only. The file is only ever appended to, a JSON line at a time, on disk before `add` returns. A
    line that a crash cut short is left where it is and counts as not answered.
    """

    def __init__(self, path: Path | None, write: bool = True) -> None:
        self._path, self._write, self._lock = path, write, threading.Lock()
        self.known: dict[str, Reply] = {}
        for row in [] if path is None else lines(path):
            values = {f.name: row[f.name] for f in fields(Reply) if f.name in row}
            if isinstance(values.get("text"), str) and isinstance(values.get("outcomes"), list):
                lists = {
                    name: tuple(value) for name, value in values.items() if isinstance(value, list)
                }
                self.known[row["key"]] = Reply(**{**values, **lists})

    def add(self, digest: str, reply: Reply, facts: Mapping[str, Any]) -> None:
        """Keeps an answer; `facts` (its cost, sample and seed) stand beside it in the file."""
        with self._lock:
            self.known[digest] = reply
            if self._path is None or not self._write:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as stream:
                if stream.tell():
                    stream.seek(-1, os.SEEK_END)
                torn = stream.read(1) not in (b"", b"\n")
                line = json.dumps({"key": digest, **facts, **asdict(reply)}, ensure_ascii=True)
                stream.write((b"\n" if torn else b"") + line.encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of answers, those that a crash cut short left out."""
    rows = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("key"), str):
            rows.append(row)
    return rows


OUTCOMES = ("empty", "length", "refusal", "content_filter")


def outcomes(text: str, *kinds: str | None) -> tuple[str, ...]:
    """The kinds of OUTCOMES that apply to an answer: `empty` from its text, others as the server
    says.
    """
    found = {kind for kind in kinds if kind in OUTCOMES} | (
        {"empty"} if not text.strip() else set()
    )
    return tuple(kind for kind in OUTCOMES if kind in found)


def count(value: Any) -> int | None:
    """A count that a server reports, None for anything else."""
    return value if type(value) is int and 0 <= value < 10**12 else None


def steps_of(value: Any) -> tuple[int, ...] | None:
    """The steps of an answer's tokens, None if there are none. Raises ValueError for any other
    form.
    """
    if value is None:
        return None
    if not isinstance(value, list) or any(count(step) is None for step in value):
        raise ValueError("its step map is no list of counts")
    return tuple(value)


def tokens_of(value: Any) -> tuple[str | int, ...] | None:
    """The tokens of an answer: a list of texts, of ids, or of mappings with `token`, as
    log-probabilities have them; None if there are none. Raises ValueError for any other form.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("its tokens are no list")
    tokens = [field_of(one, "token") if isinstance(one, dict) else one for one in value]
    if not all(isinstance(one, str) or count(one) is not None for one in tokens):
        raise ValueError("its tokens are neither texts nor ids")
    return tuple(tokens)


def word(value: Any) -> str | None:
    """A text that a server reports, None for anything else."""
    return value if isinstance(value, str) and value else None


def field_of(body: Any, path: str | None) -> Any:
    """The value at `usage.num_forwards`, or `choices.0.step_map`, of an answer; None where there is
    none.
    """
    if not path:
        return None
    for part in path.split("."):
        if isinstance(body, list) and part.isdecimal():
            body = dict(enumerate(body)).get(int(part))
        else:
            body = body.get(part) if isinstance(body, dict) else None
    return body


def text_of(content: Any) -> str:
    """The text of an answer's `content`: a text, none, or a list of texts and of typed parts
    (`{"type": "text", …}`; a part of another type, such as thinking, is not the answer). Raises
    ValueError for any other form.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(
            f"its content is neither a text nor a list, but of type {type(content).__name__}"
        )
    texts = []
    for part in content:
        kind = field_of(part, "type")
        if not isinstance(part, str) and not isinstance(kind, str):
            raise ValueError("its content is a list with parts of no type")
        if isinstance(part, str) or kind in ("text", "output_text"):
            texts.append(part if isinstance(part, str) else text_of(field_of(part, "text")))
    return "".join(texts)
