"""The line of progress, on a terminal and in a log."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.decoding.samplers import sampler_of
from pbcore.grid import cost
from pbcore.grid.cellid import CellName
from pbcore.plugin import progress
from pbcore.plugin.progress import Progress, clock, line

A = "t.py::test_cell[m/copy/a-k1]"
B = "t.py::test_cell[m/copy/b-k1]"
OTHER = "t.py::test_other"
CELLS = {A: CellName("m", "copy", sampler_of("a-k1")), B: CellName("m", "copy", sampler_of("b-k1"))}


class Terminal:
    """What pytest's terminal reporter is asked to show."""

    def __init__(self, rewritable: bool = True) -> None:
        self.showfspath = True
        self.shown: list[str] = []
        self._rewritable = rewritable

    def isatty(self) -> bool:
        return self._rewritable

    def rewrite(self, text: str, erase: bool = False) -> None:
        self.shown.append(text)

    def write_line(self, text: str, **markup: bool) -> None:
        self.shown.append(text)

    def ensure_newline(self) -> None:
        pass


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, in seconds; the cells of this run are those of `m`."""
    time = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: time[0]))
    monkeypatch.setattr(progress, "cell_of", lambda config, node_id: CELLS.get(node_id))
    monkeypatch.setattr(progress, "plan", lambda config: None)
    monkeypatch.setattr(cost, "weights", lambda plan: lambda cell: 3.0 if cell == CELLS[B] else 1.0)
    return time


def begun(rewritten: bool = True, width: int = 80) -> tuple[Progress, Terminal]:
    terminal = Terminal()
    config: Any = SimpleNamespace(get_terminal_writer=lambda: SimpleNamespace(fullwidth=width))
    shown = Progress(config, terminal, rewritten)
    shown.pytest_pbcore_check(list(CELLS.values()))
    return shown, terminal


def report(node_id: str, when: str = "call", outcome: str = "passed") -> Any:
    duration = 8.0 if when == "call" else 1.0
    return pytest.TestReport(
        node_id,
        ("t.py", 1, "x"),
        {},
        outcome,  # type: ignore[arg-type]
        None,
        when,  # type: ignore[arg-type]
        duration=duration,
    )


class TestLine:
    def test_what_is_left(self) -> None:
        """Before the first cell is done nothing is foretold."""
        assert line(1, 4, 30.0, 90.0, ["a", "b"]) == "1/4 done, 0:30, about 1:30 left; now a, b"
        assert line(0, 4, 30.0, None, ["a"]) == "0/4 done, 0:30; now a"
        assert line(4, 4, 61.0, 0.0, []) == "4/4 done, 1:01, about 0:00 left"
        scored = line(1, 4, 30.0, 90.0, ["b"], "a 87.5 %")
        assert scored == "1/4 done, 0:30, about 1:30 left; a 87.5 %; now b"

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "0:00"),
            (34.4, "0:34"),
            (59.6, "1:00"),
            (725, "12:05"),
            (3600, "1:00:00"),
            (10961, "3:02:41"),
        ],
    )
    def test_clock(self, seconds: float, text: str) -> None:
        """Hours only where there are some."""
        assert clock(seconds) == text


class TestProgress:
    def test_cells_are_counted_and_other_tests_are_not(self, now: list[float]) -> None:
        """The line names the running cells; a test that is no cell changes nothing. A cell of three
        times the weight takes three times 8 s, and 2 s around it.
        """
        shown, terminal = begun()
        assert not terminal.showfspath
        shown.pytest_runtest_logstart(A)
        now[0] = 110.0
        shown.pytest_runtest_logreport(report(A, "setup"))
        shown.pytest_runtest_logreport(report(A))
        shown.pytest_runtest_logfinish(A)
        shown.pytest_runtest_logstart(OTHER)
        shown.pytest_runtest_logfinish(OTHER)
        shown.pytest_runtest_logstart(B)
        assert terminal.shown == [
            "0/2 done, 0:00; now m/copy/a-k1",
            "1/2 done, 0:10, about 0:24 left",
            "1/2 done, 0:10, about 0:24 left; now m/copy/b-k1",
        ]

    def test_a_narrow_terminal_cuts_the_line(self, now: list[float]) -> None:
        """The last column stays free, or the cursor would wrap."""
        shown, terminal = begun(width=10)
        shown.pytest_runtest_logstart(A)
        assert terminal.shown == ["0/2 done,"]

    def test_a_failed_cell_gets_a_line_of_its_own(self, now: list[float]) -> None:
        """FAILED if its test did, ERROR around it; then progress goes on below."""
        shown, terminal = begun()
        shown.pytest_runtest_logstart(A)
        assert shown.pytest_report_teststatus(report(A, "call", "failed")) == ("failed", "", "")
        assert terminal.shown[1:] == [
            "",
            "",
            "FAILED m/copy/a-k1",
            "0/2 done, 0:00; now m/copy/a-k1",
        ]
        assert shown.pytest_report_teststatus(report(A, "setup", "failed")) == ("error", "", "")
        assert terminal.shown[-2] == "ERROR m/copy/a-k1"

    def test_a_cell_has_no_dot(self, now: list[float]) -> None:
        """It is counted all the same; setup, teardown and other tests are left to pytest."""
        shown, terminal = begun()
        assert shown.pytest_report_teststatus(report(A)) == ("passed", "", "")
        assert shown.pytest_report_teststatus(report(A, "teardown")) is None
        assert shown.pytest_report_teststatus(report(OTHER, "call", "failed")) is None
        assert terminal.shown == []

    def test_without_cells_it_is_silent(self, now: list[float]) -> None:
        """A project's other tests look as they always do."""
        terminal = Terminal()
        config: Any = SimpleNamespace(get_terminal_writer=lambda: SimpleNamespace(fullwidth=80))
        shown = Progress(config, terminal, True)
        shown.pytest_runtest_logstart(A)
        assert shown.pytest_report_teststatus(report(A, "call", "failed")) is None
        assert (terminal.shown, terminal.showfspath) == ([], True)


class TestLines:
    def test_a_log_gets_a_line_a_minute(self, now: list[float]) -> None:
        """Counted from the beginning, then from the line before; dots stay pytest's."""
        shown, terminal = begun(rewritten=False)
        for seconds in (100.0, 159.0, 160.0, 219.0, 220.0):
            now[0] = seconds
            shown.pytest_runtest_logstart(A)
        assert [text.split(",")[1] for text in terminal.shown] == [
            " 1:00; now m/copy/a-k1",
            " 2:00; now m/copy/a-k1",
        ]
        assert shown.pytest_report_teststatus(report(A, "call", "failed")) is None
        assert terminal.showfspath

    def test_a_log_gets_the_first_score_soon(self, now: list[float]) -> None:
        """With the first line after 8 s; the next line comes a minute later."""
        shown, terminal = begun(rewritten=False)
        shown.pytest_runtest_logstart(A)
        for seconds in (107.0, 109.0, 168.0, 169.0):
            now[0] = seconds
            scored = report(A)
            scored.user_properties.append(("score", 0.875))
            shown.pytest_runtest_logreport(scored)
            shown.pytest_runtest_logstart(A)
        assert [text.partition("; ")[2] for text in terminal.shown] == [
            "m/copy/a-k1 87.5 %; now m/copy/a-k1",
            "m/copy/a-k1 87.5 %; now m/copy/a-k1",
        ]
        assert [text.split(", ")[1][:4] for text in terminal.shown] == ["0:09", "1:09"]


class TestWhichKind:
    @pytest.mark.parametrize(
        ("facts", "rewritten"),
        [
            ({}, True),
            ({"rewritable": False}, False),
            ({"verbosity": 1}, None),
            ({"verbosity": -1}, None),
            ({"capture": "no"}, None),
            ({"worker": True}, None),
            ({"terminal": False}, None),
        ],
    )
    def test_one_line_where_it_can_be_rewritten(
        self, facts: dict[str, Any], rewritten: bool | None
    ) -> None:
        """None with -v, -q or -s, on xdist's workers and without a terminal reporter."""
        registered: list[Any] = []
        terminal = Terminal(facts.get("rewritable", True)) if facts.get("terminal", True) else None
        config: Any = SimpleNamespace(
            pluginmanager=SimpleNamespace(
                get_plugin=lambda name: terminal,
                register=lambda plugin, name: registered.append(plugin),
            ),
            get_verbosity=lambda: facts.get("verbosity", 0),
            getoption=lambda name, default: facts.get("capture", "fd"),
            get_terminal_writer=lambda: SimpleNamespace(fullwidth=80),
            **({"workerinput": {}} if facts.get("worker") else {}),
        )
        progress.pytest_configure(config)
        assert [one._rewritten for one in registered] == ([] if rewritten is None else [rewritten])


def test_what_is_not_finished_is_named(run: Any) -> None:
    """Up to three cells by name, of more the first three, and how to resume."""
    for samplers, named in ((5, 3), (6, 4)):
        result = run(
            "--model missing --task copy --limit 1 --maxfail 2",
            "--out",
            f"out{samplers}",
            *(word for k in range(samplers) for word in ("--sampler", f"random-k{1 << k}")),
        )
        (text,) = (text for text in result.stdout.lines if text.startswith("not finished: "))
        assert re.match(
            rf"not finished: {named} of {samplers} cells \(missing/copy/random-k4, .*; resume with",
            text,
        )
        assert text.count("missing/copy/") == 3
        assert (" …)" in text) == (named > 3)
