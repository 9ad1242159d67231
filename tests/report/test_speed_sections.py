"""What report.md says of time."""

from __future__ import annotations

from dataclasses import replace

from tests.report.test_markdown import cell, failed, page, rows, section, under_conditions


class TestSpeed:
    def test_each_task_weighs_the_same(self) -> None:
        """NFE is a mean over tasks, as in the verdict; speeds are over all seconds; models, then
        samplers as people count.
        """
        first = cell(n=20, nfe=16)
        second = cell(task="waiting_line/copy", n=60, nfe=8)
        second = replace(
            second, seconds=4.5, samples_per_second=60 / 4.5, tokens_per_second=60 * 18 / 4.5
        )
        text = page(
            first,
            second,
            cell(model="a", sampler="random-k10"),
            cell(model="a", sampler="random-k2"),
        )
        answers = 20 + 60
        assert rows(section(text, "Speed")) == [
            ["model", "sampler", "cells", "NFE", "seconds", "samples/s", "tokens/s"],
            ["a", "random-k2", "1", "16.00", "1.50", "13.3", "240"],
            ["a", "random-k10", "1", "16.00", "1.50", "13.3", "240"],
            [
                "tiny",
                "confidence-k2",
                "2",
                f"{(16 + 8) / 2:.2f}",
                "6.00",
                f"{answers / 6:.1f}",
                f"{answers * 18 / 6:.0f}",
            ],
        ]
        assert "inexact" not in text

    def test_shared_devices_are_marked(self) -> None:
        """Each number of such a row, and the mark is explained."""
        lines = section(
            page(under_conditions(cell(), shared_device=True), cell(sampler="random-k1")), "Speed"
        )
        assert [row[-3:] for row in rows(lines)[1:]] == [
            [r"1.50\*", r"13.3\*", r"240\*"],
            ["1.50", "13.3", "240"],
        ]
        assert lines[-1] == r"\* inexact: measured while workers shared a device."

    def test_a_clock_that_showed_no_time(self) -> None:
        """It gives no speed."""
        still = replace(cell(), seconds=0.0, samples_per_second=None, tokens_per_second=None)
        assert rows(section(page(still), "Speed"))[1][-3:] == ["0.00", "–", "–"]

    def test_cells_without_seconds_have_no_row(self) -> None:
        """Nor those that failed; with none left there is no section."""
        text = page(
            cell(),
            replace(cell(sampler="random-k1"), seconds=None),
            failed("puzzle/sudoku", "boom"),
        )
        assert [row[1] for row in rows(section(text, "Speed"))[1:]] == ["confidence-k2"]
        assert "## Speed" not in page(failed("puzzle/sudoku", "boom"))

    def test_shared_forwards_have_a_table_of_their_own(self) -> None:
        """Sums over a sampler's cells, sorted as the others."""
        told = {
            "seconds": None,
            "seconds_estimated": 12.5,
            "forwards_shared": 1000,
            "forwards_computed": 300,
        }
        cells = [
            replace(cell(sampler=name, task=f"waiting_line/{task}"), **told)
            for name, task in SHARED
        ]
        assert rows(section(page(*cells, cell(model="timed")), "Shared forwards")) == [
            ["model", "sampler", "cells", "forwards", "computed", "seconds, estimated"],
            ["tiny", "random-k2", "2", "2,600", "600", "25.00"],
            ["tiny", "random-k10", "1", "1,300", "300", "12.50"],
        ]
        assert "Shared forwards" not in page(cell())


SHARED = (("random-k10", "copy"), ("random-k2", "copy"), ("random-k2", "sort"))


class TestRows:
    def test_of_samplers_that_ask(self) -> None:
        """Rows beside NFE in the table of speeds, and a sentence under it and under the curves."""
        text = page(cell(sampler="spec-8", rows=64), cell(), plots=("shuffle.png",))
        header, plain, asking = rows(section(text, "Speed"))
        assert header[3:5] == ["NFE", "rows"]
        assert (plain[3:5], asking[3:5]) == (["16.00", "16.00"], ["16.00", "64.00"])
        told = "neither is seconds, which depend on the machine"
        assert told in section(text, "Speed")[-1]
        assert told in section(text, "Trade-off curves")[-1]

    def test_of_others(self) -> None:
        """Nothing."""
        assert "rows" not in page(cell(), plots=("shuffle.png",))
