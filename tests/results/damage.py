"""Damage for files of results: seeded, and told apart by whether a reader must notice it."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

ODD_TEXTS = (
    "",
    "\x00",
    "\ud800",
    "a\udcffb",
    "\u2028",
    "\u0085",
    "\x1b[31mred\x1b[0m",
    "a|b",
    "`",
    "```",
    "\r\n",
    "\x7f",
    "\\",
    "$x",
    "<b>",
    "é😀",
    "\u202egnp",
    "]]>",
    "&amp;",
    "{",
    "1e5",
    "x" * 1000,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    10**30,
    10**400,
    0.5,
    -0.5,
    1e300,
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
    {"mean": "a"},
    *ODD_TEXTS,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values in a JSON value, outer ones first."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def changed(random: Random, value: Any) -> Any:
    """`value` with one value inside replaced, left out, doubled or given another name."""
    data = copy.deepcopy(value)
    path = random.choice(places(data))
    if not path:
        return random.choice(VALUES)
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    kind = random.choice(["replace"] * 6 + ["drop", "rename", "double"])
    key = path[-1]
    if kind == "replace":
        holder[key] = random.choice(VALUES)
    elif kind == "drop":
        del holder[key]
    elif isinstance(holder, dict):
        holder[f"{key}{random.choice(ODD_TEXTS)}"] = (
            holder.pop(key) if kind == "rename" else holder[key]
        )
    else:
        holder.insert(key, holder[key])
    return data


def garbled(random: Random, text: str) -> bytes:
    """The text's bytes, with some cut, doubled or replaced."""
    data = bytearray(text.encode())
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        kind = random.randrange(4)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            del data[at : at + random.randrange(1, 9)]
        elif kind == 2:
            data[at : at + 1] = bytes([random.randrange(256)])
        else:
            data[at:at] = random.choice(
                [
                    b"\xff",
                    b"\x00",
                    b'"',
                    b"NaN",
                    b"1e999",
                    b"{",
                    b"[" * 5000,
                    b"\xe2\x80\xa8",
                    b"-",
                    b"9" * 5000,
                ]
            )
    return bytes(data)


def damaged(random: Random, text: str) -> bytes:
    """A JSON file's bytes after one change to its values, or some to its bytes."""
    if random.random() < 0.3:
        return garbled(random, text)
    return json.dumps(changed(random, json.loads(text))).encode()
