"""Sampler names: `policy-parameter` and modifiers joined by `+`, e.g.
`confidence-k2+b8+prefix+t1.0`.

This module only parses and prints names; `decoding.samplers` checks that the policy exists and
takes the parameters. Names consist of characters that pytest's `-k` accepts (letters, digits, `_`,
`-`, `.`, `+`), so they can be part of a node id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, get_args, get_type_hints

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


class SamplerNameError(InputError):
    """An invalid sampler name."""


@dataclass(frozen=True, slots=True)
class SamplerName:
    """The parts of a sampler name."""

    policy: str
    # As written: ("k", "2") for k2, ("", "0.9"), ("ref", "") for a word.
    arguments: tuple[tuple[str, str], ...] = ()
    block: int | None = None  # None: one block over the whole canvas
    ada: float | None = None  # of AdaBlock: the confidence at which a delimiter ends a block
    blocks: str = ""  # the registered rule for lengths of blocks
    cache: str | None = None
    temperature: float = 0.0  # 0 is greedy
    top_p: float = 1.0  # the share of probability that tokens are drawn from; 1: all
    top_k: int = 0  # or so many of the likeliest tokens; 0: all
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
    # Prophet's early exit: the gaps at which it leaves, and the region where it looks.
    prophet: bool = False
    prophet_early: float = 7.5
    prophet_mid: float = 5.0
    prophet_late: float = 2.5
    prophet_start: int = 0
    prophet_length: int = 0  # 0: to the answer's end
    # How the tokens of a step are chosen together: `counts`, `rounding`; None: each alone.
    together: str | None = None
    gap: int = 0  # the least distance of unsure positions that one step reveals; 0: any
    # Rows decoded, or requests sent, at a time (0: as the run says): speed, and no rule.
    at_once: int = 0

    def __str__(self) -> str:
        words = [self.policy]
        words += [word + number for word, number in self.arguments]
        written = [modifier.written(self) for modifier in MODIFIERS]
        return "+".join(["-".join(words), *filter(None, written)])

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def adaptive(self) -> bool:
        """Whether its blocks are chosen while decoding."""
        return self.ada is not None or bool(self.blocks)

    @property
    def cuts(self) -> bool:
        """Whether it leaves improbable tokens out."""
        return self.top_p < 1 or self.top_k > 0

    @property
    def alone(self) -> SamplerName:
        """The sampler itself, without how many rows it decodes at a time."""
        return replace(self, at_once=0)


def longest_block(name: SamplerName, tokens: int) -> int:
    """The most tokens that a block of an answer of so many `tokens` may have."""
    return tokens if name.block is None or name.adaptive else name.block


def plain_number(number: float) -> str:
    """A number with every digit it has and without an exponent: `1.0`, `0.7`, `0.00001`."""
    text = format(Decimal(repr(number)), "f")
    return text if "." in text else f"{text}.0"


@dataclass(frozen=True, slots=True)
class Modifier:
    """A `+modifier` of a name.

    - `examples`: how it looks; `topic`: what it is about, in a word or two.
    - `spellings`: patterns of it, whose groups are fields of SamplerName.
    - `written`: how a name has it; empty where it doesn't.
    - `meaning`: what it adds to the rule of a sampler that has it; empty: the name says it.
    """

    examples: tuple[str, ...]
    topic: str
    spellings: tuple[str, ...]
    written: Callable[[SamplerName], str]
    meaning: Callable[[SamplerName], str] = lambda name: ""

    @property
    def fields(self) -> frozenset[str]:
        """The fields of SamplerName that it sets."""
        return frozenset(field for text in self.spellings for field in re.compile(text).groupindex)


def _remask(name: SamplerName) -> str:
    variant = f"-{name.remask_variant}" if name.remask_variant else ""
    return f"{name.remask or ''}{name.remask_rounds or ''}{variant}"


def _flag(flag: str, name: SamplerName) -> str:
    return flag if getattr(name, flag) else ""


def _chosen_blocks(name: SamplerName) -> str:
    if name.ada is not None:
        return f"ada{plain_number(name.ada)}"
    return f"blocks_{name.blocks}" if name.blocks else ""


def _prophet(name: SamplerName) -> str:
    if not name.prophet:
        return ""
    plain = SamplerName(name.policy)
    words = []
    for word in ("early", "mid", "late", "start", "length"):
        value = getattr(name, f"prophet_{word}")
        if value != getattr(plain, f"prophet_{word}"):
            number = plain_number(float(value)).removesuffix(".0")
            words.append(number if word == "early" else f"-{word}{number}")
    return "".join(["prophet", *words])


def _cached(name: SamplerName) -> str:
    what = "before and behind" if name.cache == "dual" else "before"
    return f"what stands {what} the block is cached"


MODIFIERS = (  # in the order in which names have them
    Modifier(
        ("b8",),
        "block length",
        (rf"b(?P<block>{_POSITIVE})",),
        lambda name: "" if name.block is None else f"b{name.block}",
        lambda name: (
            f"in blocks of {name.block} tokens, from left to right" if name.ada is None else ""
        ),
    ),
    Modifier(
        ("ada0.3", "blocks_mine"),
        "blocks chosen while decoding",
        (rf"ada(?P<ada>{_NUMBER})", r"blocks_(?P<blocks>[a-z0-9_]+)"),
        _chosen_blocks,
        lambda name: (
            "in blocks that end with a sure line break"
            if name.ada is not None
            else f"in blocks by the rule {name.blocks}"
        ),
    ),
    Modifier(
        ("prefix", "dual"),
        "caches",
        ("(?P<cache>prefix|dual)",),
        lambda name: name.cache or "",
        _cached,
    ),
    Modifier(
        ("s2_1_1",),
        "tokens per step",
        (rf"s(?P<counts>{_WHOLE}(_{_WHOLE})*)",),
        lambda name: "" if name.counts is None else f"s{'_'.join(map(str, name.counts))}",
    ),
    Modifier(
        ("linear8", "cosine8"),
        "schedules over 8 steps",
        (rf"(?P<schedule>linear|cosine)(?P<schedule_steps>{_POSITIVE})",),
        lambda name: f"{name.schedule}{name.schedule_steps}" if name.schedule else "",
    ),
    Modifier(
        ("rcr", "rcr-max", "remdm1", "remdm1-early"),
        "remasking",
        (
            "(?P<remask>rcr)(-(?P<remask_variant>max))?",
            rf"(?P<remask>remdm)(?P<remask_rounds>{_POSITIVE})(-(?P<remask_variant>early))?",
        ),
        _remask,
        lambda name: "reveals tokens that it masks and predicts again",
    ),
    Modifier(
        ("adas40",),
        "order",
        (rf"adas(?P<adas>{_NUMBER})",),
        lambda name: (
            "" if name.adas is None else f"adas{plain_number(name.adas).removesuffix('.0')}"
        ),
    ),
    Modifier(
        ("counts", "rounding"),
        "tokens chosen together",
        ("(?P<together>counts|rounding)",),
        lambda name: name.together or "",
        lambda name: "the tokens of a step are chosen together",
    ),
    Modifier(
        ("gap2",),
        "distance of unsure positions",
        (rf"gap(?P<gap>{_SEVERAL})",),
        lambda name: f"gap{name.gap}" if name.gap else "",
        lambda name: f"unsure tokens of one step are {name.gap} or more apart",
    ),
    *(
        Modifier((flag,), topic, (f"(?P<{flag}>{flag})",), partial(_flag, flag))
        for flag, topic in (
            ("eos_stop", "ends at EOS"),
            ("no_early_eos", "EOS behind no mask"),
            ("eos_last", "EOS last"),
        )
    ),
    Modifier(
        ("prophet", "prophet-length5"),
        "early exit",
        (
            rf"(?P<prophet>prophet)(?P<prophet_early>{_NUMBER})?(-mid(?P<prophet_mid>{_NUMBER}))?"
            rf"(-late(?P<prophet_late>{_NUMBER}))?(-start(?P<prophet_start>{_WHOLE}))?"
            rf"(-length(?P<prophet_length>{_POSITIVE}))?",
        ),
        _prophet,
        lambda name: "ends once the model is sure of all that is left",
    ),
    Modifier(
        ("t1.0",),
        "temperature",
        (rf"t(?P<temperature>{_NUMBER})",),
        lambda name: f"t{plain_number(name.temperature)}" if name.temperature else "",
        lambda name: "draws tokens at this temperature",
    ),
    Modifier(
        ("p0.9",),
        "top-p",
        (rf"p(?P<top_p>{_NUMBER})",),
        lambda name: f"p{plain_number(name.top_p)}" if name.top_p != 1 else "",
        lambda name: f"of the likeliest tokens, which make up {plain_number(name.top_p)}",
    ),
    Modifier(
        ("top50",),
        "top-k",
        (rf"top(?P<top_k>{_WHOLE})",),
        lambda name: f"top{name.top_k}" if name.top_k else "",
        lambda name: f"of the {name.top_k} likeliest tokens",
    ),
    Modifier(
        ("x4",),
        "rows at a time",
        (rf"x(?P<at_once>{_POSITIVE})",),
        lambda name: f"x{name.at_once}" if name.at_once else "",
        lambda name: "so many answers at a time",
    ),
)
_KINDS = get_type_hints(SamplerName)  # of the fields


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
    for wrong in _outside(fields):
        raise SamplerNameError(f"sampler {shown(name)}: {wrong}")
    if {"ada", "blocks"} <= fields.keys():
        both = f"+ada… or +blocks_{fields['blocks']}"
        raise SamplerNameError(
            f"sampler {shown(name)}: two rules for the lengths of blocks; give {both}, not both"
        )
    if {"counts", "schedule"} <= fields.keys():
        both = f"counts (+s…) or a schedule (+{fields['schedule']}…)"
        raise SamplerNameError(f"sampler {shown(name)}: give {both}, not both")
    return SamplerName(policy, tuple(arguments), **fields)


def _outside(fields: Mapping[str, Any]) -> Iterator[str]:
    """What is outside its range among the fields of a name."""
    if not 0 < fields.get("top_p", 1.0) <= 1:
        yield f"+p{fields['top_p']:g} is a share of probability: write above 0 up to 1, e.g. +p0.9"
    if (fields.get("ada") or 0.0) > 1:
        yield f"+ada{fields['ada']:g} is a delimiter's confidence: write 0 to 1, e.g. +ada0.3"
    if fields.get("top_k") == 0:
        yield "+top0 would leave no token: write a number of at least 1, e.g. +top50"


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
    for modifier in MODIFIERS:
        for spelling in modifier.spellings:
            match = re.fullmatch(spelling, text)
            if match is not None:
                groups = match.groupdict()
                return {
                    field: _value(field, value)
                    for field, value in groups.items()
                    if value is not None
                }
    if _REMOVED.fullmatch(text):
        raise SamplerNameError(
            f"sampler {shown(name)}: {shown('+' + text)} was removed, since it saved no seconds;"
            " leave it out, the answers are the same"
        )
    known = [f"{examples(modifier)} ({modifier.topic})" for modifier in MODIFIERS]
    raise SamplerNameError(
        f"sampler {shown(name)}: unknown modifier {shown('+' + text)}; known: {', '.join(known)}"
    )


def examples(modifier: Modifier) -> str:
    """How a modifier looks: `+prefix, +dual`."""
    return ", ".join(f"+{example}" for example in modifier.examples)


def _value(field: str, text: str) -> Any:
    """The value of a field, by its type."""
    hint = _KINDS[field]
    kind = next((part for part in get_args(hint) if part is not NoneType), hint)
    if kind in (bool, int, float):
        return kind(text)
    return text if kind is str else tuple(map(int, text.split("_")))
