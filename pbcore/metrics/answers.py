"""Parsers of answers: lists of items, rows of a Latin square, rows of a sudoku, read leniently,
strictly and in any layout; and the scorer of answers that are judged one by one.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pbcore.base.errors import InputError
from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import Details, Repeated, Scored

# All scores of an answer, and the details that explain them.
ScoresAndDetails = tuple[dict[str, float], Details]

_EDGES = re.compile(r'^[\s"]+|[\s"]+$')
_BETWEEN_CELLS = re.compile(r"[\s,;|]+")
_AROUND_CELLS = "\"'`[](){}"


class JudgedScorer:
    """A scorer of answers that are judged one by one: `judge` gives the scores named in `metrics`,
    and details.
    """

    def __init__(
        self, judge: Callable[[str, Sample], ScoresAndDetails], metrics: tuple[str, ...]
    ) -> None:
        self.judge = judge
        self.metrics = metrics

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]:
        results = []
        for text, sample in zip(predictions, samples, strict=True):
            scores, details = self.judge(text, sample)
            wanted = {name: score for name, score in scores.items() if name in metrics}
            results.append(Scored(wanted, details))
        return results


def lenient_list(text: str) -> list[str]:
    """The items after the last `[`, up to the next `]`, both optional; split at commas, ordinary
    spaces and double quotes stripped. This is the reading of the official benchmark's `accuracy`:
    blank pieces are dropped, but `""` is an item, and a line break, tab or no-break space at an
    item's edge is part of it.
    """
    return [piece.strip(' "') for piece in _inside(text).split(",") if piece.strip()]


def any_layout_list(text: str) -> list[str]:
    """As `lenient_list`, with line breaks and blanks of every kind stripped from the items, and
    empty items dropped. It also reads lists over several lines.
    """
    return [item for item, _ in placed_items(text)]


def placed_items(text: str) -> list[tuple[str, int]]:
    """The items of `any_layout_list`, each with where it begins in the text."""
    placed = []
    start = text.rfind("[") + 1
    for piece in _inside(text).split(","):
        item = _EDGES.sub("", piece)
        if item:
            placed.append((item, start + piece.index(item)))
        start += len(piece) + 1
    return placed


def placed_cells(text: str) -> list[list[tuple[str, int]]]:
    """The comma-separated cells of each line, each with where it begins in the text."""
    rows = []
    start = 0
    for line in text.split("\n"):
        row = []
        for piece in line.split(","):
            cell = piece.strip()
            row.append((cell, start + piece.find(cell)))
            start += len(piece) + 1
        rows.append(row)
    return rows


def repeated(
    placed: Sequence[tuple[str, int]], allowed: Mapping[str, int], within: str = ""
) -> list[Repeated]:
    """The items that stand more often than they may.

    Args:
        placed: items, each with where it begins in its text.
        allowed: how often an item may stand, where that isn't once.
        within: which part of the answer they are.
    """
    places: dict[str, list[int]] = {}
    for item, at in placed:
        places.setdefault(item, []).append(at)
    twice: list[Repeated] = []
    for item, starts in places.items():
        most = max(1, allowed.get(item, 1))
        if len(starts) > most:
            entry: Repeated = {"item": item, "allowed": most, "at": starts}
            if within:
                entry["within"] = within
            twice.append(entry)
    return twice


def _inside(text: str) -> str:
    return text.rsplit("[", 1)[-1].split("]", 1)[0]


def strict_list(text: str) -> list[str] | None:
    """The items of the last bracketed list, split at comma-space, every item in double quotes; None
    if the text has no such list. Text around the list is ignored. This is the reading of the
    official benchmark's `accuracy_strict`.
    """
    start = text.rfind("[")
    end = text.find("]", start)
    if start < 0 or end < 0:
        return None
    items = text[start + 1 : end].split(", ")
    quoted = all(
        len(item) >= 2 and item[0] == item[-1] == '"' and '"' not in item[1:-1] for item in items
    )
    return [item[1:-1] for item in items] if quoted else None


def csv_rows(text: str, symbols: Collection[str]) -> list[list[str]]:
    """The lines of comma-separated cells whose set of cells equals the symbols. As in the official
    benchmark, this includes a row that repeats a symbol in an extra cell.
    """
    rows = []
    for line in text.split("\n"):
        row = [cell.strip() for cell in line.split(",")]
        if set(row) == set(symbols):
            rows.append(row)
    return rows


def any_layout_rows(text: str, symbols: Collection[str]) -> list[list[str]]:
    """The lines with every symbol once: cells between commas, semicolons, bars or blanks, quoted or
    in brackets.
    """
    rows = []
    for line in text.splitlines():
        cells = [cell.strip(_AROUND_CELLS) for cell in _BETWEEN_CELLS.split(line)]
        row = [cell for cell in cells if cell]
        if sorted(row) == sorted(symbols):
            rows.append(row)
    return rows


def ascii_digits(text: str) -> str:
    """The text with the decimal digits of every script (Unicode category Nd: ٣, ３ …) as 0–9, but
    not superscripts.
    """
    return "".join(str(int(sign)) if sign.isdecimal() else sign for sign in text)


def digits(text: str) -> str:
    """The decimal digits of a text in order, those of other scripts as 0–9."""
    return re.sub(r"[^0-9]", "", ascii_digits(text))


def digit_rows(text: str) -> list[str]:
    """The digits of the lines that have exactly four of them (of any script)."""
    rows = (digits(line) for line in text.split("\n"))
    return [row for row in rows if len(row) == 4]


def lines(text: str) -> list[str]:
    """The lines that are not blank, stripped."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def label_part(sample: Sample, key: str, kind: type) -> Any:
    """One part of a sample's label.

    Args:
        sample: the question.
        key: the part.
        kind: its type.

    Raises:
        InputError: names task and sample if the label lacks the part.
    """
    part = sample.label.get(key) if isinstance(sample.label, dict) else None
    if not isinstance(part, kind):
        raise _unfit(sample, f"a label with {key}")
    return part


def label_text(sample: Sample) -> str:
    """A sample's label as text. Raises InputError that names task and sample if the label is
    something else.
    """
    if not isinstance(sample.label, str):
        raise _unfit(sample, "a text as label")
    return sample.label


def _unfit(sample: Sample, needed: str) -> InputError:
    return InputError(
        f"{sample.task}, sample {sample.index}: its scorer needs {needed}, given {sample.label!r}"
    )


def quoted(items: Sequence[str]) -> str:
    """Items for a message: `"A B", "C D"`."""
    return ", ".join(f'"{item}"' for item in items)
