"""Tables: typed rows, and one renderer each for the terminal and for Markdown. tabulate aligns
their columns; no other module imports it.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import DataRow, TableFormat, tabulate

from pbcore.base.printable import printable
from pbcore.base.text import code, folded, md

MISSING = "–"
PADDED = 60  # columns of Markdown with a longer entry are not padded to it
SIDES = {"l": "left", "r": "right"}
# Columns that continue in another part, or whose first ones stand apart, are one space apart.
_NARROW = TableFormat(None, None, None, None, None, DataRow("", " ", ""), 0, None)
_BARE_PIPE = re.compile(r"(?<!\\)\|")


class Code(str):
    """A text that people type, such as a sampler's name: a code span where there are such."""

    __slots__ = ()


class MarkdownText(str):
    """A text that is Markdown already, for tables that are only written as Markdown."""

    __slots__ = ()


Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads. Texts may be foreign: each renderer escapes them for itself.

    Attributes:
        heads: the head of each column; the terminal has no line of heads where all are empty.
        rows: each row's entries, as many as there are heads; None is what is missing.
        sides: a letter for each column, `l` or `r`. By default numbers are on the right, and other
            columns on the left.
        forms: how floats are written, as `format` takes it: of all columns, or of each.
        missing: what stands for None.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Value]]
    sides: str = ""
    forms: str | Sequence[str] = "g"
    missing: str = MISSING

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.heads):
                raise ValueError(f"a row has {len(row)} entries under {len(self.heads)} heads")
        if self.sides and (len(self.sides) != len(self.heads) or set(self.sides) - set(SIDES)):
            raise ValueError(f"sides {self.sides!r}: give l or r for each of {len(self.heads)}")

    def numeric(self, column: int) -> bool:
        """Whether a column has numbers and no texts."""
        kinds = {type(row[column]) for row in self.rows} - {type(None)}
        return bool(kinds) and all(issubclass(kind, int | float) for kind in kinds)

    def side(self, column: int) -> str:
        """`left` or `right`, on which a column's entries end."""
        if self.sides:
            return SIDES[self.sides[column]]
        return "right" if self.numeric(column) else "left"

    def written(self, column: int, value: Value) -> str:
        """An entry's text, not yet escaped."""
        if value is None:
            return self.missing
        if isinstance(value, float):
            form = self.forms if isinstance(self.forms, str) else self.forms[column]
            return format(value, form)
        return str(value)


def terminal(
    table: Table,
    width: int | None = None,
    stacked: int | None = None,
    notes: Sequence[Sequence[str]] = (),
) -> str:
    """The table as aligned text. Where it is wider than the terminal, its first columns of texts
    stand on lines of their own, as many as needed; columns that still don't fit continue in another
    part.

    Args:
        width: columns of the terminal; None for as many as the table takes.
        stacked: how many columns stand on lines of their own, whatever the width; None for as many
            as needed.
        notes: remarks for each row, folded under it.
    """
    heads = list(map(_plain, table.heads))
    rows = []
    for values in table.rows:
        rows.append([_plain(table.written(column, value)) for column, value in enumerate(values)])
    for column in filter(table.numeric, range(len(heads))):
        measured = [place for place, row in enumerate(table.rows) if row[column] is not None]
        points = _at_one_point([rows[place][column] for place in measured])
        for place, text in zip(measured, points, strict=True):
            rows[place][column] = text
    if stacked is None:
        lines = _ruled(table, heads, rows)
        if width is None or _width(lines) <= width:
            above = len(lines) - len(rows)
            noted = _with_notes(lines[above:], notes, width)
            return "\n".join([*lines[:above], *noted])
    return "\n".join(_stacked(table, [heads, *rows], width, stacked, notes))


def markdown(table: Table) -> str:
    """The table in Markdown. Pipes, signs of Markdown and HTML within entries are escaped."""
    rows = []
    for row in table.rows:
        texts = [table.written(column, value) for column, value in enumerate(row)]
        rows.append([_in_markdown(value, text) for value, text in zip(row, texts, strict=True)])
    heads = [_in_markdown(head, head) for head in table.heads]
    sides: list[str | None] = [table.side(column) for column in range(len(heads))]
    for column, entries in enumerate(zip(*rows, strict=True)):
        if max(map(len, entries)) > PADDED:
            sides[column] = None
    return _aligned(rows, heads, "pipe", sides)


def with_intervals(texts: Sequence[str]) -> list[str]:
    """Scores such as `88 [70–95]` with spaces in front, such that they end in the same place; other
    texts end there too. Texts of which none has an interval stay as they are.
    """
    pairs = [text.partition(" ") for text in texts]
    scores = [len(score) for score, space, _ in pairs if space]
    if not scores:
        return list(texts)
    return [f"{score:>{max(scores)}}{space}{interval}" for score, space, interval in pairs]


def parts_within(widths: Sequence[int], room: int) -> list[list[int]]:
    """Column numbers in parts of about equal size that fit into `room`, each with a space in front;
    a wider column is a part by itself.
    """
    parts: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        if parts[-1] and used + width + 1 > room:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += width + 1
    size = -(-len(widths) // len(parts))
    columns = list(range(len(widths)))
    even = [columns[start : start + size] for start in range(0, len(columns), size)]
    for part in even:
        if sum(widths[column] + 1 for column in part) > room:
            return parts
    return even


def _at_one_point(numbers: Sequence[str]) -> list[str]:
    """Numbers with spaces behind them, such that their decimal points stand under each other."""
    behind = [len(text) - len(text.partition(".")[0]) for text in numbers]
    return [
        text + " " * (max(behind) - places) for text, places in zip(numbers, behind, strict=True)
    ]


def _ruled(table: Table, heads: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a table with dashes under its heads; its last ones are the rows."""
    sides = [table.side(column) for column in range(len(heads))]
    if not any(heads):
        return _aligned(rows, [], "plain", sides).split("\n")
    # A row of tabulate's own heads would make each column two columns wider than its head.
    dashes, first, *others, _ = _aligned([heads, *rows], [], "simple", sides).split("\n")
    return [first, dashes, *others]


def _stacked(
    table: Table,
    rows: list[list[str]],
    width: int | None,
    stacked: int | None,
    notes: Sequence[Sequence[str]],
) -> list[str]:
    """Lines of a table whose first columns stand on lines of their own, where they differ from the
    row before. `rows` begin with the heads. Each part has the next column of texts again.
    """
    widths = [_width(column) for column in zip(*rows, strict=True)]
    sides = [table.side(column) for column in range(len(widths))]
    names = sides.index("right") if "right" in sides else len(sides) - 1
    room = sys.maxsize if width is None else width - 1  # beside the indent, less its space
    apart = stacked or 0
    if stacked is None:
        while apart < names and sum(widths[apart:]) + len(widths) - apart > room:
            apart += 1
    repeated = list(range(apart, min(apart + 1, names)))
    others = range(apart + len(repeated), len(widths))
    room -= sum(widths[column] + 1 for column in repeated)
    parts = parts_within([widths[column] for column in others], room)
    indent = "  " if apart else ""
    lines: list[str] = []
    for number, part in enumerate(parts):
        columns = [*repeated, *(others[place] for place in part)]
        cells = [[row[column] for column in columns] for row in rows]
        aligned = _aligned(cells, [], _NARROW, [sides[column] for column in columns])
        remarks = notes if number == len(parts) - 1 else ()
        above = ""
        for place, line in enumerate(aligned.split("\n")):
            label = ", ".join(rows[place][:apart])
            if label != above:
                lines.append(label)
                above = label
            under = remarks[place - 1 : place] if place else ()
            lines += _with_notes([f"{indent}{line}".rstrip()], under, width)
    return lines


def _with_notes(
    lines: Sequence[str], notes: Sequence[Sequence[str]], width: int | None
) -> list[str]:
    """Each line with its remarks under it."""
    noted: list[str] = []
    for place, line in enumerate(lines):
        noted.append(line)
        for note in notes[place] if notes else ():
            noted += folded(f"    {_plain(note)}", width or sys.maxsize, 0)
    return noted


def _aligned(
    rows: Sequence[Sequence[str]],
    heads: Sequence[str],
    form: str | TableFormat,
    sides: Sequence[str | None],
) -> str:
    """Texts as tabulate puts them under each other."""
    return tabulate(
        rows,
        heads,
        tablefmt=form,
        colalign=sides,
        disable_numparse=True,
        preserve_whitespace=True,
    )


def _width(texts: Sequence[str]) -> int:
    """The columns that the widest text takes in a terminal, as tabulate counts them."""
    cells = [[text] for text in texts]
    return len(_aligned(cells, [], "simple", ["left"]).partition("\n")[0])


def _plain(text: str) -> str:
    return printable(text, len(text))


def _in_markdown(value: Value, text: str) -> str:
    """An entry of Markdown, whose pipes don't end it."""
    if isinstance(value, MarkdownText):
        return _BARE_PIPE.sub(r"\|", _plain(text))
    if isinstance(value, Code):
        return code(text, len(text), cell=True) if text else ""
    return md(text, len(text))
