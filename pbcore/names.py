"""Sampler names: `policy-parameter` and modifiers joined by `+`, e.g. `confidence-k2+b8+prefix+t1.0`.

This module only parses and prints names; `decoding.samplers` checks that the policy exists and takes the parameters.
Names consist of characters that pytest's `-k` accepts (letters, digits, `_`, `-`, `.`, `+`), so they can be part of a
node id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal

from pbcore.errors import InputError
from pbcore.printable import shown

POLICY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MOST_CHARACTERS = 1_000
# ASCII digits only, and no more of them than a float or an int64 holds: so that each value has one spelling.
_WHOLE = r"[0-9]{1,9}"
_POSITIVE = r"[1-9][0-9]{0,8}"
_SEVERAL = r"[2-9]|[1-9][0-9]{1,8}"
_NUMBER = rf"{_WHOLE}(?:\.[0-9]{{1,20}})?"
_ARGUMENT = re.compile(rf"([a-z_]*)((?:{_NUMBER})?)")


class SamplerNameError(InputError):
    """An invalid sampler name."""


@dataclass(frozen=True, slots=True)
class SamplerName:
    """The parts of a sampler name.

    `arguments` are the policy's, as written and in order: `("k", "2")` for `k2`, `("", "0.9")` for a bare number,
    `("ref", "")` for a bare word. `block` is None for one block over the whole canvas. `temperature` 0 is greedy.
    `remask_variant` (`max` for rcr, `early` for remdm) is empty for the official runs' rule. `counts` is an explicit
    schedule, the tokens to reveal at each step of a block; `schedule` names one (`linear`, `cosine`) over
    `schedule_steps` steps. `together` is how the tokens of a step are chosen together (`counts`, `rounding`), None for
    each by itself; `gap` the least distance of unsure positions that one step reveals, 0 for any. `ahead` is the most
    canvases of a row that one forward has, 0 for the present one alone. `at_once` says how many rows are decoded, or
    requests sent, at a time (0: as the run says); it changes speed and no rule.
    """

    policy: str
    arguments: tuple[tuple[str, str], ...] = ()
    block: int | None = None
    cache: str | None = None
    temperature: float = 0.0
    remask: str | None = None
    remask_rounds: int = 0
    remask_variant: str = ""
    counts: tuple[int, ...] | None = None
    schedule: str | None = None
    schedule_steps: int = 0
    eos_stop: bool = False
    no_early_eos: bool = False
    eos_last: bool = False
    adas: float | None = None
    together: str | None = None
    gap: int = 0
    ahead: int = 0
    at_once: int = 0

    def __str__(self) -> str:
        parts = ["-".join([self.policy, *(word + number for word, number in self.arguments)])]
        if self.block is not None:
            parts.append(f"b{self.block}")
        if self.cache:
            parts.append(self.cache)
        if self.counts is not None:
            parts.append("s" + "_".join(map(str, self.counts)))
        if self.schedule:
            parts.append(f"{self.schedule}{self.schedule_steps}")
        if self.remask:
            rounds = str(self.remask_rounds) if self.remask_rounds else ""
            parts.append(self.remask + rounds + (f"-{self.remask_variant}" if self.remask_variant else ""))
        if self.adas is not None:
            parts.append("adas" + plain(self.adas).removesuffix(".0"))
        if self.together:
            parts.append(self.together)
        if self.gap:
            parts.append(f"gap{self.gap}")
        if self.ahead:
            parts.append(f"ahead{self.ahead}")
        if self.eos_stop:
            parts.append("eos_stop")
        if self.no_early_eos:
            parts.append("no_early_eos")
        if self.eos_last:
            parts.append("eos_last")
        if self.temperature:
            parts.append(f"t{plain(self.temperature)}")
        if self.at_once:
            parts.append(f"x{self.at_once}")
        return "+".join(parts)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def alone(self) -> SamplerName:
        """The sampler itself, without how many rows it decodes at a time."""
        return replace(self, at_once=0)


def plain(number: float) -> str:
    """A number with every digit it has and without an exponent: `1.0`, `0.7`, `0.00001`."""
    text = format(Decimal(repr(number)), "f")
    return text if "." in text else f"{text}.0"


def parse(name: str) -> SamplerName:
    """Parses a sampler name. Raises SamplerNameError that names the invalid part and what is allowed."""
    if not isinstance(name, str):
        raise SamplerNameError(f"sampler {shown(name)}: give a name such as confidence-k2+b8")
    if len(name) > MOST_CHARACTERS:
        raise SamplerNameError(f"sampler {shown(name)} has {len(name)} characters; give at most {MOST_CHARACTERS}")
    head, *modifiers = name.split("+")
    policy, *arguments = head.split("-")
    if not POLICY.fullmatch(policy):
        raise SamplerNameError(
            f"sampler {shown(name)}: {shown(policy)} is not a policy name; write e.g. confidence-k2+b8"
        )
    result = SamplerName(policy, tuple(_argument(name, text) for text in arguments))
    seen: set[str] = set()
    for text in modifiers:
        changes = _modifier(name, text)
        twice = seen & set(changes)
        if twice:
            raise SamplerNameError(
                f"sampler {shown(name)}: +{text} sets {sorted(twice)[0]} a second time; give it once"
            )
        seen |= set(changes)
        result = replace(result, **changes)  # type: ignore[arg-type]
    if result.counts is not None and result.schedule:
        raise SamplerNameError(
            f"sampler {shown(name)}: give counts (+s…) or a schedule (+{result.schedule}…), not both"
        )
    return result


def canonical(name: str) -> str:
    """A sampler name with its modifiers in a fixed order and defaults left out."""
    return str(parse(name))


def _argument(name: str, text: str) -> tuple[str, str]:
    match = _ARGUMENT.fullmatch(text)
    if not text or match is None:
        raise SamplerNameError(
            f"sampler {shown(name)}: {shown(text)} is not a parameter; "
            "write a number (0.9; up to 9 digits before the point), a letter and a number (k2), or a word (ref)"
        )
    return match[1], match[2]


def _modifier(name: str, text: str) -> dict[str, object]:
    """The fields that one `+modifier` sets."""
    if text in ("prefix", "dual"):
        return {"cache": text}
    if text in ("eos_stop", "no_early_eos", "eos_last"):
        return {text: True}
    if text in ("rcr", "rcr-max"):
        return {"remask": "rcr", "remask_variant": text[4:]}
    if text in ("counts", "rounding"):
        return {"together": text}
    for word, number in (
        ("gap", _SEVERAL),
        ("ahead", _SEVERAL),
        ("remdm", rf"{_POSITIVE}(-early)?"),
        ("linear", _POSITIVE),
        ("cosine", _POSITIVE),
        ("adas", _NUMBER),
        ("b", _POSITIVE),
        ("t", _NUMBER),
        ("x", _POSITIVE),
        ("s", rf"{_WHOLE}(_{_WHOLE})*"),
    ):
        if text.startswith(word) and re.fullmatch(number, text[len(word) :]):
            value = text[len(word) :]
            match word:
                case "gap" | "ahead":
                    return {word: int(value)}
                case "remdm":
                    rounds, _, variant = value.partition("-")
                    return {"remask": word, "remask_rounds": int(rounds), "remask_variant": variant}
                case "adas":
                    return {"adas": float(value)}
                case "b":
                    return {"block": int(value)}
                case "t":
                    return {"temperature": float(value)}
                case "x":
                    return {"at_once": int(value)}
                case "s":
                    return {"counts": tuple(map(int, value.split("_")))}
                case _:
                    return {"schedule": word, "schedule_steps": int(value)}
    raise SamplerNameError(
        f"sampler {shown(name)}: unknown modifier {shown('+' + text)}; known: "
        "+b8 (block length), +t1.0 (temperature), +prefix, +dual (caches), +rcr, +rcr-max, +remdm1, +remdm1-early "
        "(remasking), +counts, +rounding (tokens chosen together), +gap2 (distance of unsure positions), "
        "+s2_1_1 (tokens per step), +linear8, +cosine8 (schedules over 8 steps), +eos_stop, +no_early_eos, +eos_last, "
        "+adas40 (order), +ahead16 (canvases forwarded together), +x4 (rows at a time)"
    )
