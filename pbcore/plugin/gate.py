"""--gate, --floor, --gate-time and --update-baseline: the run judged after its last cell, on the screen, in JUnit and in the exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.grid.settings import Settings
from pbcore.plugin.options import given, on_command_line
from pbcore.plugin.state import plan, settings

if TYPE_CHECKING:
    from pbcore.analysis.floors import Floor
    from pbcore.grid.plan import Plan
    from pbcore.results.rundir import RunDir, StoredCell
    from pbcore.timing.gate import Timings

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
VERDICTS = ("gate", "floor", "gate-time", "update-baseline")  # the options that ask for a verdict on the run


@dataclass(slots=True)
class Ruling:
    """What the gates said: text for the screen, failures as (name, reason) for JUnit, Markdown for a CI's step summary."""

    text: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Baselines and floors that can't be read end the run before it starts."""
    if not given(config) or hasattr(config, "workerinput"):
        return
    from pbcore.results.baseline import BaselineError, read_baseline
    from pbcore.timing.interleaved import BaseError, check_base

    asked = settings(config)
    try:
        for path in asked.gate:
            read_baseline(path)
    except BaselineError as error:
        raise pytest.UsageError(f"--gate: {error}") from error
    try:
        if asked.against is not None:
            check_base(asked.against)
    except BaseError as error:
        raise pytest.UsageError(f"--against: {error}") from error
    floors(asked)
    if on_command_line(config, *VERDICTS) and plan(config).numbered:
        raise pytest.UsageError(
            f"{' and '.join(on_command_line(config, *VERDICTS))}: single samples can't be judged by a gate; drop one of the two"
        )


def unjudged(config: pytest.Config) -> Ruling:
    """The ruling on a run without any cell. What the command line asks for fails; what only an ini file sets is said to be unused, since
    the project's other tests run under it, too."""
    if not given(config) or not settings(config).gated:
        return Ruling()
    requested = on_command_line(config, *VERDICTS)
    if not requested:
        return Ruling([f"no cell in this run: what {config.inipath} sets as gates and floors was not applied"])
    reason = f"{' and '.join(requested)}: the run has no cell, so nothing was judged; check the paths, -k and --task"
    return Ruling([f"gate FAILED: {reason}"], [("no cell", reason)], [f"### gate FAILED\n\n{reason}\n"])


def floors(asked: Settings) -> list[Floor]:
    """The floors asked for. Raises pytest.UsageError for one that can't be read."""
    from pbcore.analysis.floors import FloorError, parse_floor

    try:
        return [parse_floor(text) for text in asked.floor]
    except FloorError as error:
        raise pytest.UsageError(f"--floor: {error}") from error


def rule(the_plan: Plan, run: RunDir, complete: bool, rerun: Any, say: Callable[[str], None]) -> Ruling:
    """Judges a run by what was asked for; a run that lacks cells writes no baseline. `rerun(cell_id, sample)` gives a command,
    `say` shows what is being timed."""
    from pbcore.analysis.gate import judge
    from pbcore.report.gates import gate_markdown, gate_text
    from pbcore.results.baseline import read_baseline

    asked, ruling, stored = the_plan.settings, Ruling(), run.read_cells()
    demands = floors(asked)
    baselines = {path: read_baseline(path) for path in asked.gate}
    for path, baseline in baselines.items():
        # Floors are judged once, with the first baseline.
        verdict = judge(stored, baseline, asked.gate_level, demands)
        demands = []
        ruling.text.append(gate_text(verdict, str(path), rerun))
        ruling.markdown.append(gate_markdown(verdict, str(path), rerun))
        failed = [
            (f"{path}::{found.id}", f"{found.status}: {found.reason}") for found in verdict.judgements if not found.ok
        ]
        if not verdict.judged and not failed:
            failed = [(str(path), "the baseline has a row of no cell of this run, so nothing was judged")]
            ruling.text.append(f"gate FAILED against {path}: {failed[0][1]}")
        ruling.failures += failed
    if demands:
        _rule_on_floors(demands, stored, ruling)
    if asked.gate_time is not None:
        from pbcore.timing import gate as timing

        gated = {name for baseline in baselines.values() for name in baseline} if baselines else None
        _rule_on_time(timing.judge(the_plan, run, complete, gated, say), ruling)
    if asked.update_baseline is not None:
        ruling.text.append(_update(asked.update_baseline, stored, complete, ruling))
    return ruling


def _rule_on_floors(demands: Sequence[Floor], stored: Sequence[StoredCell], ruling: Ruling) -> None:
    """Floors without a baseline: the cells below them, and nothing about comparisons that nobody asked for."""
    from pbcore.analysis.floors import broken_floors

    broken = broken_floors(demands, [entry.cell for entry in stored])
    title = f"floors {'BROKEN' if broken else 'kept'}: {len(demands)} asked for, {len(broken)} cells below"
    ruling.text += [title, *(f"  FLOOR    {name}: {reason}" for name, reason in broken[:8])]
    if len(broken) > 8:
        ruling.text.append(f"  … and {len(broken) - 8} more")
    ruling.markdown.append(
        "\n".join([f"### {title}", "", *(f"- `{name}`: {reason}" for name, reason in broken)]) + "\n"
    )
    ruling.failures += [(f"floors::{name}", reason) for name, reason in broken]


def _rule_on_time(found: Sequence[Timings], ruling: Ruling) -> None:
    for timings in found:
        ruling.text += timings.lines()
        ruling.markdown.append(timings.markdown())
        ruling.failures += [(f"time against {timings.base}::{name}", reason) for name, reason in timings.slower]
    if not any(verdict.judged for timings in found for verdict in timings.verdicts.values()):
        reason = "no cell's time could be judged, for the reasons given with each base"
        ruling.text.append(f"timing FAILED: {reason}")
        ruling.failures.append(("time", reason))


def _update(path: Path, stored: Sequence[StoredCell], complete: bool, ruling: Ruling) -> str:
    from pbcore.results.baseline import BaselineError, write_baseline

    try:
        if not complete:
            raise BaselineError("no baseline written: the run is not complete")
        return f"baseline written: {write_baseline(path, stored)} ({len(stored)} cells)"
    except (BaselineError, OSError) as error:
        ruling.failures.append((f"update of {path}", str(error)))
        return str(error)


def publish(ruling: Ruling, run: RunDir | None, config: pytest.Config) -> None:
    """Writes the ruling to gate.md of the run (if there is one) and a CI's step summary, and reports a failed test per failed cell."""
    if ruling.markdown:
        text = "\n".join(ruling.markdown)
        if run is not None:
            (run.path / "gate.md").write_text(text, encoding="utf-8")
        if os.environ.get(STEP_SUMMARY):
            with Path(os.environ[STEP_SUMMARY]).open("a", encoding="utf-8") as stream:
                stream.write(text)
    for name, reason in ruling.failures:
        for when, outcome in (("call", "failed"), ("teardown", "passed")):
            report = pytest.TestReport(
                nodeid=f"gate::{name}", location=("gate", None, name), keywords={}, outcome=outcome,  # type: ignore[arg-type]
                longrepr=reason if outcome == "failed" else None, when=when,  # type: ignore[arg-type]
            )  # fmt: skip
            config.hook.pytest_runtest_logreport(report=report)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """A gate's failure counts as failed, but has no place in the row of dots: it comes after the last test."""
    if not report.nodeid.startswith("gate::"):
        return None
    return ("failed" if report.failed else ""), "", ""
