"""What a run shows in the terminal at its end: scores, then the answer, a verdict per model, then
counts, wrong answers by kind and errors.
"""

from collections import Counter
from collections.abc import Sequence

from pbcore.base.printable import counted, first_line, printable
from pbcore.base.tabular import terminal
from pbcore.base.text import first_lines, folded, name
from pbcore.report.cells import (
    names_once,
    rates_beside,
    served_sections,
)
from pbcore.report.columns import MODEL, SAMPLER, decimals, score_column
from pbcore.report.headline import headline_text
from pbcore.report.matrix import matrices
from pbcore.report.report import Report
from pbcore.report.rows import CellRow
from pbcore.report.scopes import Scope, overview
from pbcore.report.sections import Section
from pbcore.report.tables import note_lines, trade_off_terminals, with_intervals_aligned
from pbcore.results.record import CellRecord


def summary(report: Report, width: int = 100, detailed: bool = False, verdict: str = "") -> str:
    """The scores of a run as text, its verdict, then counts, failure kinds and errors, and what was
    measured. Empty for no cells.

    Args:
        report: the run's.
        width: columns of the terminal.
        detailed: a trade-off table per category, with intervals and each task's speed, in place of
            a matrix per model.
        verdict: what `answer` says, or a gate; empty for none.
    """
    cells = report.records
    if not cells:
        return ""
    if detailed:
        parts = trade_off_terminals(report.categories, width)
    else:
        parts = matrices(report.whole, width)
    if parts and report.rates_note:
        parts[-1] = "\n".join([parts[-1], *note_lines(report.rates_note, width)])
    parts += [verdict] if verdict else []
    lines: list[str] = []
    for line in [*_facts(cells, report.rows), *_failures(cells)]:
        lines += folded(line, width)
    lines += _errors(cells)  # whole, as some hold a command
    if detailed:
        lines += folded(printable(f"measured: {report.measured}", 1000), width)
    return "\n\n".join([*parts, "\n".join(lines)])


def answer(report: Report, width: int = 100, detailed: bool = False) -> str:
    """The answer of a run: a verdict per model, what changes with each factor that has several
    levels, and why answers are wrong where that was looked for. Empty for no cells.

    Args:
        report: the run's, whose answers the verdicts compare.
        width: columns of the terminal.
        detailed: with the means over each model's tasks, and their intervals.
    """
    if not report.rows:
        return ""
    parts = [
        "\n".join(headline_text(report.told, width)),
        "\n".join(_means(report.whole)) if detailed else "",
    ]
    for section in (report.prices, report.factors, report.blame):
        parts.append(section.terminal(width).rstrip())
    return "\n\n".join(part for part in parts if part)


def _means(whole: Scope) -> list[str]:
    """Means over all tasks; nothing for a single task, whose scores stand in its table."""
    if len(whole.tasks) < 2:
        return []
    measures = rates_beside(whole.records)
    title = "means over each model's own tasks: score in % [95 % interval], then "
    title += ", ".join(rate.head for rate in measures)
    columns = [MODEL, SAMPLER, score_column("score")]
    columns += [decimals(rate.key, rate.head) for rate in measures]
    rows = Section(title, "means", "", columns, overview(whole)).table().rows
    return [title, terminal(with_intervals_aligned(rows, [""] * (len(columns) - 2)))]


def _facts(cells: list[CellRecord], rows: Sequence[CellRow]) -> list[str]:
    """How many cells, samples and seconds, and what is special about them, a line each."""
    ran = [cell for cell in cells if cell.status == "ok"]
    times = [cell.seconds for cell in ran if cell.seconds is not None]
    samples = sum(cell.n_samples for cell in ran)
    time = f"{sum(times):.1f} s of decoding"
    if len(times) < len(ran):
        time += f" ({len(ran) - len(times)} without a time of their own)"
    data = names_once(cell.conditions.data_source or "unknown" for cell in cells)
    lines = [f"{counted(len(cells), 'cell')}, {counted(samples, 'sample')}, {time}; data: {data}"]
    lines += _shared_forwards(ran)
    dummies = {cell.model for cell in cells if cell.conditions.dummy}
    if dummies:
        lines.append(
            f"left out of the tables (random weights, for timing only): {names_once(dummies)}"
        )
    remote = {cell.model for cell in cells if (cell.conditions.model_info or {}).get("remote_code")}
    if remote:
        lines.append(f"code that came with the checkpoint was run: {names_once(remote)}")
    late = sum(cell.text_after_eos or 0 for cell in ran)
    if late:
        scored = "not scored (--official-text scores it)"
        if any(cell.conditions.options.get("official_text") for cell in ran):
            scored = "scored (--official-text)"
        lines.append(f"{counted(late, 'answer')} with text after the first EOS, {scored}")
    thinking = sum(cell.unclosed_think or 0 for cell in ran)
    if thinking:
        lines.append(
            f"{counted(thinking, 'answer')} with a <think> that isn't closed, whose text is scored"
            " (as the official code does)"
        )
    for _, served_lines in served_sections(row for row in rows if row["status"] == "ok"):
        lines += served_lines
    if any(cell.conditions.shared_device for cell in ran):
        lines.append("timings are inexact: workers shared a device")
    return lines


def _shared_forwards(ran: list[CellRecord]) -> list[str]:
    """The line on forwards that cells shared, if they did."""
    computed = sum(cell.forwards_computed or 0 for cell in ran)
    asked_for = computed + sum(cell.forwards_shared or 0 for cell in ran)
    if not asked_for:
        return []
    seconds = sum(cell.seconds_estimated or 0 for cell in ran)
    return [
        f"forwards shared between cells: {asked_for:,} asked for, {computed:,} computed; without"
        f" sharing about {seconds:,.0f} s (estimated: forwards × seconds per forward)"
    ]


def _failures(cells: list[CellRecord]) -> list[str]:
    counts: Counter[str] = Counter()
    for cell in cells:
        if not cell.conditions.dummy:
            counts += Counter(cell.failures)
    kinds = ", ".join(f"{name(kind)} {count}" for kind, count in counts.most_common(8))
    return [f"wrong answers by kind: {kinds}"] if kinds else []


def _errors(cells: list[CellRecord]) -> list[str]:
    """A line per cause: a model that can't be loaded fails all of its cells alike."""
    failed = [cell for cell in cells if cell.status != "ok"]
    if not failed:
        return []
    ids_by_cause: dict[str, list[str]] = {}
    for cell in failed:
        cause = first_line(cell.error or "no cause recorded", 320)
        ids_by_cause.setdefault(cause, []).append(printable(cell.id))
    causes = []
    for cause, ids in ids_by_cause.items():
        more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        causes.append(f"  {ids[0]}{more}: {cause}")
    return [f"{counted(len(failed), 'cell')} could not be run:", *first_lines(causes, 10)]
