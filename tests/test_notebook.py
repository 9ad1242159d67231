"""docs/notebook.ipynb, whose ten cells of code are run as they stand, without Jupyter."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from pbcore.decoding.policies.registry import POLICIES

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def cells(kind: str) -> list[dict[str, Any]]:
    """The notebook's cells of code, or of text."""
    every = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in every if cell["cell_type"] == kind]


def sources() -> list[str]:
    """The ten cells of code."""
    return ["".join(cell["source"]) for cell in cells("code")]


def shown() -> list[str]:
    """What stands under each cell of code: its text, without pictures."""
    texts = []
    for cell in cells("code"):
        parts = []
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" not in data:
                parts.append("".join(output.get("text") or data["text/plain"]))
        texts.append("\n".join(part.rstrip("\n") for part in parts))
    return texts


def printed(source: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """What a cell prints, then its last line's value, as Jupyter shows it."""
    tree = ast.parse(source)
    last = tree.body[-1]
    value = None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    parts = [capsys.readouterr().out.rstrip("\n"), "" if value is None else repr(value)]
    return "\n".join(part for part in parts if part)


@pytest.mark.slow
def test_its_cells_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, in any folder; what stands under them is what they print. The notebook's
    sampler breaks fewer shuffles than the one it is compared with.
    """
    monkeypatch.delenv(
        "PYTEST_XDIST_WORKER", raising=False
    )  # a worker's benchmarks would not be timed
    monkeypatch.setattr(POLICIES, "_registered", dict(POLICIES.all()))
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    for source, expected in zip(sources(), shown(), strict=True):
        assert printed(source, names, capsys).split() == expected.split()
    assert names["measure"]("apart-k2")["accuracy"] > names["measure"]("confidence-k2")["accuracy"]


def test_its_outputs_are_stored() -> None:
    """Nine of ten cells show something, one of them a picture; a film shows tokens as text."""
    assert len(sources()) == 10
    outputs = [output for cell in cells("code") for output in cell["outputs"]]
    assert sum(not cell["outputs"] for cell in cells("code")) == 1
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    assert any("▒" in text for text in shown())
