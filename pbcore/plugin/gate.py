"""--gate, --floor, --gate-time and --update-baseline: the run judged after its last cell, on the screen, in JUnit and in the exit code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.plugin.options import Settings, given, settings

if TYPE_CHECKING:
    from pbcore.analysis.floors import Floor
    from pbcore.results.rundir import RunDir, StoredCell

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


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

    asked = settings(config)
    try:
        for path in asked.gate:
            read_baseline(path)
    except BaselineError as error:
        raise pytest.UsageError(f"--gate: {error}") from error
    floors(asked)


def floors(asked: Settings) -> list[Floor]:
    """The floors asked for. Raises pytest.UsageError for one that can't be read."""
    from pbcore.analysis.floors import FloorError, parse_floor

    try:
        return [parse_floor(text) for text in asked.floor]
    except FloorError as error:
        raise pytest.UsageError(f"--floor: {error}") from error


def rule(asked: Settings, run: RunDir, complete: bool, rerun: Any) -> Ruling:
    """Judges a run by what was asked for; a run that lacks cells writes no baseline. `rerun(cell_id, sample)` gives a command."""
    from pbcore.analysis.gate import judge
    from pbcore.report.gates import gate_markdown, gate_text
    from pbcore.results.baseline import read_baseline

    ruling, stored = Ruling(), run.read_cells()
    demands = floors(asked)
    for path in asked.gate:
        # Floors are judged once, with the first baseline.
        verdict = judge(stored, read_baseline(path), asked.gate_level, demands)
        demands = []
        ruling.text.append(gate_text(verdict, str(path), rerun))
        ruling.markdown.append(gate_markdown(verdict, str(path), rerun))
        ruling.failures += [
            (f"{path}::{found.id}", f"{found.status}: {found.reason}") for found in verdict.judgements if not found.ok
        ]
    if demands:
        _rule_on_floors(demands, stored, ruling)
    if asked.gate_time is not None:
        _rule_on_time(asked, run, stored, ruling)
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


def _rule_on_time(asked: Settings, run: RunDir, stored: Sequence[StoredCell], ruling: Ruling) -> None:
    """Timings against each baseline that has some; a file of --update-baseline has none, for they hold on one machine only."""
    from pbcore.analysis.timing import judge_timing
    from pbcore.results.rundir import open_run

    assert asked.gate_time is not None
    for path in asked.gate:
        if not path.is_dir():
            ruling.text.append(f"timing not judged: {path} holds no timings; give a run directory of this machine")
            continue
        base_run = open_run(path)
        base = {entry.cell.id: entry.cell for entry in base_run.read_cells() if entry.cell.status == "ok"}
        machines = {
            "head_machine": run.read_run().get("machine", {}),
            "base_machine": base_run.read_run().get("machine", {}),
        }
        said: dict[str, list[str]] = {}
        for cell in (entry.cell for entry in stored if entry.cell.status == "ok" and entry.cell.id in base):
            shared = cell.shared_device or base[cell.id].shared_device
            verdict = judge_timing(cell.rounds, base[cell.id].rounds, asked.gate_time, shared=shared, **machines)
            if not verdict.ok:
                ruling.failures.append((f"time against {path}::{cell.id}", verdict.reason))
            said.setdefault("judged" if verdict.judged else verdict.reason, []).append(
                cell.id if verdict.ok else f"{cell.id} ({verdict.reason})"
            )
        ruling.text += _timing_lines(
            said, [failure for failure in ruling.failures if failure[0].startswith("time ")], path
        )


def _timing_lines(said: dict[str, list[str]], slower: Sequence[tuple[str, str]], path: Path) -> Iterable[str]:
    judged = said.pop("judged", [])
    yield (
        f"timing {'FAILED' if slower else 'passed'} against {path}: {len(judged)} cells judged, {len(slower)} slower"
        if judged
        else f"timing against {path}:"
    )
    yield from (f"  SLOWER   {name.partition('::')[2]}: {reason}" for name, reason in slower[:8])
    yield from (f"  {len(cells)} cells: {reason}" for reason, cells in said.items())


def _update(path: Path, stored: Sequence[StoredCell], complete: bool, ruling: Ruling) -> str:
    from pbcore.results.baseline import BaselineError, write_baseline

    try:
        if not complete:
            raise BaselineError("no baseline written: the run is not complete")
        return f"baseline written: {write_baseline(path, stored)} ({len(stored)} cells)"
    except (BaselineError, OSError) as error:
        ruling.failures.append((f"update of {path}", str(error)))
        return str(error)


def publish(ruling: Ruling, run: RunDir, config: pytest.Config) -> None:
    """Puts the ruling where it will be looked for: gate.md of the run, a CI's step summary, and a failed test per failed cell."""
    if ruling.markdown:
        text = "\n".join(ruling.markdown)
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
