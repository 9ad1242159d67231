"""The optimal frontier and each sampler's regret at its own mean number of steps: as tables, and as a figure with the
samplers as points."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, log2

from tabulate import tabulate

from pbcore.analysis.frontier_gap import BOUND, kind
from pbcore.analysis.order import natural
from pbcore.errors import InputError
from pbcore.figures.measured import Measured, draw_measured, measure, questions
from pbcore.models.base import Model
from pbcore.names import parse
from pbcore.report.page.sections import KINDS
from pbcore.report.style import Drawing, Row, finish, label, legend, numbered, panels, percent
from pbcore.theory import frontier
from pbcore.theory.bounds import optimal_bound

MOST_STEPS = 6
# column → greedy, tokens seen first
COLUMNS = (
    ("τ=1", False, False),
    ("τ=1, tokens first", False, True),
    ("greedy", True, False),
    ("greedy, tokens first", True, True),
)
SAMPLERS = (
    *("random-k1", "random-k2", "random-k5", "left_to_right-k2", "entropy-k2", "margin-k2"),
    *("confidence-k1", "confidence-k2", "confidence-k5", "threshold-0.55", "threshold-0.75", "threshold-0.95"),
    *("factor-1.0", "eb-0.1", "eb-1.0", "frechet-0.1", "dus", "klass-0.9", "credit-0.9", "slowfast-0.9"),
    *("localleap-0.9", "hierarchy-0.9", "origin-4", "confidence-k2+rcr-max", "confidence-k2+remdm1-early", "wino-0.6"),
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
    def greedy(self) -> bool:
        return parse(self.sampler).greedy

    @property
    def where(self) -> str:
        """The task and the temperature."""
        return f"{self.op}, n = {self.n}, {'greedy' if self.greedy else 'τ = 1'}"

    @property
    def points(self) -> float:
        """Accuracy missing to the frontier of samplers that choose positions first, in percentage points."""
        return round(100 * (self.order - self.measured.accuracy), 9) + 0.0

    @property
    def bits(self) -> float | None:
        """log₂ of the ratio of the two accuracies: excess bits at τ = 1, if all answers are equally likely. None for
        greedy decoding, whose loss is infinite."""
        if self.greedy:
            return None
        return round(log2(self.order / self.measured.accuracy), 9) + 0.0 if self.measured.accuracy else inf

    def hull(self, seen: bool) -> frontier.Hull:
        """The frontier of its task and temperature: of samplers that have `seen` the tokens first, or that have not."""
        return frontier.accuracy_hull(self.op, self.n, greedy=self.greedy, seen=seen)


def regrets(
    model: Model,
    count: int,
    tasks: Sequence[tuple[str, int]],
    samplers: Sequence[str] = SAMPLERS,
    temperatures: Sequence[float] = (0.0, 1.0),
    seed: int = 0,
) -> list[Regret]:
    """The regret of every sampler on every task at every temperature (0 greedy, 1 as the data)."""
    found = []
    for op, n in tasks:
        asked = questions(op, n, count)
        for heat in temperatures:
            order, seen = (frontier.accuracy_hull(op, n, greedy=not heat, seen=seen) for seen in (False, True))
            for sampler in (f"{sampler}+t{heat}" if heat else sampler for sampler in samplers):
                measured = measure(model, asked, sampler, seed)
                best, better = (min(1.0, frontier.value_at(hull, measured.steps)) for hull in (order, seen))
                fewest = frontier.steps_for(order, measured.accuracy)
                found.append(Regret(op, n, sampler, kind(sampler), measured, best, better, fewest))
    return found


def above(found: Sequence[Regret]) -> list[Regret]:
    """The samplers whose whole interval lies above the frontier of their kind: there should be none but by chance."""
    return [
        one
        for one in found
        if one.kind in BOUND and one.measured.low > (one.order if one.kind == "order" else one.seen) + 1e-9
    ]


def _by_task(found: Sequence[Regret]) -> list[list[Regret]]:
    """The regrets of each task and temperature."""
    return [[one for one in found if one.where == where] for where in dict.fromkeys(one.where for one in found)]


def tasks(n: int) -> list[tuple[str, int]]:
    """The operations with several answers at length n, and the Latin square of side 3. Raises InputError for n outside
    2 … 12."""
    if not 2 <= n <= min(frontier.MOST["insert_random"], frontier.MOST["remove_random"]):
        raise InputError(f"--n {n}: the frontier of all list operations is computed for n = 2 to 12")
    lists = ("replace_random", "shuffle", "insert_random", "remove_random")
    return [*((op, n) for op in lists), ("latin_square", 3)]


def frontier_rows(n: int) -> list[Row]:
    """A row per operation and number of steps, until nothing is lost: bits at τ = 1, then accuracies."""
    rows: list[Row] = []
    for op, size in tasks(n):
        best = {
            name: frontier.frontier_of(frontier.states(op, size), MOST_STEPS, greedy=greedy, seen=seen)
            for name, greedy, seen in COLUMNS
        }
        for T in range(1, MOST_STEPS + 1):
            row: Row = {"operation": op, "n": size, "T": T, "bits, fixed order": None}
            with suppress(InputError):  # too many partitions to try
                row["bits, fixed order"] = optimal_bound(op, size, T)
            row |= {"bits, adaptive": frontier.least_bits(op, size, T), "bits, random": abs(log2(best["τ=1"][T - 1]))}
            rows.append(row | {name: values[T - 1] for name, values in best.items()})
            if row["bits, adaptive"] < 1e-9:
                break
    return rows


def frontier_text(rows: Sequence[Row]) -> str:
    """The frontier as a table with what its columns mean."""
    n = rows[0]["n"]
    sides = ("left", *["right"] * (len(rows[0]) - 1))
    return "\n".join(
        [
            f"The optimal frontier of samplers that keep independently drawn tokens, in T steps, n = {n}",
            tabulate([row.values() for row in rows], list(rows[0]), floatfmt=".4f", missingval="–", colalign=sides),
            "",
            "bits lost at τ = 1 by the best fixed order (L*_T), by one that depends on the revealed tokens, and by any",
            f"with random orders (reached for {', '.join(frontier.ALIKE)}; a lower bound for others);",
            "best accuracy of samplers that choose positions before they look at predicted tokens or noise, and of",
            "those that choose after they see all predicted tokens. Both write only these, each drawn from its exact",
            "marginal independently of the others, and keep it. Samplers that do anything else are bound by neither.",
        ]
    )


def regret_rows(found: Sequence[Regret]) -> list[Row]:
    """A row per task and sampler."""
    return [
        {
            "operation": one.op,
            "n": one.n,
            "sampler": one.sampler,
            "chooses": KINDS[one.kind],
            "steps": one.measured.steps,
            "accuracy": one.measured.accuracy,
            "low": one.measured.low,
            "high": one.measured.high,
            "frontier": one.order,
            "frontier, tokens first": one.seen,
            "fewest steps": one.fewest,
            "regret in points": one.points,
            "regret in bits": one.bits,
        }
        for one in found
    ]


def regret_text(found: Sequence[Regret]) -> str:
    """A table per task and temperature, the smallest regret first."""
    head = ("sampler", "chooses", "steps", "accuracy", "95 %", "frontier", "tokens first", "fewest steps")
    formats = ("", "", ".2f", ".1f", "", ".1f", ".1f", ".2f", "+.1f", "+.2f")
    parts = []
    for group in _by_task(found):
        group.sort(key=lambda one: (round(one.points, 6), one.measured.steps, natural(one.sampler)))
        rows = []
        for one in group:
            _, accuracy, low, high = one.measured.at(0)
            row = [one.sampler, KINDS[one.kind], one.measured.steps, accuracy, f"{low:.1f}–{high:.1f}"]
            row += [100 * one.order, 100 * one.seen, one.fewest, one.points]
            rows.append(row if one.bits is None else [*row, one.bits])
        heads = [*head, "regret", "bits"][: len(rows[0])]
        table = tabulate(rows, heads, floatfmt=formats, colalign=("left", "left", *["right"] * (len(heads) - 2)))
        parts.append(f"{group[0].where}: regret in percentage points at each sampler's mean number of steps\n{table}")
    over = above(found)
    parts.append(
        "frontier, tokens first: the best accuracy at a sampler's mean number of steps, of those that choose\n"
        "positions first and of those that see the tokens first; fewest steps: in which the former reach its accuracy"
    )
    parts.append("Fewest mean steps without an error: of the frontier, and of the fastest sampler\n" + room_text(found))
    bound = sum(one.kind in BOUND for one in found)
    parts.append(
        f"{bound - len(over)} of {bound} intervals reach down to the frontier of the sampler's kind"
        + "".join(f"\n  above: {one.op} {one.sampler}" for one in over)
    )
    return "\n\n".join(parts)


def room_text(found: Sequence[Regret]) -> str:
    """A row per task and temperature: how much faster than the fastest sampler without an error one could be."""
    rows = []
    for group in _by_task(found):
        fewest = [frontier.steps_for(group[0].hull(seen), 1.0) for seen in (False, True)]
        sure = [one for one in group if one.measured.accuracy == 1]
        best = min(sure, key=lambda one: one.measured.steps, default=None)
        rows.append([group[0].where, *fewest, *([best.sampler, best.measured.steps] if best else [None, None])])
    head = ["task", "positions first", "tokens first", "fastest sampler", "its steps"]
    return tabulate(rows, head, floatfmt=".2f", missingval="–", colalign=("left", "right", "right", "left", "right"))


def frontier_drawing(found: Sequence[Regret]) -> Drawing:
    """Accuracy over mean steps: a column per task, greedy above τ = 1; lines are the frontier, points the samplers.

    A thin line leads from each point up to the frontier of samplers that choose positions first: its regret."""
    heats = len({one.greedy for one in found})
    groups = _by_task(found)
    names = sorted({_policy(one.sampler) for one in found}, key=natural)
    columns = len(groups) // heats
    figure, axes = panels(heats, columns, -(-(len(names) + 2) // 8), "mean steps", "accuracy of ideal (%)")
    for number, group in enumerate(groups):
        axis = axes[number % heats][number // heats]
        longest = max(one.measured.steps for one in group)
        steps = [1 + (longest - 1) * i / 400 for i in range(401)]
        for seen, dashes, name in ((False, "-", "positions first"), (True, "--", "tokens first")):
            best = [100 * frontier.value_at(group[0].hull(seen), step) for step in steps]
            axis.plot(steps, best, dashes, color="black", linewidth=1, label=f"frontier, {name}")
        for one in group:
            at, name = one.measured, _policy(one.sampler)
            axis.plot([at.steps] * 2, [100 * at.accuracy, 100 * one.order], color="#BBBBBB", linewidth=0.6, zorder=1)
            draw_measured(axis, [at.at(at.steps)], numbered(names.index(name)), name)
        percent(axis)
        finish(axis, label(group[0].where))
    legend(figure, 8, 7.5)
    return Drawing("frontier", figure, regret_rows(found), regret_text(found))


def _policy(sampler: str) -> str:
    """The policy with its modifiers but without numbers and temperature: one colour and marker."""
    name = parse(sampler)
    return name.policy + (f"+{name.remask}" if name.remask else "")
