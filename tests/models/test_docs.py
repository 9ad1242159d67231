"""The example of docs/models.md runs as printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.tabular import Table, markdown
from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models import registry as registry_module
from pbcore.models.base import OwnDecoder
from pbcore.models.families import families_table, keys_table, ranks_table
from pbcore.tasks.base import Sample
from tests.doc_table import assert_shown

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


@pytest.mark.parametrize(
    ("page", "table"),
    [(PAGE, families_table), (PAGE, keys_table), (PAGE.with_name("samplers.md"), ranks_table)],
    ids=["families", "keys", "which distribution ranks places"],
)
def test_tables_of_families(
    request: pytest.FixtureRequest, page: Path, table: Callable[[], Table]
) -> None:
    """Pages have the tables as the rows make them."""
    assert_shown(request, page, markdown(table()))
