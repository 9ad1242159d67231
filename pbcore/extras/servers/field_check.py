"""Do the fields that say a server's sampler have an effect? Each is sent with two values far apart
to the same prompts; a field that changes neither answers nor forwards is inert.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pbcore.base.printable import counted
from pbcore.decoding import resolve
from pbcore.extras.servers.field_states import FieldState
from pbcore.extras.servers.reply import Ask, Reply, ask_of
from pbcore.extras.servers.spec import (
    BLOCK,
    FLAGS,
    NUMBER,
    STEPS,
    ServerSpec,
    fields_of,
    why_not,
)
from pbcore.models.base import Prompt
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName, SamplerNameError

if TYPE_CHECKING:
    from pbcore.extras.servers.served_engine import ServedEngine

PROMPTS = 12
TOKENS = 32  # at least, of an answer
NUMBERS = (0.001, 0.01, 0.1, 0.5, 0.99, 1, 2, 4, 8, 16, 64, 1000)  # of which a policy takes some


@dataclass(frozen=True, slots=True)
class FieldResult:
    """What came of a field: `values` are the two that were sent, `changed` of `of` prompts had
    other answers or forwards; `text` says why it is unsettled or failed.
    """

    policy: str
    part: str
    field: str
    values: tuple[Any, ...]
    verdict: FieldState | str
    changed: int = 0
    of: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a server answers: by these two a field shows."""

    text: str
    tokens: tuple[str | int, ...] | None
    nfe: int | None


def check_fields(engine: ServedEngine, prompts: Sequence[Prompt]) -> Iterator[FieldResult]:
    """The results of all fields of a row, one by one. Requests are sent one after another, so that
    none depends on which came with it.

    Args:
        engine: the server.
        prompts: which are asked.
    """
    spec = engine.spec
    for policy, places in spec.sampler_fields.items():
        base = base_sampler(spec, policy)
        if base is None:
            for part, place in places.items():
                text = f"no sampler {policy} has a value for each of its fields"
                yield FieldResult(policy, part, place, (), "unsettled", text=text)
            continue
        yield from _of_policy(engine, prompts, base)


def _of_policy(
    engine: ServedEngine, prompts: Sequence[Prompt], base: SamplerName
) -> Iterator[FieldResult]:
    spec = engine.spec
    policy = base.policy
    tokens = answer_tokens(base)
    fields = fields_of(spec.sampler_fields, base, tokens, spec.name)
    asks = [ask_of(spec, prompt, base, tokens, 0, at) for at, prompt in enumerate(prompts)]
    places = spec.sampler_fields[policy]
    try:
        first = _seen(engine, asks)
        again = _seen(engine, asks)
    except (ModelError, TimeoutError) as error:
        for part, place in places.items():
            yield FieldResult(policy, part, place, (fields[place],), "failed", text=str(error))
        return
    steady = [at for at in range(len(asks)) if first[at] == again[at]]
    for part, place in places.items():
        far = far_value(spec, base, part, tokens)
        values = (fields[place],) if far is None else (fields[place], far)
        result = FieldResult(policy, part, place, values, "unsettled", of=len(steady))
        if far is None:
            yield replace(result, text="it takes no second value")
            continue
        if not steady or not any(first[at].text.strip() for at in steady):
            why = "its answers are empty" if steady else "equal requests had unequal answers"
            yield replace(result, text=why)
            continue
        varied = [replace(ask, fields={**ask.fields, place: far}) for ask in asks]
        try:
            seen = _seen(engine, [varied[at] for at in steady])
        except (ModelError, TimeoutError) as error:
            yield replace(result, verdict="failed", text=str(error))
            continue
        changed = sum(first[at] != other for at, other in zip(steady, seen, strict=True))
        yield replace(result, verdict="effective" if changed else "inert", changed=changed)


def _seen(engine: ServedEngine, asks: Sequence[Ask]) -> list[_Seen]:
    """What the server answers, one request after another. Raises ModelError and TimeoutError."""
    replies: list[Reply] = []
    for ask in asks:
        replies += engine.replies([ask], engine.timeout)
    return [_Seen(reply.text, reply.tokens, reply.nfe) for reply in replies]


def most_requests(spec: ServerSpec, prompts: int) -> str:
    """How many requests a check sends at most, and how long their answers may be.

    Args:
        spec: the server.
        prompts: how many are asked.
    """
    requests = 0
    longest = 0
    for policy, places in spec.sampler_fields.items():
        base = base_sampler(spec, policy)
        if base is not None:
            requests += prompts * (2 + len(places))
            longest = max(longest, answer_tokens(base))
    return f"at most {counted(requests, 'request')} for {counted(longest, 'token')} each"


def base_sampler(spec: ServerSpec, policy: str) -> SamplerName | None:
    """A sampler with this policy that the row's fields can say: its declared one, or the simplest;
    None if there is none.
    """
    named = [spec.sampler]
    for end in ("+b8", "", "+b8+linear4", "+linear8"):
        named += [policy + end, f"{policy}-k1{end}"]
    for text in named:
        try:
            sampler = resolve(text).name
        except SamplerNameError:
            continue
        if sampler.policy == policy and why_not(spec.sampler_fields, sampler) is None:
            return sampler.alone
    return None


def answer_tokens(sampler: SamplerName) -> int:
    """Tokens of an answer: at least two whole blocks."""
    block = sampler.block or TOKENS // 4
    return block * max(2, math.ceil(TOKENS / block))


def far_value(spec: ServerSpec, base: SamplerName, part: str, tokens: int) -> Any:
    """A value of a field that is far from the base's; None if it takes no other.

    Args:
        spec: the server.
        base: the sampler whose fields are sent otherwise.
        part: of its name.
        tokens: of an answer.
    """
    place = spec.sampler_fields[base.policy][part]
    value = fields_of(spec.sampler_fields, base, tokens, spec.name)[place]
    block = base.block or tokens
    if part in FLAGS:
        return not value
    if part == BLOCK:
        return tokens if value != tokens else tokens // 4
    if part == STEPS:
        fewest = tokens // block
        return fewest if value != fewest else tokens
    words = {word or NUMBER: text for word, text in base.arguments}
    if part not in words or not isinstance(value, int | float):
        return None
    return _farthest(base, part, words, value, block)


def _farthest(
    base: SamplerName, part: str, words: Mapping[str, str], value: float, block: int
) -> Any:
    """Of the numbers that a policy takes in this part of its name, the one whose logarithm is
    farthest.
    """
    found: list[tuple[float, Any]] = []
    for number in NUMBERS:
        if part == "k" and (number != int(number) or number > block):
            continue
        changed = {**words, part: f"{number:g}"}
        texts = [f"-{'' if word == NUMBER else word}{text}" for word, text in changed.items()]
        try:
            resolve(base.policy + "".join(texts))
        except SamplerNameError:
            continue
        sent = float(number) if isinstance(value, float) else number
        distance = abs(math.log(number) - math.log(max(value, 1e-6)))
        found.append((distance, sent))
    farthest = max(found, key=lambda pair: pair[0], default=(0.0, None))
    return farthest[1] if farthest[0] > 0 else None
