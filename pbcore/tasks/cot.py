"""Chain of thought (the paper's appendix F.2): the question asks for steps and a final answer, and
only that answer is scored.
"""

import json
import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from pbcore.tasks.generators import Question
from pbcore.tasks.lists import OPERATIONS, formatted

# Table 4
ASKS = "Think step by step and give your final answer at the end as 'The answer is: {answer}'."
NEW_TOKENS = 256
# What is scored: what follows the marker, or the whole text, as in the official code.
ANSWERS = ("marked", "whole")
# also "the final answer is:", "the correct answer is:", and in bold type, as chat models write
_MARKER = re.compile(
    r"the\s+\**(?:(?:final|correct)\s+)*answer\**\s+is\s*\**\s*:\**", re.IGNORECASE
)
_QUOTED = re.compile(r"(?:['‘`]+(?P<one>.*?)['’`]+|[“„](?P<two>[^“”„]*)[”“])\.?", re.DOTALL)
_ONLY = (  # what a question says against steps → what stays of it
    (" and provide only the final list.", "."),
    (" Only output the final result.", ""),
    (" Only output the final result as CSV.", " Give the final result as CSV."),
)


def stepwise_prompt(prompt: str) -> str:
    """The prompt without its demand for the final result alone, and with Table 4's request for
    steps at its end.
    """
    for demand, rest in _ONLY:
        prompt = prompt.replace(demand, rest)
    return f"{prompt.rstrip()}\n{ASKS}"


def final_answer(text: str) -> str | None:
    """What follows the last "The answer is:", without quotes around the whole, straight double ones
    aside, which belong to list items; None where it is missing.
    """
    found = list(_MARKER.finditer(text))
    if not found:
        return None
    answer = text[found[-1].end() :].strip()
    while quoted := _QUOTED.fullmatch(answer):
        answer = (quoted["one"] if quoted["two"] is None else quoted["two"]).strip()
    return answer


def worked(kind: str, item: Question, answer: str) -> str:
    """A solved example's answer with its steps.

    Args:
        kind: the generator's name.
        item: the question.
        answer: its final answer.
    """
    end = f"The answer is:{chr(10) if chr(10) in answer else ' '}{answer}"
    if kind not in OPERATIONS:
        return end
    before = json.loads(item.input["context"])
    after = json.loads(answer)
    return f"The list is {formatted(before)}.\n{_steps(kind, before, after, item.input)}\n{end}"


def _steps(operation: str, before: list[str], after: list[str], values: Mapping[str, Any]) -> str:
    if operation == "copy":
        return "Nothing moves."
    if operation == "sort":
        return (
            "In alphabetical order the last names are"
            f" {', '.join(item.rpartition(' ')[2] for item in after)}."
        )
    if operation == "reverse":
        return "\n".join(
            f"Number {place} from the end is {item}." for place, item in enumerate(after, 1)
        )
    # Where the two differ first; people and symbols occur once.
    place = next(
        (i for i, pair in enumerate(zip_longest(before, after)) if pair[0] != pair[1]), None
    )
    if operation == "shuffle":
        order = f"I draw them in this order: {', '.join(after)}."
        return (
            order
            if place is None
            else f"{order}\nPlace {place + 1} has changed, so the order is a new one."
        )
    assert place is not None
    index = f"The index is {place}." if "index" in values else f"I draw index {place} at random."
    if operation.startswith("insert"):
        where = f"after {before[place - 1]}" if place else "to the front"
        return f"{index} {values['word']} goes there, {where}."
    if operation.startswith("remove"):
        return f"{index} {before[place]}, who is there, leaves the list."
    return f"{index} {before[place]} is there, and {values['word']} takes the place."
