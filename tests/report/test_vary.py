"""`pbcore vary`: from the command line to the table, and the sections of report.md and the page."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report.answers import read_report_cells
from pbcore.report.markdown import write_report
from pbcore.report.page import rebuild
from pbcore.results import create, load
from tests.results import factory


def levels(tmp_path: Path) -> Path:
    """One cell at two batch sizes: sample 0 falls, sample 1 rises."""
    run = create(tmp_path, "a")
    for size, right in ((1, [1.0, 0.0, 1.0]), (8, [0.0, 1.0, 1.0])):
        cell, samples = factory.cell(right=right)
        cell = replace(
            cell,
            id=f"{cell.id}/threads:{size}",
            conditions=replace(cell.conditions, level={"threads": size}),
            decoding={"kendall": 0.5, "law": {"kernel": 0.25, "kernel_by_chance": 0.125}},
        )
        run.write_cell(cell, [replace(one, text=str(one.scores["accuracy"])) for one in samples])
    return run.path


def test_levels_are_told_apart_in_tables_report_and_page(tmp_path: Path) -> None:
    """Two rows of one sampler, flips beside a mean that didn't change, and the law of the
    answers.
    """
    path = levels(tmp_path)
    assert list(load(path)["model"]) == ["tiny at threads:1", "tiny at threads:8"]
    text = write_report(path)[0].read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "| threads" in line)
    assert "1 → 8" in row
    assert row.count("66.7 [") == 2
    assert "66.7 → 66.7" in row
    assert "0.250 (0.125)" in text
    cells, answers = read_report_cells(path)
    page = rebuild(cells, [path], tmp_path, answers).read_text(encoding="utf-8")
    assert "What changes with each factor" in page
    assert "0.250 (0.125)" in page


def test_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table fits 80 columns: what a row is of stands over its figures."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["vary", "--of", str(levels(tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    place = lines.index("shuffle, tiny, confidence-k2, threads")
    assert lines[place + 1].split()[:5] == ["1", "→", "8", "3", "66.7"]


def test_a_finished_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--of` runs nothing; a run without factors is refused."""
    assert main(["vary", "--of", str(levels(tmp_path))]) == 0
    assert "confidence-k2 threads 1 → 8 3" in " ".join(capsys.readouterr().out.split())
    plain = factory.write(create(tmp_path, "b"), [factory.cell()])
    assert main(["vary", "--of", str(plain.path)]) == 2
    assert main(["vary"]) == 2
    assert "--factor" in capsys.readouterr().err


def test_a_run_that_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is pytest's, which has said why."""
    asked: list[list[str]] = []

    def started(words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 4)

    monkeypatch.setattr("pbcore.report.commands.subprocess.run", started)
    monkeypatch.chdir(tmp_path)
    assert main(["vary", "--factor", "seed=0-1", "--factor", "threads=1,2", "--model", "none"]) == 4
    words = [
        "-m",
        "pytest",
        "--pyargs",
        "pbcore.benches",
        "--seed",
        "0-1",
        "--factor",
        "threads=1,2",
        "--out",
    ]
    assert asked[0][1:10] == words
    assert asked[0][11:] == ["--model", "none"]


@pytest.mark.slow
def test_cells_run_at_every_level(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other options are pytest's; batch size changes nothing, and drawn answers change with the
    seed.
    """
    monkeypatch.delenv(
        "PYTEST_XDIST_WORKER", raising=False
    )  # a worker's benchmarks would not be timed
    factors = ["--factor", "batch-size=1,3", "--factor", "threads=1", "--factor", "seed=0-1"]
    cells = ["--model", "ideal", "--task", "copy", "--task", "shuffle", "--limit", "3"]
    sampler = [
        "--sampler",
        "random-k4+t1.0",
        "--out",
        str(tmp_path / "run"),
        "-p",
        "no:cacheprovider",
    ]
    assert main(["vary", *factors, *cells, *sampler]) == 0
    rows = [
        re.split("  +", line.strip())
        for line in capfd.readouterr().out.splitlines()
        if "random-k4" in line and "→" in line
    ]
    shares = {(row[0], row[3]): row[6].split("[")[0].strip() for row in rows}
    assert shares["shuffle", "batch-size"] == shares["copy", "batch-size"] == "0.0"
    assert shares["copy", "seed"] == "0.0"
    assert shares["shuffle", "seed"] == "100.0"
    ids = set(load(tmp_path / "run")["id"])
    assert ids == {
        f"ideal/{task}/random-k4+t1.0+x{b}/threads:1"
        for task in ("copy", "shuffle")
        for b in (1, 3)
    }


def test_other_commands_refuse_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Only `vary` hands options on."""
    with pytest.raises(SystemExit):
        main(["tasks", "--colour", "red"])
    assert "unrecognized arguments: --colour red" in capsys.readouterr().err
