"""Servers: whatever they reply, an answer is read as it stands and its record can be read again, or
one line refuses it; so do declarations of servers and files of kept answers.
"""

from __future__ import annotations

import json
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import yaml

from pbcore.base.check import dump_json
from pbcore.base.errors import InputError
from pbcore.extras.servers import engines, http
from pbcore.extras.servers.clients import Client, body_of, client_of
from pbcore.extras.servers.declared import read_specs
from pbcore.extras.servers.model import ServerModel, Session
from pbcore.extras.servers.reply import (
    AnswerStore,
    Ask,
    Reply,
    ask_of,
    body_field,
    ended,
    read_answers,
)
from pbcore.extras.servers.spec import ServerSpec, fields_of
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import pieces as pieces_of
from pbcore.names import parse
from pbcore.results.build import sample_record
from pbcore.results.rundir import parse_cell
from pbcore.tasks.scoring import Scored
from tests.extras.servers.engines import sglang_info, vllm_config, vllm_metrics
from tests.extras.servers.wire import Wire, spec_of, sse
from tests.fuzz.damage import damaged_bytes, damaged_text, damaged_value, noise
from tests.fuzz.outcomes import COUNTS, Silent, fuzz
from tests.results.factory import cell

TEXT = 'Sure: ["Ann", "Bo"] — é'
TOKENS = ["Sure", ":", ' ["', "Ann", '", "', "Bo", '"]', " — é"]
ASK = Ask(({"role": "user", "content": "Copy."},), 32, 0.0, 0, 0)
HANG = 30  # seconds for one input that takes a few milliseconds
ODD = [10**9, 10**11, 2**63, 10**300, 1e300, float("nan"), float("inf"), -1, "soon", [[]], "\ud800"]


class Given(NamedTuple):
    """A reply to a request: what a server of `kind` sends. `expected` is what a client must read
    of it (None: it must refuse), if a second reading of the same values can tell (`known`).
    """

    kind: str
    stream: bool
    status: int
    headers: dict[str, str]
    body: bytes
    expected: str | None
    known: bool


@contextmanager
def bounded() -> Iterator[None]:
    """Ends what hangs."""

    def ring(number: int, frame: Any) -> None:
        raise AssertionError(f"it takes more than {HANG} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    wire = Wire()
    monkeypatch.setattr(http, "http_client", wire.client)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield wire


SPECS = {
    ("openai", True): spec_of("openai", True, nfe_field="usage.forwards"),
    ("openai", False): spec_of(
        "openai",
        False,
        sampler="threshold-0.9",
        step_map_field="choices.0.steps",
        tokens_field="choices.0.tokens",
    ),
    ("anthropic", True): spec_of("anthropic", True),
    ("anthropic", False): spec_of("anthropic", False),
}
MODELS = {key: ServerModel(spec) for key, spec in SPECS.items()}


def whole(kind: str) -> Any:
    """A reply that is no stream."""
    if kind == "anthropic":
        blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": TEXT}]
        usage = {"input_tokens": 7, "output_tokens": 9}
        return {
            "type": "message",
            "model": "m-1",
            "content": blocks,
            "stop_reason": "end_turn",
            "usage": usage,
        }
    return {
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": TEXT, "refusal": None},
                "finish_reason": "stop",
                "steps": [1, 2, 1, 3, 2, 4, 4, 5],
                "tokens": TOKENS,
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 8},
    }


def pieces(kind: str) -> list[Any]:
    """The events of a stream."""
    if kind == "anthropic":
        start = {"model": "m-1", "usage": {"input_tokens": 7, "output_tokens": 1}}
        deltas = [{"type": "text_delta", "text": token} for token in TOKENS]
        return [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 9},
            },
            {"type": "message_stop"},
        ]
    parts = [{"index": 0, "delta": {"content": token}} for token in TOKENS]
    return [
        *({"model": "m-1", "choices": [part]} for part in parts),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 8, "forwards": 5}},
    ]


def reading(kind: str, stream: bool, value: Any) -> str | None:
    """The text of an answer by a second, obvious reading; None where there is none to be had, so
    that the client must refuse.
    """
    try:
        if kind == "anthropic" and not stream:
            return words(value["content"] if isinstance(value["content"], list) else 0)
        if kind == "anthropic":
            parts = [
                one["content_block" if one["type"] == "content_block_start" else "delta"]
                for one in value
                if one["type"] in ("content_block_start", "content_block_delta")
            ]
            texts = [part for part in parts if part["type"] in ("text", "text_delta")]
            return "".join(words(part.get("text")) for part in texts)
        answers = []
        for one in value if stream else [value]:
            for choice in one["choices"][:1]:
                part = choice.get("delta") or choice.get("message")
                if part is None and stream:
                    continue
                answers.append(words(part.get("content")))
        return "".join(answers)
    except (AttributeError, KeyError, TypeError):
        return None


def words(content: Any) -> str:
    """A content that is a text, none, or a list of texts and parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError("no text")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif part["type"] in ("text", "output_text"):
            texts.append(words(part.get("text")))
    return "".join(texts)


def reply(random: Random) -> Given:
    """A reply of a server, damaged in its values, text, bytes, status or headers."""
    kind = random.choice(["openai", "anthropic"])
    stream = random.random() < 0.5
    value = pieces(kind) if stream else whole(kind)
    how = random.random()
    if how < 0.6:
        value = odd(random, damaged_value(random, value, 3))
        if stream and not isinstance(value, list):
            value = [value]
    expected = reading(kind, stream, value)
    body = sse(value, kind) if stream else json.dumps(value).encode()
    if 0.6 <= how < 0.75:
        body = damaged_text(random, body.decode(), 5).encode("utf-8", "surrogatepass")
    elif 0.75 <= how < 0.9:
        body = damaged_bytes(random, body.decode())
    elif how > 0.99:
        body = random.choice(
            [b"[" * 50_000, b'{"a":' * 50_000, b"\x00" * 9, b"", noise_bytes(random)]
        )
    headers = {"content-type": "text/event-stream" if stream else "application/json"}
    status = 200
    if random.random() < 0.1:
        charset = random.choice(["rot13", "hex", "utf-16", "undefined", "x", "é", "utf-7"])
        headers["content-type"] += f"; charset={charset}"
    if random.random() < 0.05:
        headers["content-type"] = random.choice(["", "text/html", "application/octet-stream"])
    if random.random() < 0.05:
        status = random.choice([201, 204, 302, 400, 401, 404, 422, 429, 500, 529, 599])
    kinds = ("text/event-stream", "application/json")
    known = how < 0.6 and status == 200 and headers["content-type"] in kinds
    return Given(kind, stream, status, headers, body, expected, known)


def odd(random: Random, value: Any) -> Any:
    """With one number, deep inside, that no count and no record can be."""
    if random.random() < 0.7:
        return value
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        return {**value, key: odd_inside(random, value[key])}
    if isinstance(value, list) and value:
        place = random.randrange(len(value))
        return [*value[:place], odd_inside(random, value[place]), *value[place + 1 :]]
    return random.choice(ODD)


def odd_inside(random: Random, value: Any) -> Any:
    nested = isinstance(value, dict | list) and value
    return odd(random, value) if nested else random.choice(ODD)


def noise_bytes(random: Random) -> bytes:
    return noise(random).encode("utf-8", "surrogatepass")


def check_reply(wire: Wire, clients: Mapping[Any, Client], folder: Path, given: Given) -> None:
    """Text as a second reading has it; what is kept and recorded reads again as it was."""
    key = given.kind, given.stream
    wire.pages = lambda path: (given.status, given.headers, given.body)
    with bounded():
        answer = clients[key].ask(ASK)
        if given.known and answer.text != given.expected and not refused(given):
            raise Silent(f"{answer.text!r}, not {given.expected!r}")
        file = folder / "answers.jsonl"
        AnswerStore(file).add("k", answer, {"cost": None})
        kept = read_answers(file)
        file.unlink()
        assert kept.replies == ({"k": answer} if ended(answer) else {})
        assert bool(kept.left_out) != ended(answer)
        recorded(MODELS[key], answer)


def refused(given: Given) -> bool:
    """Whether the text may be a refusal, which stands in an empty answer's place."""
    return b'"refusal": ' in given.body and b'"refusal": null' not in given.body


def recorded(model: ServerModel, answer: Reply) -> None:
    """Asserts that a cell with this answer, kept by an earlier run, is written and read again."""
    sampler = parse(model.spec.sampler)
    generation, faults = model.generations.of(answer, True, ASK, "Copy.", sampler)
    assert all("\n" not in fault for fault in faults)
    sample = sample_record(0, generation, Scored({"accuracy": 1.0}, {}), pieces=pieces_of(model))
    part = Session(model.spec, AnswerStore(None), 8, asked=1).part([sample])
    record, samples = cell(n=1, right=[1.0], nfe=3)
    text = dump_json(
        {
            "schema": 2,
            "cell": replace(record, served=part).to_json(),
            "samples": [{**asdict(samples[0]), "served": sample.served, "text": sample.text}],
        }
    )
    assert parse_cell(text, "cell").cell.served is not None


def page(random: Random) -> tuple[str, tuple[int, dict[str, str], bytes]]:
    """A kind of server, and what all of its pages hold: often its own settings."""
    kind = random.choice(["vllm", "sglang", "llamacpp", "openai", "anthropic"])
    settings = {
        "vllm": json.dumps(vllm_config(random.choice([None, 32, 256]))),
        "sglang": json.dumps(sglang_info(random.choice([None, "LowConfidence", "Odd"]), "x.yaml")),
    }
    texts = [
        json.dumps({"version": "1.2", "build_info": "b1"}),
        *settings.values(),
        json.dumps({"data": [{"id": "m"}, {"id": "n"}]}),
        vllm_metrics(random.randrange(100), 9),
    ]
    text = random.choice(texts)
    if random.random() < 0.5:
        text = settings.get(kind, text)
    how = random.random()
    if how < 0.5 and text.startswith("{"):
        text = json.dumps(odd(random, damaged_value(random, json.loads(text), 3)))
    elif how < 0.7:
        text = damaged_text(random, text, 5)
    data = text.encode("utf-8", "surrogatepass")
    if how > 0.97:
        deep = b"[" * random.choice([10, 400, 990, 5000, 100_000])
        data = random.choice([deep, b'{"vllm_config": ' + deep + b"]" * len(deep) + b"}"])
    elif how > 0.85:
        data = damaged_bytes(random, text)
    charset = random.choice(["utf-8", "rot13", "hex", "utf-16", "undefined", "idna", "é"])
    headers = {"content-type": f"application/json; charset={charset}"}
    return kind, (random.choice([200] * 9 + [401, 404, 500]), headers, data)


def check_page(wire: Wire, given: tuple[str, tuple[int, dict[str, str], bytes]]) -> None:
    """What a record keeps of it is plain and in range; what contradicts the declaration, or refuses
    the key, is refused, and a line notes what isn't the list of models.
    """
    kind, answer = given
    wire.pages = lambda path: answer
    sampler = {"vllm": "eb-0.1+b256", "sglang": "threshold-0.95+b4"}.get(kind, "ar")
    spec = spec_of(kind, True, sampler=sampler)
    with bounded():
        version = engines.version(spec)
        assert version is None or (isinstance(version, str) and 0 < len(version) <= 200)
        said = engines.server_settings(spec)
        assert json.loads(dump_json(said)) is not None
        counted = engines.counters(spec)
        assert all(0 <= value <= 1e15 for value in counted.values())
        engines.check_sampler(spec)
        note = client_of(spec).check()
        assert note is None or one_readable(note)


DECLARED: dict[str, Any] = {
    "qwen": {
        "kind": "vllm",
        "base_url": "http://localhost:8000/v1",
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "max_tokens": 64,
        "task_max_tokens": {"copy": 32},
        "prices": {"input": 0.25, "output": 1.0},
        "extra_body": {"top_k": 1, "chat_template_kwargs": {"enable_thinking": False}},
        "concurrency": 4,
        "timeout": 9.5,
        "stream": False,
        "step_map_field": "choices.0.steps",
        "tokens_field": "choices.0.tokens",
    },
    "dlm": {
        "kind": "dlmserve",
        "base_url": "http://localhost:8001/v1",
        "model": "GSAI-ML/LLaDA-8B-Instruct",
        "key": "SOME_KEY",
        "sampler": "threshold-0.9+b8",
        "extra_body": {"xargs": {"seed": 3}, "list": [1, 2]},
        "sampler_fields": {
            "threshold": {"number": "xargs.threshold", "b": "xargs.block.length"},
            "confidence": {"steps": "num_denoising_steps", "b": "block_length"},
        },
    },
}
PLACES = ["xargs", "xargs.seed", "list", "list.0", "xargs.block", "a", "a.b", "model", "stream"]


def declaration(random: Random) -> str | bytes:
    """A models file, damaged."""
    entries = {name: DECLARED[name] for name in random.choice([["qwen"], ["dlm"], list(DECLARED)])}
    how = random.random()
    if how < 0.6:
        entries = damaged_value(random, entries)
    if how < 0.4 and isinstance(entries, dict) and isinstance(entries.get("dlm"), dict):
        parts = [random.choice(PLACES) for _ in range(2)]
        places = {"threshold": dict(zip(("number", "b"), parts, strict=True))}
        entries["dlm"] = {**entries["dlm"], "sampler_fields": places}
    text = yaml.safe_dump(entries, allow_unicode=random.random() < 0.5, sort_keys=False)
    if 0.6 <= how < 0.8:
        return damaged_text(random, text)
    return damaged_bytes(random, text) if how >= 0.8 else text


def check_declaration(wire: Wire, given: str | bytes) -> None:
    """Each key is as declared; each request holds every value of extra_body and, at its place,
    every part of the sampler.
    """
    data = given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8") from error
    with bounded():
        specs = read_specs(text, "my.yaml")
        declared = yaml.safe_load(text)
        assert list(specs) == list(declared)
        for name, spec in specs.items():
            for key, value in declared[name].items():
                held = getattr(spec, key)
                if key in ("sampler", "base_url", "prices"):
                    continue
                if json.dumps(held) != json.dumps(value) and held != value:
                    raise Silent(f"{key} {value!r} became {held!r}")
            assert spec.refusal(parse(spec.sampler)) is None
            client_of(spec)
            check_request(spec)


def check_request(spec: ServerSpec) -> None:
    """Asserts that a request says all that was declared."""
    sampler = parse(spec.sampler)
    ask = ask_of(spec, "Copy.", sampler, None, 3)
    body = body_of(spec, ask)
    sent = fields_of(spec.sampler_fields, sampler, ask.max_tokens, "m") if ask.fields else {}
    for place, value in sent.items():
        if body_field(body, place) != value:
            raise Silent(f"{place} is {body_field(body, place)!r}, not {value!r}")
    for path, value in leaves(spec.extra_body):
        held: Any = body
        for part in path:
            held = held[part]
        if held is not value and held != value and held == held:
            raise Silent(f"{path} is {held!r}, not {value!r}")
    json.dumps(body)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each value below a mapping that is none itself, with its keys."""
    for key, one in value.items():
        if isinstance(one, dict):
            yield from leaves(one, (*path, key))
        else:
            yield (*path, key), one


ROWS = [
    {"key": "k1", "sample": 0, "seed": 0, "cost": 0.25, "text": TEXT, "seconds": 1.5}
    | {"asked": "2026-01-01T00:00:00+00:00", "first_token": 0.5, "model": "m", "finish": "stop"}
    | {"outcomes": [], "tokens_in": 7, "tokens_out": 8, "nfe": None, "step_map": [1, 2, 1]}
    | {"tokens": ["Sure", 3, ":"], "unread": None},
    {"key": "k2", "cost": None, "at_most": 0.5, "text": "", "seconds": 0, "asked": "x"}
    | {"outcomes": ["empty", "length"], "nfe": 5},
]


def kept(random: Random) -> bytes:
    """A file of kept answers, damaged."""
    rows = [dict(random.choice(ROWS), key=f"k{number}") for number in range(3)]
    how = random.random()
    if how < 0.6:
        rows = [odd(random, damaged_value(random, row)) for row in rows]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if 0.6 <= how < 0.75:
        return damaged_text(random, text).encode("utf-8", "surrogatepass")
    if 0.75 <= how < 0.97:
        return damaged_bytes(random, text)
    return text.encode() + b"[" * random.choice([3, 100_000])


def check_kept(file: Path, data: bytes) -> None:
    """Each line has a usable reply or a line that says what is wrong; what is used can be scored
    and recorded.
    """
    file.write_bytes(data)
    with bounded():
        found = read_answers(file)
        written = [line for line in data.split(b"\n") if line.strip()]
        faulty = {fault.split(":")[0] for fault in found.left_out}
        assert len(found.left_out) == 0 or all(one_readable(fault) for fault in found.left_out)
        keys = [json.loads(line).get("key") for line in written if is_object(line)]
        if len(written) > len(found.replies) + len(faulty) + len(keys) - len(set(map(str, keys))):
            raise Silent("a line was lost")
        for amounts in (found.costs, found.at_most):
            assert all(0 <= usd <= 1e9 for usd in amounts)
        for answer in found.replies.values():
            if all(isinstance(token, str) for token in answer.tokens or ()):
                recorded(MODELS["openai", False], answer)


def one_readable(fault: str) -> bool:
    return fault.isprintable() and len(fault) < 500


def is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


@pytest.mark.parametrize("count", COUNTS)
class TestServers:
    def test_replies(self, wire: Wire, tmp_path: Path, count: int) -> None:
        """Of OpenAI-compatible servers and of Anthropic's, streamed and whole, through the SDKs."""
        clients = {key: client_of(spec) for key, spec in SPECS.items()}
        fuzz(
            "replies",
            count,
            reply,
            lambda given: check_reply(wire, clients, tmp_path, given),
            ModelError,
        )

    def test_pages(self, wire: Wire, count: int) -> None:
        """Versions, settings, counters and lists of models."""
        fuzz("pages", count, page, lambda given: check_page(wire, given), ModelError)

    def test_declarations(self, wire: Wire, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        """Models files, with places that collide."""
        monkeypatch.setenv("SOME_KEY", "sk-0123456789")
        fuzz(
            "declarations",
            count,
            declaration,
            lambda given: check_declaration(wire, given),
            (InputError, ModelError),
        )

    def test_kept_answers(self, tmp_path: Path, count: int) -> None:
        """Files of answers beside cells."""
        file = tmp_path / "cell.answers.jsonl"
        fuzz("kept answers", count, kept, lambda data: check_kept(file, data), refusals=())
