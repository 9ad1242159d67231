"""Word sets with an example sentence: words of one scene (easy, medium) or of many (hard)."""

from collections.abc import Mapping
from functools import cache, lru_cache
from random import Random
from typing import Any

from pbcore.tasks.scenes.lexicon import data
from pbcore.tasks.scenes.realise import realise, slots
from pbcore.tasks.scenes.sampling import TEST_SHARE, Written, split_of

DIFFICULTIES = ("easy", "medium", "hard")
WORD_COUNTS = range(1, 8)
SINGLE_TEST_SHARE = 0.6  # of single words: with about 200 a difficulty, the test split has at least 100
SPARE_WORDS = 2  # content words that a sentence may have beyond the requested ones


def scene_count(words: int) -> int:
    """The number of scenes: fewer for small word sets, of which there are few, so that going through all scenes stays
    quick.
    """
    return {1: 20_000, 2: 50_000}.get(words, 100_000)


def split_of_key(key: str) -> str:
    """As `split_of`, but a larger share of the single words is in the test split."""
    return split_of(key, TEST_SHARE if " " in key else SINGLE_TEST_SHARE)


@cache
def _templates(difficulty: str, words: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Templates and their content slots for a number of words: at least as many slots, and few more."""
    kind = "hard" if difficulty == "hard" else "scene"
    templates = []
    for template in data()["word_templates"][kind]:
        content = tuple(sorted(name for name in slots(template) if f"{{{name}}}" in template))
        templates.append((template, content))
    shortest = max(words, min(len(content) for _, content in templates))
    return tuple(pair for pair in templates if words <= len(pair[1]) <= shortest + SPARE_WORDS)


def _scene(difficulty: str, rng: Random) -> dict[str, str]:
    """Values for every slot from one act: who does what to what, where and when."""
    act = rng.choice(data()["acts"][difficulty])
    who, other = rng.sample(data()["people"][act["who"]], 2)
    return {
        "A": rng.choice(data()["person_adjectives"][difficulty]),
        "S": who,
        "R": other,
        "V": rng.choice(act["verbs"]),
        "B": rng.choice(act["adjectives"]),
        "O": rng.choice(act["objects"]),
        "P": rng.choice(act["where"]),
        "T": rng.choice(data()["times"][difficulty]),
    }


@lru_cache(maxsize=1)
def _concrete() -> tuple[Mapping[str, Any], ...]:
    return tuple(act for level in ("easy", "medium") for act in data()["acts"][level] if not act.get("abstract"))


def _odd_scene(rng: Random) -> dict[str, str]:
    """Values for every slot from unrelated acts."""
    first, second, third, fourth, fifth = rng.sample(_concrete(), 5)
    level = rng.choice(("easy", "medium"))
    return {
        "A": rng.choice(data()["person_adjectives"][level]),
        "S": rng.choice(data()["people"][fifth["who"]]),
        "V": rng.choice(first["verbs"]),
        "B": rng.choice(first["adjectives"]),
        "O": rng.choice(first["objects"]),
        "X": rng.choice(second["objects"]),
        "Y": rng.choice(third["objects"]),
        "Z": rng.choice(fourth["objects"]),
        "P": rng.choice(data()["odd_places"]),
    }


def write(number: int, difficulty: str, words: int) -> Written:
    """The word set and sentence for one scene number; None if two of its words are equal."""
    rng = Random(f"words/{difficulty}/{words}/{number}")
    values = _odd_scene(rng) if difficulty == "hard" else _scene(difficulty, rng)
    template, content = rng.choice(_templates(difficulty, words))
    used = [values[name].rsplit(" ", 1)[-1] for name in content]
    if len(set(used)) < len(used):
        return None
    chosen = rng.sample(used, words)
    sentence = realise(template, values, rng)
    return (" ".join(sorted(chosen)), sentence), {"words": chosen, "example": sentence}
