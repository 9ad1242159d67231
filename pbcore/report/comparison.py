"""Two runs side by side as text: a table for the terminal, and Markdown for a pull request."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pbcore.analysis.compare import CellComparison, Comparison, NamedPair
from pbcore.gates.judge import Verdict
from pbcore.gates.verdict_text import counts_text, power_text
from pbcore.printable import counted, fixed, printable, signed, some
from pbcore.report.cells import FORWARDED_NOTE, ROWS_NOTE
from pbcore.tabular import MarkdownText, Table, markdown, terminal
from pbcore.text import NAME, code, folded, md

ROWS = 100  # of the Markdown table: a pull request's comment has room for 65,536 characters
LINES = 40  # of the terminal's
FLIPS = 12  # flipped answers named per cell
ComparedLine = tuple[CellComparison, tuple[str, ...], list[str]]
SCORES = ("B", "A", "A − B", "95 % interval", "p", "worse", "better")
RATES = {  # column of a comparison → its head, its head and decimals on the page
    "nfe": ("NFE", "NFE", 1),
    "rows": ("rows", "rows", 1),
    "tokens_forwarded": ("forwarded", "tokens forwarded", 1),
    "tokens_per_step": ("tok/step", "tokens/step", 2),
    "tokens_per_row": ("tok/row", "tokens/row", 2),
    "samples_per_second": ("samples/s", "samples/s", 1),
}


def comparison_text(
    comparison: Comparison, head: str, base: str, width: int = 120, limit: int = LINES
) -> str:
    """The comparison for a terminal: a headline, the cells that could not be compared by their
    reason, then a row per cell in which something changed, worst first and marked where the change
    is significant; cells without any change are counted. Where names and columns don't fit into
    `width`, samples/s is left out, then names stand on lines of their own, then the last rates
    stand in another part; sentences are folded.

    Args:
        comparison: the two runs.
        head: the name of A.
        base: the name of B.
        width: columns of the terminal.
        limit: rows of the table; the rest are counted.
    """
    header, rows, more = _table(comparison, limit)
    lines = folded(compared_line(comparison, head, base), width)
    for reason, names in _uncompared(comparison).items():
        cells = some([printable(name) for name in names], 4)
        lines += folded(f"  {printable(reason, 300)}: {cells}", width)
    lines += [_terminal_table(comparison, header, rows, width)] if rows else []
    lines += [more] if more else []
    for note in _notes(comparison):
        lines += folded(note, width)
    return "\n".join(lines)


def _terminal_table(
    comparison: Comparison, header: Sequence[str], rows: Sequence[ComparedLine], width: int
) -> str:
    marks = [_mark(comparison, cell) for cell, _, _ in rows]
    indent = max((len(mark) + 1 for mark in marks if mark), default=0)
    entries = [
        [f"{mark:{indent}}{printable(cell.pair.name, 2 * NAME)}", *columns]
        for mark, (cell, columns, _) in zip(marks, rows, strict=True)
    ]
    heads = [f"{'':{indent}}cell", *header]
    table = Table(heads, entries, "l" + "r" * len(header))
    if max(map(len, terminal(table).split("\n"))) > width and len(header) > len(SCORES):
        table = Table(heads[:-1], [row[:-1] for row in entries], table.sides[:-1])
    notes = [[printable(note, 300) for note in notes] for _, _, notes in rows]
    return terminal(table, width, notes=notes)


def _mark(comparison: Comparison, cell: CellComparison) -> str:
    """`worse` or `better` where a cell's change is significant; else empty."""
    verdict = comparison.verdict(cell)
    return verdict if verdict in ("worse", "better") else ""


def comparison_markdown(
    comparison: Comparison, head: str, base: str, verdict: Verdict | None = None, limit: int = ROWS
) -> str:
    """The comparison as a comment on a pull request: the verdict on given names, the headline, the
    cells that could not be compared by their reason, a table of those that changed, worst first,
    and their flipped answers, folded.

    Args:
        comparison: the two runs.
        head: the name of A.
        base: the name of B.
        verdict: the gate's, whose sentence then follows the headline.
        limit: rows of the table; the rest are counted.
    """
    header, rows, more = _table(comparison, limit)
    told = [*map(named_text, comparison.named), compared_line(comparison, head, base)]
    lines = [f"### {md(told[0], 600)}", ""]
    lines += [line for sentence in told[1:] for line in (md(sentence, 600), "")]
    if verdict is not None:
        lines += [_gate(comparison, verdict), ""]
    for reason, names in _uncompared(comparison).items():
        lines.append(f"- {md(reason)}: {some([code(name, 120) for name in names], FLIPS)}")
    own = []
    entries = []
    flipped = []
    for cell, columns, notes in rows:
        significant = _mark(comparison, cell)
        mark = f"**{significant}** " if significant else ""
        entries.append([MarkdownText(f"{mark}{code(cell.pair.name, 120, cell=True)}"), *columns])
        own += [f"{code(cell.pair.name, 120)}: {md('; '.join(notes), 400)}  "] if notes else []
        flipped += (
            [f"- {code(cell.pair.name, 120)}: {_flips(cell)}"] if cell.worse or cell.better else []
        )
    if rows:
        lines += ["", markdown(Table(["cell", *header], entries, "l" + "r" * len(header)))]
    lines += [f"\n{more}."] if more else []
    lines += ["", *(f"{md(note, 400)}  " for note in _notes(comparison)), *own]
    if flipped:
        lines += [
            "",
            "<details><summary>Flipped answers, by sample</summary>",
            "",
            *flipped,
            "",
            "</details>",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _table(comparison: Comparison, limit: int) -> tuple[tuple[str, ...], list[ComparedLine], str]:
    """The header; for at most `limit` of the compared cells in which something changed, worst
    first, the entries under it and the conditions that differ there alone; and how many more such
    cells there are.
    """
    changed = [
        cell
        for cell in comparison.worst_first()
        if cell.status == "compared" and not cell.unchanged
    ]
    rates = rates_shown(comparison)
    common = _common(comparison)
    rows = [
        (cell, _columns(cell, rates), [note for note in cell.differs if note not in common])
        for cell in changed[:limit]
    ]
    more = (
        f"… and {counted(len(changed) - limit, 'more cell')} that changed"
        if len(changed) > limit
        else ""
    )
    return (*SCORES, *(RATES[name][0] for name in rates)), rows, more


def _uncompared(comparison: Comparison) -> dict[str, list[str]]:
    """`refused (other questions …)` → the names of such cells, in the order of `worst_first`."""
    groups: dict[str, list[str]] = {}
    for cell in comparison.worst_first():
        if cell.status != "compared":
            groups.setdefault(f"{cell.status} ({cell.reason})", []).append(cell.pair.name)
    return groups


def named_text(pair: NamedPair) -> str:
    """The pooled verdict on a pair of names: `random-k2 against confidence-k2: -9.4 points
    [-16.1, -2.6], 15 newly wrong, 0 newly right; worse (mean of 3 cells)`.
    """
    names = " ".join(
        printable(new if new == old else f"{new} against {old}", 2 * NAME)
        for new, old in filter(None, (pair.model, pair.sampler))
    )
    mean = pair.mean
    if not mean.cells:
        return f"{names}: no cell could be compared"
    interval = f"[{signed(100 * mean.low)}, {signed(100 * mean.high)}]"
    wrong, right = ("newly wrong", "newly right") if pair.binary else ("answers worse", "better")
    return (
        f"{names}: {pair.verdict}, {signed(100 * mean.change)} points {interval}, {pair.worse:,}"
        f" {wrong}, {pair.better:,} {right} ({_of_cells(mean.cells)})"
    )


def _of_cells(number: int) -> str:
    return "1 cell" if number == 1 else f"mean of {number:,} cells"


def verdict_text(comparison: Comparison, verdict: Verdict, base: str) -> str:
    """The first lines of a comparison: the pooled verdict on each pair of given names; without
    names the gate's, with how many of all cells were compared.

    Args:
        comparison: of run A against run B.
        verdict: the gate's.
        base: what B is called.
    """
    if comparison.named:
        return "\n".join(map(named_text, comparison.named))
    told = [base, joined(comparison)]
    if comparison.of("missing", "new"):
        told.append(compared_text(comparison))
    word = "PASSED" if passed(comparison, verdict) else "FAILED"
    counts = f": {counts_text(verdict)}" if verdict.judgements else ""
    return f"gate {word} against {', '.join(filter(None, told))}{counts}"


def passed(comparison: Comparison, verdict: Verdict) -> bool:
    """Whether A is not worse: no cell failed, some cell was tested, and no pair of given names is
    worse, or without a compared cell.
    """
    bad = any(pair.verdict in ("worse", "not compared") for pair in comparison.named)
    return verdict.ok and verdict.tests > 0 and not bad


def _gate(comparison: Comparison, verdict: Verdict) -> str:
    """The gate's verdict in a sentence or two: what failed, and which drop it can detect; of given
    names the cells' verdicts.
    """
    if comparison.named:
        return f"By cell: {counts_text(verdict)}; {md(power_text(verdict), 900)}."
    failed = [cell for cell in verdict.judgements if not cell.ok]
    first = f" (first: {code(failed[0].id, 120)}: {md(failed[0].reason, 200)})" if failed else ""
    word = "**passed**" if passed(comparison, verdict) else "**failed**"
    return f"Gate {word}: {counts_text(verdict)}{first}; {md(power_text(verdict), 900)}."


def _common(comparison: Comparison) -> list[str]:
    """The conditions that differ in every compared cell, which are stated once."""
    compared = comparison.of("compared")
    return (
        [note for note in compared[0].differs if all(note in cell.differs for cell in compared)]
        if compared
        else []
    )


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
    """How many cells were compared, how many changed significantly either way, and how many answers
    flipped.

    Args:
        comparison: of run A against run B.
        head: what A is called.
        base: what B is called.
    """
    compared = comparison.of("compared")
    others = Counter(cell.status for cell in comparison.cells)
    verdicts = Counter(map(comparison.verdict, compared))
    flips = [sum(len(getattr(cell, side)) for cell in compared) for side in ("worse", "better")]
    sides = _given(comparison)
    within = sides is not None and head.startswith(f"{sides[0]} of ")
    limit = 3 * NAME if within else 2 * NAME
    runs = (
        f"A = {printable(head, limit)}",
        f"B = {printable(base, limit)}",
        "" if within else joined(comparison),
    )
    text = (
        f"{', '.join(filter(None, runs))}: {compared_text(comparison)},"
        f" {verdicts['worse']} worse, {verdicts['better']} better; {counted(flips[0], 'answer')}"
        f" worse, {flips[1]:,} better"
    )
    told = [
        f"{others[status]} {status}"
        for status in ("refused", "error", "missing", "new")
        if others[status]
    ]
    return ", ".join([text, *told])


def joined(comparison: Comparison) -> str:
    """The names that were given, A's first: `sampler random-k2 against confidence-k2`; empty
    without any.
    """
    parts = []
    for kind, names in (("model", comparison.models), ("sampler", comparison.samplers)):
        pairs = [new if new == old else f"{new} against {old}" for new, old in names.items()]
        parts += (
            [f"{kind} {some([printable(pair, 2 * NAME) for pair in pairs], 3)}"] if pairs else []
        )
    return ", ".join(parts)


def rates_shown(comparison: Comparison) -> list[str]:
    """The names of RATES to show: tokens per row and rows where a compared cell's rows aren't its
    calls, tokens forwarded where a side of a compared cell has them.
    """
    pairs = [(cell.rates.get("nfe"), cell.rates.get("rows")) for cell in comparison.of("compared")]
    differ = any(rows is not None and rows != calls for calls, rows in pairs)
    hidden = set() if differ else {"rows", "tokens_per_row"}
    tokens = [cell.rates.get("tokens_forwarded", ()) for cell in comparison.of("compared")]
    if not any(count is not None for sides in tokens for count in sides):
        hidden.add("tokens_forwarded")
    return [name for name in RATES if name not in hidden]


def _columns(cell: CellComparison, rates: Sequence[str]) -> tuple[str, ...]:
    """A cell's entries under the header; rates as `16 → 8.5`, or the one value where both are the
    same.
    """
    interval = (
        ""
        if cell.low is None or cell.high is None
        else f"{signed(100 * cell.low)} to {signed(100 * cell.high)}"
    )
    pairs = ([_number(value) for value in cell.rates.get(name, (None, None))] for name in rates)
    return (
        "–" if cell.base is None else fixed(100 * cell.base),
        "–" if cell.head is None else fixed(100 * cell.head),
        "" if cell.change is None else signed(100 * cell.change),
        interval,
        (
            ""
            if cell.p_adjusted is None
            else "<0.001"
            if cell.p_adjusted < 0.001
            else f"{cell.p_adjusted:.3f}"
        ),
        str(len(cell.worse)),
        str(len(cell.better)),
        *(before if before == after else f"{before} → {after}" for before, after in pairs),
    )


def _number(value: float | None) -> str:
    return "–" if value is None else fixed(value, 2).rstrip("0").rstrip(".")


def _notes(comparison: Comparison) -> list[str]:
    """What the columns mean, and which cells are not in the table."""
    compared = comparison.of("compared")
    unchanged = sum(cell.unchanged for cell in compared)
    others = comparison.left_out
    notes = mean_text(comparison)
    notes += [f"in every cell, B → A: {printable(note, 200)}" for note in _common(comparison)]
    notes += [f"left out, without any change: {counted(unchanged, 'cell')}"] if unchanged else []
    if any(others):
        notes.append(
            f"not compared, under other names: {counted(others[0], 'cell')} of A, {others[1]} of B"
        )
    if comparison.lacking:
        notes.append(
            "not compared, as A never had them:"
            f" {some([printable(name) for name in comparison.lacking], 4)}"
        )
    if unchanged < len(compared):
        names = "; names in cells: B→A" if any(cell.pair.renamed for cell in compared) else ""
        notes.append(
            "scores in %, differences A − B in points; p: two-sided, adjusted for"
            f" {counted(len(compared), 'cell')} (Holm), while a gate's is one-sided; intervals are"
            " not adjusted; worse, better: flipped answers" + names
        )
        shown = rates_shown(comparison)
        notes += [ROWS_NOTE] if "rows" in shown else []
        notes += [FORWARDED_NOTE] if "tokens_forwarded" in shown else []
    return notes


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
        names = [
            f"{flip.index} (seed {flip.seed})" if flip.seed else str(flip.index) for flip in flips
        ]
        parts += [f"{kind} {some(names, FLIPS)}"] if names else []
    return "; ".join(parts)
