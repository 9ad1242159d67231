"""The rules of the race: who leaves after a round, and who goes to the proof.

They see of a sampler its cost, as a share of the reference's, and two p-values of the paired test
of `analysis.noninferiority`, stratified by task. They decide nothing but who is tried: what the
proof says holds whatever they do, since it asks other questions.

After each round a sampler leaves that
1. costs as much as the reference or more,
2. is shown to lose more than the margin (one-sided at 5 %),
3. gave the same answers at the same cost as another one, over enough questions or to the end, or
4. is slower than one that is shown to lose less than the margin (Holm over those that are left),
   except in the last round, so that the proof has someone else if that one fails.
Of the others the more promising go on (successive halving; Jamieson and Talwalkar 2016). A
sampler's promise is the chance that the proof will confirm it, as far as the round knows, times the
share of the reference's cost that it saves. With z = Φ⁻¹(1 − p) after n of the proof's N questions
and a = Φ⁻¹(1 − level) that chance is Φ((z − a √(n/N)) / √(1 + n/N)).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from pbcore.analysis.paired import holm

FINALISTS = 4
LEVEL = 0.05
_NORMAL = NormalDist()
TWINS = 48  # questions from which equal answers and costs make two samplers one


@dataclass(frozen=True, slots=True)
class Standing:
    """A sampler after a round.

    `cost`: a share of the reference's. `p_loss`: p of "loses the margin or more", small where it is
    shown to be as good. `p_good`: p of "loses at most the margin", small where it is shown to be
    worse. `n` questions; `runs`: of each round that it ran the number of questions and what is
    equal for equal answers at equal cost.
    """

    sampler: str
    cost: float
    p_loss: float
    p_good: float
    n: int = 0
    runs: tuple[tuple[int, object], ...] = ()

    def promise(self, proof: int) -> float:
        """The share of the reference's cost that it is expected to save, after a proof of so many
        questions.
        """
        known = self.n / proof
        p = min(max(self.p_loss, 1e-300), 1 - 1e-16)
        asked = _NORMAL.inv_cdf(1 - LEVEL / FINALISTS) * math.sqrt(known)
        chance = _NORMAL.cdf((-_NORMAL.inv_cdf(p) - asked) / math.sqrt(1 + known))
        return chance * (1 - self.cost)

    def alike(self, other: Standing) -> int:
        """On how many questions both gave the same answers at the same cost; 0 unless on all that
        both answered. One that joined later ran the last rounds.
        """
        both = min(len(self.runs), len(other.runs))
        shared = self.runs[len(self.runs) - both :]
        if shared != other.runs[len(other.runs) - both :]:
            return 0
        return sum(number for number, _ in shared)


@dataclass(frozen=True, slots=True)
class Cut:
    """Who goes on, fastest first, and why the others left: sampler → reason."""

    stay: tuple[str, ...]
    left: Mapping[str, str]


def cut(
    standings: Collection[Standing], keep: int, margin: float, proof: int, last: bool = False
) -> Cut:
    """Who goes on after a round.

    Args:
        standings: the samplers of the round, without the reference.
        keep: at most so many go on; the surest always does.
        margin: the loss that is allowed, for the reasons' words, in score units.
        proof: how many questions the proof will have.
        last: whether those that stay go to the proof.

    Returns:
        Those that stay and the others. The first place is kept for the fastest that is shown to
        lose less than the margin, or the surest where none is: many fast samplers that lose just
        too much look promising by chance, and would else take all places.
    """
    stay, left = _without_the_shown(standings, margin, 1 if last else TWINS)
    if not stay:
        return Cut((), left)
    best = _fastest_shown(stay)
    if best is not None and not last:
        reason = f"slower than {best.sampler}, which is shown to lose less than {_points(margin)}"
        left.update({one.sampler: reason for one in stay if one.cost > best.cost})
        stay = [one for one in stay if one.cost <= best.cost]
    sure = best or min(stay, key=lambda one: (one.p_loss, one.cost, one.sampler))
    others = [one for one in stay if one is not sure]
    others.sort(key=lambda one: (-one.promise(proof), one.cost, one.sampler))
    ranked = [sure, *others]
    for standing in ranked[keep:]:
        left[standing.sampler] = "less promising than those that went on"
    chosen = sorted(ranked[:keep], key=lambda one: (one.cost, one.sampler))
    return Cut(tuple(one.sampler for one in chosen), left)


def _without_the_shown(
    standings: Collection[Standing], margin: float, twins_from: int
) -> tuple[list[Standing], dict[str, str]]:
    """Those that may be the fastest good one, and sampler → why it leaves of the others; equal
    answers and costs make two samplers one from `twins_from` questions: the one that answered most.
    """
    left: dict[str, str] = {}
    stay: list[Standing] = []
    for one in sorted(standings, key=lambda one: (-one.n, len(one.sampler), one.sampler)):
        twin = next((other for other in stay if one.alike(other) >= twins_from), None)
        if one.cost >= 1 - 1e-9:
            left[one.sampler] = "not faster than the reference"
        elif one.p_good <= LEVEL:
            left[one.sampler] = f"shown to lose more than {_points(margin)}"
        elif twin is not None:
            left[one.sampler] = f"the same answers at the same cost as {twin.sampler}"
        else:
            stay.append(one)
    return stay, left


def _points(margin: float) -> str:
    return f"{100 * margin:g} points"


def _fastest_shown(standings: Sequence[Standing]) -> Standing | None:
    """The fastest that is shown to lose less than the margin; None if none is."""
    adjusted = holm([one.p_loss for one in standings]) if standings else []
    shown = [one for one, p in zip(standings, adjusted, strict=True) if p <= LEVEL]
    return min(shown, key=lambda one: (one.cost, one.p_loss, one.sampler), default=None)


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The samplers that no other beats: sampler → (cost, mean difference); fastest first."""
    best = -math.inf
    chosen = []
    fastest_first = sorted(
        (cost, -difference, sampler) for sampler, (cost, difference) in points.items()
    )
    for _, _, sampler in fastest_first:
        difference = points[sampler][1]
        if difference > best:
            chosen.append(sampler)
            best = difference
    return chosen
