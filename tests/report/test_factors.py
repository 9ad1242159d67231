"""What changes with each factor, in report.md, on the page and in the terminal."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report.answers import answers_alone
from pbcore.report.files import write_files
from pbcore.report.page import rebuild
from pbcore.report.report import read_report
from pbcore.report.summary import answer
from pbcore.results import create, load
from tests.outputs.entries import stored
from tests.results import factory
from tests.warm_python import warm_python


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
    text = write_files(path)[0].read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "| threads" in line)
    assert "1 → 8" in row
    assert row.count("66.7 [") == 2
    assert "66.7 → 66.7" in row
    assert "0.250 (0.125)" in text
    page = rebuild(read_report([path]), tmp_path).read_text(encoding="utf-8")
    assert "What changes with each factor" in page
    assert "0.250 (0.125)" in page


@pytest.mark.parametrize("of_run", [True, False])
def test_the_terminal_shows_what_a_factor_changes(
    of_run: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pytest's summary at a run's end, and `pbcore report` of a finished one, in 80 columns: what a
    row is of stands over its figures.
    """
    path = levels(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    if of_run:
        text = answer(read_report([path]), 80)
    else:
        assert main(["report", str(path)]) == 0
        text = capsys.readouterr().out
    lines = text[text.index("What changes with each factor") :].splitlines()
    assert max(map(len, lines)) <= 80
    place = lines.index("shuffle, tiny, confidence-k2, threads")
    assert lines[place + 1].split()[:5] == ["1", "→", "8", "3", "66.7"]


def test_a_run_without_factors_says_nothing_of_them() -> None:
    """One level and one seed."""
    plain = [answers_alone(entry) for entry in stored([factory.cell()])]
    assert "factor" not in answer(factory.report([entry.cell for entry in plain], plain))


@pytest.mark.slow
def test_cells_run_at_every_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch size changes nothing, and drawn answers change with the seed."""
    # a worker's benchmarks would not be timed
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    words = (
        "--model ideal --task copy --task shuffle --limit 3 --sampler random-k4+t1.0"
        " --batch-size 1,3 --factor threads=1 --seed 0-1 -p no:cacheprovider --out"
    )
    command = [warm_python(), "-m", "pytest", "--pyargs", "pbcore.benches", *words.split()]
    run = tmp_path / "run"
    done = subprocess.run([*command, str(run)], capture_output=True, text=True, check=True)
    table = done.stdout[done.stdout.index("What changes with each factor") :]
    shares: dict[tuple[str, str], str] = {}
    for head, row in pairwise(table.splitlines()):
        if head.count(", ") == 3 and "→ " in row.partition("[")[0]:
            task, _, _, factor = head.split(", ")
            shares.setdefault((task, factor), row.partition("[")[0].split()[-1])
    assert shares["shuffle", "batch-size"] == shares["copy", "batch-size"] == "0.0"
    assert shares["copy", "seed"] == "0.0"
    assert shares["shuffle", "seed"] == "100.0"
    assert set(load(run)["id"]) == {
        f"ideal/{task}/random-k4+t1.0+x{b}/threads:1"
        for task in ("copy", "shuffle")
        for b in (1, 3)
    }
