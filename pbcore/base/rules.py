"""Lists of rules that say why a combination is refused before anything is loaded."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """What is refused, and why: `applies` says of a combination whether the rule refuses it,
    `reason` what the user is told.
    """

    applies: Callable[[T], object]
    reason: str | Callable[[T], str]


def why_not(rules: Iterable[Rule[T]], combination: T) -> str | None:
    """The reason of the first rule that refuses a combination; None if none does."""
    for rule in rules:
        if rule.applies(combination):
            return rule.reason if isinstance(rule.reason, str) else rule.reason(combination)
    return None
