"""docs/notebook.ipynb: what is stored in it. Its cells run in tests/plugin/test_wheel.py."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
END = "end of a cell"


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


def program() -> str:
    """The cells as a program that prints what Jupyter shows under each, its last line's value too,
    and then a line of `END`.
    """
    parts = []
    for source in sources():
        tree = ast.parse(source)
        last = tree.body[-1]
        if isinstance(last, ast.Expr):
            value = f"value = {ast.unparse(last.value)}\nif value is not None: print(repr(value))"
            tree.body[-1:] = ast.parse(value).body
        parts.append(f"{ast.unparse(tree)}\nprint({END!r})\n")
    return "".join(parts)


def test_its_outputs_are_stored() -> None:
    """Nine of ten cells show something, one of them a picture; a film shows tokens as text."""
    assert len(sources()) == 10
    outputs = [output for cell in cells("code") for output in cell["outputs"]]
    assert sum(not cell["outputs"] for cell in cells("code")) == 1
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    assert any("▒" in text for text in shown())
