"""--resume of a run whose records can't be read."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import SMALL, Run

CELLS = (*SMALL[:-2], "--task", "copy", "--sampler", "random-k2")


def test_what_cannot_be_read_is_a_usage_error(run: Run, project: pytest.Pytester) -> None:
    """Records of a newer version are whole, so nothing on disk changes; a damaged run.json is named
    as well.
    """
    run(*SMALL, "--task copy --sampler random-k2")
    (file,) = (project.path / "out" / "cells").glob("*.json")
    newer = file.read_text().replace('"schema": 2', '"schema": 3')
    file.write_text(newer)
    result = run(*CELLS, "--resume out")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --resume: *{file.name} has schema 3, written by a newer version*"]
    )
    assert file.read_text() == newer
    (project.path / "out" / "run.json").write_text("[]")
    result = run(*CELLS, "--resume out")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --resume: *run.json: *"])
