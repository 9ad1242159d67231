"""The page of a comparison: differences by cell, and the answers that flipped, of both runs side by side."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pbcore.analysis.compare import CellComparison, Comparison, Flip
from pbcore.analysis.order import short
from pbcore.printable import counted, fixed, signed
from pbcore.report.comparison import joined, mean_text, rates_shown
from pbcore.report.page.data import Answers
from pbcore.report.page.figures import Row
from pbcore.report.page.svg import text
from pbcore.report.page.tables import MODEL, NONE, SAMPLER, Column, decimals, html_table, link, words
from pbcore.report.page.write import SIZE, assembled, questions_of
from pbcore.report.row_counts import NOTE
from pbcore.results.rundir import RunDir, StoredCell, write_atomic

SIDES = ("A", "B")
Place = tuple[str, str]  # a side and the id of a cell there
RATES = {
    "nfe": ("NFE", 1),
    "rows": ("rows", 1),
    "tokens_per_step": ("tokens/step", 2),
    "tokens_per_row": ("tokens/row", 2),
    "samples_per_second": ("samples/s", 1),
}


def write_comparison(
    comparison: Comparison, head: Sequence[StoredCell], base: Sequence[StoredCell], runs: tuple[Path, Path], file: Path
) -> Path:
    """Writes the page of run A (`head`) against run B (`base`); `runs` are their directories. B may lack answers, as a
    baseline file does.
    """
    return write_atomic(file, comparison_page(comparison, head, base, runs))


def comparison_page(
    comparison: Comparison, head: Sequence[StoredCell], base: Sequence[StoredCell], runs: tuple[Path, Path]
) -> str:
    """The page as text."""
    answers = _answers(comparison, (head, base), runs)
    names = runs[0].name if runs[0] == runs[1] else f"{runs[0].name} against {runs[1].name}"
    title = f"pbcore · {', '.join(filter(None, (names, joined(comparison))))}"
    return assembled(title, _content(comparison, runs), answers, runs[0].name, SIZE)


def _answers(
    comparison: Comparison, sides: tuple[Sequence[StoredCell], Sequence[StoredCell]], runs: tuple[Path, Path]
) -> list[Answers]:
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
        found.append(
            Answers(
                f"{side}:{cell.id}",
                cell.model,
                cell,
                entry.samples,
                kept[side](cell),
                side,
                other,
                _indices(pair.worse),
                _indices(pair.better),
            )
        )
    return found


def _places(cell: CellComparison) -> list[Place]:
    """The cells of A and B that it compares, of those that there are."""
    return [(side, name) for side, name in zip(SIDES, (cell.pair.head, cell.pair.base), strict=True) if name]


def _indices(flips: Sequence[Flip]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(flip.index for flip in flips))


def _content(comparison: Comparison, runs: tuple[Path, Path]) -> str:
    rows = [_row(comparison, cell) for cell in comparison.worst_first()]
    names = Counter(short(task) for task in {cell.pair.task for cell in comparison.cells})
    for row in rows:
        row["name"] = row["task"] if names[short(row["task"])] > 1 else short(row["task"])
    compared = [row for row in rows if row["cell"].status == "compared"]
    others = [row for row in rows if row["cell"].status != "compared"]
    worse = sum(row["verdict"] == "worse" for row in compared)
    better = sum(row["verdict"] == "better" for row in compared)
    level = f"Holm's test over all cells, level {comparison.level:g}"
    given = f", {text(joined(comparison), 600)}" if joined(comparison) else ""
    parts = [
        f"<p>A: <code>{text(str(runs[0]))}</code> · B: <code>{text(str(runs[1]))}</code>{given}. "
        f"{counted(len(compared), 'cell')} "
        f"compared, {worse} significantly worse in A, {better} significantly better ({level}).</p>",
        *(f"<p>{text(sentence, 600)}</p>" for sentence in mean_text(comparison)),
    ]
    if compared:
        rates = rates_shown(comparison)
        columns = [*COMPARED, *(_rate(name, *RATES[name]) for name in rates), DIFFERS]
        caption = f"A − B in points; each cell opens its answers{f'; {NOTE}' if 'rows' in rates else ''}"
        parts.append(html_table(columns, compared, caption, "compared cells"))
    if others:
        parts.append(html_table(OTHERS, others, "not compared", "cells that were not compared"))
    return f"<section><h2>Differences</h2>{''.join(parts)}</section>"


def _row(comparison: Comparison, cell: CellComparison) -> Row:
    """A row of the table: scores and differences in points."""
    verdict = "no clear change"
    if cell.unchanged:
        verdict = "the same"
    elif comparison.significant(cell):
        verdict = "worse" if (cell.change or 0) < 0 else "better"
    pair = cell.pair
    row: Row = {"model": _names(*pair.model), "sampler": _names(*pair.sampler)}
    row |= {"task": pair.task, "cell": cell, "verdict": verdict}
    row |= {name: _points(getattr(cell, name)) for name in ("base", "head", "change", "low", "high")}
    row |= {"p": cell.p_adjusted, "worse": len(cell.worse), "better": len(cell.better)}
    row |= {"differs": "; ".join(cell.differs), "reason": f"{cell.status}: {cell.reason}"}
    for name in RATES:
        before, after = cell.rates.get(name, (None, None))
        row |= {name: (before, after), f"{name}_head": after}
    return row


def _names(head: str, base: str) -> str:
    """`B's → A's` where a cell was compared with one of another name."""
    return head if base == head else f"{base} → {head}"


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _change(row: Row) -> str:
    if row["change"] is None:
        return NONE
    interval = "" if row["low"] is None else f' <span class="ci">[{signed(row["low"])} to {signed(row["high"])}]</span>'
    return f"{signed(row['change'])}{interval}".replace("-", "−")


def _rate(name: str, head: str, places: int) -> Column:
    def html(row: Row) -> str:
        before, after = (NONE if value is None else fixed(value, places) for value in row[name])
        return before if before == after else f"{before} → {after}"

    return Column(head, html, lambda row: row[f"{name}_head"], "B → A, where they differ")


def _flips(row: Row) -> str:
    signs = [f"{sign} {row[name]}" for name, sign in (("worse", "↓"), ("better", "↑")) if row[name]]
    return link(f"A:{row['cell'].id}", " ".join(signs), only="flips") if signs else "none"


COMPARED = (
    MODEL,
    Column("sampler", lambda row: link(f"A:{row['cell'].id}", f"<code>{text(row['sampler'], 60)}</code>")),
    words("name", "task"),
    Column("A − B", _change, lambda row: row["change"], "points, with the paired 95 % interval"),
    Column("flips", _flips, lambda row: row["worse"] + row["better"], "answers that got worse or better in A"),
    words("verdict", "A is", "by Holm's adjusted test over all cells"),
    decimals("p", "two-sided p", 4, "Holm-adjusted"),
    decimals("base", "B %"),
    decimals("head", "A %"),
)
DIFFERS = words("differs", "other conditions", wide=True)
OTHERS = (MODEL, SAMPLER, words("task", "task"), words("reason", "why", wide=True))
