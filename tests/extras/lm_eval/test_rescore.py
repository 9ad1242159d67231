"""pbcore rescore beside cells that the harness scored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.results.load import load_stored
from tests.exchange.test_rescore import COPY, run_of, stricter
from tests.results import factory

__all__ = ["stricter"]


def test_cells_of_the_harness_stay(
    tmp_path: Path, stricter: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside others they are left as they were, and the reason is told."""
    parent = run_of(tmp_path / "old")
    parent.write_cell(*factory.cell(task="lm_eval/sums", n=2))
    stricter()
    assert main(["rescore", str(parent.path), "-o", str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert "1 cell scored again" in said
    assert "1 cell left unchanged: lm-evaluation-harness asked and scored them" in said
    before, after = (
        {one.cell.task: one for one in load_stored(tmp_path / name)} for name in ("old", "new")
    )
    assert after["lm_eval/sums"] == before["lm_eval/sums"]
    assert after[COPY] != before[COPY]
