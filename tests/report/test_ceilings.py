"""Scores beside their ceilings, in report.md, on the terminal and in curves."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from pbcore.ceilings.ceiling import ceiling
from pbcore.cli import main
from pbcore.report.ceilings import ceiling_section, ceiling_text, with_ceilings
from pbcore.report.rows import CellRow
from pbcore.report.speed_quality import speed_quality
from pbcore.results import CellRecord, SampleRecord, create, frame
from pbcore.tasks.registry import load_task
from pbcore.theory.ceiling import Ceiling
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]


def entry(
    task: str, sampler: str, right: float, known: Ceiling | None, bits: float | None = None
) -> Entry:
    record, samples = factory.cell(
        "tiny", f"waiting_line/{task}", sampler, right=right, n=20, nfe=16
    )
    return replace(record, ceiling=known, bits_lost=bits), samples


def exactly(mean: float) -> Ceiling:
    return Ceiling(mean, "exact", mean, mean)


def shown(*entries: Entry) -> list[CellRow]:
    return factory.rows(record for record, _ in entries)


def shuffles() -> list[Entry]:
    return [
        entry("copy", "confidence-k2", 1.0, Ceiling(1.0, "closed", 1.0, 1.0), 0.0),
        entry("shuffle", "confidence-k2", 0.4, exactly(0.45), 1.5),
        entry("insert_random", "confidence-k2", 0.7, Ceiling(0.75, "sampled", 0.7, 0.8), 0.25),
        entry("shuffle", "confidence-k1", 1.0, exactly(1.0), 0.0),
        entry("copy", "confidence-k1", 1.0, exactly(1.0), 0.0),
        entry("insert_random", "confidence-k1", 1.0, exactly(1.0), 0.0),
    ]


class TestFrame:
    def test_the_gap_is_the_models_own(self) -> None:
        row = frame([shuffles()[1][0]]).iloc[0]
        assert (row["ceiling"], row["ceiling_low"], row["ceiling_kind"]) == (0.45, 0.45, "exact")
        assert row["gap"] == pytest.approx(0.05)
        assert row["bits_lost"] == 1.5

    def test_without_a_ceiling_there_is_no_gap(self) -> None:
        row = frame([entry("shuffle", "confidence-k2", 0.4, None)[0]]).iloc[0]
        assert row[["ceiling", "gap", "bits_lost"]].isna().all()
        assert row["ceiling_kind"] is None


class TestTables:
    def test_rows_and_tasks_below_their_ceiling(self) -> None:
        """One sampler and two tasks lose something; sampled ceilings are marked."""
        text = ceiling_text(shown(*shuffles()))
        (line,) = [line for line in text.splitlines() if "40 /" in line]
        row = [part.strip() for part in line.split("  ") if part]
        assert row == ["tiny", "confidence-k2", "40 / 45.0, 5", "70 / ~75.0, 5"]
        assert "1.50, 2.0" in text
        assert "confidence-k1" not in text
        assert "copy" not in text

    def test_the_page_has_them_and_is_silent_without(self) -> None:
        section = ceiling_section(shown(*shuffles()))
        assert section.startswith("## Ceilings: waiting_line")
        assert "| 40 / 45.0, 5 " in section
        assert "## Bits lost: waiting_line" in section
        assert ceiling_section(shown(entry("copy", "confidence-k2", 1.0, exactly(1.0), 0.0))) == ""
        assert ceiling_section(shown(entry("copy", "confidence-k2", 1.0, None))) == ""

    def test_how_many_cells_of_ideal_agree(self) -> None:
        """One interval holds its ceiling, the other doesn't; other models don't count."""
        near, far = (
            (replace(record, model="ideal", id=f"ideal/{number}"), samples)
            for number, (record, samples) in enumerate(
                (
                    entry("shuffle", "random-k2", 0.4, exactly(0.45)),
                    entry("insert_random", "random-k2", 0.4, exactly(0.9)),
                )
            )
        )
        table = shown(near, far, *shuffles())
        assert "Of 2 cells of ideal, 1 have their ceiling" in ceiling_section(table)
        assert "Of 2 cells of ideal, 1 have" in ceiling_text(table)
        assert "of ideal" not in ceiling_text(shown(*shuffles()))

    def test_ascii(self) -> None:
        """All its signs have a spelling in ASCII."""
        assert b"\\" not in ceiling_text(shown(*shuffles())).encode("ascii", "pbcore.spelled")


class TestCurves:
    def test_the_mean_ceiling_of_each_point(self) -> None:
        """Over the tasks of the panel; none where a task has none."""
        ceilings = {
            point.sampler: point.ceiling for point in speed_quality(shown(*shuffles())).points
        }
        assert ceilings["confidence-k2"] == pytest.approx(100 * (1 + 0.45 + 0.75) / 3)
        part = shown(*shuffles()[1:3], entry("copy", "confidence-k2", 1.0, None))
        assert all(isnan(point.ceiling) for point in speed_quality(part).points)


class TestOldRuns:
    def test_ceilings_are_worked_out_for_records_that_lack_them(self) -> None:
        """The samples are drawn again; a record of other samples stays without."""
        task = load_task("waiting_line/shuffle", limit=8)
        record, samples = factory.cell("tiny", "waiting_line/shuffle", "random-k4", right=0.5, n=8)
        ours = replace(
            record, length="3-6", conditions=replace(record.conditions, data_hash=task.data_hash)
        )
        filled = with_ceilings(
            shown((ours, samples), (replace(record, sampler="random-k8"), samples))
        )
        known = ceiling(task.samples, "random-k4")
        assert filled[0]["ceiling"] == 100 * known.mean
        assert filled[0]["ceiling_kind"] == "exact"
        assert filled[0]["gap"] == pytest.approx(known.mean - 0.5)
        assert isnan(filled[1]["ceiling"])

    def test_the_command(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run = factory.write(create(tmp_path, "a"), shuffles())
        assert main(["report", str(run.path)]) == 0
        assert "Ceilings:" not in capsys.readouterr().out
        assert main(["report", str(run.path), "--ceilings"]) == 0
        out = capsys.readouterr().out
        assert "Ceilings: waiting_line" in out
        assert "~75.0" in out
