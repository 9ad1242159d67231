"""What a page shows under its Python or its `pbcore` command is what that prints. The recipes have
a test of their own, and so have README's lines.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from pbcore.cli import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHOWN = re.compile(
    r"```(?P<kind>\w*)\n(?P<code>(?:(?!```).)*?)\n```\n\n```text\n(?P<output>.*?)\n```", re.DOTALL
)
# Runs of a model or a training, whose folders a page goes on with.
NEED_RUNS = ("train.md", "lm-eval.md")
HELD_ELSEWHERE = ("figures.md", "ci.md", "own.md")
LEFT_OUT = (
    "class Dealt",  # held by tests/decoding/test_frontier_kinds.py
    "pbcore explain",  # by tests/explain/test_explain.py
)


@dataclass(frozen=True)
class Example:
    """A block of a page with what stands under it."""

    page: str
    code: str
    is_python: bool
    output: str


def examples() -> list[Example]:
    found = []
    for page in sorted(DOCS.glob("*.md")):
        if page.name in NEED_RUNS + HELD_ELSEWHERE:
            continue
        for match in SHOWN.finditer(page.read_text(encoding="utf-8")):
            if any(part in match["code"] for part in LEFT_OUT):
                continue
            python = match["kind"] == "python"
            found.append(Example(page.name, match["code"], python, match["output"]))
    return found


def cases() -> list[object]:
    """Beside the slow tests."""
    return [
        pytest.param(example, id=f"{example.page}-{number}", marks=pytest.mark.slow)
        for number, example in enumerate(examples())
    ]


def test_there_are_many() -> None:
    """The pages were read: Python on three of them, and commands."""
    found = examples()
    assert len({example.page for example in found if example.is_python}) >= 3
    assert any(example.code.startswith("pbcore figures theory") for example in found)


@pytest.mark.parametrize("example", cases())
def test_output(example: Example, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Line by line and word by word."""
    if example.is_python:
        exec(compile(example.code, example.page, "exec"), {"__name__": "page"})
    else:
        words = [word.replace("reports/", f"{tmp_path}/") for word in shlex.split(example.code)]
        assert words[0] == "pbcore"
        assert main(words[1:]) == 0
    printed = [line.split() for line in capsys.readouterr().out.strip().splitlines()]
    shown = [line.split() for line in example.output.splitlines()]
    assert printed[: len(shown)] == shown
