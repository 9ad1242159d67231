"""Numbers that were not measured: None in the record, a reason beside it, – in tables, nothing in
gates.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pbcore.analysis.oracle import oracle
from pbcore.analysis.timing.gate import judge_timing
from pbcore.analysis.tradeoff import mean_points
from pbcore.analysis.verdict import judge
from pbcore.base.errors import InputError
from pbcore.report.junit import write_junit
from pbcore.report.markdown import report_text
from pbcore.report.rows import cell_rows
from pbcore.report.summary import summary
from pbcore.results import CellRecord, SampleRecord, build_cell
from pbcore.results.baseline import baseline_cell, read_baseline, write_baseline
from pbcore.results.rundir import StoredCell
from pbcore.results.table_row import cell_row
from pbcore.tasks.scoring import Scored
from tests.results import factory

COUNTS = ("nfe", "nfe_median", "nfe_max", "tokens_per_step", "tokens_per_forward")
TIMES = ("seconds", "samples_per_second", "tokens_per_second")


def api(seconds: bool = True, right: int = 2) -> StoredCell:
    """A cell of a model that doesn't report its forwards, and that may have no time of its own."""
    known = factory.cell("api")[0]
    facts = CellRecord(
        known.id, known.model, known.task, known.sampler, known.conditions, headline="accuracy"
    )
    scored = [Scored({"accuracy": float(i < right)}) for i in range(3)]
    answers = [replace(factory.answer(text=str(i)), nfe=None) for i in range(3)]
    why = {} if seconds else {"seconds": "answers were kept from an earlier run"}
    cell, samples = build_cell(facts, answers, scored, rounds=[2.0] if seconds else [], absent=why)
    return StoredCell(cell, tuple(samples))


class TestRecord:
    def test_a_model_that_counts_no_forwards(self) -> None:
        """All numbers that count forwards are None, with one reason; times stay."""
        cell = api().cell
        flat = cell_row(cell)
        assert [flat[name] for name in COUNTS] == [None] * len(COUNTS)
        assert "does not report" in cell.absent["nfe"]
        assert [flat[name] for name in TIMES] == [2.0, 1.5, 27.0]

    def test_a_cell_without_a_time_of_its_own(self) -> None:
        """Without a round all times are None; the caller says why, or it is an error."""
        cell = api(seconds=False).cell
        assert [cell_row(cell)[name] for name in TIMES] == [None] * len(TIMES)
        assert cell.rounds == []
        with pytest.raises(ValueError, match="no round was timed"):
            build_cell(cell, [factory.answer()], [Scored({"accuracy": 1.0})], rounds=[])

    def test_json_round_trip(self) -> None:
        stored = api(seconds=False)
        assert CellRecord.from_json(json.loads(json.dumps(stored.cell.to_json()))) == stored.cell
        assert (
            SampleRecord.from_json(json.loads(json.dumps(asdict(stored.samples[0]))))
            == stored.samples[0]
        )


class TestReaders:
    def test_tables_report_and_junit(self, tmp_path: Path) -> None:
        """Scores are shown, what is missing as –, and cells without a time are counted."""
        cells = [api(seconds=False).cell, factory.cell("tiny")[0]]
        text = summary(factory.report(cells))
        assert "1.5 s of decoding (1 without a time of their own)" in text
        assert re.search(r"^tokens/step +–$", text, re.MULTILINE)
        assert "tiny" in report_text(factory.report(cells))
        assert (
            write_junit(cells, tmp_path / "junit.xml")
            .read_text(encoding="utf-8")
            .count("<testcase")
            == 2
        )

    def test_curves_leave_them_out(self) -> None:
        (point,) = mean_points(cell_rows([api().cell, factory.cell("tiny")[0]]), "tokens_per_step")
        assert point.model == "tiny"

    def test_oracle_needs_forwards(self) -> None:
        with pytest.raises(InputError, match="'api' has no NFE"):
            oracle({"api": api().samples}, "accuracy")


class TestGate:
    def test_scores_are_judged_without_forwards(self, tmp_path: Path) -> None:
        """A baseline of such a cell is written, read, and judged by its scores alone."""
        path = write_baseline(tmp_path / "baseline.json", [api()])
        base = read_baseline(path)
        assert base["api/shuffle/confidence-k2"] == baseline_cell(api())
        assert judge([api()], base).ok
        worse = judge([api(right=0)], base).judgements[0]
        assert (worse.status, worse.changes) == ("worse", {})

    def test_forwards_on_one_side_only_are_refused(self) -> None:
        cell, samples = factory.cell("api", right=[1.0, 1.0, 0.0])
        counted = StoredCell(cell, tuple(samples))
        one_sided = [
            judge([api()], {cell.id: baseline_cell(counted)}),
            judge([counted], {cell.id: baseline_cell(api())}),
        ]
        assert [verdict.judgements[0].status for verdict in one_sided] == ["refused", "refused"]
        assert "the baseline has forwards" in one_sided[0].judgements[0].reason
        assert "the run has forwards" in one_sided[1].judgements[0].reason

    def test_time_is_not_judged(self) -> None:
        machine = {"cpu": "x"}
        verdict = judge_timing([], [1.0] * 3, 0.1, machines=(machine, machine))
        assert not verdict.judged
        assert "no time of its own" in verdict.reason
