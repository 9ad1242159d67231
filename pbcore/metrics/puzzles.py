"""Scores of puzzle answers: Latin squares of given symbols, and sudokus with one solution."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pbcore.metrics.answers import (
    any_layout_rows,
    ascii_digits,
    csv_rows,
    digit_rows,
    digits,
    label_part,
    label_text,
    lines,
)
from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import Scored, register_scorer

LAYOUT = "right in another layout, but not as the official benchmark reads it:"


@dataclass(frozen=True, slots=True)
class LatinSquareScorer:
    """`accuracy`: the first n valid rows form a Latin square. Any square of the symbols is correct; text between the
    rows is ignored.

    `accuracy_strict` is the same, because the official benchmark has no stricter reading. In both, a row may repeat a
    symbol in an extra cell; `accuracy_as_asked` accepts only rows of n cells. `accuracy_any_layout` also accepts
    blanks, bars or semicolons between cells, quotes and brackets; it is never lower than `accuracy`.
    """

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("accuracy", "accuracy_strict", "accuracy_any_layout", "accuracy_as_asked")

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]:
        """One result per answer; `details` explain wrong answers."""
        return [self._one(text, sample, metrics) for text, sample in zip(predictions, samples, strict=True)]

    def _one(self, text: str, sample: Sample, metrics: frozenset[str]) -> Scored:
        symbols = label_part(sample, "symbols", list)
        rows = csv_rows(text, symbols)
        wrong = latin_fault(rows, symbols)
        exact = latin_fault([row for row in rows if len(row) == len(symbols)], symbols)
        free = wrong and latin_fault(any_layout_rows(text, symbols), symbols)
        scores = {
            "accuracy": float(not wrong),
            "accuracy_strict": float(not wrong),
            "accuracy_any_layout": float(not free),
            "accuracy_as_asked": float(not exact),
        }
        details: dict[str, Any] = {}
        if wrong and not free:
            details = {"failure": "layout", "why": f"{LAYOUT} bare cells between commas, a row a line"}
        elif wrong:
            details = {"failure": "malformed" if not rows else wrong[0], "why": wrong[1]}
        elif exact:
            details = {"why": f"accepted as by the official benchmark, but {exact[1]}"}
        return Scored({metric: score for metric, score in scores.items() if metric in metrics}, details)


def latin_fault(rows: Sequence[Sequence[str]], symbols: Sequence[str]) -> tuple[str, str] | None:
    """Why the first n rows are not a Latin square, as a kind and a sentence; None if they are one.

    The number of columns is the length of the shortest row: if every row has an extra cell, these form a further
    column, which must contain every symbol too (the official rule).
    """
    side = len(symbols)
    if len(rows) < side:
        return "row missing", f"only {len(rows)} of {side} rows contain every symbol and nothing else"
    for number, column in enumerate(zip(*rows[:side], strict=False), 1):
        if set(column) != set(symbols):
            kind = "column repeats" if number <= side else "extra cell"
            return kind, f"column {number} does not contain every symbol once"
    return None


@dataclass(frozen=True, slots=True)
class SudokuScorer:
    """`accuracy`: the lines with exactly four digits, read without other characters, equal the solution.
    `accuracy_strict`: all lines do.

    Decimal digits of every script count, as in the official benchmark. `accuracy_any_layout`: all digits of the answer
    in order equal the solution, whatever its line breaks; it is never lower than `accuracy`.
    """

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("accuracy", "accuracy_strict", "accuracy_any_layout")

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]:
        """One result per answer; `details` explain wrong answers."""
        return [self._one(text, sample, metrics) for text, sample in zip(predictions, samples, strict=True)]

    def _one(self, text: str, sample: Sample, metrics: frozenset[str]) -> Scored:
        solution = lines(label_text(sample))
        rows = digit_rows(text)
        right = rows == solution
        scores = {
            "accuracy": float(right),
            "accuracy_strict": float(lines(ascii_digits(text)) == solution),
            "accuracy_any_layout": float(right or digits(text) == "".join(solution)),
        }
        details: dict[str, Any] = {}
        if not right and scores["accuracy_any_layout"]:
            details = {"failure": "layout", "why": f"{LAYOUT} lines of exactly four digits"}
        elif not right:
            details["failure"], details["why"] = sudoku_fault(
                rows, solution, lines(str(sample.input.get("sudoku", "")))
            )
        elif not scores["accuracy_strict"]:
            details["why"] = "right, but with more than four lines of four digits"
        return Scored({metric: score for metric, score in scores.items() if metric in metrics}, details)


def sudoku_fault(rows: Sequence[str], solution: Sequence[str], puzzle: Sequence[str]) -> tuple[str, str]:
    """The diagnosis of a wrong answer's rows: the kind of failure and a sentence."""
    if not rows:
        return "malformed", "the answer contains no row of four digits"
    if len(rows) != len(solution):
        return (
            "row missing" if len(rows) < len(solution) else "extra row"
        ), f"{len(rows)} rows of four digits instead of {len(solution)}"
    cells = [(row, column) for row in range(len(solution)) for column in range(len(solution[row]))]
    wrong = [(row, column) for row, column in cells if rows[row][column] != solution[row][column]]
    if list(map(len, puzzle)) == list(map(len, solution)):
        changed = [(row, column) for row, column in wrong if puzzle[row][column] not in ("0", rows[row][column])]
        if changed:
            return "given changed", f"row {changed[0][0] + 1}, column {changed[0][1] + 1}: a given digit was changed"
    row, column = wrong[0]
    return "wrong digit", f"row {row + 1}, column {column + 1}: {rows[row][column]} instead of {solution[row][column]}"


register_scorer("latin_square", LatinSquareScorer())
register_scorer("sudoku", SudokuScorer())
