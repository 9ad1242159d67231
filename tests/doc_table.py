"""Tables on pages that the package makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def assert_shown(request: pytest.FixtureRequest, file: Path, table: str) -> None:
    """The page has the table as it is made now; `--force-regen` writes it in place of the one with
    the same heads.
    """
    table = table.rstrip("\n")
    page = file.read_text(encoding="utf-8")
    if request.config.getoption("force_regen"):
        heads = [head.strip() for head in table.partition("\n")[0].split("|")]
        first = r" *\| *".join(map(re.escape, heads))
        page = re.sub(rf"^{first}$(?:\n\|[^\n]*)*", lambda _: table, page, flags=re.MULTILINE)
        file.write_text(page, encoding="utf-8")
    assert table in page, "add --force-regen to this test"
