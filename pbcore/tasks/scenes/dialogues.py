"""Short dialogues of two people about one topic, with a summary of what they say."""

from random import Random

from pbcore.tasks.scenes.lexicon import data
from pbcore.tasks.scenes.realise import realise
from pbcore.tasks.scenes.sampling import Written

SCENES = 100_000


def write(number: int) -> Written:
    """The dialogue and summary for one scene number."""
    rng = Random(f"dialogue/{number}")
    frame = data()["dialogues"][rng.choice(sorted(data()["dialogues"]))]
    names = data()["names"]["female"] + data()["names"]["male"]
    values = dict(zip(("a", "b"), rng.sample(names, 2), strict=True))
    for slot, options in {**frame.get("slots", {}), **rng.choice(frame.get("cases", [{}]))}.items():
        pool = data()["dialogue_slots"][options] if isinstance(options, str) else options
        values[slot] = rng.choice([option for option in pool if option not in values.values()])
    turns = list(frame["turns"])
    closing = frame.get("closing", [])
    turns += closing[: rng.randrange(len(closing) + 1)]
    lines = [f"{values['ab'[place % 2]]}: {realise(turn, values, rng)}" for place, turn in enumerate(turns)]
    summary = realise(rng.choice(frame["summaries"]), values, rng)
    text = "\n".join(lines)
    return (text, summary), {"text": text, "summary": summary}
