"""The lexicon: words as data (scenes.yaml) and a few inflection rules."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pbcore.package_data import package_yaml

VOWELS = "aeiou"


@lru_cache(maxsize=1)
def data() -> Mapping[str, Any]:
    """The content of scenes.yaml, read once."""
    loaded: dict[str, Any] = package_yaml("pbcore.tasks", "scenes.yaml")
    return loaded


@lru_cache(maxsize=1)
def _sets() -> dict[str, frozenset[str]]:
    lists = {key: frozenset(data()[key]) for key in ("mass", "plural", "doubled")}
    lists["female"] = frozenset(data()["names"]["female"] + data()["relatives"]["female"])
    return lists


def _head(phrase: str) -> str:
    """The head of a noun phrase, its last word, which decides number and mass."""
    return phrase.rsplit(" ", 1)[-1]


def is_plural(noun: str) -> bool:
    return _head(noun) in _sets()["plural"]


def article(following: str) -> str:
    """`a` or `an`, by the first letter of the next word; words such as `university` are listed in the lexicon."""
    return "an" if (following[0] in VOWELS) != (following in data()["article_exceptions"]) else "a"


def determiner(noun: str) -> str:
    """The indefinite determiner: `a/an` (chosen once the next word is known), or `some` for plural and mass nouns."""
    return "some" if is_plural(noun) or _head(noun) in _sets()["mass"] else "a/an"


def verb_form(verb: str, form: str) -> str:
    """The form `past`, `pp` (participle) or `ing` of a verb; in a phrase such as `wash the car` the first word is
    inflected.
    """
    word, _, rest = verb.partition(" ")
    return f"{_inflected(word, form)} {rest}".rstrip()


def _inflected(verb: str, form: str) -> str:
    if form in ("past", "pp") and verb in data()["irregular"]:
        return str(data()["irregular"][verb][form == "pp"])
    stem = verb + verb[-1] if verb in _sets()["doubled"] else verb
    if form == "ing":
        return (verb[:-1] if re.search(r"[^e]e$", verb) else stem) + "ing"
    if form not in ("past", "pp"):
        raise ValueError(f"unknown verb form {form!r}; choose from past, pp, ing")
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else stem + "ed"


def noun_form(noun: str, form: str) -> str:
    """A word that agrees with a noun in number: `det`, its indefinite determiner, or `it`, its pronoun (`it` or
    `them`).
    """
    if form == "det":
        return determiner(noun)
    if form != "it":
        raise ValueError(f"unknown noun form {form!r}; choose from det, it")
    return "them" if is_plural(noun) else "it"


def person_form(person: str, form: str) -> str:
    """A pronoun for a name or a relative: `he`, `him` or `his`, or its feminine form."""
    female = _head(person) in _sets()["female"]
    return {"he": "she", "him": "her", "his": "her"}[form] if female else form
