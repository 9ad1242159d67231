"""The page of a comparison: differences by cell, and the answers that flipped, of both runs side by
side.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from pbcore.analysis.compare import CellComparison, Comparison
from pbcore.printable import counted, fixed, signed
from pbcore.report.answers import ReportCell, questions_of
from pbcore.report.cells import NONE, ROWS_NOTE
from pbcore.report.columns import MODEL, SAMPLER, Column, decimals, words
from pbcore.report.comparison import (
    RATES,
    compared_text,
    joined,
    mean_text,
    named_text,
    rates_shown,
    side_names,
)
from pbcore.report.page.html import text
from pbcore.report.page.tables import html_table, link
from pbcore.report.page.write import assembled
from pbcore.report.scopes import Row
from pbcore.results.rundir import RunDir, StoredCell
from pbcore.tasks.naming import short

SIDES = ("A", "B")
Entries = Sequence[StoredCell]


def comparison_page(
    comparison: Comparison, head: Entries, base: Entries, runs: tuple[Path, Path]
) -> str:
    """The page of run A against run B.

    Args:
        comparison: of A against B.
        head: the cells of A.
        base: those of B, which may lack answers, as a baseline file does.
        runs: the directories of A and B.
    """
    alike = runs[0].resolve() == runs[1].resolve()
    names = runs[0].name if alike else " against ".join(side_names(comparison, *runs))
    title = f"pbcore · {', '.join(filter(None, (names, joined(comparison))))}"
    return assembled(
        title, _content(comparison, runs), _answers(comparison, (head, base), runs), runs[0].name
    )


def _answers(
    comparison: Comparison, sides: tuple[Entries, Entries], runs: tuple[Path, Path]
) -> list[ReportCell]:
    """The compared cells of both runs; the two of a pair name each other and what flipped between
    them. A cell of B that several of A are compared with names the first.
    """
    pairs: dict[tuple[str, str], CellComparison] = {}  # by side and the cell's id there
    for compared in comparison.cells:
        for place in zip(SIDES, compared.pair.ids, strict=True):
            pairs.setdefault(place, compared)
    given = [(side, entry) for side, entries in zip(SIDES, sides, strict=True) for entry in entries]
    places = [(side, entry) for side, entry in given if (side, entry.cell.id) in pairs]
    numbers = {(side, entry.cell.id): number for number, (side, entry) in enumerate(places)}
    kept = {side: questions_of(RunDir(run)) for side, run in zip(SIDES, runs, strict=True)}
    found = []
    for side, entry in places:
        cell = entry.cell
        pair = pairs[side, entry.cell.id]
        beside = "B" if side == "A" else "A"
        other = numbers.get((beside, pair.pair.ids[SIDES.index(beside)]))
        worse, better = (
            tuple(dict.fromkeys(flip.index for flip in flips))
            for flips in (pair.worse, pair.better)
        )
        name = f"{side}:{cell.id}"
        asked = kept[side](cell)
        found.append(
            ReportCell(name, cell.model, cell, entry.samples, asked, side, other, worse, better)
        )
    return found


def _content(comparison: Comparison, runs: tuple[Path, Path]) -> Markup:
    rows = [_row(comparison, cell) for cell in comparison.worst_first()]
    compared = [row for row in rows if row["cell"].status == "compared"]
    others = [row for row in rows if row["cell"].status != "compared"]
    verdicts = Counter(row["verdict"] for row in compared)
    given = f", {text(joined(comparison), 600)}" if joined(comparison) else ""
    within = bool(comparison.named) and runs[0].resolve() == runs[1].resolve()
    called = side_names(comparison, *runs) if within else tuple(map(str, runs))
    sides = [f"<code>{text(name, 600)}</code>" for name in called]
    parts = [
        *(f"<p><strong>{text(named_text(pair), 600)}</strong></p>" for pair in comparison.named),
        (
            f"<p>A: {sides[0]} · B:"
            f" {sides[1]}{given}. {compared_text(comparison)},"
            f" {verdicts['worse']} significantly worse in A, {verdicts['better']} significantly"
            f" better (Holm's test over all cells, level {comparison.level:g}).</p>"
        ),
        *(f"<p>{text(sentence, 600)}</p>" for sentence in mean_text(comparison)),
    ]
    if compared:
        rates = rates_shown(comparison)
        columns = [*COMPARED, *map(_rate, rates), words("differs", "other conditions", wide=True)]
        caption = (
            "A − B in points; each cell opens its"
            f" answers{f'; {ROWS_NOTE}' if 'rows' in rates else ''}"
        )
        changed = sorted(filter(_changed, compared), key=_by_change)
        same = [row for row in compared if not _changed(row)]
        if changed:
            label = "compared cells"
            table = html_table(columns, changed, caption, label, links=LINKS, name="differences")
            parts.append(table)
        if same:
            label = f"{counted(len(same), 'cell')} with the same verdict on every answer"
            table = html_table(columns, same, caption, label, links=LINKS, name="no difference")
            shown = "" if changed else " open"
            parts.append(
                f'<details data-fold="same"{shown}><summary>{label}</summary>{table}</details>'
            )
    if others:
        columns = [MODEL, SAMPLER, words("name", "task"), words("reason", "why", wide=True)]
        label = "cells that were not compared"
        parts.append(html_table(columns, others, "not compared", label, name="not compared"))
    return Markup(f"<section><h2>Differences</h2>{''.join(parts)}</section>")


def _row(comparison: Comparison, cell: CellComparison) -> Row:
    """A row of the table: names as `B's → A's` where they differ, scores and differences in
    points.
    """
    model, sampler = (
        new if new == old else f"{old} → {new}" for new, old in (cell.pair.model, cell.pair.sampler)
    )
    return {
        "model": model,
        "sampler": sampler,
        "task": cell.pair.task,
        "cell": cell,
        "base": _percent(cell.base),
        "head": _percent(cell.head),
        "change": _percent(cell.change),
        "low": _percent(cell.low),
        "high": _percent(cell.high),
        "p": cell.p_adjusted,
        "worse": len(cell.worse),
        "better": len(cell.better),
        "differs": "; ".join(cell.differs),
        "reason": f"{cell.status}: {cell.reason}",
        "verdict": comparison.verdict(cell),
        "name": short(cell.pair.task),
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _changed(row: Row) -> bool:
    """Whether some answer of a compared cell got worse or better, or its score changed."""
    return bool(row["worse"] or row["better"] or row["change"])


def _by_change(row: Row) -> tuple[int, float]:
    """Significant changes first, worse ones before better ones; then by size."""
    place = {"worse": 0, "better": 1}.get(row["verdict"], 2)
    return place, -abs(row["change"] or 0.0)


def _change(row: Row) -> str:
    return f"{signed(row['change'])} [{signed(row['low'])} to {signed(row['high'])}]".replace(
        "-", "−"
    )


def _rate(name: str) -> Column:
    _, head, places = RATES[name]

    def shown(row: Row) -> str:
        before, after = (
            NONE if value is None else fixed(value, places) for value in row["cell"].rates[name]
        )
        return before if before == after else f"{before} → {after}"

    return Column(head, shown, lambda row: row["cell"].rates[name][1], "B → A, where they differ")


def _flips(row: Row) -> str:
    signs = [f"{sign} {row[name]}" for name, sign in (("worse", "↓"), ("better", "↑")) if row[name]]
    return " ".join(signs) or "none"


def _opened(row: Row, inner: str) -> str:
    return link(f"A:{row['cell'].id}", inner)


def _flips_opened(row: Row, inner: str) -> str:
    return (
        link(f"A:{row['cell'].id}", inner, only="flips") if row["worse"] or row["better"] else inner
    )


COMPARED = (
    MODEL,
    SAMPLER,
    words("name", "task"),
    Column("A − B", _change, lambda row: row["change"], "points, with the paired 95 % interval"),
    Column(
        "flips",
        _flips,
        lambda row: row["worse"] + row["better"],
        "answers that got worse or better in A",
    ),
    words("verdict", "A is", "by Holm's adjusted test over all cells"),
    decimals("p", "two-sided p", 4, "Holm-adjusted"),
    decimals("base", "B %"),
    decimals("head", "A %"),
)
LINKS = {SAMPLER.head: _opened, "flips": _flips_opened}
