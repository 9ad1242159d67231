"""The example of docs/models.md runs as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.tabular import markdown
from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models import registry as registry_module
from pbcore.models.base import OwnDecoder
from pbcore.models.families import families_table, keys_table, ranks_table
from pbcore.tasks.base import Sample

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


class TestOwnDecoderExample:
    """The parrot."""

    def test_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The page's class is an OwnDecoder, loads by its name, answers through decode and refuses
        other samplers.
        """
        monkeypatch.setattr(registry_module.FACTORIES, "_registered", {})
        (code,) = [
            block
            for block in re.findall(
                r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
            )
            if "Parrot" in block
        ]
        exec(code, {"__name__": "example"})
        model: Any = load_model("parrot")
        assert isinstance(model, OwnDecoder)
        sample = Sample("t/copy", 0, ({"role": "user", "content": "Say\nhello there"},), {}, "x", 8)
        (generation,) = decode(model, [sample], "ar")
        assert (generation.text, generation.nfe, generation.answer_tokens) == ("hello there", 1, 2)
        with pytest.raises(ValueError, match="use ar"):
            decode(model, [sample], "confidence-k2")


class TestFamilies:
    """The table of families."""

    def test_is_up_to_date(self) -> None:
        """The page has the table of families as it is."""
        assert markdown(families_table()) in PAGE.read_text(encoding="utf-8")

    def test_who_ranks_by_what_is_up_to_date(self) -> None:
        """docs/samplers.md has the table of which distribution ranks places."""
        page = PAGE.with_name("samplers.md").read_text(encoding="utf-8")
        assert markdown(ranks_table()) in page


class TestKeys:
    """The table of keys."""

    def test_is_up_to_date(self) -> None:
        """The page has the table of keys as the lists make it."""
        assert markdown(keys_table()) in PAGE.read_text(encoding="utf-8")
