"""The gate's verdict as text: one screen for the terminal, all of it in Markdown for a CI's step
summary.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from pbcore.analysis.paired import Paired, detectable_drop, detectable_shift
from pbcore.gates.judge import Judgement, Verdict
from pbcore.printable import command_line, counted, printable, some
from pbcore.tabular import Code, Table, markdown
from pbcore.text import first_lines, md

LISTED = 12  # flipped samples named per cell
# In the order of the text.
FAILURES = (("worse",), ("changed",), ("slower",), ("error", "refused"), ("missing",), ("floor",))
Rerun = Callable[[str, int], str]


def rerun_command(cell_id: str, sample: int) -> str:
    """The command that reruns one sample of a cell, with its prompt, answer and trajectory."""
    last = cell_id.rpartition("/")[2]
    at_level = ":" in last
    model, task, sampler = cell_id.removesuffix(f"/{last}" if at_level else "").rsplit("/", 2)
    words = ["pytest", "benches", "--model", model, "--task", task, "--sampler", sampler]
    if at_level:
        for factor in last.split("+"):
            words += ["--factor", factor.replace(":", "=")]
    return command_line([*words, "--sample", str(sample)])


def gate_text(
    verdict: Verdict,
    name: str = "baseline",
    rerun: Rerun = rerun_command,
    limit: int = 8,
    first: str = "",
) -> str:
    """The verdict on one screen: failures first, flips with commands, drops.

    Args:
        verdict: the verdict.
        name: the baseline, as the first line names it.
        rerun: gives the command that runs one sample of a cell again.
        limit: failures that are named; the rest are counted.
        first: what stands in place of the first line.
    """
    failures = []
    for statuses in FAILURES:
        for cell in verdict.of(*statuses):
            reason = printable(cell.reason, 600)
            failures.append(f"  {cell.status.upper():<8} {printable(cell.id)}: {reason}")
            if cell.paired.worse:
                failures[-1] += f"\n           {_flips(cell, rerun)}"
    flipped = []
    for cell in verdict.of("passed"):
        if cell.paired.worse or cell.paired.better:
            flipped.append(f"  flipped  {printable(cell.id)}: {_flips(cell, rerun)}")
    lines = [first or _headline(verdict, name), *first_lines(failures, limit)]
    lines += first_lines(flipped, limit, " cells with flipped samples")
    new = [printable(cell.id) for cell in verdict.of("new")]
    if new:
        names = ", ".join(new[:4])
        if len(new) > 4:
            names += " …"
        lines.append(f"  new, not judged: {names} ({len(new)})")
    return "\n".join([*lines, f"  {power_text(verdict)}"])


def gate_markdown(verdict: Verdict, name: str = "baseline", rerun: Rerun = rerun_command) -> str:
    """The verdict in Markdown: every cell that failed, flipped or is new.

    Args:
        verdict: on a run.
        name: the baseline's, in the headline.
        rerun: cell id and sample → the command that runs this sample again.
    """
    worse, better = _kinds(all(cell.paired.binary for cell in verdict.judgements))
    lines = [f"### {md(_headline(verdict, name))}", "", power_text(verdict), ""]
    rows: list[list[str]] = []
    commands = []
    for cell in verdict.judgements:
        wrong = cell.paired.worse
        right = cell.paired.better
        if not cell.ok or cell.status == "new" or wrong or right:
            about = [Code(printable(cell.id, 300)), cell.status, printable(cell.reason, 600)]
            rows.append([*about, some(wrong, LISTED), some(right, LISTED)])
        commands += [printable(rerun(cell.id, sample), 1000) for sample in wrong[:LISTED]]
    lines.append(markdown(Table(["cell", "verdict", "why", worse, better], rows)))
    if commands:
        lines += ["", f"Rerun the samples that got worse (the first {LISTED} of each cell):", ""]
        lines += ["```", *commands, "```"]
    return "\n".join(lines) + "\n"


def power_text(verdict: Verdict) -> str:
    """The smallest true drop that these tests detect with 80 % power in one cell, in a sentence: in
    the cell with the fewest samples if no answer improves, and at this run's rate of two-way flips;
    of means over seeds and graded scores in the cell where it is largest. All at Holm's strictest
    level.
    """
    compared = [judgement.paired for judgement in verdict.judgements if judgement.p]
    if not compared:
        return "nothing was compared, so no drop is detectable"
    strictest = verdict.level / verdict.tests
    fewest = min(paired.n for paired in compared)
    churn = _two_way_flips([paired for paired in compared if paired.binary])
    text = (
        f"at {counted(fewest, 'sample')} and {counted(verdict.tests, 'test')} (Holm,"
        f" {100 * verdict.level:g} % false alarms per run)"
        f" {_drop_text(fewest, 0.0, strictest, 'a drop of ') or 'no drop'} is detectable in one"
        " cell with 80 % power, assuming no answer improves"
    )
    if churn:
        text += (
            f", and {_drop_text(fewest, churn, strictest) or 'none'} at this run's rate of two-way"
            f" flips ({100 * churn:.1f} %)"
        )
    shifts = [
        detectable_shift(paired.n, paired.spread, level=strictest) or 0.0
        for paired in compared
        if not paired.binary
    ]
    largest = max(shifts, default=0.0)
    if largest:
        text += (
            f"; for means over seeds and graded scores up to {100 * largest:.1f} points, depending"
            " on the cell"
        )
    return text


def _two_way_flips(compared: Sequence[Paired]) -> float:
    """The share of samples that flip in both directions by chance; at most .45, beyond which the
    tests detect nothing.
    """
    flips = sum(min(len(paired.worse), len(paired.better)) for paired in compared)
    samples = sum(paired.n for paired in compared)
    return min(0.45, flips / max(1, samples))


def _drop_text(n: int, churn: float, level: float, before: str = "") -> str:
    """The smallest drop that `n` samples show with 80 % power; empty if none does."""
    drop = detectable_drop(n, churn=churn, level=level)
    return "" if drop is None else f"{before}{100 * drop:.1f} points"


def counts_text(verdict: Verdict) -> str:
    """`1 missing, 3 passed`."""
    counts = Counter(judgement.status for judgement in verdict.judgements)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _headline(verdict: Verdict, name: str) -> str:
    outcome = "PASSED" if verdict.ok else "FAILED"
    weights = f" ({verdict.weights})" if verdict.weights else ""
    return f"gate {outcome} against {name}{weights}: {counts_text(verdict)}"


def _kinds(binary: bool) -> tuple[str, str]:
    """What scores that fell and that rose are called."""
    return ("newly wrong", "newly right") if binary else ("worse", "better")


def _flips(cell: Judgement, rerun: Rerun) -> str:
    """The flipped samples, and the command for the first that is newly wrong, if there is one."""
    worse, better = _kinds(cell.paired.binary)
    parts = []
    if cell.paired.worse:
        parts.append(f"{worse} {some(cell.paired.worse, LISTED)}")
    if cell.paired.better:
        parts.append(f"{better} {some(cell.paired.better, LISTED)}")
    text = "; ".join(parts)
    if not cell.paired.worse:
        return text
    return f"{text}: {printable(rerun(cell.id, cell.paired.worse[0]), 1000)}"
