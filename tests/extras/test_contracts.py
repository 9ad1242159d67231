"""README's command tests what each neighbour is for; all of its tests run where its folder is
named.
"""

from __future__ import annotations

from pathlib import Path

import pbcore.extras
from tests.extras.conftest import CONTRACTS, HERE


def test_each_neighbour_has_one() -> None:
    """Files that are there, for each folder under extras."""
    (extras,) = map(Path, pbcore.extras.__path__)
    rooms = {folder.name for folder in extras.iterdir() if (folder / "__init__.py").is_file()}
    assert set(CONTRACTS) == rooms
    for room, files in CONTRACTS.items():
        assert files
        for file in files:
            assert "def test_" in (HERE / room / file).read_text(encoding="utf-8"), (room, file)
