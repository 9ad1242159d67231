"""Scorers by name: a task names its scorer; `pbcore.metrics` defines the package's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pbcore.registry import Registry

if TYPE_CHECKING:
    from pbcore.tasks.sample import Sample


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one answer, each in [0, 1], and details that explain them.

    `details` keys in use: `why` (one sentence on a wrong answer), `failure` (its kind, e.g. `recombined`, `item
    missing`), `matches` (grammar: rule id, message, span), `absent` (metric → why it was not measured). Plain JSON
    values only.
    """

    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)


class Scorer(Protocol):
    """Scores the answers of one task. `metrics` are the names of its scores, the official ones first."""

    @property
    def metrics(self) -> tuple[str, ...]: ...

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]: ...


SCORERS: Registry[Scorer] = Registry("scorer", "pbcore.scorers", builtins="pbcore.metrics")


def register_scorer(name: str, scorer: Scorer) -> None:
    """Makes `scorer` available to tasks under `name`. Raises ValueError if another scorer has that name.

    Packages register scorers by entry points of the group `pbcore.scorers`, named like the scorer.
    """
    SCORERS.register(name, scorer)


def scorer(name: str) -> Scorer:
    """The scorer registered under `name`. Raises KeyError with close matches, or else all names."""
    return SCORERS[name]


def scorers() -> Mapping[str, Scorer]:
    """All registered scorers by name."""
    return SCORERS.all()
