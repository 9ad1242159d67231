"""Lists all valid answers of an operation: over concrete items, or as tables of small integers."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from math import factorial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError

Element = TypeVar("Element")
AnswerTable = NDArray[np.int64]

MOST_ANSWERS = 50_000

DETERMINISTIC = (
    "copy",
    "reverse",
    "sort",
    "insert_index",
    "remove_index",
    "replace_index",
    "sudoku",
)
RANDOM_LISTS = ("shuffle", "shuffle_changed", "insert_random", "remove_random", "replace_random")
OPERATIONS = (*DETERMINISTIC, *RANDOM_LISTS, "latin_square")

# Reduced Latin squares of side 1, 2, 3 … (OEIS A000315); all squares are n! (n-1)! times as many.
REDUCED_SQUARES = (1, 1, 1, 4, 56, 9408, 16_942_080, 535_281_401_856, 377_597_570_964_258_816)


class TooManyAnswers(InputError):
    """There are too many answers to list."""


def check_operation(op: str, n: int) -> None:
    """Raises InputError for an unknown operation, or an n outside its range."""
    if op not in OPERATIONS:
        raise InputError(f"unknown operation {op!r}; choose from {', '.join(OPERATIONS)}")
    least = {"shuffle_changed": 2, "remove_random": 2, "remove_index": 2}.get(op, 1)
    if type(n) is not int or n < least:
        counted = "the side" if op in ("latin_square", "sudoku") else "the number of items"
        raise InputError(f"{op}: n is {counted}, an integer of at least {least}, not {n!r}")
    if op == "sudoku" and n != 4:
        raise InputError(f"sudoku: the puzzles have side 4, not {n}")


def positions(op: str, n: int) -> int:
    """The number of positions of an answer: its items, or the cells of the square."""
    check_operation(op, n)
    if op in ("latin_square", "sudoku"):
        return n * n
    return n + {"insert": 1, "remove": -1}.get(op.partition("_")[0], 0)


def valid_lists(
    op: str, items: Sequence[Element], word: Element | None = None
) -> list[list[Element]]:
    """The answers of an operation that has several.

    Args:
        op: the operation; `shuffle_changed` leaves out the list itself.
        items: the given list.
        word: the new item, for operations that have one.

    Returns:
        All valid lists.

    Raises:
        TooManyAnswers: for shuffles of more than 8 items.
        InputError: for an operation with a single answer.
    """
    given = list(items)
    n = len(items)
    new = [] if word is None else [word]
    if op in ("shuffle", "shuffle_changed"):
        if n > 8:
            raise TooManyAnswers(f"{op} of {n} items has {n}! answers; at most 8 items are listed")
        orders = [list(order) for order in permutations(given)]
        if op == "shuffle":
            return orders
        return [order for order in orders if order != given]  # items may repeat
    if op == "insert_random":
        return [[*given[:i], *new, *given[i:]] for i in range(n + 1)]
    if op in ("remove_random", "replace_random"):
        return [[*given[:i], *new, *given[i + 1 :]] for i in range(n)]
    raise InputError(f"{op} has no list of answers; choose from {', '.join(RANDOM_LISTS)}")


@lru_cache(maxsize=64)
def answer_table(op: str, n: int) -> AnswerTable:
    """The answers (A, P) of an operation on the items 0 … n−1; the new item is n. A deterministic
    one has a single row. Raises InputError for a bad operation or n, TooManyAnswers beyond 50,000
    answers.
    """
    width = positions(op, n)
    if op in DETERMINISTIC:
        return np.arange(width, dtype=np.int64)[None]
    if op == "latin_square":
        return latin_squares(n).reshape(-1, width)
    word = n if op.startswith(("insert", "replace")) else None
    return np.array(valid_lists(op, range(n), word), dtype=np.int64)


@lru_cache(maxsize=8)
def latin_squares(n: int) -> AnswerTable:
    """All Latin squares (A, n, n) of the symbols 0 … n−1: 1, 2, 12, 576 for n = 1 … 4. Raises
    TooManyAnswers above.
    """
    if count_latin_squares(n) > MOST_ANSWERS:
        raise TooManyAnswers(
            f"there are {count_latin_squares(n)} Latin squares of side {n}; at most {MOST_ANSWERS}"
            " are listed (side 4)"
        )
    rows = np.array(list(permutations(range(n))), dtype=np.int64)  # (n!, n)
    squares = np.empty((1, 0, n), dtype=np.int64)  # (A, r, n)
    for _ in range(n):
        fits = (squares[:, None] != rows[None, :, None]).all((-2, -1))  # (A, n!)
        square, row = fits.nonzero()
        squares = np.concatenate([squares[square], rows[row][:, None]], axis=1)
    return squares


def count_latin_squares(n: int) -> int:
    """The number of Latin squares of side n (n ≤ 9). Raises InputError for larger n."""
    if not 1 <= n <= len(REDUCED_SQUARES):
        raise InputError(
            f"latin_square: the number of squares is known for n = 1 to {len(REDUCED_SQUARES)},"
            f" not {n}"
        )
    return REDUCED_SQUARES[n - 1] * factorial(n) * factorial(n - 1)
