"""docs/servers.md says what the code does."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

from pbcore.extras.servers.declared import KEYS, read_specs
from pbcore.extras.servers.record import ENDS
from pbcore.extras.servers.reply import FINISH_REASONS
from pbcore.extras.servers.spec import KINDS, ServerSpec

PAGE = (Path(__file__).parents[3] / "docs" / "servers.md").read_text(encoding="utf-8")


def rows() -> dict[str, str]:
    """Key → default, as the page's table has them."""
    found = re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", PAGE, re.MULTILINE)
    return {name: default.strip().strip("`") for name, default in found}


class TestPage:
    def test_example_is_valid(self) -> None:
        """The file on the page reads as it is."""
        (text,) = re.findall(r"<!-- models -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
        specs = read_specs(text, "page")
        assert [spec.sampler for spec in specs.values()] == [
            "ar",
            "threshold-0.95+b4",
            "confidence-k1",
            "server",
        ]

    def test_the_example_of_an_engine_is_valid(self) -> None:
        """That of a section, too."""
        section = PAGE.partition("### Diffulex")[2]
        text = section.partition("```yaml\n")[2].partition("```")[0]
        (spec,) = read_specs(text, "page").values()
        assert spec.kind == "diffulex"

    def test_every_key_is_listed(self) -> None:
        """With its default."""
        assert set(rows()) == set(KEYS)
        defaults = {
            f.name: f.default for f in fields(ServerSpec) if f.default not in (MISSING, None)
        }
        for name, default in defaults.items():
            expected = f"{default:g}" if isinstance(default, float) else str(default).lower()
            assert rows()[name] == expected

    def test_every_kind_is_listed(self) -> None:
        (line,) = (line for line in PAGE.splitlines() if line.startswith("| `kind` |"))
        assert set(re.findall(r"`(\w+)`", line)) - {"kind"} == set(KINDS)

    def test_every_known_end_is_listed(self) -> None:
        """With what it counts as."""
        table = PAGE.partition("| counts as |")[2].partition("\n\n")[0]
        listed = {
            word: row.split("|")[1].strip()
            for row in table.splitlines()
            for word in re.findall(r"`(\w+)`", row)
        }
        assert listed.keys() == FINISH_REASONS.keys()
        for word, outcome in FINISH_REASONS.items():
            assert ENDS.get(outcome or "", "whole") in listed[word]
