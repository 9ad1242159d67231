"""Two runs side by side as text: a table for the terminal, and Markdown for a pull request."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path

from pbcore.analysis.compare import CellComparison, Comparison, NamedPair
from pbcore.analysis.verdict_text import headline, judged_by, other_scores_text, p_text, power_text
from pbcore.base.printable import counted, fixed, printable, signed, some
from pbcore.base.tabular import MarkdownText, markdown, terminal
from pbcore.base.text import NAME, code, folded, md
from pbcore.report.columns import Column
from pbcore.report.headline import ratio_text
from pbcore.report.sections import Section
from pbcore.results.measures import Measure, shown_in

ROWS = 100  # of the Markdown table: a pull request's comment has room for 65,536 characters
LINES = 40  # of the terminal's
MARKED = ("worse", "changed", "slower", "refused", "better", "faster")
FLIPS = 12  # flipped answers named per cell


def comparison_text(
    comparison: Comparison, head: str, base: str, width: int = 120, limit: int = LINES
) -> str:
    """The comparison for a terminal: a headline, the cells that could not be compared by their
    reason, then a row per cell in which something changed, worst first and marked with its verdict;
    cells without any change are counted. Where names and columns don't fit into
    `width`, samples/s is left out, then names stand on lines of their own, then the last rates
    stand in another part; sentences are folded.

    Args:
        comparison: the two runs.
        head: the name of A.
        base: the name of B.
        width: columns of the terminal.
        limit: rows of the table; the rest are counted.
    """
    changed, more = _changed_cells(comparison, limit)
    lines = folded(compared_line(comparison, head, base), width)
    for reason, names in _uncompared(comparison).items():
        cells = some([printable(name) for name in names], 4)
        lines += folded(f"  {printable(reason, 300)}: {cells}", width)
    if changed:
        lines.append(_terminal_table(comparison, changed, width))
    if more:
        lines.append(more)
    for note in _notes(comparison):
        lines += folded(note, width)
    return "\n".join(lines)


def _terminal_table(comparison: Comparison, changed: Sequence[CellComparison], width: int) -> str:
    marks = [_mark(comparison, cell) for cell in changed]
    indent = max((len(mark) + 1 for mark in marks if mark), default=0)
    names = []
    for mark, cell in zip(marks, changed, strict=True):
        names.append(f"{mark:{indent}}{printable(cell.pair.name, 2 * NAME)}")
    common = _common(comparison)
    notes = [[printable(note, 300) for note in _differs(cell, common)] for cell in changed]
    section = _section(comparison, changed, names, f"{'':{indent}}cell")
    too_wide = max(len(line) for line in terminal(section.table()).split("\n")) > width
    if too_wide and len(section.columns) > 1 + len(COLUMNS):
        section = replace(section, columns=section.columns[:-1])
    return terminal(section.table(), width, notes=notes)


def _mark(comparison: Comparison, cell: CellComparison) -> str:
    """A cell's verdict, where it is one; else empty."""
    word = comparison.word(cell)
    return word if word in MARKED else ""


def comparison_markdown(comparison: Comparison, head: str, base: str, limit: int = ROWS) -> str:
    """The comparison as a comment on a pull request: the verdict, the cells that could not be
    compared by their reason, a table of those that changed, worst first, and their flipped answers,
    folded.

    Args:
        comparison: the two runs.
        head: the name of A.
        base: the name of B.
        limit: rows of the table; the rest are counted.
    """
    changed, more = _changed_cells(comparison, limit)
    sentences = verdict_lines(comparison, base)
    sentences += [compared_line(comparison, head, base), power_text(comparison.verdict)]
    lines = [f"### {md(sentences[0], 600)}", ""]
    for sentence in sentences[1:]:
        if sentence:
            lines += [md(sentence, 600), ""]
    for reason, names in _uncompared(comparison).items():
        lines.append(f"- {md(reason)}: {some([code(name, 120) for name in names], FLIPS)}")
    if changed:
        lines += ["", _markdown_table(comparison, changed)]
    if more:
        lines.append(f"\n{more}.")
    lines.append("")
    for note in _notes(comparison):
        lines.append(f"{md(note, 400)}  ")
    flipped = []
    common = _common(comparison)
    for cell in changed:
        name = code(cell.pair.name, 120)
        differs = _differs(cell, common)
        if differs:
            lines.append(f"{name}: {md('; '.join(differs), 400)}  ")
        if cell.worse or cell.better:
            flipped.append(f"- {name}: {_flips(cell)}")
    if flipped:
        lines += ["", "<details><summary>Flipped answers, by sample</summary>", ""]
        lines += flipped
        lines += ["", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(comparison: Comparison, changed: Sequence[CellComparison]) -> str:
    names = []
    for cell in changed:
        name = code(cell.pair.name, 120, cell=True)
        mark = _mark(comparison, cell)
        names.append(MarkdownText(f"**{mark}** {name}" if mark else name))
    return markdown(_section(comparison, changed, names, "cell").table())


def _changed_cells(comparison: Comparison, limit: int) -> tuple[list[CellComparison], str]:
    """The compared cells in which something changed, worst first, at most `limit`; and how many
    further ones there are, in words.
    """
    changed = []
    for cell in comparison.worst_first():
        if cell.status == "compared" and not cell.unchanged:
            changed.append(cell)
    more = ""
    if len(changed) > limit:
        more = f"… and {counted(len(changed) - limit, 'more cell')} that changed"
    return changed[:limit], more


def _section(
    comparison: Comparison, cells: Sequence[CellComparison], names: Sequence[str], head: str
) -> Section:
    """The table of some cells.

    Args:
        comparison: what they are of.
        cells: its rows.
        names: what stands first in each.
        head: that of the names.
    """
    columns = [Column(head, itemgetter("name"), align="l", wide=True), *COLUMNS]
    columns += map(_of_rate, rates_shown(comparison))
    rows = [{"cell": cell, "name": name} for cell, name in zip(cells, names, strict=True)]
    return Section("Cells that changed", "differences", "", columns, rows)


def _differs(cell: CellComparison, common: Sequence[str]) -> list[str]:
    """The conditions that differ in a cell but not in every one, and the other scores that fell."""
    differs = [note for note in cell.differs if note not in common]
    return [*differs, *filter(None, [other_scores(cell)])]


def other_scores(cell: CellComparison) -> str:
    """The scores beside the judged one that fell in a cell where that one did not: where it did,
    the comparison's own line says it of all cells.
    """
    if cell.judgement is None or not cell.judgement.others or cell.worse:
        return ""
    return other_scores_text([cell.judgement])


def _uncompared(comparison: Comparison) -> dict[str, list[str]]:
    """`refused (other questions …)` → the names of such cells, in the order of `worst_first`."""
    groups: dict[str, list[str]] = {}
    for cell in comparison.worst_first():
        if cell.status != "compared":
            groups.setdefault(f"{cell.status} ({cell.reason})", []).append(cell.pair.name)
    return groups


def named_text(pair: NamedPair) -> str:
    """The pooled verdict on a pair of names: `random-k4 against random-k2: worse, -9.4 points
    [-16.1, -2.6] in 2.0× fewer forwards, 15 newly wrong, 0 newly right (mean of 3 cells; one-sided
    p = .001)`.
    """
    given = [sides for sides in (pair.model, pair.sampler) if sides is not None]
    names = " ".join(printable(_against(new, old), 2 * NAME) for new, old in given)
    mean = pair.mean
    if not mean.cells:
        return f"{names}: no cell could be compared"
    interval = f"[{signed(100 * mean.low)}, {signed(100 * mean.high)}]"
    wrong, right = ("newly wrong", "newly right") if pair.binary else ("answers worse", "better")
    of = _of_cells(mean.cells)
    if pair.pooled.cells:
        of += f"; one-sided {p_text(min(pair.pooled.p, pair.pooled.p_gain))}"
    return (
        f"{names}: {pair.verdict}, {signed(100 * mean.change)} points {interval}{_costs(pair)},"
        f" {pair.worse:,} {wrong}, {pair.better:,} {right} ({of})"
    )


def _costs(pair: NamedPair) -> str:
    """` in 2.0× fewer forwards`; empty where they weren't counted."""
    parts = []
    for ratio, what in ((pair.forwards, "forwards"), (pair.rows, "rows")):
        if ratio is not None:
            parts.append(ratio_text(ratio, what))
    return f" in {' and '.join(parts)}" if parts else ""


def _against(new: str, old: str) -> str:
    return new if new == old else f"{new} against {old}"


def _of_cells(number: int) -> str:
    return "1 cell" if number == 1 else f"mean of {number:,} cells"


def verdict_lines(comparison: Comparison, base: str) -> list[str]:
    """The first lines of a comparison: the pooled verdict on each pair of given names; without
    names the gate's, with how many of all cells were compared.

    Args:
        comparison: of run A against run B.
        base: what B is called.
    """
    if comparison.named:
        return [*map(named_text, comparison.named), *judged_by(comparison.verdict)]
    line = headline(comparison.verdict, base, "comparison")
    if comparison.of("missing", "new"):
        line += f"; {compared_text(comparison)}"
    given = joined(comparison)
    return [f"{line}; {given}" if given else line, *judged_by(comparison.verdict)]


def passed(comparison: Comparison) -> bool:
    """Whether A is not worse: no cell failed, some cell was judged, and no pair of given names is
    worse, or without a judged cell.
    """
    verdict = comparison.verdict
    bad = any(pair.verdict in ("worse", "not compared") for pair in comparison.named)
    return verdict.ok and bool(verdict.judged) and not bad


def _common(comparison: Comparison) -> list[str]:
    """The conditions that differ in every compared cell, which are stated once."""
    compared = comparison.of("compared")
    if not compared:
        return []
    first, *others = compared
    return [note for note in first.differs if all(note in cell.differs for cell in others)]


def side_names(comparison: Comparison, head: Path, base: Path) -> tuple[str, str]:
    """What A and B are called.

    Args:
        comparison: of run A against run B.
        head: the directory of A.
        base: the directory of B.

    Returns:
        The names of their folders, their whole paths where these are alike, and within one run the
        given names (of several pairs NEW and OLD, as on the command line).
    """
    if head.resolve() != base.resolve():
        alike = head.resolve().name == base.resolve().name
        return (str(head), str(base)) if alike else (_folder(head), _folder(base))
    run = _folder(head)
    if not comparison.named:
        return run, run
    new, old = _given(comparison) or ("NEW", "OLD")
    return f"{new} of {run}", f"{old} of {run}"


def _folder(path: Path) -> str:
    return path.name or str(path)


def _given(comparison: Comparison) -> tuple[str, str] | None:
    """The given names of A's side and of B's, where they are one pair that differs."""
    if len(comparison.named) != 1 or len(comparison.models) + len(comparison.samplers) > 2:
        return None
    (pair,) = comparison.named
    names = [name for name in (pair.model, pair.sampler) if name is not None]
    return " ".join(new for new, _ in names), " ".join(old for _, old in names)


def compared_text(comparison: Comparison) -> str:
    """`10 of 186 cells compared`; `10 cells compared` where no run lacks a cell of the other."""
    compared = len(comparison.of("compared"))
    if not comparison.of("missing", "new"):
        return f"{counted(compared, 'cell')} compared"
    return f"{compared:,} of {counted(len(comparison.cells), 'cell')} compared"


def compared_line(comparison: Comparison, head: str, base: str) -> str:
    """How many cells were compared, how many have which verdict, and how many answers flipped.

    Args:
        comparison: of run A against run B.
        head: what A is called.
        base: what B is called.
    """
    compared = comparison.of("compared")
    words = Counter(comparison.word(cell) for cell in compared)
    worse = sum(len(cell.worse) for cell in compared)
    better = sum(len(cell.better) for cell in compared)
    sides = _given(comparison)
    within = sides is not None and head.startswith(f"{sides[0]} of ")
    limit = 3 * NAME if within else 2 * NAME
    runs = [f"A = {printable(head, limit)}", f"B = {printable(base, limit)}"]
    given = joined(comparison)
    if given and not within:
        runs.append(given)
    counts = [f"{words['worse']} worse", f"{words['better']} better"]
    if (worse or better) and not (words["worse"] or words["better"]):
        counts = ["no cell worse or better by itself"]
    for word in ("lost, not shown", "changed", "slower", "faster"):
        if words[word]:
            counts.append(f"{words[word]} {word}")
    text = (
        f"{', '.join(runs)}: {compared_text(comparison)}, {', '.join(counts)};"
        f" {counted(worse, 'answer')} worse, {better:,} better"
    )
    statuses = Counter(cell.status for cell in comparison.cells)
    statuses["refused"] += words["refused"]
    for status in ("refused", "error", "missing", "new"):
        if statuses[status]:
            text += f", {statuses[status]} {status}"
    return text


def joined(comparison: Comparison) -> str:
    """The names that were given, A's first: `sampler random-k2 against confidence-k2`; empty
    without any.
    """
    parts = []
    for kind, names in (("model", comparison.models), ("sampler", comparison.samplers)):
        pairs = [printable(_against(new, old), 2 * NAME) for new, old in names.items()]
        if pairs:
            parts.append(f"{kind} {some(pairs, 3)}")
    return ", ".join(parts)


def rates_shown(comparison: Comparison) -> list[Measure]:
    """The numbers to show: tokens per row and rows where a compared cell's rows aren't its calls,
    what old records lack where a side of a compared cell has it.
    """
    rates = [cell.rates for cell in comparison.of("compared")]
    asked_more = any(
        cell.get("rows") is not None and cell["rows"] != cell.get("nfe") for cell in rates
    )
    shown = []
    for measure in shown_in("comparison"):
        values = chain.from_iterable(cell.get(measure.key, ()) for cell in rates)
        missing = measure.late and all(value is None for value in values)
        if not missing and (asked_more or not measure.of_rows):
            shown.append(measure)
    return shown


def _of_cell(head: str, text: Callable[[CellComparison], str]) -> Column:
    return Column(head, lambda row: text(row["cell"]), align="r")


def _of_rate(measure: Measure) -> Column:
    """Rates as `16 → 8.5`, or the one value where both are the same."""

    def text(cell: CellComparison) -> str:
        before, after = cell.rates.get(measure.key, (None, None))
        return _change(_number(before), _number(after))

    return _of_cell(measure.short or measure.head, text)


COLUMNS = (
    _of_cell("B", lambda cell: fixed(100 * cell.base)),
    _of_cell("A", lambda cell: fixed(100 * cell.head)),
    _of_cell("A − B", lambda cell: signed(100 * cell.change)),
    _of_cell(
        "95 % interval", lambda cell: f"{signed(100 * cell.low)} to {signed(100 * cell.high)}"
    ),
    _of_cell("p", lambda cell: _p_value(cell.p)),
    _of_cell("worse", lambda cell: str(len(cell.worse))),
    _of_cell("better", lambda cell: str(len(cell.better))),
)


def _p_value(p: float | None) -> str:
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _number(value: float | None) -> str:
    return "–" if value is None else fixed(value, 2).rstrip("0").rstrip(".")


def _notes(comparison: Comparison) -> list[str]:
    """What the columns mean, and which cells are not in the table."""
    compared = comparison.of("compared")
    unchanged = sum(cell.unchanged for cell in compared)
    of_head, of_base = comparison.left_out
    notes = mean_text(comparison)
    for note in _common(comparison):
        notes.append(f"in every cell, B → A: {printable(note, 200)}")
    if unchanged:
        notes.append(f"left out, without any change: {counted(unchanged, 'cell')}")
    if of_head or of_base:
        notes.append(
            f"not compared, under other names: {counted(of_head, 'cell')} of A, {of_base} of B"
        )
    if comparison.lacking:
        names = some([printable(name) for name in comparison.lacking], 4)
        notes.append(f"not compared, as A never had them: {names}")
    if unchanged < len(compared):
        columns = (
            f"scores in %, differences A − B in points; p: {p_note(comparison)}; intervals are not"
            " adjusted; worse, better: flipped answers"
        )
        rates = rates_shown(comparison)
        if any(measure.key == "nfe" for measure in rates):
            columns += "; NFE: forwards of an answer"
        if any(cell.pair.renamed for cell in compared):
            columns += "; names in cells: B→A"
        notes.append(columns)
        notes += [measure.note for measure in rates if measure.note]
    return notes


def p_note(comparison: Comparison) -> str:
    """What the p of a cell is, and for which cells it is corrected."""
    tested = [cell for cell in comparison.verdict.judgements if cell.tested]
    differing = [cell for cell in tested if cell.p]
    if not tested:
        return "empty, as every answer counts"
    if not differing:
        return "empty, as no score differs"
    if len(differing) == len(tested):
        cells = "the one tested cell"
        if len(tested) != 1:
            cells = f"all {len(tested)} tested cells"
    else:
        cells = (
            f"the cells in which something differs ({len(differing):,} of {len(tested):,} tested;"
            " identical answers can't be worse)"
        )
    return (
        f"of the change in its direction, one-sided, by Holm over {cells}, empty where every answer"
        " counts or no score differs"
    )


def mean_text(comparison: Comparison) -> list[str]:
    """The sentence on the mean of the compared cells, where there are several."""
    mean = comparison.overall
    if mean.cells < 2 or len(comparison.named) > 1:
        return []
    return [
        f"mean of {counted(mean.cells, 'cell')}: B {fixed(100 * mean.base)}, A"
        f" {fixed(100 * mean.head)}, difference {signed(100 * mean.change)}, 95 % interval"
        f" {signed(100 * mean.low)} to {signed(100 * mean.high)}"
    ]


def _flips(cell: CellComparison) -> str:
    """`worse 3, 17, 20 (seed 1)`: sample numbers, with the seed where it is not 0."""
    parts = []
    for kind, flips in (("worse", cell.worse), ("better", cell.better)):
        names = []
        for flip in flips:
            seed = f" (seed {flip.seed})" if flip.seed else ""
            names.append(f"{flip.index}{seed}")
        if names:
            parts.append(f"{kind} {some(names, FLIPS)}")
    return "; ".join(parts)
