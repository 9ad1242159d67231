"""pbcore.report.page.names: models by their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.report.page.names import short_models
from tests.results import factory


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        ({"/models/llada": "/models/llada"}, {"/models/llada": "llada"}),
        ({"../m": "/a/m", "x/m": "/b/x/m"}, {"../m": "a/m", "x/m": "x/m"}),
        ({"../tiny": "/a/tiny", "tiny": "tiny"}, {"../tiny": "a/tiny"}),
        ({"GSAI-ML/LLaDA-8B-Instruct": "GSAI-ML/LLaDA-8B-Instruct", "ideal": None}, {}),
        ({"mine": "/models/llada"}, {}),
    ],
)
def test_folders_stand_by_their_names(
    sources: dict[str, str | None], names: dict[str, str]
) -> None:
    """With as many parts as tell them apart; hub ids, registered and given names stay."""
    records = []
    for model, source in sources.items():
        record, _ = factory.cell(model)
        under = replace(record.conditions, model_info={"source": source})
        records.append(replace(record, conditions=under))
    assert short_models(factory.rows(records)) == names
