"""How far each sampler is from the optimal frontier: its regret, at its own mean number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log2

from pbcore.analysis.frontier_gap import BOUND, kind
from pbcore.figures.measured import Measured, measure
from pbcore.figures.questions import questions
from pbcore.models.base import Model
from pbcore.names import parse
from pbcore.theory.frontier import accuracy_hull, steps_for, value_at

TASKS = (("replace_random", 10), ("shuffle", 10), ("insert_random", 10), ("remove_random", 10), ("latin_square", 3))
SAMPLERS = (
    "random-k1",
    "random-k2",
    "random-k5",
    "left_to_right-k2",
    "entropy-k2",
    "margin-k2",
    "confidence-k1",
    "confidence-k2",
    "confidence-k5",
    "threshold-0.55",
    "threshold-0.75",
    "threshold-0.95",
    "factor-1.0",
    "eb-0.1",
    "eb-1.0",
    "frechet-0.1",
    "dus",
    "klass-0.9",
    "credit-0.9",
    "slowfast-0.9",
    "localleap-0.9",
    "hierarchy-0.9",
    "origin-4",
    "confidence-k2+rcr-max",
    "confidence-k2+remdm1-early",
    "wino-0.6",
)


@dataclass(frozen=True, slots=True)
class Regret:
    """One sampler on one task. `order` and `seen`: the frontier's accuracy at its mean number of steps, for samplers
    that choose positions first and for those that see the tokens first. `fewest`: the mean steps in which the former
    reach its accuracy. `kind`: `analysis.frontier_gap.kind`, which says whether a frontier binds the sampler."""

    op: str
    n: int
    sampler: str
    kind: str
    measured: Measured
    order: float
    seen: float
    fewest: float

    @property
    def own(self) -> float:
        """The frontier of the sampler's own kind."""
        return self.order if self.kind == "order" else self.seen

    @property
    def points(self) -> float:
        """Accuracy missing to the frontier of samplers that choose positions first, in percentage points."""
        return round(100 * (self.order - self.measured.accuracy), 9) + 0.0

    @property
    def bits(self) -> float | None:
        """log₂ of the ratio of the two accuracies: excess bits at τ = 1, if all answers are equally likely. None for
        greedy decoding, whose loss is infinite."""
        if parse(self.sampler).greedy:
            return None
        return round(log2(self.order / self.measured.accuracy), 9) + 0.0 if self.measured.accuracy else inf


def regrets(
    model: Model,
    count: int,
    tasks: Sequence[tuple[str, int]] = TASKS,
    samplers: Sequence[str] = SAMPLERS,
    temperatures: Sequence[float] = (0.0, 1.0),
    seed: int = 0,
) -> list[Regret]:
    """The regret of every sampler on every task at every temperature (0 greedy, 1 as the data)."""
    found = []
    for op, n in tasks:
        asked = questions(op, n, count)
        for heat in temperatures:
            order, seen = (accuracy_hull(op, n, greedy=not heat, seen=seen) for seen in (False, True))
            for sampler in (f"{sampler}+t{heat}" if heat else sampler for sampler in samplers):
                measured = measure(model, asked, sampler, seed)
                best, better = (min(1.0, value_at(hull, measured.steps)) for hull in (order, seen))
                fewest = steps_for(order, measured.accuracy)
                found.append(Regret(op, n, sampler, kind(sampler), measured, best, better, fewest))
    return found


def above(found: Sequence[Regret]) -> list[Regret]:
    """The samplers whose whole interval lies above the frontier of their kind: there should be none but by chance."""
    return [one for one in found if one.kind in BOUND and one.measured.low > one.own + 1e-9]
