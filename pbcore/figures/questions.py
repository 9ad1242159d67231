"""Infilling questions with one token per item and known valid answers, as `pbcore.theory` assumes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pbcore.errors import InputError
from pbcore.tasks.base import Sample
from pbcore.tasks.lists import MASK, NEW_SYMBOL, formatted, symbols
from pbcore.tasks.registry import all_task_names, load_task
from pbcore.theory.answers import DETERMINISTIC, answer_table, check_operation, positions

LISTED = ("insert_random", "remove_random", "latin_square")


@dataclass(frozen=True, slots=True)
class Questions:
    """The same question many times, with other random numbers each time, or different ones. `right` scores the text of
    an answer to the sample of that number."""

    op: str
    n: int
    samples: tuple[Sample, ...]
    right: Callable[[int, str], bool]


def questions(op: str, n: int, count: int, different: bool = False) -> Questions:
    """`count` times a list operation on n symbols, or a Latin square of side n, with only the items masked.

    `different` lists are for trained models, whose greedy answer to one list is always the same. Raises InputError for
    operations without infilling questions, for squares beyond side 3, and where there aren't as many different ones.
    """
    check_operation(op, n)
    name = f"list_ops/{op}"
    if name in all_task_names():
        task = load_task(name, n=n, limit=count if different else 1)
        samples = task.samples if different else _copies(task.samples[0], count)
        return Questions(op, n, samples, lambda number, text: task.score(text, samples[number])["accuracy"] == 1)
    if different:
        raise InputError(f"{op} has one question only; choose from copy, replace_index, replace_random, shuffle")
    if op not in LISTED:
        raise InputError(f"{op} has no infilling questions; choose from {', '.join((*DETERMINISTIC[:1], *LISTED))}")
    if op == "latin_square" and n > 3:
        raise InputError(f"latin_square, n = {n}: the answers are listed up to side 3")
    texts = frozenset(_text(op, n, row) for row in answer_table(op, n).tolist())
    canvas = _text(op, n, None)
    message = {"role": "user", "content": f"{op} of {n}"}
    sample = Sample(f"theory/{op}", 0, (message,), {}, {"answers": sorted(texts)}, 0, n, canvas)
    return Questions(op, n, _copies(sample, count), lambda number, text: text in texts)


def _copies(sample: Sample, count: int) -> tuple[Sample, ...]:
    return tuple(replace(sample, index=i) for i in range(count))


def _text(op: str, n: int, row: list[int] | None) -> str:
    """A row of the answers' table as text; None: the canvas."""
    names = [*symbols(n)[:n], NEW_SYMBOL]
    items = [MASK] * positions(op, n) if row is None else [names[token] for token in row]
    if op != "latin_square":
        return formatted(items)
    return "\n".join(",".join(items[start : start + n]) for start in range(0, n * n, n))
