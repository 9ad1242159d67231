"""A gate's verdict as text: on one screen in the terminal, in full in Markdown for a CI's step summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pbcore.analysis.gate import Judgement, Verdict

Rerun = Callable[[str, int], str]
LISTED = 12  # flipped samples named per cell


def rerun_command(cell_id: str, sample: int) -> str:
    """The command that reruns one sample of a cell, with its prompt, answer and trajectory."""
    return f'pytest benches -k "{" and ".join(cell_id.rsplit("/", 2))}" --sample {sample}'


def gate_text(verdict: Verdict, name: str = "baseline", rerun: Rerun = rerun_command, limit: int = 8) -> str:
    """The verdict on a screen: failures first (at most `limit`, the rest counted), flipped samples with commands, what it could see."""
    lines = [_headline(verdict, name)]
    failed = (
        verdict.of("worse")
        + verdict.of("slower")
        + verdict.of("error", "refused")
        + verdict.of("missing")
        + verdict.of("floor")
    )
    for found in failed[:limit]:
        lines.append(f"  {found.status.upper():<8} {found.id}: {found.reason}")
        if found.newly_wrong:
            lines.append(f"           {_flips(found)}: {rerun(found.id, found.newly_wrong[0])}")
    if len(failed) > limit:
        lines.append(f"  … and {len(failed) - limit} more")
    flipped = [found for found in verdict.of("passed") if found.newly_wrong or found.newly_right]
    for found in flipped[:limit]:
        command = f": {rerun(found.id, found.newly_wrong[0])}" if found.newly_wrong else ""
        lines.append(f"  flipped  {found.id}: {_flips(found)}{command}")
    if len(flipped) > limit:
        lines.append(f"  … and {len(flipped) - limit} more cells with flipped samples")
    new = verdict.of("new")
    if new:
        lines.append(
            f"  new, not judged: {', '.join(found.id for found in new[:4])}{' …' if len(new) > 4 else ''} ({len(new)})"
        )
    return "\n".join([*lines, f"  {power_text(verdict)}"])


def gate_markdown(verdict: Verdict, name: str = "baseline", rerun: Rerun = rerun_command) -> str:
    """The verdict in Markdown: every cell that failed, flipped or is new."""
    lines = [
        f"### {_headline(verdict, name)}",
        "",
        power_text(verdict),
        "",
        "| cell | verdict | why | newly wrong | newly right |",
        "|---|---|---|---|---|",
    ]
    for found in verdict.judgements:
        if not found.ok or found.status == "new" or found.newly_wrong or found.newly_right:
            reason = found.reason.replace("|", "\\|")
            lines.append(
                f"| `{found.id}` | {found.status} | {reason} | {_ids(found.newly_wrong)} | {_ids(found.newly_right)} |"
            )
    commands = [rerun(found.id, sample) for found in verdict.judgements for sample in found.newly_wrong[:LISTED]]
    if commands:
        lines += ["", f"Rerun the newly wrong samples (the first {LISTED} of each cell):", "", "```", *commands, "```"]
    return "\n".join(lines) + "\n"


def power_text(verdict: Verdict) -> str:
    """Which drop this gate could have caught, in one sentence."""
    if not verdict.judged:
        return "nothing was compared, so no drop could have been caught"
    clean = "no drop" if verdict.detectable is None else f"a drop of {100 * verdict.detectable:.1f} points"
    text = (
        f"at {verdict.smallest_n} samples and {verdict.judged} tests (Holm, {100 * verdict.level:g} % false alarms per run) "
        f"one cell shows {clean} with 80 % power if answers only break"
    )
    if verdict.churn:
        noisy = "none" if verdict.detectable_churn is None else f"{100 * verdict.detectable_churn:.1f} points"
        text += f", and {noisy} at the two-way flips seen here ({100 * verdict.churn:.1f} %)"
    if verdict.detectable_graded:
        text += f"; means over seeds and graded scores show {100 * verdict.detectable_graded:.1f} points where they scatter most"
    return text


def _headline(verdict: Verdict, name: str) -> str:
    counts = Counter(found.status for found in verdict.judgements)
    return f"gate {'PASSED' if verdict.ok else 'FAILED'} against {name}: " + ", ".join(
        f"{count} {status}" for status, count in sorted(counts.items())
    )


def _flips(found: Judgement) -> str:
    parts = [
        f"{kind} {_ids(ids)}"
        for kind, ids in (("newly wrong", found.newly_wrong), ("newly right", found.newly_right))
        if ids
    ]
    return "; ".join(parts)


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids[:LISTED])) + (f" … ({len(ids)})" if len(ids) > LISTED else "")
