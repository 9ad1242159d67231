"""--gate, --floor, --gate-time and --update-baseline: read before the run; the ruling in JUnit and
where CI looks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pbcore.plugin.options import is_typed, on_command_line, usage_errors
from pbcore.plugin.state import plan, settings

if TYPE_CHECKING:
    from pbcore.analysis.run_verdict import Ruling
    from pbcore.results.rundir import RunDir

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def verdict_options(config: pytest.Config) -> list[str]:
    """The options on the command line that request a verdict on the run."""
    return on_command_line(config, "gate", "floor", "gate-time", "update-baseline")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Baselines and floors that can't be read end the run before it starts."""
    if not settings(config).gated or hasattr(config, "workerinput"):
        return
    from pbcore.analysis.run_verdict import check_gates

    with usage_errors():
        check_gates(settings(config), plan(config).models)
    typed = [name for name in verdict_options(config) if is_typed(config, name)]
    if (requested := " and ".join(typed)) and plan(config).numbered:
        raise pytest.UsageError(
            f"{requested}: single samples can't be judged by a gate; drop one of the two"
        )


def publish(ruling: Ruling, run: RunDir | None, config: pytest.Config) -> None:
    """Writes the ruling to the run's facts, gate.md and a CI's step summary, and reports a failed
    test per failed cell.

    Args:
        ruling: on the whole run.
        run: None writes no files.
        config: whose hooks get the failed tests.
    """
    if run is not None and ruling.text:
        facts = {"gate": ruling.text, "gate_failed": bool(ruling.failures)}
        run.write_run({**run.read_run(), **facts})
    if ruling.markdown:
        text = "\n".join(ruling.markdown)
        if run is not None:
            (run.path / "gate.md").write_text(text, encoding="utf-8")
        if os.environ.get(STEP_SUMMARY):
            with Path(os.environ[STEP_SUMMARY]).open("a", encoding="utf-8") as stream:
                stream.write(text)
    for name, reason in ruling.failures:
        _report(config, name, "failed", reason)
    for name, reason in ruling.kept:
        _report(config, name, "passed", reason)


def _report(config: pytest.Config, name: str, outcome: str, reason: str) -> None:
    """Reports a cell's verdict as a test of its own; JUnit has the reason as a property, too."""
    for when, result in (("call", outcome), ("teardown", "passed")):
        report = pytest.TestReport(
            nodeid=f"gate::{name}",
            location=("gate", None, name),
            keywords={},
            outcome=result,  # type: ignore[arg-type]
            longrepr=reason if result == "failed" else None,
            when=when,  # type: ignore[arg-type]
            user_properties=[("verdict", reason)],
        )
        config.hook.pytest_runtest_logreport(report=report)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """A gate's failure is counted by itself and has no place in the row of dots, nor among the
    tests' failures: the verdict, which comes after the last test, has its reason.
    """
    if not report.nodeid.startswith("gate::"):
        return None
    return ("failed the gate", "", "") if report.failed else ("", "", "")
