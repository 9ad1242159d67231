"""Chain of thought (the paper's appendix F.2): the question asks for steps and a final answer, and only that answer is
scored."""

import json
import re
from collections.abc import Callable
from typing import Any

from pbcore.tasks.generators import Item
from pbcore.tasks.lists import formatted

ASKS = "Think step by step and give your final answer at the end as 'The answer is: {answer}'."  # Table 4
NEW_TOKENS = 256
ANSWERS = ("marked", "whole")  # what is scored: what follows the marker, or the whole text, as in the official code
_CLOSES = "The answer is:"
_MARKER = re.compile(  # also "the final answer is:", "the correct answer is:", and in bold type, as chat models write
    r"the\s+\**(?:(?:final|correct)\s+)*answer\**\s+is\s*\**\s*:\**", re.IGNORECASE
)
_QUOTED = re.compile(r"(?:['‘`]+(?P<one>.*?)['’`]+|[“„](?P<two>[^“”„]*)[”“])\.?", re.DOTALL)
_ONLY = (  # what a question says against steps → what stays of it
    (" and provide only the final list.", "."),
    (" Only output the final result.", ""),
    (" Only output the final result as CSV.", " Give the final result as CSV."),
)


def question(prompt: str) -> str:
    """The prompt, asking for steps: without its demand for the final result alone, and with Table 4's sentence at its
    end."""
    for demand, rest in _ONLY:
        prompt = prompt.replace(demand, rest)
    return f"{prompt.rstrip()}\n{ASKS}"


def final_answer(text: str) -> str | None:
    """What follows the last "The answer is:", without quotes around the whole, straight double ones aside, which belong
    to list items; None where it is missing.
    """
    found = list(_MARKER.finditer(text))
    if not found:
        return None
    answer = text[found[-1].end() :].strip()
    while quoted := _QUOTED.fullmatch(answer):
        answer = (quoted["one"] if quoted["two"] is None else quoted["two"]).strip()
    return answer


def worked(kind: str, item: Item, answer: str) -> str:
    """A solved example's answer with its steps; `kind` is the generator's name."""
    end = f"{_CLOSES}{chr(10) if chr(10) in answer else ' '}{answer}"
    steps = _STEPS.get(kind)
    if steps is None:
        return end
    before, after = json.loads(item.input["context"]), json.loads(answer)
    return f"The list is {formatted(before)}.\n{steps(before, after, item.input)}\n{end}"


def _sort(before: list[str], after: list[str], _: Any) -> str:
    names = ", ".join(item.rpartition(" ")[2] for item in after)
    return f"In alphabetical order the last names are {names}."


def _reverse(before: list[str], after: list[str], _: Any) -> str:
    return "\n".join(f"Number {place} from the end is {item}." for place, item in enumerate(after, 1))


def _shuffle(before: list[str], after: list[str], _: Any) -> str:
    pairs = zip(before, after, strict=True)
    differs = next((place for place, (old, new) in enumerate(pairs, 1) if old != new), None)
    order = f"I draw them in this order: {', '.join(after)}."
    return order if differs is None else f"{order}\nPlace {differs} has changed, so the order is a new one."


def _index(place: int, values: Any) -> str:
    return f"The index is {place}." if "index" in values else f"I draw index {place} at random."


def _insert(before: list[str], after: list[str], values: Any) -> str:
    place = after.index(values["word"])
    where = f"after {before[place - 1]}" if place else "to the front"
    return f"{_index(place, values)} {values['word']} goes there, {where}."


def _remove(before: list[str], after: list[str], values: Any) -> str:
    place = next(i for i, item in enumerate(before) if after[i : i + 1] != [item])
    return f"{_index(place, values)} {before[place]}, who is there, leaves the list."


def _replace(before: list[str], after: list[str], values: Any) -> str:
    place = after.index(values["word"])
    return f"{_index(place, values)} {before[place]} is there, and {values['word']} takes the place."


_STEPS: dict[str, Callable[[list[str], list[str], Any], str]] = {
    "copy": lambda before, after, _: "Nothing moves.",
    "sort": _sort,
    "reverse": _reverse,
    "shuffle": _shuffle,
    "insert_index": _insert,
    "insert_random": _insert,
    "remove_index": _remove,
    "remove_random": _remove,
    "replace_index": _replace,
    "replace_random": _replace,
}
