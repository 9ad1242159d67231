"""Damaged rows of a run folder of the rewrite: read as they stand, or refused in one line that
names file and line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.paper.published import NAMES
from pbcore.tasks.official import RowError
from tests.fuzz.outcomes import COUNTS, fuzz
from tests.fuzz.test_rows import Given, check, rows, samples


def rewritten(name: str, number: int) -> dict[str, Any]:
    """A row of a run folder of the rewrite."""
    sample = samples(name)[number]
    label = (
        json.loads(sample.label)
        if name.startswith("waiting_line") and isinstance(sample.label, str)
        else sample.label
    )
    doc = {
        "messages": list(sample.messages),
        "label": label,
        "metadata": {"length": sample.length},
        "output_prefix": None,
    }
    return {"doc_id": number, "doc": doc, "resps": [["x"]]}


@pytest.mark.parametrize("count", COUNTS)
def test_rewrite(tmp_path: Path, count: int) -> None:
    """Rows of a run folder of the 2026 rewrite."""

    def checked(given: Given) -> None:
        check(tmp_path, f"samples_parallelbench_{NAMES[given[0]]}.jsonl", given)

    fuzz("rows of the rewrite", count, lambda random: rows(random, rewritten), checked, RowError)
