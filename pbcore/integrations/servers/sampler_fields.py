"""A named sampler as fields of the request: `sampler_fields` of a server that takes its sampler with each request."""

import re
from collections.abc import Mapping
from typing import Any

from pbcore.errors import InputError
from pbcore.names import SamplerName

NUMBER, BLOCK, STEPS = "number", "b", "steps"  # a bare number, the block length, the steps of the whole answer
FLAGS = ("prefix", "dual", "eos_stop", "no_early_eos", "eos_last")  # sent as false where the name lacks them
_PART = re.compile(r"([a-z_]*)([0-9.]*)")


def why_not(fields: Mapping[str, Mapping[str, str]], sampler: SamplerName) -> str | None:
    """Why these fields can't say a sampler; None if they can. Every part of its name has a field, and every field a
    value in the name.
    """
    if sampler.policy not in fields:
        return f"its sampler_fields have {', '.join(fields)}, and no {sampler.policy}"
    known, named = fields[sampler.policy], _parts(sampler)
    stepped = {"k", "linear"} if STEPS in known else set()
    unsaid = [part for part in named if part not in known and part not in stepped]
    if unsaid:
        return f"its sampler_fields have no field for {unsaid[0]!r} of {sampler.policy}"
    implied = {BLOCK, *FLAGS, *({STEPS} if stepped & named.keys() else ())}
    lacking = [part for part in known if part not in named and part not in implied]
    return f"its field for {lacking[0]!r} has no value in that name; write it out" if lacking else None


def fields_of(fields: Mapping[str, Mapping[str, str]], sampler: SamplerName, tokens: int, model: str) -> dict[str, Any]:
    """Place in the request → value, for an answer of at most so many tokens.

    Without `+b8` the block is the whole answer; the steps are those of the whole answer: k tokens each, or in every
    block those of `linear8`. Raises InputError, naming the model, where they don't come out even.
    """
    known, block = fields[sampler.policy], sampler.block or tokens
    values = {**dict.fromkeys(FLAGS, False), **_parts(sampler), BLOCK: block}
    if STEPS in known:
        k: Any = values.get("k")
        linear = values.get("linear")
        if tokens % block or (linear is None and block % k):
            raise InputError(
                f"sampler {sampler} of {model}: an answer of {tokens} tokens has no whole number of blocks of {block}"
                f"{'' if k is None else f', or these none of steps of {k}'}; choose another sampler or --max-new-tokens"
            )
        values[STEPS] = tokens // block * (linear or block // k)
    return {place: values[part] for part, place in known.items()}


def with_fields(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A request's body with values at places such as `vllm_xargs.diffusion_max_steps`."""
    whole = dict(body)
    for place, value in fields.items():
        head, _, rest = place.partition(".")
        whole[head] = with_fields(whole.get(head) or {}, {rest: value}) if rest else value
    return whole


def _parts(sampler: SamplerName) -> dict[str, Any]:
    """The parts of a name with their values: those of `threshold-0.9+b32+dual` are number 0.9, b 32 and dual true. The
    temperature has a field of its own in every request, and `+x4` is no part of it.
    """
    parts = {word or NUMBER: _value(text) for word, text in sampler.arguments}
    _, *modifiers = str(sampler).split("+")
    for modifier in modifiers:
        match = _PART.fullmatch(modifier)
        word, text = (match[1], match[2]) if match else (modifier, "")
        if word not in ("t", "x"):
            parts[word] = _value(text)
    return parts


def _value(text: str) -> bool | int | float:
    return True if not text else float(text) if "." in text else int(text)
