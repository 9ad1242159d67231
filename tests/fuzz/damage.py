"""Damage to valid inputs, drawn from a seeded generator: to texts sign by sign and line by line, to
JSON values part by part.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

SIGNS = [
    "\x00",
    "\n",
    "\r",
    "\t",
    " ",
    "\x1b[31m",
    "\x85",
    "\u00a0",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\udfff",
    "\U0001f600",
    "é",
    "\u0663",
    "\uff13",
    "\U0001d7d7",
    "²",
    "③",
    "½",
    "0",
    "00",
    "1",
    "9",
    ".",
    "-",
    "+",
    "_",
    "/",
    "%",
    "=",
    "<",
    ">",
    "*",
    "?",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    '"',
    "'",
    "`",
    "|",
    "\\",
    "\\n",
    ",",
    ":",
    "#",
    "&",
    "!",
    "@",
    "a",
    "k",
    "Z",
    "9" * 30,
    "1e999",
    "nan",
    "inf",
    "null",
    "None",
    "true",
    "-1",
    "0.0",
    "0x10",
    "1_000",
    "  ",
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    10**9,
    10**30,
    2.5,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "copy",
    "accuracy",
    "1",
    "\ud800",
    "\x00",
    "a\nb",
    "\u2028",
    "\x1b[31m",
    "{context}",
    "{",
    "}",
    "{0}",
    "{context!x}",
    "{context.a}",
    "{context[0]}",
    "{context:>9}",
    "/etc/passwd",
    "../x",
    "x" * 3000,
    [],
    [None],
    [[]],
    [0],
    [""],
    ["a", "b"],
    ["a", 1],
    {},
    {"": None},
    {"a": 1},
    {"a": {"b": [1]}},
    {1: 2},
    [[[[[["deep"]]]]]],
]


def damaged_text(random: Random, text: str, most: int = 3) -> str:
    """A text with up to `most` changes: signs put in, left out, doubled, swapped; stretches and
    lines left out or repeated.
    """
    for _ in range(random.randint(0, most)):
        at = random.randrange(len(text) + 1)
        to = min(len(text), at + random.choice([1, 1, 1, 2, 5, 20]))
        match random.randrange(8):
            case 0 | 1 | 2:
                text = text[:at] + random.choice(SIGNS) + text[at:]
            case 3:
                text = text[:at] + random.choice(SIGNS) + text[to:]
            case 4:
                text = text[:at] + text[to:]
            case 5:
                text = text[:to] + text[at:]
            case 6:
                text = text[:at] + text[at:to][::-1] + text[to:]
            case _:
                lines = text.split("\n")
                one = random.randrange(len(lines))
                other = random.randrange(len(lines))
                lines[one] = random.choice(
                    [
                        "",
                        lines[other],
                        f"{lines[one]}\n{lines[one]}",
                        f" {lines[one]}",
                        lines[one].strip(),
                    ]
                )
                text = "\n".join(lines)
    return text


def noise(random: Random) -> str:
    """A short text of odd signs and any characters."""
    return "".join(
        random.choice(SIGNS) if random.random() < 0.7 else chr(random.randrange(0x110000))
        for _ in range(random.randint(0, 12))
    )


def damaged_bytes(random: Random, text: str) -> bytes:
    """A text in UTF-8 with up to three bytes put in, changed or left out, or cut off."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at:at] = bytes([random.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 2:
                del data[at : at + random.choice([1, 1, 3, 50])]
            case _:
                if random.random() < 0.2:
                    del data[at:]
    return bytes(data)


def damaged_value(random: Random, value: Any, most: int = 2) -> Any:
    """A JSON value with up to `most` parts replaced, dropped, renamed, repeated or swapped, at any
    depth.
    """
    root = [deepcopy(value)]
    for _ in range(random.randint(0, most)):
        holder, key = random.choice(list(_places(root)))
        match random.randrange(6):
            case 0 | 1 | 2:
                holder[key] = deepcopy(random.choice(VALUES))
            case 3:
                if holder is not root:
                    del holder[key]
            case 4:
                if isinstance(holder[key], str):
                    holder[key] = damaged_text(random, holder[key])
                elif type(holder[key]) in (int, float):
                    holder[key] = random.choice(
                        [
                            -holder[key],
                            holder[key] + 1,
                            float(holder[key]),
                            str(holder[key]),
                            holder[key] * 10**9,
                        ]
                    )
                else:
                    holder[key] = [holder[key]]
            case _:
                if isinstance(holder, dict):
                    holder[random.choice([f"{key}x", "", "samples", "headline", "a b"])] = (
                        holder.pop(key)
                    )
                elif holder is not root:
                    holder.append(deepcopy(holder[key]))
    return root[0]


def _places(holder: Any) -> Any:
    """Every (list or dict, index or key) below a value."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])
