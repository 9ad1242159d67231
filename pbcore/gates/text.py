"""A gate's verdict as text: one screen for the terminal, all of it in Markdown for a CI's step summary."""

from collections import Counter
from collections.abc import Callable

from pbcore.gates.judge import Judgement, Verdict
from pbcore.printable import command_line, counted, printable
from pbcore.text import code, listed, md

Rerun = Callable[[str, int], str]
LISTED = 12  # flipped samples named per cell
FAILED = (("worse",), ("slower",), ("error", "refused"), ("missing",), ("floor",))  # in the order of the text


def rerun_command(cell_id: str, sample: int) -> str:
    """The command that reruns one sample of a cell, with its prompt, answer and trajectory."""
    model, task, sampler, *level = cell_id.rsplit("/", 3 if ":" in cell_id.rpartition("/")[2] else 2)
    factors = [word for one in level for part in one.split("+") for word in ("--factor", part.replace(":", "="))]
    words = ("--model", model, "--task", task, "--sampler", sampler, *factors, "--sample", str(sample))
    return command_line(["pytest", "benches", *words])


def gate_text(verdict: Verdict, name: str = "baseline", rerun: Rerun = rerun_command, limit: int = 8) -> str:
    """The verdict on one screen: failures first (at most `limit`, the rest counted), flips with commands, drops."""
    failed = [cell for status in FAILED for cell in verdict.of(*status)]
    lines = [_headline(verdict, name)]
    reasons = [f"  {cell.status.upper():<8} {printable(cell.id)}: {printable(cell.reason, 600)}" for cell in failed]
    flips = [f"\n           {_flips(cell)}{_again(cell, rerun)}" if cell.newly_wrong else "" for cell in failed]
    lines += listed([reason + flip for reason, flip in zip(reasons, flips, strict=True)], limit)
    flipped = [cell for cell in verdict.of("passed") if cell.newly_wrong or cell.newly_right]
    commands = [f"  flipped  {printable(cell.id)}: {_flips(cell)}{_again(cell, rerun)}" for cell in flipped]
    lines += listed(commands, limit, " cells with flipped samples")
    if new := verdict.of("new"):
        names = ", ".join(printable(cell.id) for cell in new[:4])
        lines.append(f"  new, not judged: {names}{' …' if len(new) > 4 else ''} ({len(new)})")
    return "\n".join([*lines, f"  {power_text(verdict)}"])


def _again(cell: Judgement, rerun: Rerun) -> str:
    """The command for the first sample that is newly wrong, if there is one."""
    return f": {printable(rerun(cell.id, cell.newly_wrong[0]), 1000)}" if cell.newly_wrong else ""


def gate_markdown(verdict: Verdict, name: str = "baseline", rerun: Rerun = rerun_command) -> str:
    """The verdict in Markdown: every cell that failed, flipped or is new."""
    header = ["| cell | verdict | why | newly wrong | newly right |", "|---|---|---|---|---|"]
    lines = [f"### {md(_headline(verdict, name))}", "", power_text(verdict), "", *header]
    for cell in verdict.judgements:
        if not cell.ok or cell.status == "new" or cell.newly_wrong or cell.newly_right:
            flips = f"{_ids(cell.newly_wrong)} | {_ids(cell.newly_right)}"
            lines.append(f"| {code(cell.id, cell=True)} | {cell.status} | {md(cell.reason, 600)} | {flips} |")
    commands = [
        printable(rerun(cell.id, sample), 1000) for cell in verdict.judgements for sample in cell.newly_wrong[:LISTED]
    ]
    if commands:
        lines += ["", f"Rerun the newly wrong samples (the first {LISTED} of each cell):", "", "```", *commands, "```"]
    return "\n".join(lines) + "\n"


def power_text(verdict: Verdict) -> str:
    """The smallest drop that this gate can detect, in one sentence."""
    if not verdict.judged:
        return "nothing was compared, so no drop is detectable"
    drop = "no drop" if verdict.detectable is None else f"a drop of {100 * verdict.detectable:.1f} points"
    text = (
        f"at {counted(verdict.smallest_n, 'sample')} and {counted(verdict.judged, 'test')} (Holm, "
        f"{100 * verdict.level:g} % false alarms per run) {drop} is detectable in one cell with 80 % power, assuming "
        "no answer improves"
    )
    if verdict.churn:
        churn_drop = "none" if verdict.detectable_churn is None else f"{100 * verdict.detectable_churn:.1f} points"
        text += f", and {churn_drop} at this run's rate of two-way flips ({100 * verdict.churn:.1f} %)"
    if verdict.detectable_graded:
        points = f"{100 * verdict.detectable_graded:.1f} points"
        text += f"; for means over seeds and graded scores up to {points}, depending on the cell"
    return text


def _headline(verdict: Verdict, name: str) -> str:
    counts = Counter(judgement.status for judgement in verdict.judgements)
    return f"gate {'PASSED' if verdict.ok else 'FAILED'} against {name}: " + ", ".join(
        f"{count} {status}" for status, count in sorted(counts.items())
    )


def _flips(cell: Judgement) -> str:
    kinds = (("newly wrong", cell.newly_wrong), ("newly right", cell.newly_right))
    return "; ".join(f"{kind} {_ids(ids)}" for kind, ids in kinds if ids)


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids[:LISTED])) + (f" … ({len(ids)})" if len(ids) > LISTED else "")
