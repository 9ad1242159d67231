"""Sampler names: valid, or a SamplerNameError in one line; a valid one has one spelling, and every
part of it is kept.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from random import Random
from typing import get_type_hints

import pytest

from pbcore.decoding import resolve
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import build_policy
from pbcore.names import SamplerNameError, canonical, parse
from tests.fuzz.damage import damaged_text, noise
from tests.fuzz.outcomes import COUNTS, Silent, fuzz, one_line

MODIFIERS = [
    "b8",
    "b32",
    "b08",
    "prefix",
    "dual",
    "s2_1_1",
    "s0",
    "linear8",
    "cosine3",
    "rcr",
    "rcr-max",
    "remdm1",
    "remdm2-early",
    "eos_stop",
    "no_early_eos",
    "eos_last",
    "adas40",
    "ahead8",
    "t1.0",
    "t0.7",
    "t1",
    "t0",
    "t0.1234567",
    "t0.00001",
    "t0.0000000000000001",
    "t100000",
    "b٨",
    "t٠.٧",
    "b" + "9" * 5000,
    "s" + "1_" * 3000 + "1",
]
NUMBERS = [
    "1",
    "2",
    "02",
    "16",
    "0.9",
    "0.90",
    "0.25",
    "0.1",
    "1.0",
    "0.05",
    "0",
    "0.90000000000000002",
    "1.5",
]
LONG = ["9" * 5000, "9" * 400 + ".5", "0." + "0" * 400 + "1", "1" * 12, "0." + "1" * 25]


def name(random: Random) -> str:
    """A sampler name that is valid or nearly so, with some damage."""
    known = policies()
    chosen = random.choice([*known, "ar"])
    parts = [chosen]
    for field in fields(known[chosen]) if chosen in known else ():
        if random.random() < 0.5:
            kind = get_type_hints(known[chosen])[field.name]
            number = (
                ""
                if kind is bool
                else random.choice(
                    NUMBERS[:4]
                    if kind in (int, int | None)
                    else NUMBERS
                    if random.random() < 0.98
                    else LONG
                )
            )
            parts.append((field.name if kind is bool or random.random() < 0.6 else "") + number)
    modifiers = random.sample(MODIFIERS, random.choice([0, 0, 0, 1, 1, 2, 3]))
    text = "+".join(["-".join(parts), *modifiers])
    return (
        noise(random)
        if random.random() < 0.05
        else damaged_text(random, text, random.choice([0, 0, 1, 3]))
    )


def check(text: str) -> None:
    """The properties of an accepted name."""
    parsed = parse(text)
    resolved = resolve(text).name
    if not text.isascii():
        raise Silent(text)
    assert re.fullmatch(r"[a-z0-9_.+-]+", str(resolved))
    assert parse(str(parsed)) == parsed
    assert canonical(canonical(text)) == canonical(text)
    assert resolve(str(resolved)).name == resolve(str(parsed)).name == resolved
    if replace(resolved, arguments=parsed.arguments) != parsed:
        raise Silent(text)
    if parsed.policy != "ar" and build_policy(parsed) != build_policy(resolved):
        raise Silent(text)
    for word, number in resolved.arguments:
        if word == "k" or not number:
            continue
        other = replace(
            resolved,
            arguments=tuple(
                (w, f"{n}0" if (w, n) == (word, number) and "." in n else n)
                for w, n in resolved.arguments
            ),
        )
        assert resolve(str(other)).name == resolved, "a trailing zero makes another name"


@pytest.mark.parametrize("count", COUNTS)
def test_sampler_names(count: int) -> None:
    """Damaged names of all policies and modifiers."""
    fuzz("sampler names", count, name, check, SamplerNameError)


@pytest.mark.parametrize(
    "text",
    [
        "confidence-k٢",
        "confidence-k2+b1٢",
        "confidence-k2+t٠.٧",
        "confidence-k" + "9" * 5000,
        "confidence-k2+t" + "9" * 400,
        "confidence-k2+t0." + "0" * 400 + "1",
        "confidence+s" + "1_" * 5000 + "1",
        "a" * 10**5,
        "confidence-k2+x\n\x1b[31m\u2028y",
    ],
)
def test_odd_names(text: str) -> None:
    """Digits of other scripts, numbers beyond float and int64, names without end, control
    characters: one line that can be read.
    """
    with pytest.raises(SamplerNameError) as caught:
        parse(text)
    assert one_line(str(caught.value))


def test_numbers_beyond_a_floats_digits_make_no_second_name() -> None:
    """0.90000000000000002 is 0.9."""
    assert str(resolve("threshold-0.90000000000000002")) == "threshold-0.9"
