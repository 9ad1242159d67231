"""Windows, as far as Linux can show it: what only POSIX has is taken from pbcore's modules
(tests/windows).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pbcore
from pbcore.results.rundir import cell_file

ROOT = Path(__file__).resolve().parents[1]


def python(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Python as on Windows, with a console in cp1252."""
    places = os.pathsep.join([str(ROOT / "tests" / "windows"), str(ROOT)])
    environment = {
        **os.environ,
        "PYTHONPATH": places,
        "PYTHONIOENCODING": "cp1252",
        "OMP_NUM_THREADS": "1",
    }
    environment = {
        name: value for name, value in environment.items() if not name.startswith("PYTEST_")
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, encoding="cp1252", check=False
    )


def modules() -> list[str]:
    """Every module of the package that is imported by name."""
    root = Path(pbcore.__file__).parent
    files = (file.relative_to(root.parent).with_suffix("") for file in root.rglob("*.py"))
    names = (".".join(file.parts).removesuffix(".__init__") for file in files)
    return sorted(name for name in names if not name.endswith("__main__"))


@pytest.mark.posix  # Windows itself needs no stand-in
class TestWindows:
    @pytest.mark.slow
    def test_every_module_imports(self) -> None:
        """Without the modules, functions and signals of POSIX; the last line shows that they were
        taken away.
        """
        assert len(modules()) > 150
        code = f"import importlib\nfor name in {modules()!r}: importlib.import_module(name)\n"
        code += (
            "from pbcore.extras.check import command_machine as own; print(hasattr(own.os, 'fork'),"
            " hasattr(__import__('os'), 'fork'))"
        )
        done = python("-c", code)
        assert done.stdout.strip() == "False True", done.stderr[-2000:]

    @pytest.mark.slow
    def test_the_suite_is_collected(self) -> None:
        """Every test file is imported there, and what needs POSIX is skipped: the kills of a run,
        for one.
        """
        done = python(
            "-m", "pytest", "tests", "--co", "-q", "-m", "", "-p", "no:cacheprovider", folder=ROOT
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
        kills = python(
            "-m", "pytest", "tests/plugin/test_kill.py", "-q", "-p", "no:cacheprovider", folder=ROOT
        )
        assert "needs POSIX" in kills.stdout

    @pytest.mark.nightly
    def test_cells_run_and_are_read_again(self, tmp_path: Path) -> None:
        """In a folder with a space and a backslash, in two processes, with clocks that tick every
        15.6 ms; then the run is resumed, reported and compared.
        """
        folder = tmp_path / "my folder\\of runs"
        shutil.copytree(
            ROOT / "pbcore" / "benches", folder / "benches", ignore=shutil.ignore_patterns("__*")
        )
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        cells = [
            "--task",
            "shuffle",
            "--task",
            "latin_square",
            "--task",
            "w2s_easy",
            "--sampler",
            "threshold-0.9",
        ]
        command = [
            "-m",
            "pytest",
            "benches",
            *cells,
            "--limit",
            "2",
            "--no-download",
            "-p",
            "no:cacheprovider",
        ]
        first = python(
            *command, "-n", "2", "--out", "the run", "--junitxml", "the run.xml", folder=folder
        )
        assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-2000:]
        assert " of decoding; data: own" in first.stdout
        assert "–" in first.stdout
        assert "\\u" not in first.stdout
        assert b"\r" not in (folder / "the run" / "results.json").read_bytes()
        stored = json.loads((folder / "the run" / "results.json").read_text(encoding="utf-8"))[
            "cells"
        ]
        assert {cell["status"] for cell in stored} == {"ok"}
        again = python(*command, "--resume", "the run", folder=folder)
        assert f"resumed: {len(stored)} cells kept, 0 measured" in again.stdout
        for read in (
            ["report", "the run"],
            ["compare", "the run", "the run"],
            ["check", "machine"],
        ):
            done = python("-m", "pbcore", *read, folder=folder)
            assert done.returncode == 0, done.stderr[-2000:]

    def test_names_that_differ_in_case_have_their_own_files(self) -> None:
        """As file systems without case need it."""
        assert cell_file("a/copy/x").lower() != cell_file("A/copy/x").lower()
