"""The promises of README and docs/commands.md: their names are real."""

from __future__ import annotations

import re
from pathlib import Path

from pbcore.decoding import resolve

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
NAMES = README + (ROOT / "docs" / "commands.md").read_text()


class TestReadme:
    def test_sampler_names_are_real(self) -> None:
        """Every sampler that they name can be built."""
        names = re.findall(
            r"`((?:random|confidence|left_to_right|margin|entropy|threshold|factor|eb)-[^`\s/]+)`",
            NAMES,
        )
        assert len(names) >= 8
        for name in names:
            resolve(name)

    def test_commands(self) -> None:
        """The two commands for a fresh machine are where .ci/run and a newcomer look for them."""
        for marker in ("main", "tests"):
            assert re.search(
                rf"<!-- {marker} -->\n```bash\n[^\n]*pip install -c constraints.txt[^\n]*\n```",
                README,
            )
