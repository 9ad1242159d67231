"""Ordinary runs of the benchmark within a command, in this process: a killed command leaves no run
behind that goes on without it.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

import pytest

from pbcore.base.errors import InputError
from pbcore.grid.option import numbers_text
from pbcore.grid.settings import Settings
from pbcore.plugin.nodes import cell_of
from pbcore.plugin.state import settings

BENCHES = ("--pyargs", "pbcore.benches", "-q", "-p", "no:cacheprovider")
LOG = "pytest.log"


class _Reader:
    """A plugin that takes a run's settings and runs nothing."""

    def __init__(self) -> None:
        self.settings: Settings | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        self.settings = settings(session.config)
        return True


class _CellWatch:
    """A plugin that counts the finished cells of a run."""

    def __init__(self, done: Callable[[str], None]) -> None:
        self._done = done
        self._config: pytest.Config | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._config is not None and cell_of(self._config, nodeid) is not None:
            self._done(nodeid)


def read_settings(words: Sequence[str]) -> Settings:
    """The settings of a run with these options, those of ini files included; conftest.py, plugins
    and files with models that they name are loaded. Raises InputError as the run would.
    """
    reader = _Reader()
    text = io.StringIO()
    with _into(text):
        pytest.main([*BENCHES, *words], plugins=[reader])
    if reader.settings is None:
        raise InputError(_error(text.getvalue()) or "pytest could not start; try pytest --co")
    return reader.settings


def run_cells(
    folder: Path,
    words: Sequence[str],
    questions: Mapping[str, Sequence[int]],
    samplers: Sequence[str],
    done: Callable[[str], None],
) -> None:
    """Runs cells into a run folder, or what is missing there. Its output goes to `pytest.log`.

    Args:
        folder: of the run.
        words: options of the benchmark, the model among them.
        questions: task → the numbers of its questions.
        samplers: of all tasks.
        done: called with the node id of each finished cell.

    Raises:
        InputError: the run could not begin; the message is its own. KeyboardInterrupt after Ctrl-C.
    """
    words = [*BENCHES, *words]
    for task, numbers in questions.items():
        words += ["--task", task, "--questions", f"{task}={numbers_text(numbers)}"]
    for sampler in samplers:
        words += ["--sampler", sampler]
    run_into(folder, words, done)


def run_into(folder: Path, words: Sequence[str], done: Callable[[str], None]) -> None:
    """One run of pytest into a run folder; what is finished there stays. Its output goes to
    `pytest.log`.

    Args:
        folder: of the run.
        words: what pytest is called with.
        done: called with the node id of each finished cell.

    Raises:
        InputError: the run could not begin; the message is its own. KeyboardInterrupt after Ctrl-C.
    """
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    words = [*words, f"--resume={folder}"]  # one word: as two, pytest takes it for its root
    log = folder / LOG
    begin = log.stat().st_size if log.exists() else 0
    with log.open("a", encoding="utf-8") as stream, _into(stream):
        code = pytest.main(list(words), plugins=[_CellWatch(done)])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        text = log.read_text(encoding="utf-8")[begin:]
        raise InputError(_error(text) or f"a run of cells ended with exit code {code}; see {log}")


@contextmanager
def _into(stream: TextIO) -> Iterator[None]:
    with redirect_stdout(stream), redirect_stderr(stream):
        yield
    sys.stdout.flush()


def _error(text: str) -> str:
    """What pytest says of options that can't be used, or of why it ended."""
    wrong = re.findall(r"^pytest\S*: error: (.*)$", text, re.MULTILINE)  # argparse's, after usage
    if wrong:
        return str(wrong[-1])
    for start in ("ERROR: ", "Exit: ", "INTERNALERROR> "):
        lines = [line for line in text.splitlines() if line.startswith(start)]
        if lines:
            return lines[-1].removeprefix(start).strip()
    return ""
