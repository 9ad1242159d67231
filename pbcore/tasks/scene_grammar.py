"""The grammar of scenes: words as data (scenes.yaml), a few inflection rules, and templates made into sentences.

A template is plain text with `{slot}`, `{slot.form}` and `[one|other]` (a random choice).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any

from pbcore.package_data import package_yaml

_SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE = re.compile(r"\ba/an (\w+)")
_START = re.compile(r"(^|[.?!] )([a-z])")
_FEMALE = {"he": "she", "him": "her", "his": "her"}
FORMS = ("past", "pp", "ing", "det", "it", *_FEMALE)


@lru_cache(maxsize=1)
def data() -> Mapping[str, Any]:
    """The content of scenes.yaml, read once; its lists of words with a property are sets."""
    words: dict[str, Any] = package_yaml("pbcore.tasks", "scenes.yaml")
    words |= {key: frozenset(words[key]) for key in ("mass", "plural", "doubled")}
    words["female"] = frozenset(words["names"]["female"] + words["relatives"]["female"])
    return words


def article(following: str) -> str:
    """`a` or `an`, by the first letter of the next word; words such as `university` are listed in the lexicon."""
    return "an" if (following[0] in "aeiou") != (following in data()["article_exceptions"]) else "a"


def inflect(value: str, form: str | None) -> str:
    """A slot's value in a form; unchanged if `form` is None. Of a verb: `past`, `pp` (participle), `ing`. Of a noun:
    `det`, its indefinite determiner (`some`, or `a/an` until the next word is known), or `it`, its pronoun. Of a name
    or a relative: `he`, `him` or `his`, or the feminine form. Raises ValueError for other forms."""
    if form is None:
        return value
    head = value.rsplit(" ", 1)[-1]  # the last word of a noun phrase decides number, mass and gender
    if form in ("past", "pp", "ing"):
        return _verb(value, form)
    if form in _FEMALE:
        return _FEMALE[form] if head in data()["female"] else form
    if form == "det":
        return "some" if any(head in data()[kind] for kind in ("plural", "mass")) else "a/an"
    if form == "it":
        return "them" if head in data()["plural"] else "it"
    raise ValueError(f"unknown form {form!r}; choose from {', '.join(FORMS)}")


def _verb(phrase: str, form: str) -> str:
    """A verb's form; of a phrase such as `wash the car` the first word is inflected."""
    verb, space, rest = phrase.partition(" ")
    stem = verb + verb[-1] if verb in data()["doubled"] else verb
    if form == "ing":
        inflected = (verb[:-1] if re.search(r"[^e]e$", verb) else stem) + "ing"
    elif verb in data()["irregular"]:
        inflected = data()["irregular"][verb][form == "pp"]
    elif verb.endswith("e"):
        inflected = verb + "d"
    else:
        inflected = verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else stem + "ed"
    return inflected + space + rest


def slots(template: str) -> frozenset[str]:
    """The names of the slots of a template."""
    return frozenset(match[1] for match in _SLOT.finditer(template))


def realise(template: str, values: Mapping[str, str], rng: Random) -> str:
    """The finished text: choices made, slots filled, `a` or `an` chosen, every sentence capitalised."""
    chosen = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), template)
    chosen = _SLOT.sub(lambda match: inflect(values[match[1]], match[2]), chosen)
    chosen = _ARTICLE.sub(lambda match: f"{article(match[1])} {match[1]}", chosen)
    return _START.sub(lambda match: match[1] + match[2].upper(), chosen)
