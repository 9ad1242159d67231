"""Sampler names: `policy-parameter` and modifiers joined by `+`, e.g.
`confidence-k2+b8+prefix+t1.0`.

This module only parses and prints names; `decoding.samplers` checks that the policy exists and
takes the parameters. Names consist of characters that pytest's `-k` accepts (letters, digits, `_`,
`-`, `.`, `+`), so they can be part of a node id.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.printable import shown

POLICY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MOST_CHARACTERS = 1_000
# ASCII digits only, and no more of them than a float or an int64 holds: so that each value has one
# spelling.
_WHOLE = r"[0-9]{1,9}"
_POSITIVE = r"[1-9][0-9]{0,8}"
_SEVERAL = r"[2-9]|[1-9][0-9]{1,8}"
_NUMBER = rf"{_WHOLE}(?:\.[0-9]{{1,20}})?"
_WORD = r"[a-z_]+(?:[0-9]+[a-z_]+)*"  # digits within it only: those at its end are a number
_ARGUMENT = re.compile(rf"((?:{_WORD})?)((?:{_NUMBER})?)")
_REMOVED = re.compile(r"ahead[0-9]*")  # modifiers of earlier versions, in records that they wrote
_MODIFIERS = (  # groups are fields of SamplerName
    rf"b(?P<block>{_POSITIVE})",
    "(?P<cache>prefix|dual)",
    rf"s(?P<counts>{_WHOLE}(_{_WHOLE})*)",
    rf"(?P<schedule>linear|cosine)(?P<schedule_steps>{_POSITIVE})",
    "(?P<remask>rcr)(-(?P<remask_variant>max))?",
    rf"(?P<remask>remdm)(?P<remask_rounds>{_POSITIVE})(-(?P<remask_variant>early))?",
    rf"adas(?P<adas>{_NUMBER})",
    "(?P<together>counts|rounding)",
    rf"gap(?P<gap>{_SEVERAL})",
    "(?P<eos_stop>eos_stop)",
    "(?P<no_early_eos>no_early_eos)",
    "(?P<eos_last>eos_last)",
    rf"t(?P<temperature>{_NUMBER})",
    rf"x(?P<at_once>{_POSITIVE})",
)
_READ: dict[str, Callable[[str], Any]] = {  # a field's value; others are the text itself
    **dict.fromkeys(("block", "schedule_steps", "remask_rounds", "gap", "at_once"), int),
    **dict.fromkeys(("eos_stop", "no_early_eos", "eos_last"), bool),
    **dict.fromkeys(("adas", "temperature"), float),
    "counts": lambda text: tuple(map(int, text.split("_"))),
}


class SamplerNameError(InputError):
    """An invalid sampler name."""


@dataclass(frozen=True, slots=True)
class SamplerName:
    """The parts of a sampler name."""

    policy: str
    # As written: ("k", "2") for k2, ("", "0.9"), ("ref", "") for a word.
    arguments: tuple[tuple[str, str], ...] = ()
    block: int | None = None  # None: one block over the whole canvas
    cache: str | None = None
    temperature: float = 0.0  # 0 is greedy
    remask: str | None = None
    remask_rounds: int = 0
    remask_variant: str = ""  # `max` for rcr, `early` for remdm; empty for the official runs' rule
    # An explicit schedule: the tokens to reveal at each step of a block.
    counts: tuple[int, ...] | None = None
    schedule: str | None = None  # or a named one, `linear` or `cosine`, over `schedule_steps` steps
    schedule_steps: int = 0
    eos_stop: bool = False
    no_early_eos: bool = False
    eos_last: bool = False
    adas: float | None = None
    # How the tokens of a step are chosen together: `counts`, `rounding`; None: each alone.
    together: str | None = None
    gap: int = 0  # the least distance of unsure positions that one step reveals; 0: any
    # Rows decoded, or requests sent, at a time (0: as the run says): speed, and no rule.
    at_once: int = 0

    def __str__(self) -> str:
        words = [self.policy]
        words += [word + number for word, number in self.arguments]
        parts = ["-".join(words)]
        if self.block is not None:
            parts.append(f"b{self.block}")
        if self.cache:
            parts.append(self.cache)
        if self.counts is not None:
            parts.append("s" + "_".join(map(str, self.counts)))
        if self.schedule:
            parts.append(f"{self.schedule}{self.schedule_steps}")
        if self.remask:
            variant = f"-{self.remask_variant}" if self.remask_variant else ""
            parts.append(f"{self.remask}{self.remask_rounds or ''}{variant}")
        if self.adas is not None:
            parts.append(f"adas{plain_number(self.adas).removesuffix('.0')}")
        if self.together:
            parts.append(self.together)
        if self.gap:
            parts.append(f"gap{self.gap}")
        if self.eos_stop:
            parts.append("eos_stop")
        if self.no_early_eos:
            parts.append("no_early_eos")
        if self.eos_last:
            parts.append("eos_last")
        if self.temperature:
            parts.append(f"t{plain_number(self.temperature)}")
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


def plain_number(number: float) -> str:
    """A number with every digit it has and without an exponent: `1.0`, `0.7`, `0.00001`."""
    text = format(Decimal(repr(number)), "f")
    return text if "." in text else f"{text}.0"


def parse(name: str) -> SamplerName:
    """Parses a sampler name. Raises SamplerNameError that names the invalid part and what is
    allowed.
    """
    if not isinstance(name, str):
        raise SamplerNameError(f"sampler {shown(name)}: give a name such as confidence-k2+b8")
    if len(name) > MOST_CHARACTERS:
        raise SamplerNameError(
            f"sampler {shown(name)} has {len(name)} characters; give at most {MOST_CHARACTERS}"
        )
    head, *modifiers = name.split("+")
    policy, *words = head.split("-")
    if not POLICY.fullmatch(policy):
        wrong = f"{shown(policy)} is not a policy name"
        raise SamplerNameError(f"sampler {shown(name)}: {wrong}; write e.g. confidence-k2+b8")
    arguments: list[tuple[str, str]] = []
    for text in words:
        match = _ARGUMENT.fullmatch(text)
        if not text or match is None:
            raise SamplerNameError(
                f"sampler {shown(name)}: {shown(text)} is not a parameter; write a number (0.9; up"
                " to 9 digits before the point), a letter and a number (k2), or a word (ref)"
            )
        arguments.append((match[1], match[2]))
    fields: dict[str, Any] = {}
    for text in modifiers:
        changes = _modifier(name, text)
        twice = sorted(fields.keys() & changes)
        if twice:
            raise SamplerNameError(
                f"sampler {shown(name)}: +{text} sets {twice[0]} a second time; give it once"
            )
        fields |= changes
    if {"counts", "schedule"} <= fields.keys():
        both = f"counts (+s…) or a schedule (+{fields['schedule']}…)"
        raise SamplerNameError(f"sampler {shown(name)}: give {both}, not both")
    return SamplerName(policy, tuple(arguments), **fields)


def recorded(name: str) -> SamplerName | None:
    """The parts of the name in a record; None where this version can't read it."""
    try:
        return parse(name)
    except SamplerNameError:
        return None


def canonical(name: str) -> str:
    """A sampler name with its modifiers in a fixed order and defaults left out."""
    return str(parse(name))


def _modifier(name: str, text: str) -> dict[str, Any]:
    """The fields that one `+modifier` sets."""
    for pattern in _MODIFIERS:
        match = re.fullmatch(pattern, text)
        if match is None:
            continue
        fields = {}
        for field, value in match.groupdict().items():
            read = _READ.get(field, str)
            fields[field] = read(value or "")
        return fields
    if _REMOVED.fullmatch(text):
        raise SamplerNameError(
            f"sampler {shown(name)}: {shown('+' + text)} was removed, since it saved no seconds;"
            " leave it out, the answers are the same"
        )
    raise SamplerNameError(
        f"sampler {shown(name)}: unknown modifier {shown('+' + text)}; known: +b8 (block length),"
        " +t1.0 (temperature), +prefix, +dual (caches), +rcr, +rcr-max, +remdm1, +remdm1-early"
        " (remasking), +counts, +rounding (tokens chosen together), +gap2 (distance of unsure"
        " positions), +s2_1_1 (tokens per step), +linear8, +cosine8 (schedules over 8 steps),"
        " +eos_stop, +no_early_eos, +eos_last, +adas40 (order), +x4 (rows at a time)"
    )
