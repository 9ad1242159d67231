"""Table 1 and Figure 2: closed forms of the ideal model beside accuracies measured by decoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pbcore.base.errors import InputError
from pbcore.base.tabular import Table, terminal
from pbcore.models.base import Model
from pbcore.report.looks import number_look
from pbcore.report.measured import (
    MeasuredAccuracy,
    QuestionSet,
    draw_measured,
    measure_accuracy,
    question_set,
    within,
)
from pbcore.report.style import CsvRow, Drawing, finish, label, legend, panels, percent
from pbcore.theory.accuracy import accuracy
from pbcore.theory.tables import GAMMAS, SIDES, table1

PANELS = {
    "2a": ("shuffle", "+t1.0"),
    "2b": ("shuffle", ""),
    "2c": ("replace_random", "+t1.0"),
    "2d": ("replace_random", ""),
}
LENGTHS = (2, 4, 6, 8, 10, 12, 14, 16)
THRESHOLD_LENGTHS = (10,)
COLUMNS = 2  # of the legend


@dataclass(frozen=True, slots=True)
class ListPoint:
    """One point of a curve: its line of the CSV, with what is decoded and predicted, and what was
    measured.
    """

    x: float
    row: CsvRow
    measured: MeasuredAccuracy


def panel(
    name: str,
    model: Model,
    count: int,
    lengths: Sequence[int] = LENGTHS,
    blocks: Sequence[int] = (),
    seed: int = 0,
) -> Drawing:
    """Figure 2 (a) to (d): accuracy over n for 1, 2 and n random tokens per step.

    Lines are the ideal model's closed forms, points what the model reaches.

    Args:
        name: the panel, `a` to `d`.
        model: what decodes.
        count: how many answers a point has.
        lengths: the list lengths.
        blocks: block lengths beside the one block.
        seed: of the draws.

    Raises:
        InputError: for block lengths that divide none of the lengths.
    """
    op, heat = PANELS[name]
    useless = [block for block in blocks if block < 1 or all(n % block for n in lengths)]
    if useless:
        raise InputError(
            f"--block-length {useless[0]} divides none of the lengths"
            f" {', '.join(map(str, lengths))}"
        )
    places = []
    for n in lengths:
        questions = _questions(model, op, n, count)
        for curve, sampler in _random_curves(n, blocks):
            places.append(_place(model, questions, f"{sampler}{heat}", curve, n, seed))
    temperature = "τ = 1" if heat else "greedy"
    return _drawing(
        f"figure{name}", places, model, "n", f"Figure {name}: {op}, random top-k, {temperature}"
    )


def _random_curves(n: int, blocks: Sequence[int]) -> list[tuple[str, str]]:
    """(curve, sampler) of 1, 2 and all tokens per step, in one block and in those that divide n."""
    curves = []
    for k in (1, 2):
        if k < n:
            curves.append((f"k = {k}", f"random-k{k}"))
    curves.append(("k = n", f"random-k{n}"))
    for block in blocks:
        if n % block:
            continue
        for k in (1, 2):
            if k < block:
                curves.append((f"k = {k}, blocks of {block}", f"random-k{k}+b{block}"))
        curves.append((f"k = b, blocks of {block}", f"random-k{block}+b{block}"))
    return curves


def threshold_panel(
    model: Model,
    count: int,
    lengths: Sequence[int] = THRESHOLD_LENGTHS,
    gammas: Sequence[float] = GAMMAS,
    seed: int = 0,
) -> Drawing:
    """Figure 2 (e): both tasks over the confidence threshold, greedily; a curve per task and n.

    Args:
        model: what decodes.
        count: how many answers a point has.
        lengths: the list lengths.
        gammas: the thresholds; the default ones keep off 1/m and (m − 1)/m, where a confidence
            equals the threshold.
        seed: of the draws.
    """
    places = []
    for op in ("shuffle", "replace_random"):
        for n in lengths:
            questions = _questions(model, op, n, count)
            curve = f"{op}, n = {n}"
            for gamma in gammas:
                sampler = f"threshold-{gamma:g}"
                places.append(_place(model, questions, sampler, curve, gamma, seed))
    return _drawing("figure2e", places, model, "γ", "Figure 2e: confidence threshold, greedy")


def measured_table1(
    model: Model, count: int, lengths: Sequence[int] = (10,), seed: int = 0
) -> tuple[str, list[CsvRow]]:
    """Table 1: bits from closed forms, accuracies as predicted and as measured.

    Args:
        model: what decodes.
        count: how many answers a cell has.
        lengths: the list lengths, a row each.
        seed: of the draws.

    Returns:
        The table as text, and its rows.
    """
    rows: list[CsvRow] = []
    pairs = []
    for n in lengths:
        for finding in table1(n):
            row: CsvRow = {
                "operation": finding.op,
                "n": n,
                "C(Y|X)": finding.total_correlation,
                "n → ∞": finding.limit,
                "L, pairs": finding.pairs_bound,
            }
            questions = _questions(model, finding.op, n, count)
            for name, sampler in _columns(n):
                measured = measure_accuracy(model, questions, sampler, seed)
                predicted = accuracy(finding.op, n, sampler)
                pairs.append((predicted, measured))
                row[name] = predicted
                row[f"{name} measured"] = measured.accuracy
                row[f"{name} low"] = measured.low
                row[f"{name} high"] = measured.high
            rows.append(row)
    head = [name for name in rows[0] if not name.endswith((" low", " high"))]
    heads = ["measured" if name.endswith(" measured") else name for name in head]
    shown = [[row[name] for name in head] for row in rows]
    title = (
        f"Table 1: greedy accuracies of the ideal model beside those measured with {model.name},"
        f" {count} answers each"
    )
    table = terminal(Table(heads, shown, forms=".4g"))
    return "\n".join([title, table, within(pairs)]), rows


def _columns(n: int) -> list[tuple[str, str]]:
    """(column, sampler) of Table 1."""
    columns = []
    for k in sorted({1, 2, n}):
        name = "n" if k == n else str(k)
        columns.append((f"k={name}", f"confidence-k{k}"))
    for gamma in SIDES:
        columns.append((f"γ={gamma:g}", f"threshold-{gamma:g}"))
    return columns


def _questions(model: Model, op: str, n: int, count: int) -> QuestionSet:
    """The questions, different ones for trained models: `ideal` breaks ties at random, anew each
    time.
    """
    return question_set(op, n, count, model.name != "ideal")


def _place(
    model: Model, questions: QuestionSet, sampler: str, curve: str, x: float, seed: int
) -> ListPoint:
    measured = measure_accuracy(model, questions, sampler, seed)
    row = {
        "model": model.name,
        "curve": curve,
        "operation": questions.op,
        "n": questions.n,
        "sampler": sampler,
        "predicted": accuracy(questions.op, questions.n, sampler),
        **measured.shares(),
        "answers": measured.count,
        "steps": measured.steps,
    }
    return ListPoint(x, row, measured)


def _drawing(name: str, places: Sequence[ListPoint], model: Model, x: str, title: str) -> Drawing:
    """One panel: a line and its points per curve."""
    rows = [place.row for place in places]
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    caption = f"{x} · lines: theory, points: measured with {label(model.name)}"
    figure, [axis] = panels([1], ceil(len(curves) / COLUMNS), caption, "accuracy (%)")
    for number, curve in enumerate(curves):
        line = [place for place in places if place.row["curve"] == curve]
        look = number_look(number)
        axis.plot(
            [place.x for place in line],
            [100 * place.row["predicted"] for place in line],
            color=look["color"],
            linewidth=1.1,
        )
        draw_measured(axis, [place.measured.at(place.x) for place in line], look, curve)
    percent(axis)
    finish(axis, label(title))
    legend(figure, COLUMNS, 7.5)
    held = within((place.row["predicted"], place.measured) for place in places)
    worst = max(rows, key=lambda row: float(abs(row["predicted"] - row["accuracy"])))
    said = (
        f"{title}, {model.name}: {held};\n"
        f"largest difference {worst['operation']}, n = {worst['n']}, {worst['sampler']}: predicted"
        f" {worst['predicted']:.4f}, measured {worst['accuracy']:.4f}"
    )
    return Drawing(name, figure, rows, said)
