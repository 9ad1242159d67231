"""docs/engine.md: its plain loop decodes as the package does, and its table names files that are
there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pbcore

PAGE = (Path(__file__).parents[2] / "docs" / "engine.md").read_text(encoding="utf-8")


def test_the_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends without a difference and prints what the page says, in about 40 lines."""
    [(code, printed)] = re.findall(
        r"<!-- loop -->\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL
    )
    assert len(code.splitlines()) <= 40
    exec(compile(code, "docs/engine.md", "exec", dont_inherit=True), {"__name__": "page"})
    assert capsys.readouterr().out == printed


def test_the_files_of_the_table() -> None:
    """Each is in the package, those without a folder in pbcore/decoding."""
    package = Path(pbcore.__file__).parent
    named = re.findall(r"`((?:pbcore/)?[\w/]+(?:\.py|/))`", PAGE)
    assert len(named) > 10
    for name in named:
        if name.startswith("pbcore/"):
            assert (package.parent / name).exists()
        else:
            assert (package / "decoding" / name).exists()
