"""Table 1 and Figure 2: closed forms of the ideal model beside accuracies measured by decoding."""

from collections.abc import Sequence
from dataclasses import dataclass

from pbcore.errors import InputError
from pbcore.figures.measured import (
    MeasuredAccuracy,
    QuestionSet,
    draw_measured,
    measure_accuracy,
    question_set,
    within,
)
from pbcore.models.base import Model
from pbcore.report.looks import number_look
from pbcore.report.style import CsvRow, Drawing, finish, label, legend, panels, percent
from pbcore.tabular import Table, terminal
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
class Place:
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
        asked = _asked(model, op, n, count)
        for block in (block for block in (0, *blocks) if not block or n % block == 0):
            width = block or n
            suffix = f", blocks of {block}" if block else ""
            tops = {f"k = {k}": k for k in (1, 2) if k < width} | {
                f"k = {'b' if block else 'n'}": width
            }
            for curve, k in tops.items():
                sampler = f"random-k{k}" + (f"+b{block}" if block else "") + heat
                places.append(_place(model, asked, sampler, curve + suffix, n, seed))
    temperature = "τ = 1" if heat else "greedy"
    return _drawing(
        f"figure{name}", places, model, "n", f"Figure {name}: {op}, random top-k, {temperature}"
    )


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
            asked = _asked(model, op, n, count)
            curve = f"{op}, n = {n}"
            places += [
                _place(model, asked, f"threshold-{gamma:g}", curve, gamma, seed) for gamma in gammas
            ]
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
            }
            row["L, pairs"] = finding.pairs_bound
            asked = _asked(model, finding.op, n, count)
            for name, sampler in _columns(n):
                measured = measure_accuracy(model, asked, sampler, seed)
                predicted = accuracy(finding.op, n, sampler)
                pairs.append((predicted, measured))
                row |= {name: predicted, f"{name} measured": measured.accuracy}
                row |= {f"{name} low": measured.low, f"{name} high": measured.high}
            rows.append(row)
    head = [name for name in rows[0] if not name.endswith((" low", " high"))]
    heads = ["measured" if name.endswith(" measured") else name for name in head]
    shown = [[row[name] for name in head] for row in rows]
    title = (
        f"Table 1: greedy accuracies of the ideal model beside those measured with {model.name},"
        f" {count} answers each"
    )
    lines = [
        title,
        terminal(Table(heads, shown, forms=".4g")),
    ]
    return "\n".join([*lines, within(pairs)]), rows


def _columns(n: int) -> list[tuple[str, str]]:
    tops = [(f"k={'n' if k == n else k}", f"confidence-k{k}") for k in sorted({1, 2, n})]
    return tops + [(f"γ={gamma:g}", f"threshold-{gamma:g}") for gamma in SIDES]


def _asked(model: Model, op: str, n: int, count: int) -> QuestionSet:
    """The questions, different ones for trained models: `ideal` breaks ties at random, anew each
    time.
    """
    return question_set(op, n, count, model.name != "ideal")


def _place(
    model: Model, asked: QuestionSet, sampler: str, curve: str, x: float, seed: int
) -> Place:
    measured = measure_accuracy(model, asked, sampler, seed)
    predicted = accuracy(asked.op, asked.n, sampler)
    row = {
        "model": model.name,
        "curve": curve,
        "operation": asked.op,
        "n": asked.n,
        "sampler": sampler,
    }
    row |= {
        "predicted": predicted,
        **measured.shares(),
        "answers": measured.count,
        "steps": measured.steps,
    }
    return Place(x, row, measured)


def _drawing(name: str, places: Sequence[Place], model: Model, x: str, title: str) -> Drawing:
    """One panel: a line and its points per curve."""
    rows = [place.row for place in places]
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    caption = f"{x} · lines: theory, points: measured with {label(model.name)}"
    figure, [axis] = panels([1], -(-len(curves) // COLUMNS), caption, "accuracy (%)")
    for number, curve in enumerate(curves):
        line = [place for place in places if place.row["curve"] == curve]
        look = number_look(number)
        axis.plot(
            [p.x for p in line],
            [100 * p.row["predicted"] for p in line],
            color=look["color"],
            linewidth=1.1,
        )
        draw_measured(axis, [place.measured.at(place.x) for place in line], look, curve)
    percent(axis)
    finish(axis, label(title))
    legend(figure, COLUMNS, 7.5)
    worst = max(rows, key=lambda row: float(abs(row["predicted"] - row["accuracy"])))
    said = (
        f"{title}, {model.name}:"
        f" {within((place.row['predicted'], place.measured) for place in places)};\nlargest"
        f" difference {worst['operation']}, n = {worst['n']}, {worst['sampler']}: predicted"
        f" {worst['predicted']:.4f}, measured {worst['accuracy']:.4f}"
    )
    return Drawing(name, figure, rows, said)
