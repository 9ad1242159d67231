"""Turns a template and its slot values into a correct sentence.

A template is plain text with `{slot}`, `{slot.form}` and `[one|other]` (a random choice). Forms: see lexicon.py.
"""

import re
from collections.abc import Mapping
from random import Random

from pbcore.tasks.scenes.lexicon import article, noun_form, person_form, verb_form

_SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE = re.compile(r"\ba/an (\w+)")
_START = re.compile(r"(^|[.?!] )([a-z])")

_VERB_FORMS = frozenset({"past", "pp", "ing"})
_PERSON_FORMS = frozenset({"he", "him", "his"})


def slots(template: str) -> frozenset[str]:
    """The names of the slots of a template."""
    return frozenset(match[1] for match in _SLOT.finditer(template))


def inflect(value: str, form: str | None) -> str:
    """A slot's value in the given form; unchanged if `form` is None."""
    if form is None:
        return value
    if form in _VERB_FORMS:
        return verb_form(value, form)
    return person_form(value, form) if form in _PERSON_FORMS else noun_form(value, form)


def realise(template: str, values: Mapping[str, str], rng: Random) -> str:
    """The finished text: choices made, slots filled, `a` or `an` chosen, every sentence capitalised."""
    chosen = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), template)
    chosen = _SLOT.sub(lambda match: inflect(values[match[1]], match[2]), chosen)
    chosen = _ARTICLE.sub(lambda match: f"{article(match[1])} {match[1]}", chosen)
    return _START.sub(lambda match: match[1] + match[2].upper(), chosen)
