"""Several independent list questions in one prompt, answered on one canvas: the ideal speed-up is their number."""

from random import Random

from pbcore.errors import InputError
from pbcore.tasks.generators import Generator, Item, Settings, drawn
from pbcore.tasks.lists import OPERATIONS, draw_list, people, room

SETTINGS = {"operation": "shuffle", "questions": 2}
MOST = 16


def _draw(rng: Random, n: int, settings: Settings) -> Item:
    """The questions of a waiting-line operation, with different people in each."""
    operation, free = settings["operation"], list(people())
    asked, parts = [], []
    for number in range(1, settings["questions"] + 1):
        item = draw_list(operation, rng, n, {"items": free, "word": None, "identity": False, "infill": False})
        values, label = item.input, item.label
        used = f"{values['context']}{values.get('word', '')}"
        free = [one for one in free if one not in used]
        asked.append(
            f"{number}. {values['context']}"
            + (f' (new person: "{values["word"]}")' if "word" in values else "")
            + (f" (position: {values['index']})" if "index" in values else "")
        )
        example = label if isinstance(label, str) else label["example"]
        parts.append({"task": f"waiting_line/{operation}", "input": values, "label": label, "example": example})
    text = "\n".join(asked)
    return Item(
        {"context": text, "k": len(parts)},
        {"questions": parts, "example": "\n".join(part["example"] for part in parts)},
        text,
        n,
    )


def _check(settings: Settings) -> None:
    count = settings["questions"]
    if settings["operation"] not in OPERATIONS:
        raise InputError(f"settings.operation {settings['operation']!r}: give one of {', '.join(OPERATIONS)}")
    if type(count) is not int or not 1 <= count <= MOST:
        raise InputError(f"settings.questions {count!r}: give 1 to {MOST}")


QUESTION_GENERATORS = {"questions": Generator(drawn(_draw), SETTINGS, range(2, 7), "items of each list", room, _check)}
