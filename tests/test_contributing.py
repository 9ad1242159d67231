"""CONTRIBUTING.md: its plain loop decodes as the package does, and the files that its tables name
are there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILE = re.compile(r"`([\w/]+(?:\.py|\.yaml|/))`")


def section(title: str) -> str:
    """The page from a heading to the next one."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends without a difference and prints what the page says, in about 40 lines."""
    [(code, printed)] = re.findall(
        r"<!-- loop -->\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL
    )
    assert len(code.splitlines()) <= 40
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), {"__name__": "page"})
    assert capsys.readouterr().out == printed


def test_the_rooms() -> None:
    """All packages of pbcore are rooms, each with the files to begin with."""
    rows = [
        FILE.findall(line) for line in section("The rooms").splitlines() if line.startswith("| `")
    ]
    packages = {f"pbcore/{file.parent.name}/" for file in (ROOT / "pbcore").glob("*/__init__.py")}
    assert packages <= {row[0] for row in rows}
    missing = [
        name
        for room, *names in rows
        for name in names
        if not (ROOT / room / name).exists() and not (ROOT / name).exists()
    ]
    assert missing == []


def test_the_files_of_the_loop() -> None:
    """Each is in the package, those without a folder in pbcore/decoding."""
    named = FILE.findall(section("The loop"))
    assert len(named) > 10
    places = [ROOT / "pbcore" / "decoding", ROOT]
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
