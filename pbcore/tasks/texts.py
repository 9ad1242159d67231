"""The text tasks: word sets, dialogues and paraphrases from the scene grammar, in the official layout."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from pbcore.errors import InputError
from pbcore.printable import shown
from pbcore.tasks.generators import Asked, Generator, Item, Order, Settings
from pbcore.tasks.scenes import dialogues, paraphrases, word_sets
from pbcore.tasks.scenes.words import DIFFICULTIES, WORD_COUNTS

FIRST_BATCH = 128

Batch = Callable[[int], list[dict[str, Any]]]


def listed(words: Sequence[str]) -> str:
    """Words as listed in the prompt: `dog, park, ball, and throw`."""
    if len(words) < 3:
        return " and ".join(words)
    return ", ".join(words[:-1]) + f", and {words[-1]}"


def _items(batch: Batch, order: Order, streams: int = 1) -> Iterator[dict[str, Any]]:
    """Items from batches that double in size up to the number needed; a batch's first k don't depend on its size."""
    needed = None if order.count is None else -(-order.count // streams) * (1 + order.shots)
    yielded, size = 0, FIRST_BATCH
    while needed is None or yielded < needed:
        size = size if needed is None else min(size, needed)
        yield from islice(batch(size), yielded, None)
        yielded, size = size, 2 * size


def _with_shots(items: Iterator[Item], shots: int) -> Iterator[Asked]:
    for group in zip(*[items] * (shots + 1), strict=False):
        yield Asked(group[-1], group[:-1])


def _words(order: Order) -> Iterator[Asked]:
    lengths = order.lengths or (4,)

    def questions(n: int) -> Iterator[Asked]:
        def batch(size: int) -> list[dict[str, Any]]:
            return word_sets(order.settings["difficulty"], split=order.split, seed=order.seed, count=size, words=n)

        items = (
            Item(
                {"words": listed(row["words"])},
                {"words": row["words"], "example": row["example"]},
                listed(row["words"]),
                n,
            )
            for row in _items(batch, order, len(lengths))
        )
        return _with_shots(items, order.shots)

    streams = [questions(n) for n in lengths]
    return (next(stream) for stream in cycle(streams))


def _dialogues(order: Order) -> Iterator[Asked]:
    rows = _items(lambda size: dialogues(split=order.split, seed=order.seed, count=size), order)
    items = (
        Item({"text": row["text"]}, {"text": row["text"], "summary": row["summary"]}, row["text"], 1) for row in rows
    )
    return _with_shots(items, order.shots)


def _paraphrases(order: Order) -> Iterator[Asked]:
    """`examples` is a printed list in one string, as in the official rows."""
    rows = _items(lambda size: paraphrases(split=order.split, seed=order.seed, count=size), order)
    items = (
        Item({"text": row["text"]}, {"text": row["text"], "examples": str(list(row["examples"]))}, row["text"], 1)
        for row in rows
    )
    return _with_shots(items, order.shots)


def _check_words(settings: Settings) -> None:
    if settings["difficulty"] not in DIFFICULTIES:
        raise InputError(f"settings.difficulty {shown(settings['difficulty'])}: give one of {', '.join(DIFFICULTIES)}")


TEXT_GENERATORS = {
    "words_to_sentence": Generator(_words, {"difficulty": "easy"}, WORD_COUNTS, "words", check=_check_words),
    "summarization": Generator(_dialogues, {}),
    "paraphrasing": Generator(_paraphrases, {}),
}
