"""Runs of the first release (schema 1) load, report and merge as they did."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.results import RunDir, load, load_samples
from pbcore.results.merge import merge
from tests.results.files import fingerprint

FIRST_RELEASE = Path(__file__).parent / "data" / "schema-1"


class TestFirstRelease:
    """A run of the first release: two evaluated cells of `ideal`, two of a checkpoint that could not be loaded."""

    @pytest.mark.parametrize("name", [".", "results.json", "junit.xml"])
    def test_every_source_is_complete(self, name: str) -> None:
        """Directory, results.json and JUnit give the same four cells, the failed ones with their cause."""
        before = fingerprint(FIRST_RELEASE)
        table = load(FIRST_RELEASE / name).set_index("id")
        assert table["status"].to_dict() == {
            "./broken/copy/confidence-k2": "error",
            "./broken/shuffle/confidence-k2": "error",
            "ideal/copy/confidence-k2": "ok",
            "ideal/shuffle/confidence-k2": "ok",
        }
        assert set(table["task"]) == {"waiting_line/copy", "waiting_line/shuffle"}
        assert table["accuracy"].dropna().to_dict() == {"ideal/copy/confidence-k2": 1, "ideal/shuffle/confidence-k2": 0}
        assert table.loc["./broken/copy/confidence-k2", "error"].startswith("KeyError: 'd_model'")
        assert table.loc["ideal/copy/confidence-k2", ["dtype", "threads", "seeds"]].tolist() == ["float64", 1, "0"]
        assert fingerprint(FIRST_RELEASE) == before

    def test_samples_and_facts(self) -> None:
        """Its samples and run.json load, from cells/ and from samples.jsonl."""
        assert {name: len(samples) for name, samples in load_samples(FIRST_RELEASE).items()} == {
            "./broken/copy/confidence-k2": 0,
            "./broken/shuffle/confidence-k2": 0,
            "ideal/copy/confidence-k2": 3,
            "ideal/shuffle/confidence-k2": 3,
        }
        assert RunDir(FIRST_RELEASE).read_run()["profile"] == "quick"

    def test_merges(self, tmp_path: Path) -> None:
        """It merges into a run of today's schema without losing a value."""
        merged = merge([FIRST_RELEASE], tmp_path / "m")
        assert load(merged.path).equals(load(FIRST_RELEASE))
