"""Runs of the benchmark on a run folder of the 2026 rewrite."""

from __future__ import annotations

from pathlib import Path

import pytest

import pbcore
from tests.extras.paper.rewrite import folders as rewrite
from tests.plugin.conftest import Run


class TestRewrite:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        """A run folder of six sudokus."""
        return str(
            rewrite.write(
                tmp_path / "published", {"puzzle/sudoku": rewrite.rows("puzzle/sudoku", [True] * 6)}
            )
        )

    def test_a_run_folder_is_data(self, run: Run, project: pytest.Pytester, folder: str) -> None:
        """Its questions are asked, and record and table say whose they are."""
        result = run(
            "--model ideal --task sudoku --sampler confidence-k1 --out out", "--data-dir", folder
        )
        result.assert_outcomes(passed=1)
        [row] = pbcore.results.load(project.path / "out").to_dict("records")
        assert (row["data_source"], row["prompts"], row["n"], row["accuracy"]) == (
            "rewrite-2026",
            "rewrite-2026",
            6,
            1,
        )
        assert "prompts: those of the benchmark's 2026 rewrite" in result.stdout.str()

    def test_a_task_that_the_folder_lacks(self, run: Run, folder: str) -> None:
        """Said before anything runs."""
        result = run("--model ideal --task copy", "--data-dir", folder)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "the folder has samples of puzzles_sudoku_n4" in result.stderr.str()
