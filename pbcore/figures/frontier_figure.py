"""The optimal frontier as tables and as a figure, with the samplers as points."""

from collections.abc import Sequence
from math import log2

from tabulate import tabulate

from pbcore.analysis.frontier_gap import BOUND
from pbcore.analysis.order import natural
from pbcore.errors import InputError
from pbcore.figures.figure_io import Drawing, Row, captions, draw_points, legend, panels
from pbcore.figures.regret import Regret, above
from pbcore.names import parse
from pbcore.report.page.frontier_table import KINDS
from pbcore.report.style import finish, label, percent
from pbcore.theory.bounds import optimal_bound
from pbcore.theory.frontier import ALIKE, MOST, accuracy_hull, frontier_of, least_bits, states, steps_for, value_at

MOST_STEPS = 6
FOOT = 0.85
# column → greedy, tokens seen first
COLUMNS = (
    ("τ=1", False, False),
    ("τ=1, tokens first", False, True),
    ("greedy", True, False),
    ("greedy, tokens first", True, True),
)


def tasks(n: int) -> list[tuple[str, int]]:
    """The operations with several answers at length n, and the Latin square of side 3. Raises InputError for n outside
    2 … 12."""
    if not 2 <= n <= min(MOST["insert_random"], MOST["remove_random"]):
        raise InputError(f"--n {n}: the frontier of all list operations is computed for n = 2 to 12")
    lists = ("replace_random", "shuffle", "insert_random", "remove_random")
    return [*((op, n) for op in lists), ("latin_square", 3)]


def frontier_rows(n: int) -> list[Row]:
    """A row per operation and number of steps, until nothing is lost: bits at τ = 1, then accuracies."""
    rows: list[Row] = []
    for op, size in tasks(n):
        best = {
            name: frontier_of(states(op, size), MOST_STEPS, greedy=greedy, seen=seen) for name, greedy, seen in COLUMNS
        }
        for T in range(1, MOST_STEPS + 1):
            row: Row = {"operation": op, "n": size, "T": T, "bits, fixed order": _partitioned(op, size, T)}
            row |= {"bits, adaptive": least_bits(op, size, T), "bits, random": abs(log2(best["τ=1"][T - 1]))}
            rows.append(row | {name: values[T - 1] for name, values in best.items()})
            if row["bits, adaptive"] < 1e-9:
                break
    return rows


def frontier_text(rows: Sequence[Row]) -> str:
    """The frontier as a table with what its columns mean."""
    n = rows[0]["n"]
    shown = [[_cell(value) for value in row.values()] for row in rows]
    alike = ", ".join(op for op in ALIKE)
    return "\n".join(
        [
            f"The optimal frontier of samplers that keep independently drawn tokens, in T steps, n = {n}",
            tabulate(shown, list(rows[0]), disable_numparse=True, colalign=("left", *["right"] * (len(rows[0]) - 1))),
            "",
            "bits lost at τ = 1 by the best fixed order (L*_T), by one that depends on the revealed tokens, and by any",
            f"with random orders (reached for {alike}; a lower bound for others);",
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
    parts = []
    for op, n, greedy in dict.fromkeys((one.op, one.n, parse(one.sampler).greedy) for one in found):
        group = [one for one in found if (one.op, one.n, parse(one.sampler).greedy) == (op, n, greedy)]
        group.sort(key=lambda one: (round(one.points, 6), one.measured.steps, natural(one.sampler)))
        rows = [
            [
                one.sampler,
                KINDS[one.kind],
                f"{one.measured.steps:.2f}",
                f"{100 * one.measured.accuracy:.1f}",
                f"{100 * one.measured.low:.1f}–{100 * one.measured.high:.1f}",
                f"{100 * one.order:.1f}",
                f"{100 * one.seen:.1f}",
                f"{one.fewest:.2f}",
                f"{one.points:+.1f}",
                *([] if one.bits is None else [f"{one.bits:+.2f}"]),
            ]
            for one in group
        ]
        head = ["sampler", "chooses", "steps", "accuracy", "95 %", "frontier", "tokens first", "fewest steps", "regret"]
        head += [] if greedy else ["bits"]
        aligned = ("left", "left", *["right"] * (len(head) - 2))
        heat = "greedy" if greedy else "τ = 1"
        table = tabulate(rows, head, disable_numparse=True, colalign=aligned)
        parts.append(
            f"{op}, n = {n}, {heat}: regret in percentage points at each sampler's mean number of steps\n{table}"
        )
    over = above(found)
    parts.append(
        "frontier, tokens first: the best accuracy at a sampler's mean number of steps, of those that choose\n"
        "positions first and of those that see the tokens first; fewest steps: in which the former reach its accuracy"
    )
    parts.append("Fewest mean steps without an error: of the frontier, and of the fastest sampler\n" + room_text(found))
    bound = [one for one in found if one.kind in BOUND]
    parts.append(
        f"{len(bound) - len(over)} of {len(bound)} intervals reach down to the frontier of the sampler's kind"
        + "".join(f"\n  above: {one.op} {one.sampler}" for one in over)
    )
    return "\n\n".join(parts)


def room_text(found: Sequence[Regret]) -> str:
    """A row per task and temperature: how much faster than the fastest sampler without an error one could be."""
    rows = []
    for op, n, greedy in dict.fromkeys((one.op, one.n, parse(one.sampler).greedy) for one in found):
        group = [one for one in found if (one.op, one.n, parse(one.sampler).greedy) == (op, n, greedy)]
        sure = [one for one in group if one.measured.accuracy == 1]
        best = min(sure, key=lambda one: one.measured.steps, default=None)
        hulls = [accuracy_hull(op, n, greedy=greedy, seen=seen) for seen in (False, True)]
        fewest = [f"{steps_for(hull, 1.0):.2f}" for hull in hulls]
        reached = ["–", "–"] if best is None else [best.sampler, f"{best.measured.steps:.2f}"]
        rows.append([f"{op}, n = {n}, {'greedy' if greedy else 'τ = 1'}", *fewest, *reached])
    head = ["task", "positions first", "tokens first", "fastest sampler", "its steps"]
    return tabulate(rows, head, disable_numparse=True, colalign=("left", "right", "right", "left", "right"))


def frontier_drawing(found: Sequence[Regret]) -> Drawing:
    """Accuracy over mean steps: a column per task, greedy above τ = 1; lines are the frontier, points the samplers.

    A thin line leads from each point up to the frontier of samplers that choose positions first: its regret.
    """
    columns = list(dict.fromkeys((one.op, one.n) for one in found))
    heats = list(dict.fromkeys(parse(one.sampler).greedy for one in found))
    names = sorted({_policy(one.sampler) for one in found}, key=natural)
    figure, axes = panels(len(heats), len(columns), FOOT)
    for row, greedy in zip(axes, heats, strict=True):
        for axis, (op, n) in zip(row, columns, strict=True):
            group = [one for one in found if (one.op, one.n, parse(one.sampler).greedy) == (op, n, greedy)]
            longest = max(one.measured.steps for one in group)
            for seen, dashes in ((False, "-"), (True, "--")):
                hull = accuracy_hull(op, n, greedy=greedy, seen=seen)
                steps = [1 + (longest - 1) * i / 400 for i in range(401)]
                name = "frontier, tokens first" if seen else "frontier, positions first"
                axis.plot(
                    steps, [100 * value_at(hull, s) for s in steps], dashes, color="black", linewidth=1, label=name
                )
            for one in group:
                at = one.measured
                axis.plot(
                    [at.steps] * 2, [100 * at.accuracy, 100 * one.order], color="#BBBBBB", linewidth=0.6, zorder=1
                )
                number = names.index(_policy(one.sampler))
                draw_points(axis, [at.at(at.steps)], number, names[number])
            percent(axis)
            finish(axis, label(f"{op}, n = {n}, {'greedy' if greedy else 'τ = 1'}"))
    captions(figure, "mean steps", "accuracy of ideal (%)", FOOT)
    legend(figure, (axis for row in axes for axis in row), 8)
    return Drawing("frontier", figure, regret_rows(found), regret_text(found))


def _policy(sampler: str) -> str:
    """The policy with its modifiers but without numbers and temperature: one colour and marker."""
    name = parse(sampler)
    return name.policy + (f"+{name.remask}" if name.remask else "")


def _partitioned(op: str, n: int, T: int) -> float | None:
    """L*_T, where the partitions aren't too many to try."""
    try:
        return optimal_bound(op, n, T)
    except InputError:
        return None


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
