"""The official scores of lists and puzzles once more, slow and obvious: what the scorers are held
to.
"""

from __future__ import annotations

import json
import re
import unicodedata

from pbcore.tasks import Sample


def official_list(text: str) -> list[str]:
    """The lenient reading, sign by sign: after the last `[`, up to the next `]`; blanks and quotes
    off the ends of each piece.
    """
    inside = ""
    for sign in reversed(text):
        if sign == "[":
            break
        inside = sign + inside
    items = []
    piece = ""
    for sign in inside + "]":
        if sign not in ",]":
            piece += sign
            continue
        if piece and not piece.isspace():
            while piece and piece[0] in ' "':
                piece = piece[1:]
            while piece and piece[-1] in ' "':
                piece = piece[:-1]
            items.append(piece)
        piece = ""
        if sign == "]":
            break
    return items


def official_strict_list(text: str) -> list[str] | None:
    """The strict reading as one pattern: quoted items that hold neither a quote nor comma-space,
    comma-space between them.
    """
    item = r'"(?:(?!, )[^"\[\]])*"'
    found = re.search(rf"\[({item}(?:, {item})*)\][^\[]*\Z", text)
    return None if found is None else [part[1:-1] for part in found[1].split(", ")]


def accepted(operation: str, sample: Sample, items: list[str]) -> bool:
    """Whether a list answers the question; `operation` is the task's name after the slash."""
    if isinstance(sample.label, str):
        return items == json.loads(sample.label)
    line = sample.label["input"]
    word = sample.label.get("word")
    if operation == "shuffle":
        return (
            items != line
            and len(items) == len(line)
            and all(items.count(one) == line.count(one) for one in line)
        )
    if operation == "insert_random":
        return items.count(word) == 1 and [one for one in items if one != word] == line
    if operation == "remove_random":
        left = [one for one in line if one in items]
        return items == left and len(left) == len(line) - 1
    changed = [(old, new) for old, new in zip(line, items, strict=False) if old != new]
    return len(items) == len(line) and len(changed) == 1 and changed[0][1] == word


def list_scores(operation: str, sample: Sample, text: str) -> dict[str, float]:
    """`accuracy` and `accuracy_strict` of a list answer."""
    strict = official_strict_list(text)
    return {
        "accuracy": float(accepted(operation, sample, official_list(text))),
        "accuracy_strict": float(strict is not None and accepted(operation, sample, strict)),
    }


def latin_scores(sample: Sample, text: str) -> dict[str, float]:
    """Both scores of a Latin square: the first n rows of the symbols, and every column that all of
    them have, hold every symbol.
    """
    symbols = sample.label["symbols"]
    square: list[list[str]] = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split(",")]
        if all(cell in symbols for cell in cells) and all(symbol in cells for symbol in symbols):
            square.append(cells)
    right = len(square) >= len(symbols)
    if right:
        square = square[: len(symbols)]
        for column in range(min(len(row) for row in square)):
            for symbol in symbols:
                right = right and symbol in [row[column] for row in square]
    return {"accuracy": float(right), "accuracy_strict": float(right)}


def sudoku_scores(sample: Sample, text: str) -> dict[str, float]:
    """Both scores of a sudoku: the lines of four digits, of whatever script, are the solution's;
    strictly, no line holds more.
    """
    solution = [[int(sign) for sign in row] for row in sample.label.split("\n")]
    numbers = []
    bare = True
    for line in text.split("\n"):
        row = [unicodedata.digit(sign) for sign in line if unicodedata.category(sign) == "Nd"]
        bare = bare and len(line.strip()) in (0, len(row)) and len(row) in (0, 4)
        if len(row) == 4:
            numbers.append(row)
    right = numbers == solution
    return {"accuracy": float(right), "accuracy_strict": float(right and bare)}
