"""The page of a comparison: differences by cell, and the answers that flipped, of both runs side by
side.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from markupsafe import Markup

from pbcore.analysis.compare import CellComparison, Comparison, Flip
from pbcore.base.printable import counted, signed
from pbcore.report.answers import ReportCell, questions_of
from pbcore.report.cells import or_dash
from pbcore.report.columns import MODEL, SAMPLER, Column, decimals, words
from pbcore.report.comparison import (
    compared_text,
    joined,
    mean_text,
    other_scores,
    p_note,
    rates_shown,
    side_names,
    verdict_lines,
)
from pbcore.report.page.html import text
from pbcore.report.page.tables import html_table, link
from pbcore.report.page.write import assembled
from pbcore.report.sections import Section
from pbcore.results.measures import ROWS_NOTE, Measure
from pbcore.results.rundir import RunDir, RunFacts, StoredCell
from pbcore.results.table_row import Row
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
    sides = runs[0].name if _same_run(runs) else " against ".join(side_names(comparison, *runs))
    names = [name for name in (sides, joined(comparison)) if name]
    content = _content(comparison, runs)
    answers = _answers(comparison, (head, base), runs)
    return assembled(", ".join(names), content, answers, runs[0].name)


def _same_run(runs: tuple[Path, Path]) -> bool:
    return runs[0].resolve() == runs[1].resolve()


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
    shown = []  # the compared cells, with their sides
    for side, stored in zip(SIDES, sides, strict=True):
        shown += [(side, entry) for entry in stored if (side, entry.cell.id) in pairs]
    # by side and the cell's id there, on the page
    numbers = {(side, entry.cell.id): number for number, (side, entry) in enumerate(shown)}
    folders = {side: RunDir(run) for side, run in zip(SIDES, runs, strict=True)}
    questions = {side: questions_of(folder) for side, folder in folders.items()}
    facts: dict[str, RunFacts] = {}
    for side, folder in folders.items():
        facts[side] = folder.read_run() if folder.path.is_dir() else {}
    answers = []
    for side, entry in shown:
        cell = entry.cell
        compared = pairs[side, cell.id]
        head_id, base_id = compared.pair.ids
        answer = ReportCell(
            id=f"{side}:{cell.id}",
            model=cell.model,
            cell=cell,
            samples=entry.samples,
            questions=questions[side](cell),
            side=side,
            pair=numbers.get(("B", base_id) if side == "A" else ("A", head_id)),
            worse=_indices(compared.worse),
            better=_indices(compared.better),
            run=facts[side],
        )
        answers.append(answer)
    return answers


def _indices(flips: Iterable[Flip]) -> tuple[int, ...]:
    """The samples that flipped, each once, whatever its seed."""
    return tuple(dict.fromkeys(flip.index for flip in flips))


def _content(comparison: Comparison, runs: tuple[Path, Path]) -> Markup:
    rows = [_row(comparison, cell) for cell in comparison.worst_first()]
    compared = [row for row in rows if row["cell"].status == "compared"]
    others = [row for row in rows if row["cell"].status != "compared"]
    parts = []
    for line in verdict_lines(comparison, str(runs[1])):
        parts.append(f"<p><strong>{text(line, 600)}</strong></p>")
    parts.append(_summary(comparison, runs, Counter(row["verdict"] for row in compared)))
    for sentence in mean_text(comparison):
        parts.append(f"<p>{text(sentence, 600)}</p>")
    parts += _compared_tables(comparison, compared, rates_shown(comparison))
    if others:
        columns = [MODEL, SAMPLER, words("name", "task"), words("reason", "why", wide=True)]
        section = Section("not compared", "not compared", "", columns, others)
        parts.append(html_table(section, "cells that were not compared"))
    return Markup(f"<section><h2>Differences</h2>{''.join(parts)}</section>")


def _summary(comparison: Comparison, runs: tuple[Path, Path], verdicts: Counter[str]) -> str:
    """Which runs were compared, and how many cells have which verdict."""
    if comparison.named and _same_run(runs):
        names = side_names(comparison, *runs)
    else:
        names = str(runs[0]), str(runs[1])
    head, base = (f"<code>{text(name, 600)}</code>" for name in names)
    counts = [f"{number:,} {verdict}" for verdict, number in sorted(verdicts.items())]
    given = joined(comparison)
    also = f", {text(given, 600)}" if given else ""
    return (
        f"<p>A: {head} · B: {base}{also}. {compared_text(comparison)}:"
        f" {text(', '.join(counts), 600)}; level {comparison.level:g}.</p>"
    )


def _compared_tables(
    comparison: Comparison, compared: Sequence[Row], rates: Sequence[Measure]
) -> list[str]:
    """A table of the cells in which something changed, and one, folded, of the others."""
    columns = _columns(comparison)
    columns += [_rate(measure) for measure in rates]
    folded = {"p", *(measure.key for measure in rates[1:])}
    columns.append(words("differs", "other conditions", wide=True))
    caption = "A − B in points; each cell opens its answers"
    if any(measure.key == "rows" for measure in rates):
        caption += f"; {ROWS_NOTE}"
    changed = [row for row in compared if _changed(row)]
    same = [row for row in compared if not _changed(row)]
    parts: list[str] = []
    if changed:
        changed.sort(key=_by_change)
        section = Section("compared cells", "differences", "", columns, changed, caption=caption)
        parts.append(html_table(section, section.title, links=LINKS, folded=folded))
    if same:
        label = f"{counted(len(same), 'cell')} with the same score of every answer"
        section = Section(label, "no difference", "", columns, same, caption=caption)
        table = html_table(section, label, links=LINKS, folded=folded)
        shown = "" if changed else " open"
        parts.append(
            f'<details data-fold="same"{shown}><summary>{label}</summary>{table}</details>'
        )
    return parts


def _row(comparison: Comparison, cell: CellComparison) -> Row:
    """A row of the table: names as `B's → A's` where they differ, scores and differences in
    points.
    """
    return {
        "model": _renamed(*cell.pair.model),
        "sampler": _renamed(*cell.pair.sampler),
        "task": cell.pair.task,
        "cell": cell,
        "base": 100 * cell.base,
        "head": 100 * cell.head,
        "change": 100 * cell.change,
        "low": 100 * cell.low,
        "high": 100 * cell.high,
        "p": cell.p,
        "worse": len(cell.worse),
        "better": len(cell.better),
        "differs": "; ".join(filter(None, [*cell.differs, other_scores(cell)])),
        "reason": f"{cell.status}: {cell.reason}",
        "verdict": comparison.word(cell),
        "name": short(cell.pair.task),
    }


def _renamed(new: str, old: str) -> str:
    return new if new == old else f"{old} → {new}"


def _changed(row: Row) -> bool:
    """Whether some answer of a compared cell got worse or better, also by another score, or its
    verdict isn't the same.
    """
    same = row["verdict"] in ("the same", "no clear change") and not other_scores(row["cell"])
    return bool(row["worse"] or row["better"] or row["change"] or not same)


def _by_change(row: Row) -> tuple[int, float]:
    """Red cells first, then better ones; then by size."""
    places = {"worse": 0, "changed": 1, "slower": 2, "refused": 3, "better": 4, "faster": 5}
    place = places.get(row["verdict"], 6)
    return place, -abs(row["change"])


def _change(row: Row) -> str:
    return f"{signed(row['change'])} [{signed(row['low'])} to {signed(row['high'])}]".replace(
        "-", "−"
    )


def _rate(measure: Measure) -> Column:
    def shown(row: Row) -> str:
        before, after = row["cell"].rates[measure.key]
        return _renamed(or_dash(after, measure.decimals), or_dash(before, measure.decimals))

    def after(row: Row) -> float | None:
        value: float | None = row["cell"].rates[measure.key][1]
        return value

    return Column(measure.head, shown, after, "B → A, where they differ", key=measure.key)


def _flips(row: Row) -> str:
    signs = []
    if row["worse"]:
        signs.append(f"↓ {row['worse']}")
    if row["better"]:
        signs.append(f"↑ {row['better']}")
    return " ".join(signs) if signs else "none"


def _opened(row: Row, inner: str) -> str:
    return link(f"A:{row['cell'].id}", inner)


def _flips_opened(row: Row, inner: str) -> str:
    if not row["worse"] and not row["better"]:
        return inner
    return link(f"A:{row['cell'].id}", inner, only="flips")


def _columns(comparison: Comparison) -> list[Column]:
    """The columns of the compared cells, without the rates."""
    p = decimals("p", "p", 4, p_note(comparison), none="every answer counts, or no score differs")
    return [*COMPARED, p, decimals("base", "B %"), decimals("head", "A %")]


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
    words("verdict", "A is", "by the rule of gates"),
)
LINKS = {SAMPLER.head: _opened, "flips": _flips_opened}
