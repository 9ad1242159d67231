"""Data that end are split before the race; where they are too few, nothing is confirmed, and how
many would do is said.
"""

from __future__ import annotations

import json
import math
import re
from itertools import islice, permutations
from pathlib import Path

import pytest

from pbcore.analysis.noninferiority import lower_bound
from pbcore.cli import main
from pbcore.results.rundir import RunDir
from tests.reference import reference

TASK = """kitchen/reverse:
  samples: rows.jsonl
  scorer: list_match
  max_new_tokens: 32
  prompt: "Reverse this list and give only the list: {context}"
"""
ITEMS = ("salt", "pepper", "basil", "thyme", "cumin")
WORDS = ("--samplers", "eb-0.1,eb-0.2,threshold-0.9,confidence-k2,confidence-k4", "--axis", "calls")


def own_task(folder: Path, rows: int) -> tuple[str, ...]:
    """The options that choose a task of so many questions, whose files are written."""
    lines = []
    for items in islice(permutations(ITEMS, 4), rows):
        answer = json.dumps(list(reversed(items)))
        lines.append(json.dumps({"input": {"context": json.dumps(items)}, "answer": answer}))
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "my.yaml").write_text(TASK)
    return "--tasks", str(folder / "my.yaml"), "--task", "kitchen/reverse"


def asked(run: Path) -> set[int]:
    """The questions of a run, which all its samplers answered."""
    every = [{sample.index for sample in cell.samples} for cell in RunDir(run).read_cells()]
    assert all(part == every[0] for part in every)
    return every[0]


def test_too_few_are_not_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """60 questions, all answered right: 20 race, 40 others prove; the bound that they reach, the
    number that would do, and the same before it runs.
    """
    words = own_task(tmp_path, 60)
    assert (
        main(["tune", "ideal", *words, *WORDS, "--max-loss", "3", "--out", str(tmp_path / "run")])
        == 1
    )
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "kitchen/reverse has 60 questions: 20 for the race, 40 for the proof" in text
    assert "these data hold a proof of 40 questions, too few for 3 points" in text
    asked_in_race = [asked(run) for run in sorted((tmp_path / "run/race").glob("[0-9]*"))]
    proof = asked(tmp_path / "run")
    assert sum(map(len, asked_in_race)) == len(set().union(*asked_in_race)) == 20
    assert len(proof) == 40
    assert proof.isdisjoint(set().union(*asked_in_race))
    points = math.ceil(-1000 * lower_bound([[0.0] * 40])) / 10
    reached = f"nearest is eb-0.1, 0.0 points [at most {points} lower] after 40 questions"
    assert "ideal: not confirmed: no sampler is shown to lose less than 3 points to" in text
    assert reached in text
    would_do = re.search(
        r"(\d+) questions would do if .*, so data of (\d+) questions, a third of which race", text
    )
    assert would_do is not None
    assert 100 < int(would_do[1]) == pytest.approx(int(would_do[2]) * 2 / 3, abs=1)
    assert not (tmp_path / "run/tuned.yaml").exists()


def test_official_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A third of the official samples race, the others confirm what loses nothing."""
    folder = reference("official-v1")
    words = ["--data-dir", str(folder), "--task", "shuffle", "--max-loss", "15", *WORDS]
    assert main(["tune", "ideal", *words, "--out", str(tmp_path / "run")]) == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "shuffle has 100 questions: 33 for the race, 67 for the proof" in text
    assert re.search(r"ideal: eb-0\.[12] is the fastest that is confirmed", text)
    races = [asked(run) for run in sorted((tmp_path / "run/race").glob("[0-9]*"))]
    assert sum(map(len, races)) == len(set().union(*races)) == 33
    proof = asked(tmp_path / "run")
    assert proof.isdisjoint(set().union(*races))
    assert set().union(proof, *races) <= set(range(100))


def test_fewer_than_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data that leave a round without a question are refused in one line."""
    words = own_task(tmp_path, 3)
    assert main(["tune", "ideal", *words, *WORDS, "--out", str(tmp_path / "run")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "kitchen/reverse has 3 questions: a tuning of 2 rounds needs at least 6" in line
    assert not (tmp_path / "run").exists()
