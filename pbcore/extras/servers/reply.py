"""One request to a server and its reply, and replies on disk as they come, so that none is paid for
twice.
"""

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pbcore.base.check import Packed, usable_part
from pbcore.base.printable import shown
from pbcore.extras.servers.forms import (
    ReportedAmount,
    ReportedCount,
    ReportedTokens,
    StepMap,
    Word,
    reported,
)
from pbcore.extras.servers.spec import KINDS, ServerSpec, fields_of
from pbcore.extras.servers.tokenizers import declared_tokenizer
from pbcore.models.base import Prompt
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName
from pbcore.tasks.base import Message, Sample


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request asks. `place` is the sample's number, so that equal prompts are drawn apart;
    `fields` say the sampler (`sampler_fields`); `ids` are the prompt's, where these are sent.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    seed: int
    place: int
    fields: dict[str, Any] = field(default_factory=dict)
    ids: tuple[int, ...] = ()

    def digest(self, spec: ServerSpec) -> str:
        """Of everything that decides the answer: server, model id, prompt, parameters, seed and
        sample.
        """
        request = asdict(self)
        for name in ("fields", "ids"):
            if not request[name]:
                del request[name]
        parts: dict[str, Any] = {
            "kind": spec.kind,
            "base_url": spec.base_url,
            "model": spec.model,
            "sampler": spec.sampler,
            "extra_body": spec.extra_body,
            "sent": [spec.temperature, spec.seed, spec.max_tokens_field],
            **request,
        }
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def ask_of(
    spec: ServerSpec,
    prompt: Prompt,
    sampler: SamplerName,
    max_new_tokens: int | None,
    seed: int,
    place: int = 0,
) -> Ask:
    """A request to a server, with the sampler's fields.

    Args:
        spec: the server.
        prompt: a Sample, a chat or a text; ids for a server that takes them.
        sampler: what the request says of the decoding.
        max_new_tokens: the most tokens of the answer; None: the task's or the declared limit.
        seed: of the decoding.
        place: number of a prompt that is not a Sample.

    Raises:
        ModelError: for infilling, and for token ids where the server takes none.
        InputError: for a sampler that doesn't fit the length.
    """
    limit = spec.max_tokens
    ids: tuple[int, ...] = ()
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
    elif KINDS[spec.kind].generates and all(isinstance(item, int) for item in prompt):
        messages = ()
        ids = tuple(item for item in prompt if isinstance(item, int))
    else:
        chat = [item for item in prompt if isinstance(item, Mapping)]
        if len(chat) < len(prompt):
            raise ModelError(
                f"{spec.name} takes samples, chats and texts; it can't be sent token ids"
            )
        messages = tuple({"role": item["role"], "content": item["content"]} for item in chat)
    tokenizer = declared_tokenizer(spec) if KINDS[spec.kind].generates and messages else None
    if tokenizer is not None:
        ids = tuple(tokenizer.chat(messages))
    tokens = max_new_tokens or limit
    fields: dict[str, Any] = {}
    if spec.sampler_fields:
        fields = fields_of(spec.sampler_fields, sampler, tokens, spec.name)
    return Ask(messages, tokens, sampler.temperature, seed, place, fields, ids)


Outcome = Literal["empty", "length", "refusal", "content_filter"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
Outcomes = Annotated[tuple[str, ...], Packed(list[Outcome], tuple)]


@reported
@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. What the server doesn't report is None.

    `finish` is the server's own word for why the answer ends (FINISH_REASONS); `outcomes` those of
    OUTCOMES that apply. `seconds` runs from the request to the end of the answer, `first_token` to
    the first piece of text of a streamed one, `engine_seconds` are those that the server counted.
    Tokens are the server's counts. `asked` is the time
    of the request (ISO 8601, UTC). `step_map` has the step of each token as the server counts it,
    `tokens` their texts or ids; `unread` says what is wrong with them where they can't be read.
    """

    text: str
    seconds: ReportedAmount
    asked: str
    first_token: ReportedAmount | None = None
    model: Word | None = None
    finish: Word | None = None
    outcomes: Outcomes = field(kw_only=True)
    tokens_in: ReportedCount | None = None
    tokens_out: ReportedCount | None = None
    nfe: ReportedCount | None = None
    step_map: StepMap | None = None
    tokens: ReportedTokens | None = None
    unread: Word | None = None
    engine_seconds: ReportedAmount | None = None


@reported
@dataclass(frozen=True, slots=True)
class AnswerCost:
    """What stands beside a kept reply: its cost in USD, or the most that it can have been."""

    cost: ReportedAmount | None = None
    at_most: ReportedAmount | None = None


class LeftOutWarning(UserWarning):
    """A value that a server reported, or that is kept from an earlier run, can't be used and is
    left out.
    """


class AnswerStore:
    """The answers of one cell, by the digest of what was asked; `path` None keeps them in memory
    only. The file is only ever appended to, a JSON line at a time, on disk before `add` returns. A
    line that a crash cut short is left where it is and counts as not answered, and so does one that
    the model didn't end; `left_out` says what else of the file can't be used.
    """

    def __init__(self, path: Path | None, write: bool = True) -> None:
        self._path = path
        self._write = write
        self._lock = threading.Lock()
        kept = Kept() if path is None else read_answers(path)
        self.replies: dict[str, Reply] = kept.replies
        self.left_out: list[str] = kept.left_out

    def add(self, digest: str, reply: Reply, facts: Mapping[str, Any]) -> None:
        """Keeps an answer in memory and, if the store has a file, on disk before it returns.

        Args:
            digest: of the request.
            reply: the server's.
            facts: stand beside the reply in the file: its cost, sample and seed.
        """
        with self._lock:
            if ended(reply):
                self.replies[digest] = reply
            if self._path is None or not self._write:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as stream:
                if stream.tell():
                    stream.seek(-1, os.SEEK_END)
                torn = stream.read(1) not in (b"", b"\n")
                line = json.dumps({"key": digest, **facts, **asdict(reply)}, ensure_ascii=True)
                before = b"\n" if torn else b""
                stream.write(before + line.encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file of answers holds: the last reply to each request, by its digest; the cost of
    every answer that has a known one, in USD, and the most that each of the others can have cost;
    and a line on everything that can't be used, which is left out.
    """

    replies: dict[str, Reply] = field(default_factory=dict)
    costs: list[float] = field(default_factory=list)
    at_most: list[float] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read_answers(path: Path) -> Kept:
    """A file of answers; empty if it isn't there. What a crash cut short, or what was edited or
    damaged, is left out: the whole line if it has no reply that can be scored, else the value
    alone.
    """
    kept = Kept()
    if not path.is_file():
        return kept
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            faults = ["it is cut short or damaged and counts as not answered"]
        else:
            faults = _keep(row, kept)
        kept.left_out.extend(f"{path.name}, line {number}: {fault}" for fault in faults)
    return kept


def _keep(row: Any, kept: Kept) -> list[str]:
    """Adds a line's reply and cost, and says what of it can't be used."""
    if not isinstance(row, dict) or not isinstance(row.get("key"), str):
        return ["it names no request and counts as not answered"]
    costs, unusable = usable_part(AnswerCost, row)
    if costs is not None and costs.cost is not None:
        kept.costs.append(costs.cost)
    if costs is not None and costs.at_most is not None:
        kept.at_most.append(costs.at_most)
    reply, damaged = usable_part(Reply, row)
    faults = [
        f"{name} {shown(row.get(name))} can't be used and is left out"
        for name in (*unusable, *damaged)
    ]
    if reply is None:
        return [*faults, "without it the line counts as not answered"]
    if not ended(reply):
        why = f"the server ended it ({shown(reply.finish)}), so it counts as not answered"
        return [*faults, why]
    kept.replies[row["key"]] = reply
    return faults


# Words with which servers say that the model ended its answer, and the outcome that each means. An
# answer with any other word (`abort`, `error`, `pause_turn` …) was not ended by the model.
FINISH_REASONS: dict[str, str | None] = {
    "stop": None,  # OpenAI, and all that are compatible with it
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": None,
    "function_call": None,
    "eos": None,  # Together
    "eos_token": None,  # TGI
    "stop_sequence": None,  # TGI, Anthropic
    "model_length": "length",  # Mistral
    "end_turn": None,  # Anthropic
    "tool_use": None,
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "eos_token_generated": None,  # Diffulex
    "max_new_tokens_reached": "length",
    "max_model_len_reached": "length",
    "max_nfe_reached": "length",
    "max_repetition_run_reached": "length",
}


def ended(reply: Reply) -> bool:
    """Whether the model ended the answer, as far as the server says."""
    return reply.finish is None or reply.finish in FINISH_REASONS


def reply_outcomes(text: str, *kinds: str | None) -> tuple[str, ...]:
    """The kinds of OUTCOMES that apply to an answer: `empty` from its text, others as the server
    says.
    """
    applying = set(kinds)
    if not text.strip():
        applying.add("empty")
    return tuple(outcome for outcome in OUTCOMES if outcome in applying)


def reported_error(body: Any) -> Any:
    """What a reply says in the place of an answer: an object with `error`, of the kind `error`, or
    with `detail` or `message` alone; None for any other reply.
    """
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return body["error"]
    if body.get("object") == "error" or body.get("type") == "error":
        return body
    if not body.keys() & {"choices", "content", "type"} and (body.keys() & {"detail", "message"}):
        return body
    return None


def body_field(body: Any, path: str | None) -> Any:
    """The value at `usage.num_forwards`, or `choices.0.step_map`, of an answer; None where there is
    none.
    """
    if not path:
        return None
    for part in path.split("."):
        if isinstance(body, list) and part.isdecimal():
            index = int(part)
            body = body[index] if index < len(body) else None
        elif isinstance(body, dict):
            body = body.get(part)
        else:
            body = None
    return body
