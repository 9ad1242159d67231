"""The end of a run: results.json, samples.jsonl and report.md in its directory, trade-off tables on
the screen.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.base.printable import counted, from_here
from pbcore.base.text import folded, spell_signs
from pbcore.grid.cellid import CellName
from pbcore.plugin.collection import left_out
from pbcore.plugin.gate import publish, verdict_options
from pbcore.plugin.nodes import cell_name, cell_of
from pbcore.plugin.options import (
    flag,
    on_command_line,
    typed_fields,
    usage_errors,
)
from pbcore.plugin.rundir import (
    lock,
    read_finished,
    record_error,
    resume_command,
    run_dir,
    write_facts,
    write_figures,
)
from pbcore.plugin.state import drilled, measures, plan, settings

if TYPE_CHECKING:
    from pbcore.analysis.run_verdict import Ruling
    from pbcore.report.report import Report
    from pbcore.results.rundir import RunDir, StoredRun

NAME = "pbcore-outcome"


class RunOutcome:
    """What the controller learns of the run's cells: which were planned, which came back, what is
    said at the end.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.planned: dict[str, CellName] = {}  # node id → cell
        self.finished: set[str] = set()  # node ids
        self.right: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        self.resumed = 0
        self.again: Counter[str] = Counter()  # why finished cells are measured again
        self._refused = False  # before the first cell
        self._deselected = 0  # cells that -k, -m or --shard leave out
        self._crashed: dict[str, list[tuple[str, Any]]] = {}  # node id → properties of its record
        self.notes: list[str] = []
        self.written: list[str] = []
        self._recorded: set[str] = set()  # cells with a record at the session's end
        self._report: Report | None = None  # of these cells
        self.page: Path | None = None  # once it is written
        self.verdict: list[str] = []
        self.last: list[str] = []  # what failed, below pytest's own last line

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._begin([item.nodeid for item in session.items if cell_name(item) is not None])

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected += sum(cell_name(item) is not None for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._begin(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        name = self.planned.get(report.nodeid)
        if name is not None and report.keywords and "cells" not in report.keywords:
            # Another test, whose parameters read like a cell of this run.
            del self.planned[report.nodeid]
        elif name is not None:
            self._take(report, name.cell_id)
            if report.when == "call" and report.passed:
                write_figures(self._config, report)
        yield
        if report.nodeid in self._crashed and report.when != "teardown":
            # The teardown that a dead worker owes, since JUnit takes a test's properties from
            # there.
            properties = self._crashed.pop(report.nodeid)
            teardown = pytest.TestReport(
                report.nodeid,
                report.location,
                {"cells": 1},
                "passed",
                None,
                "teardown",
                user_properties=properties,
            )
            # xdist's worker, by which JUnit tells tests apart.
            vars(teardown)["node"] = vars(report)["node"]
            self._config.hook.pytest_runtest_logreport(report=teardown)

    def _take(self, report: pytest.TestReport, cell_id: str) -> None:
        if report.when == "teardown":
            self.finished.add(report.nodeid)
            return
        for key, value in report.user_properties:
            if key == "pbcore_unwritten":
                self.notes.append(f"{cell_id}: its record could not be written ({value})")
            if key == "pbcore_kept":
                self.notes.append(f"{cell_id}: {value}")
            self.resumed += key == "pbcore_resumed"
            if key == "pbcore_again":
                self.again[str(value)] += 1
        if report.when == "call" and drilled(self._config):
            self.judged[cell_id] += not report.skipped
            self.right[cell_id] += report.passed

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """A worker that died takes its cell with it: leave a record that says so."""
        self.crashed(
            crashitem, "the worker process died while running this cell (killed, or out of memory)"
        )

    def crashed(self, node_id: str, cause: str) -> None:
        """Records the cause of a cell whose worker died; the failed report is to follow."""
        name = self.planned.get(node_id)
        if name is not None and not drilled(self._config):
            self._crashed[node_id] = record_error(self._config, name, cause)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Interrupted runs are reported, too: what is on disk is what was finished. Then gates are
        judged.
        """
        if not self._measured:
            self._close_without_cells(session)
            return
        run = run_dir(self._config)
        lost: list[str] = []
        stored = run.read(lost.append)
        self._recorded = {entry.cell.id for entry in stored.cells}
        try:
            if settings(self._config).gated:
                self._judge(session, stored)
        finally:
            self.notes += lost
            if lost:
                _fail(session)
            if stored.cells or lost:
                self._write(session, replace(stored, facts=run.read_run()))

    def _close_without_cells(self, session: pytest.Session) -> None:
        """Says that gates had nothing to judge, where a run was to be judged."""
        collecting = self._config.getoption("collectonly", False)
        if settings(self._config).gated and not (self.planned or collecting):
            from pbcore.analysis.run_verdict import nothing_to_judge

            ruling = nothing_to_judge(verdict_options(self._config), self._config.inipath)
            self._close(session, ruling, None)

    def _judge(self, session: pytest.Session, stored: StoredRun) -> None:
        """Judges the run by its gates."""
        from pbcore.analysis.run_verdict import judge_run
        from pbcore.report.rerun import rerun_of

        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        say = terminal.write_line if terminal else self.notes.append
        rerun = rerun_of(stored.cells, stored.facts)
        ruling = judge_run(plan(self._config), stored, not self._unfinished(), rerun, say)
        self._close(session, ruling, run_dir(self._config))

    def _write(self, session: pytest.Session, stored: StoredRun) -> None:
        """Writes the run's files; report.md and the page begin with the gate's verdict."""
        from pbcore.report.files import write_files_of
        from pbcore.report.report import report_of

        run = run_dir(self._config)
        try:
            self._report = report_of(stored)
            assembled = run.assemble(stored.cells)
            report, self.page, *plots = write_files_of(self._report, run.path)
            self.written = [path.name for path in (*assembled, report, self.page, *plots)]
        except OSError as error:
            how = f"the finished cells are in {run.cells_dir}, and this writes it from them"
            command = resume_command(self._config)
            self.notes.append(f"the report could not be written ({error}); {how}: {command}")
            _fail(session)

    def _close(self, session: pytest.Session, ruling: Ruling, run: RunDir | None) -> None:
        """Publishes the ruling; a failure in it fails the run."""
        self.verdict = ruling.text
        self.last = ruling.last
        publish(ruling, run, self._config)
        if ruling.failures:
            _fail(session)
        if ruling.unusable:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        write = terminalreporter.write_line
        if not self.planned:
            self._summary_without_cells(terminalreporter, exitstatus)
        if not self.planned or self._refused or self._config.getoption("collectonly", False):
            return
        if settings(self._config).estimate:
            write("estimated: no cell was run, and nothing was written")
            return
        terminalreporter.write_sep("=", "pbcore")
        if drilled(self._config):
            for cell, samples in self.judged.items():
                write(f"{cell}: {self.right[cell]} of {samples} samples right")
            write(
                "drill-down: single answers were judged; nothing was written, and there are no"
                " tables"
            )
            return
        width = terminalreporter.config.get_terminal_writer().fullwidth
        detailed = self._config.get_verbosity() > 0
        for line in (
            *self._scores(width, detailed),
            *self._missing(width),
            *self._notes(),
            *self._files(detailed),
        ):
            write(line)

    def _scores(self, width: int, detailed: bool) -> list[str]:
        """The scores, with the verdict of the run's gates, else one on each model."""
        if self._report is None or not self._report.answers:
            return self.verdict
        from pbcore.report.summary import answer, summary

        verdict = "\n".join(self.verdict) or answer(self._report, width, detailed)
        return [summary(self._report, width, detailed, verdict)]

    def _missing(self, width: int) -> list[str]:
        """The cells that were not finished, with the command that goes on, and those left out."""
        lines = []
        missing = self._unfinished()
        if missing:
            named = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
            how = f"({named}); resume with: {resume_command(self._config)}"
            lines.append(f"not finished: {len(missing)} of {len(self.planned)} cells {how}")
        for line in self._left_out():
            lines += folded(line, width)
        return lines

    def _notes(self) -> list[str]:
        """What plugins say, what was resumed, and notes: whole, as some hold a command or a
        path.
        """
        lines: list[str] = []
        for of_plugin in self._config.hook.pytest_pbcore_summary(config=self._config):
            lines += of_plugin
        if settings(self._config).resume is not None:
            again = len(self.finished) - self.resumed
            lines.append(f"resumed: {counted(self.resumed, 'cell')} kept, {again} measured")
            for reason, count in self.again.items():
                lines.append(f"measured again: {counted(count, 'cell')}, {reason}")
        return [*lines, *self.notes]

    def _files(self, detailed: bool) -> list[str]:
        """What was written, and the page's address."""
        run = run_dir(self._config)
        lines = []
        if self.written and detailed:
            lines.append(f"{from_here(run.path)}: {', '.join(self.written)}")
        if self.page is not None:
            from pbcore.report.runs import page_lines

            lines += page_lines(run.path, self.page)
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """What failed the run's gates is the terminal's last line."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            for line in self.last:
                terminal.write_line(line, red=True, bold=True)

    def _summary_without_cells(self, terminalreporter: Any, exitstatus: int) -> None:
        lines = self._left_out()
        option = self._config.getoption
        if self._deselected:
            words = option("keyword", "") or option("markexpr", "") or "the selection"
            lines.append(
                f"none of {counted(self._deselected, 'cell')} matches {words!r}; `--co -q` lists"
                " them"
            )
        if lines:
            lines.insert(0, "no cell is left to measure")
        lines += self.verdict
        collected = exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        if collected and not lines:
            chosen = on_command_line(self._config, "model", "sampler", "task")
            if chosen:
                categories = ", ".join(sorted(plan(self._config).categories))
                lines.append(
                    f"{' and '.join(chosen)}: no collected test takes cells of {categories}; mark"
                    " one with pytest.mark.cells, or run the stock cells: pytest --pyargs"
                    " pbcore.benches"
                )
        if lines:
            terminalreporter.write_sep("=", "pbcore")
            terminalreporter.write_line("\n".join(lines))

    def _begin(self, node_ids: Sequence[str]) -> None:
        if self.planned:
            return
        for node_id in node_ids:
            name = cell_of(self._config, node_id)
            if name is not None:
                self.planned[node_id] = name
        if self.planned:
            spell_signs(sys.stdout)
            try:
                self._check_benchmark()
                self._check_options()
                self._config.hook.pytest_pbcore_check(
                    config=self._config, cells=list(self.planned.values())
                )
            except pytest.UsageError:
                self._refused = True
                raise
        if self._measured:
            listen_to_interrupts()
            try:
                lock(self._config)
            except pytest.UsageError:
                self._refused = True
                raise
            self._config.hook.pytest_pbcore_begin(config=self._config)
            write_facts(self._config, self.planned)

    def _check_options(self) -> None:
        """Raises pytest.UsageError for an option on the command line that acts on no cell of this
        run.
        """
        from pbcore.grid.levels import at
        from pbcore.grid.needs import Use, refuse_idle

        config = self._config
        alone = drilled(config)
        uses = []
        for name in self.planned.values():
            uses.append(Use.of(at(settings(config), name.level), name, alone))
        with usage_errors():
            refuse_idle(typed_fields(config), uses, partial(flag, config))

    def _check_benchmark(self) -> None:
        """Raises pytest.UsageError if cells can't be timed."""
        option = self._config.getoption
        wrong = [
            f"--benchmark-{word}"
            for word in ("disable", "skip")
            if option(f"benchmark_{word}", False)
        ]
        if not self._config.pluginmanager.hasplugin("benchmark"):
            wrong.insert(0, "-p no:benchmark")
        if wrong:
            raise pytest.UsageError(
                f"{' and '.join(wrong)}: cells are timed by pytest-benchmark; drop that option"
            )

    @property
    def _measured(self) -> bool:
        return bool(self.planned) and not self._refused and measures(self._config)

    def _unfinished(self) -> list[str]:
        """The cells that neither reported nor left a record: Ctrl-C may lose a worker's last
        reports.
        """
        return [
            name.cell_id
            for node_id, name in self.planned.items()
            if node_id not in self.finished and name.cell_id not in self._recorded
        ]

    def _left_out(self) -> list[str]:
        """The combinations that models can't run."""
        counts = left_out(self._config)
        return [
            f"left out: {counted(count, 'cell')}, {reason}"
            for reason, count in sorted(counts.items())
        ]


def _fail(session: pytest.Session) -> None:
    """Ends a run that passed with exit code 1."""
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def listen_to_interrupts() -> None:
    """Takes interrupts where the process ignores them, as a script's background jobs do, so that a
    run reports.
    """
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    outcome = RunOutcome(config)
    config.pluginmanager.register(outcome, NAME)
    if settings(config).resume is not None:
        # Done once and before there are workers: two processes can't both set the same broken file
        # aside.
        with usage_errors("--resume"):
            run_dir(config).read_run()
            read_finished(config, outcome.notes.append)
