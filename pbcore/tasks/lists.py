"""The ten list operations, on people in a waiting line or on single symbols with pre-filled
formatting (`list_ops`).
"""

import json
import string
from collections.abc import Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any

from pbcore.base.check import wrong
from pbcore.base.errors import InputError
from pbcore.base.package_data import package_yaml
from pbcore.tasks.generators import Generator, GeneratorSettings, Question, drawn, power_of_two

MASK = "[MASK]"
LENGTHS = range(2, 61)
NEW_SYMBOL = "F"
MOST_QUESTIONS = 16
SETTINGS: dict[str, Any] = {"items": "people", "word": None, "identity": False, "infill": False}

OPERATIONS = (
    "copy",
    "sort",
    "reverse",
    "shuffle",
    *(
        f"{verb}_{where}"
        for verb in ("insert", "remove", "replace")
        for where in ("index", "random")
    ),
)


@lru_cache(maxsize=1)
def people() -> tuple[str, ...]:
    """The fixed pool of 120 people, `First Last`; each first name and each last name occurs
    once.
    """
    return tuple(package_yaml("pbcore.tasks", "people.yaml")["people"])


def symbols(count: int) -> tuple[str, ...]:
    """Single symbols without F: capitals; if more than 25 are needed, small letters and digits
    too.
    """
    capitals = string.ascii_uppercase.replace(NEW_SYMBOL, "")
    return tuple(
        capitals if count <= len(capitals) else capitals + string.ascii_lowercase + string.digits
    )


def formatted(items: Sequence[str]) -> str:
    """A list in the format of the answers: `["First Last", "First Last"]`."""
    return "[" + ", ".join(f'"{item}"' for item in items) + "]"


def by_last_name(item: str) -> tuple[str, str]:
    """The sort key of the sort prompt: the last word, then the words before it."""
    first, _, last = item.rpartition(" ")
    return last, first


def canvas_room(n: int) -> int:
    """Canvas tokens for a list of n people: max(32, next power of two ≥ 5n + 2)."""
    return max(32, power_of_two(5 * n + 2))


def operate(
    operation: str, items: Sequence[str], index: int, word: str | None, moved: Sequence[str]
) -> list[str]:
    """The answer of one operation.

    Args:
        operation: its name.
        items: the given list.
        index: its position, if the operation has one.
        word: the new item, if it has one.
        moved: the answer of a shuffle.
    """
    if operation == "copy":
        return list(items)
    if operation == "reverse":
        return list(reversed(items))
    if operation == "sort":
        return sorted(items, key=by_last_name)
    if operation == "shuffle":
        return list(moved)
    new = [] if word is None else [word]
    kept = index if operation.startswith("insert") else index + 1
    return [*items[:index], *new, *items[kept:]]


def draw_list(operation: str, rng: Random, n: int, settings: GeneratorSettings) -> Question:
    """One question of a list operation.

    Args:
        operation: its name.
        rng: the source of random numbers.
        n: the length of the list.
        settings: the generator's settings.
    """
    items, word = _items(operation, rng, n, settings)
    verb, _, where = operation.partition("_")
    index = rng.randrange(n + 1 if verb == "insert" else n) if where else 0
    moved: list[str] = []
    while operation == "shuffle" and (not moved or (moved == items and not settings["identity"])):
        moved = rng.sample(items, n)
    answer = operate(operation, items, index, word, moved)
    values: dict[str, Any] = {"context": formatted(items)}
    if word is not None:
        values["word"] = word
    if where == "index":
        values["index"] = index
    label: Any = formatted(answer)
    if where == "random" or operation == "shuffle":
        example = label
        label = {"input": items}
        if word is not None:
            label["word"] = word
        label["example"] = example
    canvas = formatted([MASK] * len(answer)) if settings["infill"] else None
    return Question(values, label, values["context"], n, canvas)


def _items(
    operation: str, rng: Random, n: int, settings: GeneratorSettings
) -> tuple[list[str], str | None]:
    """The list, and the new item if the operation needs one; the new item is not in the list."""
    kind = settings["items"]
    needs_word = operation.startswith(("insert", "replace"))
    word = settings["word"] if needs_word else None
    draws_word = needs_word and word is None
    needed = n + 1 if draws_word else n
    if kind == "people":
        pool = people()
    elif kind == "symbols":
        pool = symbols(needed)
    else:
        pool = kind
    free = pool if word is None else [item for item in pool if item != word]
    if len(free) < needed:
        raise InputError(
            f"{operation} with n = {n} needs {needed} different items, settings.items has"
            f" {len(free)}: give more"
        )
    chosen = rng.sample(free, needed)
    return chosen[:n], chosen[n] if draws_word else word


def _check(settings: GeneratorSettings) -> None:
    kind = settings["items"]
    word = settings["word"]
    if kind not in ("people", "symbols"):
        texts = isinstance(kind, list) and all(isinstance(item, str) for item in kind)
        if not texts or len(set(kind)) < max(3, len(kind)):
            raise wrong(
                "settings.items", kind, "people, symbols, or a list of at least 3 different texts"
            )
        if any(not item.strip() or set(item) & set('",[]') for item in kind):
            raise InputError(
                "settings.items: an item is empty or contains a quote, comma or bracket, which the"
                " list format reserves"
            )
    if word is not None and not isinstance(word, str):
        raise wrong("settings.word", word, "the text of the new item")


def parse_context(context: str) -> list[str]:
    """The items of a prompt's list (JSON)."""
    return [str(item) for item in json.loads(context)]


def _draw_several(rng: Random, n: int, settings: GeneratorSettings) -> Question:
    """Questions of one operation on one canvas, with different people in each: the ideal speed-up
    is their number.
    """
    operation = settings["operation"]
    free = list(people())
    asked = []
    parts = []
    for number in range(1, settings["questions"] + 1):
        item = draw_list(operation, rng, n, SETTINGS | {"items": free})
        values = item.input
        label = item.label
        used = f"{values['context']}{values.get('word', '')}"
        free = [place for place in free if place not in used]
        asked.append(
            f"{number}. {values['context']}"
            + (f' (new person: "{values["word"]}")' if "word" in values else "")
            + (f" (position: {values['index']})" if "index" in values else "")
        )
        example = label if isinstance(label, str) else label["example"]
        parts.append(
            {
                "task": f"waiting_line/{operation}",
                "input": values,
                "label": label,
                "example": example,
            }
        )
    text = "\n".join(asked)
    examples = "\n".join(part["example"] for part in parts)
    return Question(
        {"context": text, "k": len(parts)}, {"questions": parts, "example": examples}, text, n
    )


LIST_GENERATORS = {
    operation: Generator(
        drawn(partial(draw_list, operation)),
        SETTINGS,
        LENGTHS,
        "items of the list",
        canvas_room,
        {"identity": bool, "infill": bool},
        _check,
    )
    for operation in OPERATIONS
}
QUESTION_GENERATORS = {
    "questions": Generator(
        drawn(_draw_several),
        {"operation": "shuffle", "questions": 2},
        range(2, 7),
        "items of each list",
        canvas_room,
        {"operation": OPERATIONS, "questions": range(1, MOST_QUESTIONS + 1)},
    )
}
