"""The optimal frontier and each sampler's regret at its own mean number of steps: as tables, and as
a figure with the samplers as points.
"""

from collections.abc import Sequence
from contextlib import suppress
from math import ceil, inf, log2
from typing import Any

from pbcore.analysis.frontier_gap import KINDS, kind
from pbcore.analysis.order import natural
from pbcore.base.errors import InputError
from pbcore.base.grouping import grouped
from pbcore.base.tabular import Table, terminal
from pbcore.models.base import Model
from pbcore.names import parse
from pbcore.report.looks import number_look
from pbcore.report.measured import MeasuredAccuracy, draw_measured, measure_accuracy, question_set
from pbcore.report.style import CsvRow, Drawing, finish, label, legend, panels, percent
from pbcore.theory import frontier
from pbcore.theory.bounds import optimal_bound

MOST_STEPS = 6
# Column, greedy, tokens seen first.
COLUMNS = (
    ("τ=1", False, False),
    ("τ=1, tokens first", False, True),
    ("greedy", True, False),
    ("greedy, tokens first", True, True),
)
# Which frontier binds a sampler.
BOUND = {KINDS["order"]: "frontier", KINDS["seen"]: "frontier, tokens first"}
SHARES = ("accuracy", "low", "high", "frontier", "frontier, tokens first")
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


def regrets(
    model: Model,
    count: int,
    tasks: Sequence[tuple[str, int]],
    samplers: Sequence[str] = SAMPLERS,
    temperatures: Sequence[float] = (0.0, 1.0),
    seed: int = 0,
) -> list[CsvRow]:
    """The regret of every sampler on every task at every temperature, as rows of `regret`.

    Args:
        model: what decodes.
        count: how many answers a point has.
        tasks: list operations and their n.
        samplers: the samplers' names.
        temperatures: 0 greedy, 1 as the data.
        seed: of the draws.
    """
    gaps = []
    for op, n in tasks:
        questions = question_set(op, n, count)
        for heat in temperatures:
            order = frontier.accuracy_hull(op, n, greedy=not heat, seen=False)
            seen = frontier.accuracy_hull(op, n, greedy=not heat, seen=True)
            for name in samplers:
                sampler = f"{name}+t{heat}" if heat else name
                measured = measure_accuracy(model, questions, sampler, seed)
                gaps.append(
                    regret(
                        op,
                        n,
                        sampler,
                        measured,
                        order=min(1.0, frontier.value_at(order, measured.steps)),
                        seen=min(1.0, frontier.value_at(seen, measured.steps)),
                        fewest=frontier.steps_for(order, measured.accuracy),
                    )
                )
    return gaps


def regret(
    op: str,
    n: int,
    sampler: str,
    measured: MeasuredAccuracy,
    order: float,
    seen: float,
    fewest: float,
) -> CsvRow:
    """One sampler on one task, as a line of the CSV.

    The line's `chooses` says which frontier binds the sampler (`BOUND`), if any. Its regret is what
    it lacks to the frontier of samplers that choose positions first: in percentage points, and as
    log₂ of the ratio of the two accuracies, which is excess bits at τ = 1 if all answers are
    equally likely; None for greedy decoding, whose loss is infinite.

    Args:
        op: the list operation.
        n: the length of the list.
        sampler: the sampler's name.
        measured: what it reached.
        order: the frontier's accuracy at its mean number of steps, where positions are chosen
            first.
        seen: the same where tokens are seen first.
        fewest: the mean steps in which the former reach its accuracy.
    """
    bits = None
    if not parse(sampler).greedy:
        bits = round(log2(order / measured.accuracy), 9) + 0.0 if measured.accuracy else inf
    return {
        "operation": op,
        "n": n,
        "sampler": sampler,
        "chooses": KINDS[kind(sampler)],
        "steps": measured.steps,
        **measured.shares(),
        "frontier": order,
        "frontier, tokens first": seen,
        "fewest steps": fewest,
        "regret in points": round(100 * (order - measured.accuracy), 9) + 0.0,
        "regret in bits": bits,
    }


def above(rows: Sequence[CsvRow]) -> list[CsvRow]:
    """The samplers whose whole interval lies above the frontier of their kind: there should be none
    but by chance.
    """
    over = []
    for row in rows:
        bound = BOUND.get(row["chooses"])
        if bound is not None and row["low"] > row[bound] + 1e-9:
            over.append(row)
    return over


def _by_task(rows: Sequence[CsvRow]) -> dict[str, list[CsvRow]]:
    """Task and temperature in words → its rows."""

    def title(row: CsvRow) -> str:
        return f"{row['operation']}, n = {row['n']}, {'greedy' if _greedy(row) else 'τ = 1'}"

    return grouped(rows, title)


def _greedy(row: CsvRow) -> bool:
    return parse(row["sampler"]).greedy


def _hull(row: CsvRow, seen: bool) -> frontier.Hull:
    return frontier.accuracy_hull(row["operation"], row["n"], greedy=_greedy(row), seen=seen)


def tasks(n: int) -> list[tuple[str, int]]:
    """The operations with several answers at length n, and the Latin square of side 3. Raises
    InputError for n outside 2 … 12.
    """
    if not 2 <= n <= min(frontier.MOST["insert_random"], frontier.MOST["remove_random"]):
        raise InputError(
            f"--n {n}: the frontier of all list operations is computed for n = 2 to 12"
        )
    lists = ("replace_random", "shuffle", "insert_random", "remove_random")
    return [*((op, n) for op in lists), ("latin_square", 3)]


def frontier_rows(n: int) -> list[CsvRow]:
    """A row per operation and number of steps, until nothing is lost: bits at τ = 1, then
    accuracies.
    """
    rows: list[CsvRow] = []
    for op, size in tasks(n):
        best = {}
        for name, greedy, seen in COLUMNS:
            states = frontier.states(op, size)
            best[name] = frontier.frontier_of(states, MOST_STEPS, greedy=greedy, seen=seen)
        for T in range(1, MOST_STEPS + 1):
            row: CsvRow = {"operation": op, "n": size, "T": T, "bits, fixed order": None}
            with suppress(InputError):  # too many partitions to try
                row["bits, fixed order"] = optimal_bound(op, size, T)
            row["bits, adaptive"] = frontier.least_bits(op, size, T)
            row["bits, random"] = abs(log2(best["τ=1"][T - 1]))
            for name, values in best.items():
                row[name] = values[T - 1]
            rows.append(row)
            if row["bits, adaptive"] < 1e-9:
                break
    return rows


def frontier_text(rows: Sequence[CsvRow]) -> str:
    """The frontier as a table with what its columns mean."""
    n = rows[0]["n"]
    table = Table(list(rows[0]), [list(row.values()) for row in rows], forms=".4f")
    about = (
        "bits lost at τ = 1 by the best fixed order (L*_T), by one that depends on the revealed"
        " tokens, and by any\n"
        f"with random orders (reached for {', '.join(frontier.ALIKE)}; a lower bound for others);\n"
        "best accuracy of samplers that choose positions before they look at predicted tokens or"
        " noise, and of\n"
        "those that choose after they see all predicted tokens. Both write only these, each drawn"
        " from its exact\n"
        "marginal independently of the others, and keep it. Samplers that do anything else are"
        " bound by neither."
    )
    title = (
        "The optimal frontier of samplers that keep independently drawn tokens, in T steps,"
        f" n = {n}"
    )
    return f"{title}\n{terminal(table)}\n\n{about}"


def regret_text(rows: Sequence[CsvRow]) -> str:
    """A table per task and temperature, the smallest regret first."""
    parts = []
    for title, group in _by_task(rows).items():
        table = _regret_table(group)
        parts.append(
            f"{title}: regret in percentage points at each sampler's mean number of steps\n{table}"
        )
    parts.append(
        "frontier, tokens first: the best accuracy at a sampler's mean number of steps, of those"
        " that choose\npositions first and of those that see the tokens first; fewest steps: in"
        " which the former reach its accuracy"
    )
    parts.append(
        "Fewest mean steps without an error: of the frontier, and of the fastest sampler\n"
        + room_text(rows)
    )
    over = above(rows)
    bound = sum(row["chooses"] in BOUND for row in rows)
    lines = [
        f"{bound - len(over)} of {bound} intervals reach down to the frontier of the sampler's kind"
    ]
    for row in over:
        lines.append(f"  above: {row['operation']} {row['sampler']}")
    parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _regret_table(rows: Sequence[CsvRow]) -> str:
    """The rows of one task and temperature, the smallest regret first; without bits where decoding
    is greedy.
    """
    heads = [
        "sampler",
        "chooses",
        "steps",
        "accuracy",
        "95 %",
        "frontier",
        "tokens first",
        "fewest steps",
        "regret",
    ]
    forms = ["", "", ".2f", ".1f", "", ".1f", ".1f", ".2f", "+.1f"]
    has_bits = not _greedy(rows[0])
    if has_bits:
        heads.append("bits")
        forms.append("+.2f")
    lines = []
    for row in sorted(rows, key=_by_regret):
        accuracy, low, high, order, seen = (100 * row[key] for key in SHARES)
        line = [
            row["sampler"],
            row["chooses"],
            row["steps"],
            accuracy,
            f"{low:.1f}–{high:.1f}",
            order,
            seen,
            row["fewest steps"],
            row["regret in points"],
        ]
        if has_bits:
            line.append(row["regret in bits"])
        lines.append(line)
    return terminal(Table(heads, lines, "ll" + "r" * (len(heads) - 2), forms))


def _by_regret(row: CsvRow) -> tuple[Any, ...]:
    """A sort key: the smallest regret first, then the fewest steps."""
    return round(row["regret in points"], 6), row["steps"], natural(row["sampler"])


def room_text(rows: Sequence[CsvRow]) -> str:
    """A row per task and temperature: how much faster than the fastest sampler without an error one
    could be.
    """
    lines = []
    for title, group in _by_task(rows).items():
        order = frontier.steps_for(_hull(group[0], seen=False), 1.0)
        seen = frontier.steps_for(_hull(group[0], seen=True), 1.0)
        sampler = None
        steps = None
        without_error = [row for row in group if row["accuracy"] == 1]
        if without_error:
            fastest = min(without_error, key=lambda row: float(row["steps"]))
            sampler = fastest["sampler"]
            steps = fastest["steps"]
        lines.append([title, order, seen, sampler, steps])
    head = ["task", "positions first", "tokens first", "fastest sampler", "its steps"]
    return terminal(Table(head, lines, "lrrlr", ".2f"))


def frontier_drawing(rows: Sequence[CsvRow]) -> Drawing:
    """Accuracy over mean steps: a column per task, greedy above τ = 1; lines are the frontier,
    points the samplers.

    A thin line leads from each point up to the frontier of samplers that choose positions first:
    its regret.
    """
    heats = len({_greedy(row) for row in rows})
    groups = _by_task(rows)
    names = sorted({_policy(row["sampler"]) for row in rows}, key=natural)
    x = "mean steps"
    y = "accuracy of ideal (%)"
    columns = len(groups) // heats
    figure, axes = panels([columns] * heats, ceil((len(names) + 2) / 8), x, y)
    for number, (title, group) in enumerate(groups.items()):
        column, heat = divmod(number, heats)
        axis = axes[heat * columns + column]
        longest = max(row["steps"] for row in group)
        steps = [1 + (longest - 1) * i / 400 for i in range(401)]
        for seen, dashes, name in ((False, "-", "positions first"), (True, "--", "tokens first")):
            best = [100 * frontier.value_at(_hull(group[0], seen), step) for step in steps]
            axis.plot(steps, best, dashes, color="black", linewidth=1, label=f"frontier, {name}")
        for row in group:
            at = row["steps"]
            name = _policy(row["sampler"])
            accuracy, low, high, order, _ = (100 * row[key] for key in SHARES)
            axis.plot([at, at], [accuracy, order], color="#BBBBBB", linewidth=0.6, zorder=1)
            draw_measured(axis, [(at, accuracy, low, high)], number_look(names.index(name)), name)
        percent(axis)
        finish(axis, label(title))
    legend(figure, 8, 7.5)
    return Drawing("frontier", figure, rows, regret_text(rows))


def _policy(sampler: str) -> str:
    """The policy with its modifiers but without numbers and temperature: one colour and marker."""
    name = parse(sampler)
    return name.policy + (f"+{name.remask}" if name.remask else "")
