"""pbcore.report.markdown: report.md section by section."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.printable import fixed
from pbcore.report.files import write_files
from pbcore.report.markdown import report_text
from pbcore.report.scopes import overview, scopes
from pbcore.results import CellRecord, Conditions, create, error_cell
from tests.markdown_tables import unpadded
from tests.report.test_tables import TWO, ungraded
from tests.results import factory


def cell(**facts: Any) -> CellRecord:
    return factory.cell(**facts)[0]


def under_conditions(record: CellRecord, **conditions: Any) -> CellRecord:
    return replace(record, conditions=replace(record.conditions, **conditions))


def failed(task: str, cause: str) -> CellRecord:
    name = f"tiny/{task.split('/')[1]}/ar"
    return error_cell(CellRecord(name, "tiny", task, "ar", Conditions.unknown()), cause)


def page(*records: CellRecord, plots: tuple[str, ...] = (), **facts: Any) -> str:
    return report_text(factory.report(records, **facts), plots)


def section(text: str, title: str) -> list[str]:
    """The lines under a heading; none without it."""
    return text.partition(f"## {title}\n\n")[2].partition("\n## ")[0].splitlines()


def rows(lines: list[str]) -> list[list[str]]:
    """The cells of a table's rows, its header first."""
    found = [
        [entry.strip() for entry in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    return [found[0], *found[2:]]


class TestFacts:
    def facts(self, *records: CellRecord, **facts: Any) -> dict[str, str]:
        """The last table of the page."""
        lines = [
            line for line in section(page(*records, **facts), "The run") if line.startswith("| ")
        ]
        return dict(rows(["| | |", "|---|", *lines[1:]])[1:])

    def test_what_run_json_tells(self) -> None:
        """The command as a shell takes it, and what was given; versions and machine without what is
        unknown.
        """
        told = self.facts(
            cell(),
            command=["pytest", "benches", "-k", "a b"],
            started="now",
            profile="ci",
            shard="1/2",
            machine={"cpu": "x", "gpu": None, "note": "", "gpus": [], "cpus": 2},
            versions={"torch": "2"},
        )
        assert told == {
            "command": "`pytest benches -k 'a b'`",
            "started": "now",
            "profile": "ci",
            "shard": "1/2",
            "seeds": "0",
            "data source": "own",
            "prompts": "v1",
            "device": "cpu",
            "dtype": "float32",
            "machine": "cpu x, cpus 2",
            "versions": "torch 2",
            "cells": "1",
        }

    def test_what_is_not_known_has_no_row(self) -> None:
        """A run without run.json, or of another program."""
        told = self.facts(
            cell(), failed("puzzle/sudoku", "boom"), shard=None, machine="x", command="pytest"
        )
        assert [name for name in told if name in ("started", "shard", "machine", "versions")] == []
        assert (told["command"], told["cells"]) == ("`pytest`", "2, of which 1 could not be run")

    def test_conditions_of_the_cells_are_joined(self) -> None:
        """Each once, sorted; the models whose code was run."""
        told = self.facts(
            under_conditions(cell(model="b"), device="cuda:0", model_info={"remote_code": True}),
            under_conditions(cell(model="a"), device="cpu", model_info={"remote_code": False}),
            under_conditions(cell(model="c"), device="cpu", model_info=None),
        )
        assert told["device"] == "cpu, cuda:0"
        assert told["ran code that came with the checkpoint"] == "b"

    def test_a_long_command_is_cut(self) -> None:
        """At 2,000 characters."""
        assert self.facts(cell(), command="x" * 2000)["command"] == f"`{'x' * 2000}`"
        assert "(2,001 characters)" in self.facts(cell(), command="x" * 2001)["command"]


class TestTop:
    def test_headline_first(self) -> None:
        """What was measured, the headline, the plot, the means."""
        text = page(cell(), cell(task="puzzle/sudoku"), plots=("curves.png",), started="2026-03-04")
        lines = [line for line in text.splitlines() if line]
        assert (
            lines[1]
            == "Measured: tiny on 2 tasks (waiting_line 1, puzzle 1) with 1 sampler, 20 samples a"
            " cell; cpu, float32; 4 March 2026."
        )
        assert lines[2].startswith("**tiny   no verdict: only one sampler has scores")
        assert lines[3] == "![curves](curves.png)"
        assert rows(section(text, "Means over each model's own tasks")) == [
            [
                "model",
                "sampler",
                "mean score %",
                "95 % interval",
                "tokens/step",
                "TPF",
                "tasks scored",
            ],
            ["tiny", "confidence-k2", "90.0", "76–95", "2.00", "1.13", "2 of 2"],
        ]

    def test_the_verdict_comes_before_what_went_wrong(self) -> None:
        """Kinds of wrong answers, errors and what was not measured stand below it."""
        dummy = under_conditions(cell(model="d"), dummy=True)
        text = page(cell(), failed("puzzle/sudoku", "boom"), dummy)
        verdict = text.index("**tiny   no verdict")
        for title in ("Wrong answers by kind", "Cells that could not be run", "Not measured"):
            assert verdict < text.index(f"## {title}")

    def test_the_same_number_as_in_the_page(self) -> None:
        """Tokens per forward of tasks with other lengths, and halves, which go up everywhere."""
        records = [
            cell(right=[1.0] * 361 + [0.0] * 39, n=400),
            cell(task="puzzle/sudoku", nfe=4, canvas=8),
        ]
        assert (
            rows(section(page(*records[:1]), "Means over each model's own tasks"))[1][2] == "90.3"
        )
        (row,) = overview(scopes(factory.rows(records))[0])
        told = rows(section(page(*records), "Means over each model's own tasks"))[1][5]
        assert (
            told == fixed(row["tokens_per_forward"], 2) == "1.56"
        )  # (18 / 16 + 8 / 4) / 2, halves up


class TestPlots:
    def test_each_is_shown_with_its_name(self) -> None:
        """And without plots there is no heading."""
        text = page(cell(), plots=("curves.png", "speed.png"))
        assert section(text, "Trade-off curves") == ["![speed](speed.png)", ""]
        assert text.index("![curves](curves.png)") < text.index("## Means")
        assert "Trade-off" not in page(cell())


class TestPbx:
    def test_a_row_per_category_model_and_family(self) -> None:
        """The largest rate at which the mean is high enough, a dash where it never is."""
        text = page(
            cell(right=0.75, nfe=8),
            cell(sampler="random-k1", right=0.1),
            cell(task="puzzle/sudoku", right=1),
        )
        lines = section(
            text,
            "PBx: the largest tokens per step at which the category's mean score is at least x %",
        )
        assert rows(lines) == [
            ["category", "model", "family", "PB60", "PB70", "PB80", "PB90"],
            ["waiting_line", "tiny", "confidence", "4.00", "4.00", "–", "–"],
            ["waiting_line", "tiny", "random", "–", "–", "–", "–"],
            ["puzzle", "tiny", "confidence", "2.00", "2.00", "2.00", "2.00"],
        ]
        assert lines[-1] == "–: never reached. Measured points only, without interpolation."


class TestLists:
    def test_wrong_answers_by_model_and_category(self) -> None:
        """The most frequent kinds first; random weights are not counted, and a clean category has
        no line.
        """
        first = replace(cell(), failures={"rare": 1, "often": 5})
        second = replace(cell(task="waiting_line/copy"), failures={"rare": 1})
        other = replace(cell(task="puzzle/sudoku", right=1.0), failures={})
        dummy = under_conditions(cell(model="d"), dummy=True)
        assert section(page(first, second, other, dummy), "Wrong answers by kind") == [
            "- tiny waiting_line: often 5, rare 2"
        ]
        many = replace(cell(), failures={f"kind {n}": n for n in range(1, 23)})
        (line,) = section(page(many), "Wrong answers by kind")
        assert (line.count("kind"), line.endswith("kind 3 3")) == (20, True)
        assert "Wrong answers" not in page(other)

    def test_cells_that_could_not_be_run(self) -> None:
        """With the first line of their cause."""
        text = page(cell(), failed("puzzle/sudoku", "boom\nand more"), failed("list_ops/copy", ""))
        assert section(text, "Cells that could not be run") == [
            "- `tiny/sudoku/ar`: boom",
            "- `tiny/copy/ar`: no cause recorded",
        ]
        assert "could not be run\n" not in page(cell())

    def test_what_was_not_measured(self) -> None:
        """Cells are counted by score and reason; models with random weights follow."""
        absent = replace(cell(), absent={"seconds": "shared", "grammar": "no Java"})
        again = replace(cell(task="waiting_line/copy"), absent={"seconds": "shared"})
        dummies = [under_conditions(cell(model=name), dummy=True) for name in ("e", "d", "d")]
        assert section(page(absent, again, *dummies), "Not measured") == [
            "- grammar: no Java (1 cell)",
            "- seconds: shared (2 cells)",
            "- d: random weights, so its scores are left out of the tables",
            "- e: random weights, so its scores are left out of the tables",
        ]
        assert "Not measured" not in page(cell())

    def test_a_composite_stands_beside_what_it_lacks(self) -> None:
        """One reason is given once; a composite that lacks something else has its own."""
        lacking = {"bertscore": "no model", "v1": "bertscore: no model", "v2": "grammar: too long"}
        assert section(page(replace(cell(), absent=lacking)), "Not measured") == [
            "- bertscore, v1: no model (1 cell)",
            "- v2: grammar: too long (1 cell)",
        ]


@pytest.mark.parametrize("name", ["1e3", "007", "nan"])
def test_names_that_look_like_numbers_stay_names(name: str) -> None:
    """A model called 1e3 is not the model 1000.00."""
    assert rows(section(page(cell(model=name)), "Speed"))[1][0] == name


class TestReport:
    def test_page(self, tmp_path: Path) -> None:
        """report.md has tables, curves that exist, PBx, speed, failures, errors and what was not
        measured.
        """
        shared, samples = factory.cell("tiny", "puzzle/sudoku", "random-k2")
        entries = [
            *factory.grid(("tiny",), TWO),
            ungraded(),
            (replace(shared, conditions=replace(shared.conditions, shared_device=True)), samples),
            (error_cell(factory.cell(sampler="ar")[0], "boom"), []),
        ]
        written = write_files(factory.write(create(tmp_path, "a"), entries).path)
        page = unpadded(written[0].read_text())
        assert written[0].name == "report.md"
        assert all(path.exists() and f"]({path.name})" in page for path in written[2:])
        for heading in (
            "waiting_line: score",
            "Trade-off curves",
            "PBx",
            "Speed",
            "Wrong answers by kind",
            "Cells that could not be run",
            "Not measured",
        ):
            assert f"## {heading}" in page, heading
        assert "| command | `pytest benches` |" in page
        assert "workers shared a device" in page
        assert "tiny/shuffle/ar" in page

    def test_pbx_keeps_the_order_of_the_tables(self) -> None:
        """Categories as they come in the run, not by the alphabet."""
        entries = [
            factory.cell(task=task)
            for task in ("waiting_line/copy", "puzzle/sudoku", "list_ops/shuffle")
        ]
        section = report_text(factory.report(record for record, _ in entries)).partition("## PBx")[
            2
        ]
        rows = [
            line.split("|")[1].strip()
            for line in section.partition("\n## ")[0].splitlines()
            if "confidence" in line
        ]
        assert rows == ["waiting_line", "puzzle", "list_ops"]

    def test_interrupted_and_empty_runs(self, tmp_path: Path) -> None:
        """A run that died before its first cell, or has only errors, still gets its page."""
        assert write_files(create(tmp_path, "a").path)[0].exists()
        run = factory.write(create(tmp_path, "b"), [(error_cell(factory.cell()[0], "boom"), [])])
        assert "boom" in write_files(run.path)[0].read_text()
