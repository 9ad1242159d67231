"""Odd answers to lists and puzzles, drawn from a seeded generator: right or nearly right ones, in
many layouts.
"""

from __future__ import annotations

import json
from random import Random

from pbcore.tasks import Sample

BLANKS = [
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "\n  ",
    "\u00a0",
    "\u2028",
    "\u2003",
    "\u200b",
    "\x0b",
    "\x1c",
]
SIGNS = [
    *BLANKS,
    "[",
    "]",
    '"',
    ",",
    ", ",
    '""',
    ", ,",
    "'",
    "“",
    "|",
    ";",
    "1",
    "4",
    "\u0663",
    "\uff13",
    "\u00b2",
    "\u2462",
    "A",
]
BRACKETS = [
    *[("[", "]")] * 8,
    ("[\n", "\n]"),
    ("", ""),
    ("[", ""),
    ("", "]"),
    ("[[", "]]"),
    ("[", ",]"),
    ("[", ", ]"),
    ("(", ")"),
]
COMMAS = [
    ",",
    ",",
    ",",
    ",",
    ", ",
    ",\u00a0",
    '","',
    " ",
    "|",
]  # between the cells of a Latin square
PLAIN = ["", "", "", ",", ", ", " ", "\t", "|", "\u00a0"]  # of a sudoku
AROUND = [
    "",
    "",
    "",
    "Sure! Here is the list: ",
    "The answer is: ",
    "```\n",
    "[1] ",
    "Output:\n",
    "\n",
    "\u00a0",
    "[]",
    "12\n",
]
BEHIND = ["", "", "", "\n", ".", "]", "\nLet me know [A].", "\n```", "\u00a0"]
ZEROS = [
    "\u0660",
    "\uff10",
    "\u0966",
    "\U0001d7ce",
]  # Arabic-Indic, full-width, Devanagari, mathematical bold


def hostile_list(random: Random, items: list[str]) -> str:
    """A list of `items` or of nearly those, in some layout."""
    items = list(items)
    if random.random() < 0.25:
        at = random.randrange(len(items))
        items[at : at + 1] = random.choice(
            [[], [""], [items[at]] * 2, [items[at].upper()], ["Zoe Zett"], items[at].split()]
        )
    quote = random.choice(['"'] * 6 + ["", "'", "“", '""', '" '])
    before, after = (
        ("", "")
        if random.random() < 0.7
        else (random.choice([*BLANKS, ""]), random.choice([*BLANKS, ""]))
    )
    odd = random.randrange(
        -len(items), len(items) + 1
    )  # the item with blanks at its edges; none below 0
    written = [
        f"{before if at == odd else ''}{quote}{item}{quote}{after if at == odd else ''}"
        for at, item in enumerate(items)
    ]
    between = random.choice(
        [", "] * 6 + [",", ",\n", ",\r\n  ", " , ", ",  ", ",\t", ",\u00a0", ", , ", "; "]
    )
    opened, closed = random.choice(BRACKETS)
    text = opened + between.join(written) + closed
    return _noisy(
        random,
        random.choice(
            [text] * 8 + [text + text, f"{text}\n{text}", f'["{items[0] if items else ""}"] {text}']
        ),
    )


def hostile_rows(random: Random, rows: list[str], between: str) -> str:
    """Rows of a puzzle, each one sign after another, or nearly those, in some layout; `between`
    stands between its cells.
    """
    cells = [list(row) for row in rows]
    signs = sorted(set("".join(rows)))
    change = random.choice(
        ["none"] * 3
        + ["extra cell", "extra cells", "extra column", "wrong", "less", "more", "swap"]
    )
    at = random.randrange(len(cells))
    if change == "extra cell":
        cells[at].append(random.choice(signs))
    elif change == "extra cells":
        cells = [[*row, random.choice(signs)] for row in cells]
    elif change == "extra column":
        place = random.randrange(len(cells[0]))
        cells = [[*row, row[place]] for row in cells]
    elif change == "wrong":
        cells[at][random.randrange(len(cells[at]))] = random.choice(signs)
    elif change == "less":
        del cells[at]
    elif change == "more":
        cells.insert(at, random.choice(cells))
    elif change == "swap":
        cells[0], cells[at] = cells[at], cells[0]
    if "".join(signs).isdecimal() and random.random() < 0.3:
        zero = ord(random.choice(ZEROS))
        cells = [[chr(zero + int(cell)) for cell in row] for row in cells]
    line = random.choice(["\n"] * 8 + ["\r\n", " \n ", "\n\n", "\r", "\u2028", "\n1: ", ",\n", " "])
    return _noisy(random, line.join(between.join(row) for row in cells))


def _noisy(random: Random, text: str) -> str:
    """Text around it, and now and then a sign put in, left out or doubled."""
    text = random.choice(AROUND) + text + random.choice(BEHIND)
    for _ in range(random.choice([0, 0, 0, 0, 1, 2])):
        at = random.randrange(len(text) + 1)
        put = random.choice(SIGNS)
        doubled = text[at : at + 1] * 2
        text = text[:at] + random.choice(
            [put + text[at:], text[at + 1 :], doubled + text[at + 1 :]]
        )
    return text


def hostile_answer(random: Random, sample: Sample) -> str:
    """One odd answer to a sample of a list or puzzle task."""
    answer = str(sample.answer)
    if answer.startswith("["):
        return hostile_list(random, json.loads(answer))
    rows = [line.replace(",", "") for line in answer.split("\n")]
    return hostile_rows(random, rows, random.choice(COMMAS if "," in answer else PLAIN))
