"""The page of a comparison: differences by cell, and the answers that flipped, of both runs side by side."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from pbcore.analysis.compare import CellComparison, Comparison, Flip
from pbcore.analysis.order import short
from pbcore.printable import counted, fixed, signed
from pbcore.report.cells import NONE, ROWS_NOTE
from pbcore.report.comparison import RATES, joined, mean_text, rates_shown
from pbcore.report.page.data import Answers
from pbcore.report.page.html import text
from pbcore.report.page.tables import MODEL, SAMPLER, Column, decimals, html_table, link, words
from pbcore.report.page.write import assembled, questions_of
from pbcore.report.scopes import Row
from pbcore.results.rundir import RunDir, StoredCell

SIDES = ("A", "B")
Place = tuple[str, str]  # a side and the id of a cell there
Entries = Sequence[StoredCell]


def comparison_page(comparison: Comparison, head: Entries, base: Entries, runs: tuple[Path, Path]) -> str:
    """The page of run A (`head`) against run B (`base`); `runs` are their directories. B may lack answers, as a
    baseline file does."""
    names = runs[0].name if runs[0] == runs[1] else f"{runs[0].name} against {runs[1].name}"
    title = f"pbcore · {', '.join(filter(None, (names, joined(comparison))))}"
    return assembled(title, _content(comparison, runs), _answers(comparison, (head, base), runs), runs[0].name)


def _answers(comparison: Comparison, sides: tuple[Entries, Entries], runs: tuple[Path, Path]) -> list[Answers]:
    """The compared cells of both runs; the two of a pair name each other and what flipped between them. A cell of B
    that several of A are compared with names the first."""
    pairs: dict[Place, CellComparison] = {}
    for compared in comparison.cells:
        for place in _places(compared):
            pairs.setdefault(place, compared)
    given = [(side, entry) for side, entries in zip(SIDES, sides, strict=True) for entry in entries]
    places = [(side, entry) for side, entry in given if (side, entry.cell.id) in pairs]
    numbers = {(side, entry.cell.id): number for number, (side, entry) in enumerate(places)}
    kept = {side: questions_of(RunDir(run)) for side, run in zip(SIDES, runs, strict=True)}
    found = []
    for side, entry in places:
        cell, pair = entry.cell, pairs[side, entry.cell.id]
        other = next((numbers.get(place) for place in _places(pair) if place[0] != side), None)
        flips = (_indices(pair.worse), _indices(pair.better))
        name, asked = f"{side}:{cell.id}", kept[side](cell)
        found.append(Answers(name, cell.model, cell, entry.samples, asked, side, other, *flips))
    return found


def _places(cell: CellComparison) -> list[Place]:
    """The cells of A and B that it compares, of those that there are."""
    return [(side, name) for side, name in zip(SIDES, (cell.pair.head, cell.pair.base), strict=True) if name]


def _indices(flips: Sequence[Flip]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(flip.index for flip in flips))


def _content(comparison: Comparison, runs: tuple[Path, Path]) -> Markup:
    rows = [_row(comparison, cell) for cell in comparison.worst_first()]
    names = Counter(short(task) for task in {cell.pair.task for cell in comparison.cells})
    for row in rows:
        row["name"] = row["task"] if names[short(row["task"])] > 1 else short(row["task"])
    compared = [row for row in rows if row["cell"].status == "compared"]
    others = [row for row in rows if row["cell"].status != "compared"]
    verdicts = Counter(row["verdict"] for row in compared)
    given = f", {text(joined(comparison), 600)}" if joined(comparison) else ""
    parts = [
        f"<p>A: <code>{text(str(runs[0]))}</code> · B: <code>{text(str(runs[1]))}</code>{given}. "
        f"{counted(len(compared), 'cell')} compared, {verdicts['worse']} significantly worse in A, "
        f"{verdicts['better']} significantly better (Holm's test over all cells, level {comparison.level:g}).</p>",
        *(f"<p>{text(sentence, 600)}</p>" for sentence in mean_text(comparison)),
    ]
    if compared:
        rates = rates_shown(comparison)
        columns = [*COMPARED, *map(_rate, rates), DIFFERS]
        caption = f"A − B in points; each cell opens its answers{f'; {ROWS_NOTE}' if 'rows' in rates else ''}"
        parts.append(html_table(columns, compared, caption, "compared cells"))
    if others:
        parts.append(html_table(OTHERS, others, "not compared", "cells that were not compared"))
    return Markup(f"<section><h2>Differences</h2>{''.join(parts)}</section>")


def _row(comparison: Comparison, cell: CellComparison) -> Row:
    """A row of the table: scores and differences in points."""
    verdict = "no clear change"
    if cell.unchanged:
        verdict = "the same"
    elif comparison.significant(cell):
        verdict = "worse" if (cell.change or 0) < 0 else "better"
    pair = cell.pair
    row: Row = {"model": _names(*pair.model), "sampler": _names(*pair.sampler), "task": pair.task, "cell": cell}
    for name in ("base", "head", "change", "low", "high"):
        share = getattr(cell, name)
        row[name] = None if share is None else 100 * share
    row |= {"p": cell.p_adjusted, "worse": len(cell.worse), "better": len(cell.better), "verdict": verdict}
    row |= {"differs": "; ".join(cell.differs), "reason": f"{cell.status}: {cell.reason}"}
    return row | {name: cell.rates.get(name, (None, None)) for name in RATES}


def _names(head: str, base: str) -> str:
    """`B's → A's` where a cell was compared with one of another name."""
    return head if base == head else f"{base} → {head}"


def _change(row: Row) -> str:
    if row["change"] is None:
        return NONE
    interval = "" if row["low"] is None else f" [{signed(row['low'])} to {signed(row['high'])}]"
    return f"{signed(row['change'])}{interval}".replace("-", "−")


def _rate(name: str) -> Column:
    _, head, places = RATES[name]

    def shown(row: Row) -> str:
        before, after = (NONE if value is None else fixed(value, places) for value in row[name])
        return before if before == after else f"{before} → {after}"

    return Column(head, shown, lambda row: row[name][1], "B → A, where they differ")


def _flips(row: Row) -> str:
    signs = [f"{sign} {row[name]}" for name, sign in (("worse", "↓"), ("better", "↑")) if row[name]]
    return " ".join(signs) or "none"


def _opened(row: Row, inner: str) -> str:
    return link(f"A:{row['cell'].id}", inner)


def _flips_opened(row: Row, inner: str) -> str:
    return link(f"A:{row['cell'].id}", inner, only="flips") if row["worse"] or row["better"] else inner


COMPARED = (
    MODEL,
    Column("sampler", SAMPLER.text, code=True, linked=_opened),
    words("name", "task"),
    Column("A − B", _change, lambda row: row["change"], "points, with the paired 95 % interval"),
    Column(
        "flips",
        _flips,
        lambda row: row["worse"] + row["better"],
        "answers that got worse or better in A",
        linked=_flips_opened,
    ),
    words("verdict", "A is", "by Holm's adjusted test over all cells"),
    decimals("p", "two-sided p", 4, "Holm-adjusted"),
    decimals("base", "B %"),
    decimals("head", "A %"),
)
DIFFERS = words("differs", "other conditions", wide=True)
OTHERS = (MODEL, SAMPLER, words("task", "task"), words("reason", "why", wide=True))
