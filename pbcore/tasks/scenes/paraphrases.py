"""Sentences with paraphrases: one meaning, several frames (voice, clause order) and synonyms."""

from random import Random
from typing import Any

from pbcore.tasks.scenes.lexicon import data
from pbcore.tasks.scenes.realise import realise
from pbcore.tasks.scenes.sampling import Written

SCENES = 150_000
MOST_EXAMPLES = 5


def meaning(rng: Random, case: dict[str, Any]) -> dict[str, list[str]]:
    """Draws one value for every slot of a case, as its list of synonyms (often only one)."""
    drawn: dict[str, list[str]] = {}
    for name, options in case.items():
        pool = data()["synonyms"][options] if isinstance(options, str) else options
        taken = [value[0] for value in drawn.values()]
        free = [option if isinstance(option, list) else [option] for option in pool]
        drawn[name] = rng.choice([option for option in free if option[0] not in taken])
    return drawn


def write(number: int) -> Written:
    """The text and its paraphrases for one scene number; None unless all wordings, at least three, differ."""
    rng = Random(f"paraphrase/{number}")
    name = rng.choice(sorted(data()["paraphrases"]))
    frame = data()["paraphrases"][name]
    case = rng.choice(frame["cases"])
    drawn = meaning(rng, {**frame.get("slots", {}), **case})
    variants = list(frame["variants"])
    rng.shuffle(variants)
    sentences = []
    for index, variant in enumerate(variants[: MOST_EXAMPLES + 1]):
        values = {slot: words[(index + number) % len(words)] for slot, words in drawn.items()}
        sentences.append(realise(variant, values, rng))
    if len(set(sentences)) < max(3, len(sentences)):
        return None
    key = name + "/" + "/".join(f"{slot}={words[0]}" for slot, words in sorted(drawn.items()))
    return (key,), {"text": sentences[0], "examples": sentences[1:]}
