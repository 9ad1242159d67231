"""How far the cells of a run are from the optimal frontier: the best accuracy in as many steps of
samplers that write only independently drawn tokens and keep each (`theory.frontier`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from pbcore.names import recorded
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.theory.frontier import MOST, accuracy_hull, value_at

# Tasks with several answers whose canvas has one masked token per item, so that forwards are steps
# over items.
TASKS = {"list_ops/replace_random": "replace_random", "list_ops/shuffle": "shuffle"}
# Decoders of other models, which don't reveal masks by their marginals: autoregressive and
# score-based ones.
OTHERS = ("ar", "analytic", "euler")
BoundKind = Literal["order", "seen", "back", "own", "tries", "unknown"]
BOUND = ("order", "seen")
# What a sampler does before it writes, by kind, as tables and figures say it.
KINDS: dict[BoundKind, str] = {
    "order": "positions first",
    "seen": "tokens first",
    "back": "takes tokens back",
    "own": "writes own tokens",
    "tries": "tries canvases",
    "unknown": "not declared",
}


@dataclass(frozen=True, slots=True)
class Room:
    """A cell beside the frontier. `score` with its 95 % interval and `best` in [0, 1]; `steps` the
    mean forwards; `best` is None for samplers of a `kind` that the frontier doesn't bind.
    """

    model: str
    task: str
    sampler: str
    kind: BoundKind
    score: float
    low: float
    high: float
    steps: float
    best: float | None

    @property
    def gap(self) -> float | None:
        """Best accuracy less score, in percentage points."""
        return None if self.best is None else round(100 * (self.best - self.score), 9) + 0.0


def kind(sampler: str) -> BoundKind:
    """Whether a frontier binds the sampler, by what its policy declares (`Traits.chooses`), and
    which.

    `order`: it chooses positions before it looks at predicted tokens or noise; `seen`: it may look
    at the tokens predicted. Both write only these and keep each. Bound by neither: `back`, it takes
    tokens back; `own`, it writes tokens other than the predicted; `tries`, it asks about several
    canvases in a call; `unknown`, nothing is declared.
    """
    # It imports torch, which reports of other tasks don't need.
    from pbcore.decoding.samplers import sampler_of

    own = sampler_of(sampler)
    name = own.name
    try:
        declared = own.declared
    except ValueError:
        return "unknown"
    if name.remask:
        return "back"
    if declared.rewrites:
        return "back" if declared.review else "own"
    if declared.chooses is None:
        if "probe" in declared.needs:
            return "tries"
        return "back" if declared.review else "unknown"
    looks_at_eos = name.no_early_eos or name.eos_last
    return "order" if declared.chooses == "positions" and not looks_at_eos else "seen"


def frontier_room(
    cell: CellRecord, samples: Sequence[SampleRecord], lengths: Mapping[int, int | None]
) -> Room | None:
    """A cell beside the best accuracy at its own mean steps: of each n, then averaged over samples.

    Args:
        cell: its record.
        samples: its answers.
        lengths: sample index → n, its number of items; None where it has none.

    Returns:
        The room; None for other tasks than `TASKS`, temperatures other than 0 and 1, models without
        weights, and where the n or the forwards of a sample are unknown or mean something else, or
        n is beyond `MOST`.
    """
    op = TASKS.get(cell.task)
    score = cell.scores.get("accuracy")
    if op is None or score is None or cell.headline != "accuracy" or cell.conditions.dummy:
        return None
    name = recorded(cell.sampler)
    if name is None or name.policy in OTHERS or name.temperature not in (0, 1):
        return None
    forwards = _forwards(samples, lengths)
    if not forwards or max(forwards) > MOST[op]:
        return None
    chosen = kind(cell.sampler)
    best = None
    if chosen in BOUND:
        totals = []
        for n, counts in forwards.items():
            hull = accuracy_hull(op, n, greedy=name.greedy, seen=chosen == "seen")
            totals.append(value_at(hull, fmean(counts)) * len(counts))
        best = min(1.0, sum(totals) / len(samples))
    steps = fmean(count for counts in forwards.values() for count in counts)
    return Room(
        cell.model, cell.task, cell.sampler, chosen, score.mean, score.low, score.high, steps, best
    )


def _forwards(
    samples: Sequence[SampleRecord], lengths: Mapping[int, int | None]
) -> dict[int, list[int]]:
    """n → the forwards of its answers; empty if some answer's aren't steps over n items, one token
    each.
    """
    found: defaultdict[int, list[int]] = defaultdict(list)
    for sample in samples:
        n = lengths.get(sample.index)
        forwards = sample.nfe
        blocks = sample.prefill is not None or sample.store is not None
        if not n or not forwards or sample.canvas_tokens != n or blocks:
            return {}
        found[n].append(forwards)
    return dict(found)
