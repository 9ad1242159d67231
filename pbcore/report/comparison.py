"""Two runs side by side as text: a table for the terminal, and Markdown for a pull request."""

from collections import Counter
from collections.abc import Sequence

from pbcore.analysis.compare import CellComparison, Comparison
from pbcore.gates.judge import Verdict
from pbcore.gates.text import power_text
from pbcore.printable import counted, fixed, printable, signed
from pbcore.report.cells import ROWS_NOTE
from pbcore.text import NAME, code, md

ROWS = 100  # of the Markdown table: a pull request's comment has room for 65,536 characters
LINES = 40  # of the terminal's
FLIPS = 12  # flipped answers named per cell
SCORES = ("B", "A", "A − B", "95 % interval", "p", "worse", "better")
RATES = {  # column of a comparison → its head, its head and decimals on the page
    "nfe": ("NFE", "NFE", 1),
    "rows": ("rows", "rows", 1),
    "tokens_per_step": ("tok/step", "tokens/step", 2),
    "tokens_per_row": ("tok/row", "tokens/row", 2),
    "samples_per_second": ("samples/s", "samples/s", 1),
}


def comparison_text(comparison: Comparison, head: str, base: str, width: int = 120, limit: int = LINES) -> str:
    """The comparison for a terminal: a headline, the cells that could not be compared by their reason, then a row per
    cell in which something changed, worst first; cells without any change are counted. Where names and columns don't
    fit into `width`, samples/s is left out, then names stand on lines of their own, then the last rates are left out.
    """
    shown, common, rates = _changed(comparison), _common(comparison), rates_shown(comparison)
    table = [_header(rates), *(_columns(cell, rates) for cell in shown[:limit])]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    names = ["cell", *(printable(cell.name, 2 * NAME) for cell in shown[:limit])]
    first = max(map(len, names))
    if first + _wide(widths) > width:
        widths.pop()
    stacked = first + _wide(widths) > width
    while stacked and _wide(widths) > width and len(widths) > len(SCORES):
        widths.pop()
    lines = [headline(comparison, head, base)]
    for reason, ids in _uncompared(comparison).items():
        lines.append(f"  {printable(reason, 300)}: {_some([printable(name) for name in ids], 4)}")
    for name, cell, columns in zip(names, (None, *shown), table if shown else (), strict=False):
        entries = "".join(f"  {text:>{size}}" for text, size in zip(columns, widths, strict=False))
        lines += [name, entries] if stacked else [f"{name:<{first}}{entries}"]
        notes = [] if cell is None else [note for note in cell.differs if note not in common]
        lines += [f"{'':<{0 if stacked else first}}  {printable(note, 300)}" for note in notes]
    if len(shown) > limit:
        lines.append(f"… and {counted(len(shown) - limit, 'more cell')} that changed")
    return "\n".join([*lines, *_notes(comparison)])


def _wide(widths: Sequence[int]) -> int:
    """The room that columns take, with the two blanks before each."""
    return sum(widths) + 2 * len(widths)


def comparison_markdown(
    comparison: Comparison, head: str, base: str, verdict: Verdict | None = None, limit: int = ROWS
) -> str:
    """The comparison as a comment on a pull request: headline, the cells that could not be compared by their reason, a
    table of those that changed, worst first (at most `limit`), and their flipped answers, folded. `verdict`: the
    gate's, whose sentence then comes first."""
    changed, common, rates = _changed(comparison), _common(comparison), rates_shown(comparison)
    shown = changed[:limit]
    lines = [f"### {md(headline(comparison, head, base), 600)}", ""]
    if verdict is not None:
        lines += [_gate(verdict, any(cell.pair.renamed for cell in comparison.cells)), ""]
    for reason, ids in _uncompared(comparison).items():
        lines.append(f"- {md(reason)}: {_some([code(name, 120) for name in ids], FLIPS)}")
    if shown:
        header = _header(rates)
        lines += ["", f"| cell | {' | '.join(header)} |", f"|---|{'---:|' * len(header)}"]
    for cell in shown:
        mark = f"**{_side(cell)}** " if comparison.significant(cell) else ""
        lines.append(f"| {mark}{code(cell.name, 120, cell=True)} | {' | '.join(_columns(cell, rates))} |")
    if len(changed) > limit:
        lines.append(f"\n… and {counted(len(changed) - limit, 'more cell')} that changed.")
    lines += ["", *(f"{md(note, 400)}  " for note in _notes(comparison))]
    for cell in shown:
        if own := [note for note in cell.differs if note not in common]:
            lines.append(f"{code(cell.name, 120)}: {md('; '.join(own), 400)}  ")
    if flipped := [_flipped(cell) for cell in shown if cell.worse or cell.better]:
        lines += ["", "<details><summary>Flipped answers, by sample</summary>", "", *flipped, "", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def _side(cell: CellComparison) -> str:
    return "worse" if (cell.change or 0) < 0 else "better"


def _changed(comparison: Comparison) -> list[CellComparison]:
    """The compared cells in which something changed, worst first."""
    return [cell for cell in comparison.worst_first() if cell.status == "compared" and not cell.unchanged]


def _uncompared(comparison: Comparison) -> dict[str, list[str]]:
    """`refused (other questions …)` → the names of such cells, in the order of `worst_first`."""
    groups: dict[str, list[str]] = {}
    for cell in comparison.worst_first():
        if cell.status != "compared":
            groups.setdefault(f"{cell.status} ({cell.reason})", []).append(cell.name)
    return groups


def _some(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def _gate(verdict: Verdict, by_scores: bool) -> str:
    """The gate's verdict in a sentence or two: what failed, and which drop it can detect."""
    counts = Counter(cell.status for cell in verdict.judgements)
    failed = [cell for cell in verdict.judgements if not cell.ok]
    first = f" (first: {code(failed[0].id, 120)}: {md(failed[0].reason, 200)})" if failed else ""
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    word = f"{'**passed**' if verdict.ok else '**failed**'}{', by scores alone' if by_scores else ''}"
    return f"Gate {word}: {said}{first}; {md(power_text(verdict), 900)}."


def _common(comparison: Comparison) -> list[str]:
    """The conditions that differ in every compared cell, which are stated once."""
    compared = comparison.of("compared")
    return [note for note in compared[0].differs if all(note in cell.differs for cell in compared)] if compared else []


def headline(comparison: Comparison, head: str, base: str) -> str:
    """How many cells were compared, how many changed significantly either way, and how many answers flipped."""
    compared = comparison.of("compared")
    worse = sum(comparison.significant(cell) and (cell.change or 0) < 0 for cell in compared)
    better = sum(comparison.significant(cell) and (cell.change or 0) > 0 for cell in compared)
    flips = [sum(len(getattr(cell, side)) for cell in compared) for side in ("worse", "better")]
    runs = ", ".join(filter(None, (f"A = {printable(head, NAME)}, B = {printable(base, NAME)}", joined(comparison))))
    text = (
        f"{runs}: {counted(len(compared), 'cell')} compared, {worse} worse, {better} better; "
        f"{counted(flips[0], 'answer')} worse, "
        f"{flips[1]:,} better"
    )
    others = Counter(cell.status for cell in comparison.cells)
    told = [f"{others[status]} {status}" for status in ("refused", "error", "missing", "new") if others[status]]
    return ", ".join([text, *told])


def joined(comparison: Comparison) -> str:
    """The names that were given, A's first: `sampler random-k2 against confidence-k2`; empty without any."""
    parts = []
    for kind, names in (("model", comparison.models), ("sampler", comparison.samplers)):
        pairs = [new if new == old else f"{new} against {old}" for new, old in names.items()]
        parts += [f"{kind} {_some([printable(pair, 2 * NAME) for pair in pairs], 3)}"] if pairs else []
    return ", ".join(parts)


def rates_shown(comparison: Comparison) -> list[str]:
    """The names of RATES to show: tokens per row and rows where a compared cell's rows aren't its calls."""
    pairs = [(cell.rates.get("nfe"), cell.rates.get("rows")) for cell in comparison.of("compared")]
    differ = any(rows is not None and rows != calls for calls, rows in pairs)
    return [name for name in RATES if differ or name not in ("rows", "tokens_per_row")]


def _header(rates: Sequence[str]) -> tuple[str, ...]:
    return (*SCORES, *(RATES[name][0] for name in rates))


def _columns(cell: CellComparison, rates: Sequence[str]) -> tuple[str, ...]:
    """A cell's entries under the header; rates as `16 → 8.5`, or the one value where both are the same."""
    interval = "" if cell.low is None or cell.high is None else f"{signed(100 * cell.low)} to {signed(100 * cell.high)}"
    pairs = ([_number(value) for value in cell.rates.get(name, (None, None))] for name in rates)
    return (
        "–" if cell.base is None else fixed(100 * cell.base),
        "–" if cell.head is None else fixed(100 * cell.head),
        "" if cell.change is None else signed(100 * cell.change),
        interval,
        "" if cell.p_adjusted is None else "<0.001" if cell.p_adjusted < 0.001 else f"{cell.p_adjusted:.3f}",
        str(len(cell.worse)),
        str(len(cell.better)),
        *(before if before == after else f"{before} → {after}" for before, after in pairs),
    )


def _number(value: float | None) -> str:
    return "–" if value is None else fixed(value, 2).rstrip("0").rstrip(".")


def _notes(comparison: Comparison) -> list[str]:
    """What the columns mean, and which cells are not in the table."""
    compared = comparison.of("compared")
    unchanged, renamed = sum(cell.unchanged for cell in compared), any(cell.pair.renamed for cell in compared)
    notes = mean_text(comparison)
    notes += [f"in every cell, B → A: {printable(note, 200)}" for note in _common(comparison)]
    notes += [f"left out, without any change: {counted(unchanged, 'cell')}"] if unchanged else []
    if any(comparison.left_out):
        notes.append(
            f"not compared, under other names: {counted(comparison.left_out[0], 'cell')} of A, "
            f"{comparison.left_out[1]} of B"
        )
    if comparison.lacking:
        notes.append(f"not compared, as A never had them: {_some([printable(name) for name in comparison.lacking], 4)}")
    if unchanged == len(compared):
        return notes
    return [
        *notes,
        f"scores in %, differences A − B in points; p: two-sided, adjusted for {counted(len(compared), 'cell')} "
        "(Holm), while a gate's is one-sided; intervals are not adjusted; worse, better: flipped answers"
        f"{'; names in cells: B→A' if renamed else ''}",
        *([ROWS_NOTE] if "rows" in rates_shown(comparison) else []),
    ]


def mean_text(comparison: Comparison) -> list[str]:
    """The sentence on the mean of the compared cells, where there are several."""
    mean = comparison.overall
    if mean.cells < 2:
        return []
    return [
        f"mean of {counted(mean.cells, 'cell')}: B {fixed(100 * mean.base)}, A {fixed(100 * mean.head)}, difference "
        f"{signed(100 * mean.change)}, 95 % interval {signed(100 * mean.low)} to {signed(100 * mean.high)}"
    ]


def _flipped(cell: CellComparison) -> str:
    """`worse 3, 17, 20 (seed 1)`: sample numbers, with the seed where it is not 0."""
    parts = []
    for kind, flips in (("worse", cell.worse), ("better", cell.better)):
        names = [f"{flip.index} (seed {flip.seed})" if flip.seed else str(flip.index) for flip in flips]
        parts += [f"{kind} {_some(names, FLIPS)}"] if names else []
    return f"- {code(cell.name, 120)}: {'; '.join(parts)}"
