"""pbcore.report.scopes: the rows that tables, plots and page read."""

from __future__ import annotations

from math import isnan
from typing import get_type_hints

import pytest

from pbcore.report.rows import CellRow
from pbcore.report.scopes import MeansRow, overview, scopes
from pbcore.results.measures import MEASURES
from pbcore.results.table_row import Row
from tests.results import factory


def test_rows_hold_what_they_declare() -> None:
    """A row has every field of its class and every declared number; what wasn't measured is NaN."""
    record, _ = factory.cell("tiny", "waiting_line/copy", "confidence-k2")
    whole, parts = scopes(factory.rows([record]))
    assert [scope.title for scope in parts] == ["waiting_line"]
    (row,) = whole.records
    (means,) = overview(whole)
    numbers = {measure.key for measure in MEASURES}
    assert set(row) >= set(get_type_hints(CellRow)) | numbers
    not_averaged = {"seconds", "tokens_per_second"}
    assert set(means) == (set(get_type_hints(MeansRow)) | numbers) - not_averaged
    values: Row = row
    assert isnan(values["bits_lost"])


def test_means_over_tasks() -> None:
    """Each task weighs the same in scores, rates and forwards, whatever its number of answers."""
    one, _ = factory.cell("tiny", "waiting_line/copy", right=1.0, n=10, nfe=4)
    other, _ = factory.cell("tiny", "waiting_line/sort", right=0.5, n=30, nfe=8)
    (means,) = overview(scopes(factory.rows([one, other]))[0])
    assert means["score"] == pytest.approx(75.0)
    assert means["nfe"] == 6
    assert one.tokens_per_step is not None
    assert other.tokens_per_step is not None
    plain = (one.tokens_per_step + other.tokens_per_step) / 2
    assert means["tokens_per_step"] == pytest.approx(plain)
