"""The registry of scorers: tasks name a scorer, `pbcore.metrics` registers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pbcore.tasks.base import Sample


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one answer, each in [0, 1], and details that explain them.

    `details` keys in use: `why` (one sentence on a wrong answer), `failure` (its kind, e.g. `recombined`, `item missing`),
    `matches` (grammar: rule id, message, span), `absent` (metric → why it was not measured). Plain JSON values only.
    """

    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)


class Scorer(Protocol):
    """Scores the answers of one task. `metrics` are the names of its scores, the official ones first."""

    @property
    def metrics(self) -> tuple[str, ...]: ...

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]: ...


_SCORERS: dict[str, Scorer] = {}


def register_scorer(name: str, scorer: Scorer) -> None:
    """Makes `scorer` available to tasks under `name`. Raises ValueError if another scorer has that name."""
    if _SCORERS.get(name, scorer) is not scorer:
        raise ValueError(f"a scorer named {name!r} is registered already; choose another name")
    _SCORERS[name] = scorer


def scorer(name: str) -> Scorer:
    """The scorer registered under `name`. Raises KeyError that lists the known names."""
    try:
        return scorers()[name]
    except KeyError:
        raise KeyError(f"no scorer named {name!r}; known: {', '.join(sorted(_SCORERS))}") from None


def scorers() -> Mapping[str, Scorer]:
    """All registered scorers by name. Imports `pbcore.metrics`, which registers the package's own."""
    import_module("pbcore.metrics")
    return dict(_SCORERS)
