"""What an explanation says: a difference between two settings, each option's part of it, and what
stays unexplained; kept in run.json of its run folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

from pbcore.analysis.shares import Part
from pbcore.base.check import LoadError
from pbcore.results.rundir import RunFacts


@dataclass(frozen=True, slots=True)
class OptionShare:
    """An option and its part of the difference. `change` is what changes, as sentences tell it.
    `added`: it alone is changed in the first setting; `taken`: it alone is kept from the second's
    change; both only where there are too many options for shares. `why`: why its part is open.
    """

    option: str
    before: str
    after: str
    change: str
    part: Part
    added: Part | None = None
    taken: Part | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The difference from `first` to `second`, in points of the mean score over `tasks`, on `n`
    questions. `unexplained` is what the measured options don't account for, and `unmeasured` names
    what else differs.
    """

    first: str
    second: str
    model: str
    tasks: Sequence[str]
    n: int
    before: float
    after: float
    gap: Part
    shares: Sequence[OptionShare]
    unexplained: Part | None = None
    unmeasured: Sequence[str] = ()

    @property
    def additive(self) -> bool:
        """Whether the options have shares that sum to the difference."""
        return all(share.added is None for share in self.shares)

    def to_json(self) -> dict[str, Any]:
        """As `--json` writes it."""
        shares = []
        for share in self.shares:
            entry: dict[str, Any] = {
                "option": share.option,
                "from": share.before,
                "to": share.after,
                "change": share.change,
                **_numbers(share.part),
            }
            if share.added is not None and share.taken is not None:
                entry |= {"added": _numbers(share.added), "taken": _numbers(share.taken)}
            if share.why:
                entry["why"] = share.why
            shares.append(entry)
        gap = _numbers(self.gap)
        return {
            "from": self.first,
            "to": self.second,
            "model": self.model,
            "tasks": list(self.tasks),
            "n": self.n,
            "before": self.before,
            "after": self.after,
            "gap": gap["points"],
            "low": gap["low"],
            "high": gap["high"],
            "shares": shares,
            "unexplained": None if self.unexplained is None else _numbers(self.unexplained),
            "unmeasured": list(self.unmeasured),
        }


def explanation_of(facts: RunFacts) -> Explanation | None:
    """The explanation that a run's facts hold; None where there is none. Raises LoadError for a
    damaged one.
    """
    data = facts.get("explanation")
    if data is None:
        return None
    try:
        shares = [_share(entry) for entry in data["shares"]]
        unexplained = data["unexplained"]
        return Explanation(
            data["from"],
            data["to"],
            data["model"],
            data["tasks"],
            data["n"],
            data["before"],
            data["after"],
            _part({**data, "points": data["gap"]}),
            shares,
            None if unexplained is None else _part(unexplained),
            data["unmeasured"],
        )
    except (KeyError, TypeError) as error:
        raise LoadError(
            f"run.json: its explanation lacks {error}; run pbcore explain again"
        ) from error


def _share(entry: Mapping[str, Any]) -> OptionShare:
    added = entry.get("added")
    taken = entry.get("taken")
    return OptionShare(
        entry["option"],
        entry["from"],
        entry["to"],
        entry["change"],
        _part(entry),
        None if added is None else _part(added),
        None if taken is None else _part(taken),
        entry.get("why", ""),
    )


def _numbers(part: Part) -> dict[str, float | None]:
    """A part for JSON, which has no NaN."""
    values = {"points": part.points, "low": part.low, "high": part.high}
    return {name: None if isnan(value) else value for name, value in values.items()}


def _part(data: Mapping[str, Any]) -> Part:
    values = [data[name] for name in ("points", "low", "high")]
    return Part(*(nan if value is None else float(value) for value in values))
