"""The right answer that is nearest to a wrong one, for questions with several."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np

from pbcore.metrics.answers import any_layout_list
from pbcore.results.questions import StoredQuestion
from pbcore.tasks.lists import formatted
from pbcore.tasks.words import tokens
from pbcore.theory.answers import RANDOM_LISTS, latin_squares, valid_lists

_BETWEEN = re.compile(r"[\s,;|]+")  # the cells of a row
MOST_SYMBOLS = 4  # of a Latin square: all squares of five are too many


def nearest(question: StoredQuestion, text: str) -> str | None:
    """The right answer that differs least from `text`; the stored one where it is the only one or
    the others can't be listed, None where there is none.
    """
    items = question.items
    if not items:
        return question.answer
    if question.rule == "answers":
        return _closest(items, text)
    if question.rule in ("shuffle", "shuffle_changed"):
        order = _order(items, any_layout_list(text))
        same = question.rule == "shuffle_changed" and order == items
        return question.answer if same else formatted(order)
    if question.rule == "latin_square":
        return _square(items, text) or question.answer
    if question.rule not in RANDOM_LISTS:
        return question.answer
    lists = map(formatted, valid_lists(question.rule, items, question.word))
    first = [] if question.answer is None else [question.answer]  # where others are as near
    return _closest([*first, *lists], text)


def _closest(answers: Iterable[str], text: str) -> str:
    """The answer with most words in common with `text`, in their order."""
    words = tokens(text)

    def likeness(answer: str) -> float:
        return SequenceMatcher(None, tokens(answer), words, autojunk=False).ratio()

    return max(answers, key=likeness)


def _order(items: Sequence[str], given: Sequence[str]) -> list[str]:
    """An order of all items that keeps those of an answer where they stand: what it has too often
    or shouldn't have gives its place to what it lacks.
    """
    left = Counter(items)
    kept: list[str | None] = []
    for item in given:
        known = left[item] > 0
        left[item] -= known
        kept.append(item if known else None)
    lacking = list(left.elements())
    order = []
    for place in kept:
        if place is not None:
            order.append(place)
        elif lacking:
            order.append(lacking.pop(0))
    return [*order, *lacking]


def _square(symbols: Sequence[str], text: str) -> str | None:
    """The Latin square with most symbols of an answer in their places; None for too many
    symbols.
    """
    size = len(symbols)
    if size > MOST_SYMBOLS:
        return None
    given = np.full((size, size), -1)
    for at, line in enumerate(text.split("\n")[:size]):
        row = [cell for cell in _BETWEEN.split(line) if cell]
        for place, symbol in enumerate(row[:size]):
            given[at, place] = symbols.index(symbol) if symbol in symbols else -1
    squares = latin_squares(size)
    best = squares[(squares == given).sum((1, 2)).argmax()]
    return "\n".join(",".join(symbols[number] for number in row) for row in best)
