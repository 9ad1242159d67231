"""pbcore.results.measures: what is declared of a cell's numbers goes together."""

from __future__ import annotations

from dataclasses import fields

from pbcore.exchange.export import FIELDS
from pbcore.results.measures import MEASURES
from pbcore.results.record import SampleRecord


def test_a_shown_number_has_a_head_of_its_own() -> None:
    """Also in a terminal's tables."""
    tables = {"page", "category", "means", "speed", "comparison"}
    shown = [measure for measure in MEASURES if tables & set(measure.shown)]
    assert len({measure.head for measure in shown} - {""}) == len(shown)
    assert len({measure.short or measure.head for measure in shown}) == len(shown)


def test_compared_numbers_are_in_the_data() -> None:
    """Tables of a comparison show nothing that it doesn't hold."""
    for measure in MEASURES:
        assert "comparison" not in measure.shown or "differences" in measure.shown


def test_what_an_answer_counts_is_of_its_record_and_exported() -> None:
    counted = {name for measure in MEASURES for name in measure.answers}
    assert counted >= {"nfe", "store", "tokens_forwarded"}
    assert counted <= {column.name for column in fields(SampleRecord)}
    assert counted <= set(FIELDS)
    assert len(FIELDS) == len(set(FIELDS))
