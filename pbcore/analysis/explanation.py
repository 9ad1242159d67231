"""What an explanation says: a difference between two settings, each option's part of it, and what
stays unexplained; kept in run.json of its run folder.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pbcore.analysis.shares import Part, Points
from pbcore.base.check import LoadError, checked, validated
from pbcore.results.rundir import RunFacts


@partial(checked, names={"before": "from", "after": "to"})
@dataclass(frozen=True, slots=True)
class OptionShare:
    """An option and its part of the difference, with its 95 % interval. `change` is what changes,
    as sentences tell it. `added`: it alone is changed in the first setting; `taken`: it alone is
    kept from the second's change; both only where there are too many options for shares. `why`: why
    its part is open.
    """

    option: str
    before: str
    after: str
    change: str
    points: Points
    low: Points
    high: Points
    added: Part | None = None
    taken: Part | None = None
    why: str = ""

    @property
    def part(self) -> Part:
        return Part(self.points, self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "option": self.option,
            "from": self.before,
            "to": self.after,
            "change": self.change,
            **self.part.to_json(),
        }
        if self.added is not None and self.taken is not None:
            entry |= {"added": self.added.to_json(), "taken": self.taken.to_json()}
        if self.why:
            entry["why"] = self.why
        return entry


@partial(checked, names={"first": "from", "second": "to", "points": "gap"})
@dataclass(frozen=True, slots=True)
class Explanation:
    """The difference from `first` to `second`, in points of the mean score over `tasks` with its 95
    % interval, on `n` questions. `unexplained` is what the measured options don't account for, and
    `unmeasured` names what else differs.
    """

    first: str
    second: str
    model: str
    tasks: list[str]
    n: int
    before: float
    after: float
    points: Points
    low: Points
    high: Points
    shares: list[OptionShare]
    unexplained: Part | None = None
    unmeasured: list[str] = field(default_factory=list)

    @property
    def gap(self) -> Part:
        return Part(self.points, self.low, self.high)

    @property
    def additive(self) -> bool:
        """Whether the options have shares that sum to the difference."""
        return all(share.added is None for share in self.shares)

    def to_json(self) -> dict[str, Any]:
        """As `--json` writes it."""
        gap = self.gap.to_json()
        return {
            "from": self.first,
            "to": self.second,
            "model": self.model,
            "tasks": self.tasks,
            "n": self.n,
            "before": self.before,
            "after": self.after,
            "gap": gap["points"],
            "low": gap["low"],
            "high": gap["high"],
            "shares": [share.to_json() for share in self.shares],
            "unexplained": None if self.unexplained is None else self.unexplained.to_json(),
            "unmeasured": self.unmeasured,
        }


def explanation_of(facts: RunFacts) -> Explanation | None:
    """The explanation that a run's facts hold; None where there is none. Raises LoadError for a
    damaged one.
    """
    data = facts.get("explanation")
    if data is None:
        return None
    try:
        return validated(Explanation, data, "run.json: its explanation")
    except LoadError as error:
        raise LoadError(f"{error}; run pbcore explain again") from error
