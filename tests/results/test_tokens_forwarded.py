"""Tokens forwarded in records: counted, not counted, and in records from before the count."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pbcore.costs.calls import CallShape
from pbcore.report.markdown import report_text
from pbcore.report.report import read_report
from pbcore.results import create
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.results.table_row import cell_row
from tests.results import factory

FIELDS = ("tokens_forwarded", "tokens_prefilled", "tokens_padded", "calls")


class TestRecords:
    def test_means_and_sizes(self) -> None:
        """Means per answer; the calls of all answers are added."""
        record, samples = factory.cell(n=2, tokens=[100, 200])
        assert [sample.tokens_forwarded for sample in samples] == [100, 200]
        assert (record.tokens_forwarded, record.tokens_prefilled, record.tokens_padded) == (
            150,
            0,
            3,
        )
        assert record.calls == {CallShape(1, 50, 0, 32): 2, CallShape(1, 100, 0, 32): 2}
        assert CellRecord.from_json(record.to_json()) == record
        assert cell_row(record)["tokens_forwarded"] == 150

    def test_not_counted(self) -> None:
        """None, also where one answer alone lacks the count."""
        record, _ = factory.cell()
        assert [getattr(record, name) for name in FIELDS] == [None] * 4

    def test_from_before_the_count(self, tmp_path: Path) -> None:
        """They load, and are `–` beside others, with the reason once."""
        record, samples = factory.cell(sampler="random-k2")
        old = {name: value for name, value in record.to_json().items() if name not in FIELDS}
        assert CellRecord.from_json(json.loads(json.dumps(old))) == record
        bare = {
            name: getattr(samples[0], name)
            for name in SampleRecord.__slots__
            if name not in ("tokens_forwarded", "tokens_prefilled")
        }
        assert SampleRecord.from_json(bare) == replace(samples[0])
        run = factory.write(create(tmp_path, "a"), [(record, samples), factory.cell(tokens=100)])
        run.assemble()
        text = report_text(read_report([run.path]))
        head, _, counted, uncounted = [
            line
            for line in text.partition("## Speed")[2].partition("##")[0].splitlines()
            if line.startswith("|")
        ]
        place = [cell.strip() for cell in head.split("|")].index("tokens forwarded")
        assert [line.split("|")[place].strip() for line in (counted, uncounted)] == ["100.00", "–"]
        assert text.count("not counted when the run was measured") == 1
