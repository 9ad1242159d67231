"""docs/notebook.ipynb, whose ten cells of code are run as they stand, without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from pbcore.decoding.policies.registry import POLICIES

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def sources() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_its_cells_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, in any folder; the notebook's sampler breaks fewer shuffles than the one it
    is compared with, and the comparison of two of pytest's cells is printed.
    """
    monkeypatch.delenv(
        "PYTEST_XDIST_WORKER", raising=False
    )  # a worker's benchmarks would not be timed
    monkeypatch.setattr(POLICIES, "_registered", dict(POLICIES.all()))
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    assert len(sources()) == 10
    names: dict[str, Any] = {"__name__": "__main__"}
    for source in sources():
        exec(compile(source, str(NOTEBOOK), "exec"), names)
    assert names["measure"]("apart-k2")["accuracy"] > names["measure"]("confidence-k2")["accuracy"]
    assert "1 cell compared, 0 worse, 1 better" in " ".join(capsys.readouterr().out.split())


def test_it_is_kept_without_output() -> None:
    """So that its diffs are those of its text."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
