"""A tuning whose rounds and proof run on a Ray cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras.tune.test_command import counts, tune

pytestmark = [pytest.mark.ray, pytest.mark.posix, pytest.mark.nightly]
WORDS = ("ideal", "--task", "copy", "--samplers", "eb-0.1,threshold,confidence-k4")


def test_rounds_and_proof_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of all runs, their counts and scores, and the preset are those of one process."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    here = tune(tmp_path, *WORDS, "--max-loss", "20", "--out", "here")
    assert here.returncode == 0, here.stderr + here.stdout
    there = tune(tmp_path, *WORDS, "--max-loss", "20", "--out", "there", "--ray", "local")
    assert there.returncode == 0, there.stderr + there.stdout
    assert counts(tmp_path / "here") == counts(tmp_path / "there")
    same = [(tmp_path / name / "tuned.yaml").read_text() for name in ("here", "there")]
    assert same[0] == same[1]
    assert "ray" in (tmp_path / "there/race/1/pytest.log").read_text().lower()
