"""Progress on a terminal: how many cells are done, how long the rest will take, which are running,
and the score of the last one.
"""

import time
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from pbcore.base.printable import fixed
from pbcore.grid.cellid import CellName, bracketed
from pbcore.plugin.nodes import cell_of
from pbcore.plugin.state import plan

NAME = "pbcore-progress"
FIRST = 8.0  # seconds to the first line in a log, with the first score
INTERVAL = 60.0  # seconds between two lines in a log
SHOWN = 8  # running cells in a line; a cluster has more


class Progress:
    """Follows cells by their reports, so that it works on xdist's controller as in a run without
    workers.

    `rewritten`: one line, in place of pytest's dots; else lines now and then between them, for a
    log.
    """

    def __init__(self, config: pytest.Config, terminal: Any, rewritten: bool) -> None:
        self._config = config
        self._terminal = terminal
        self._rewritten = rewritten
        self._width: int = config.get_terminal_writer().fullwidth
        self._total = 0
        self._waiting: set[CellName] = set()
        self._running: dict[str, tuple[CellName, float]] = {}  # node id → cell, and when it began
        self._calls: dict[str, tuple[float, float]] = {}  # seconds of its test, and of decoding
        self._score = ""  # of the last cell that has one: "m/copy/random-k1 100.0"
        self._shown = False
        # Node id → what stands before its name: the worker on a cluster that runs it.
        self.places: dict[str, str] = {}

    def pytest_pbcore_check(self, cells: Collection[CellName]) -> None:
        """The cells of the run are known; a run without any does not come here."""
        from pbcore.grid.cost import TimeLeft, weights

        self._total = len(cells)
        self._waiting = set(cells)
        self._began = time.monotonic()
        self._next = self._began + FIRST
        self._time_left = TimeLeft(weights(plan(self._config)))
        if self._rewritten:  # such a line has no room for a file's name and its dots
            self._terminal.showfspath = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._total and (cell := cell_of(self._config, nodeid)) is not None:
            self._waiting.discard(cell)
            self._running[nodeid] = cell, time.monotonic()
            self._time_left.running(len(self._running))
            self._show()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        kept = ("pbcore_resumed", True) in report.user_properties  # the cell's record
        if report.when != "call" or report.nodeid not in self._running:
            return
        properties = dict(report.user_properties)
        if not kept:
            decoding = properties.get("seconds")
            known = float(str(decoding)) if decoding else report.duration
            self._calls[report.nodeid] = report.duration, known
        score = properties.get("score")
        if isinstance(score, float):
            self._score = f"{bracketed(report.nodeid)} {fixed(100 * score)} %"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if nodeid in self._running:
            cell, began = self._running.pop(nodeid)
            call = self._calls.pop(nodeid, None)
            # A cell that failed before its test, or was kept, says nothing of the others.
            if call is not None:
                self._time_left.done(cell, time.monotonic() - began, *call)
            self._show()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """A cell has no dot; one that failed gets a line of its own."""
        if not self._rewritten or not self._total or (report.passed and report.when != "call"):
            return None
        if cell_of(self._config, report.nodeid) is None:
            return None
        if report.failed:
            self._clear()
            word = "FAILED" if report.when == "call" else "ERROR"
            self._terminal.write_line(f"{word} {bracketed(report.nodeid)}", red=True)
            self._show()
        return "error" if report.failed and report.when != "call" else report.outcome, "", ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Any:
        try:
            return (yield)
        finally:
            self._clear()

    def _text(self) -> str:
        now = time.monotonic()
        done = self._total - len(self._waiting) - len(self._running)
        running = {cell: now - began for cell, began in self._running.values()}
        left = self._time_left.left(self._waiting, running)
        names = [f"{self.places.get(node_id, '')}{bracketed(node_id)}" for node_id in self._running]
        return line(done, self._total, now - self._began, left, names, self._score)

    def _show(self) -> None:
        now = time.monotonic()
        if self._rewritten:
            self._terminal.rewrite(self._text()[: self._width - 1], erase=True)
            self._shown = True
        elif now >= self._next and (self._score or now >= self._began + INTERVAL):
            self._next = now + INTERVAL
            self._terminal.ensure_newline()
            self._terminal.write_line(self._text()[: self._width])

    def _clear(self) -> None:
        if self._shown:
            self._terminal.rewrite("", erase=True)
            self._terminal.rewrite("")
            self._shown = False


def line(
    done: int,
    total: int,
    seconds: float,
    left: float | None,
    running: Iterable[str],
    score: str = "",
) -> str:
    """The line of progress.

    Args:
        done: cells that are finished, of `total`.
        total: all cells of the run.
        seconds: since the run began.
        left: seconds that the rest is expected to take; None where not known.
        running: the cells that run now.
        score: the last cell that was scored, with its score.

    Returns:
        `12/120 done, 0:34, about 5:06 left; tiny/shuffle/confidence-k1 100.0 %; now
        tiny/shuffle/confidence-k2`.
    """
    rest = f", about {clock(left)} left" if left is not None else ""
    names = list(running)
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    text = f"{done}/{total} done, {clock(seconds)}{rest}"
    if score:
        text += f"; {score}"
    if not names:
        return text
    return f"{text}; now {', '.join([*names[:SHOWN], *more])}"


def clock(seconds: float) -> str:
    """`0:34`, `12:05`, `3:02:41`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """One line where it can be rewritten, else lines in the log; none with -v, -q or -s."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    if config.get_verbosity() != 0 or config.getoption("capture", "no") == "no":
        return
    config.pluginmanager.register(Progress(config, terminal, terminal.isatty()), NAME)
