"""pbcore export --csv and --parquet: a run as tables."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.cli import main
from pbcore.exchange.export import defused, export_csv, tables, write_parquet
from pbcore.results import RunDir, create, error_cell, questions
from pbcore.results.record import Blame
from pbcore.tasks import load_task
from tests.results import factory
from tests.results.damage import ODD_TEXTS

FORMULA = '=HYPERLINK("http://x","y")'
HOSTILE = [
    FORMULA,
    "+1",
    "-1+1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "'=1",
    "it's",
    'a\nb,"c"',
    "\x00\ud800",
    "",
    "1",
]


def run_of(tmp_path: Path, texts: list[str] = HOSTILE) -> RunDir:
    """A cell with these answers, one graded text cell, and one that could not be run."""
    record, samples = factory.cell(n=len(texts), right=[float(i % 2) for i in range(len(texts))])
    spoken = [
        replace(one, text=text, steps=[0, 1], confidences=[0.5, 0.25])
        for one, text in zip(samples, texts, strict=True)
    ]
    other, graded = factory.cell(
        task="text_writing/summarization", headline="rouge_l", right=[0.25, 0.5]
    )
    failed = error_cell(factory.cell(model="broken")[0], FORMULA)
    return factory.write(create(tmp_path, "run"), [(record, spoken), (other, graded), (failed, [])])


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def back(text: str) -> str:
    """What the documentation says: one quote less where a quote stands before what would be a
    formula.
    """
    return text[1:] if text.startswith("'") and defused(text[1:]) != text[1:] else text


class TestCsv:
    def test_no_cell_is_a_formula(self, tmp_path: Path) -> None:
        """No text of either file begins as a formula, and none is lost; lines end alike on every
        system.
        """
        cells, samples = export_csv(run_of(tmp_path).path, tmp_path / "out")
        assert not any(b"\r\n" in file.read_bytes() for file in (cells, samples))
        for row in (*rows(cells), *rows(samples)):
            for name, value in row.items():
                number = value.replace(".", "", 1).replace("e-", "", 1).lstrip("-").isdecimal()
                assert number or not value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")), name
        told = [row for row in rows(samples) if row["task"] == "waiting_line/shuffle"]
        assert [back(row["text"]) for row in told[:9]] == HOSTILE[:9]
        assert told[9]["text"] == "\x00\\ud800"
        assert [row["error"] for row in rows(cells) if row["status"] == "error"] == [f"'{FORMULA}"]

    @given(st.one_of(st.sampled_from(ODD_TEXTS), st.text(alphabet="'=+-@\t\r\nx", max_size=6)))
    def test_a_text_comes_back(self, text: str) -> None:
        """Defusing loses nothing."""
        assert back(defused(text)) == text
        assert not defused(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))

    def test_columns_and_values(self, tmp_path: Path) -> None:
        """A row per cell and per answer; what was not measured is empty, lists and mappings are
        JSON.
        """
        cells, samples = export_csv(run_of(tmp_path).path, tmp_path / "out")
        by_id = {row["id"]: row for row in rows(cells)}
        cell = by_id["tiny/shuffle/confidence-k2"]
        assert (cell["status"], float(cell["score"]), cell["n"], cell["rouge_l"]) == (
            "ok",
            0.5,
            "12",
            "",
        )
        assert json.loads(cell["model_info"]) == {"source": "embedded", "revision": "r1"}
        first = rows(samples)[0]
        graded = [row for row in rows(samples) if row["task"] == "text_writing/summarization"]
        assert [float(row["rouge_l"]) for row in graded] == [0.25, 0.5]
        assert graded[0]["accuracy"] == ""
        told = next(row for row in rows(samples) if row["task"] == "waiting_line/shuffle")
        assert (told["index"], told["seed"], told["nfe"], told["accuracy"], told["why"]) == (
            "0",
            "0",
            "16",
            "0.0",
            "wrong",
        )
        assert (json.loads(told["steps"]), json.loads(told["confidences"])) == ([0, 1], [0.5, 0.25])
        assert list(first)[:8] == [
            "cell",
            "model",
            "task",
            "sampler",
            "prompt",
            "answer",
            "index",
            "seed",
        ]

    def test_the_questions_that_a_run_keeps(self, tmp_path: Path) -> None:
        """Prompt and a right answer stand beside the answer that was given."""
        task = load_task("waiting_line/copy", limit=2)
        record, answers = factory.cell(task=task.name, n=2, data_hash=task.data_hash)
        run = factory.write(create(tmp_path, "run"), [(record, answers)])
        questions.write_questions(run, task)
        made = tables(run.path)["samples"]
        assert made["prompt"] == [sample.prompt for sample in task.samples]
        assert made["answer"] == [sample.label for sample in task.samples]

    def test_a_score_named_like_a_column(self, tmp_path: Path) -> None:
        """An own scorer may call a score `text`; the answer's column stays its own."""
        record, samples = factory.cell(n=2, right=1.0)
        named = [replace(one, scores={"accuracy": 1.0, "text": 0.5}) for one in samples]
        run = factory.write(create(tmp_path, "run"), [(record, named)])
        made = tables(run.path)["samples"]
        assert made["text"] == ["an answer"] * 2
        assert made["score_text"] == [0.5, 0.5]


class TestParquet:
    def test_as_they_are(self, tmp_path: Path) -> None:
        """Texts are not defused, lists are lists, what was not measured is null."""
        parquet = pytest.importorskip("pyarrow.parquet")
        (tmp_path / "out").mkdir()  # of an earlier export
        cells, samples = write_parquet(run_of(tmp_path).path, tmp_path / "out")
        answers: list[dict[str, Any]] = parquet.read_table(samples).to_pylist()
        told = [row for row in answers if row["task"] == "waiting_line/shuffle"]
        assert [row["text"] for row in told] == [*HOSTILE[:9], "\x00\\ud800", "", "1"]
        assert (told[0]["steps"], told[0]["confidences"], told[0]["official_text"]) == (
            [0, 1],
            [0.5, 0.25],
            None,
        )
        assert [row["rouge_l"] for row in answers if row["rouge_l"] is not None] == [0.25, 0.5]
        failed = [row for row in parquet.read_table(cells).to_pylist() if row["status"] == "error"]
        assert (failed[0]["error"], failed[0]["score"]) == (FORMULA, None)

    def test_columns_of_empty_values_keep_their_types(self, tmp_path: Path) -> None:
        """What no row has measured is null or empty, of its column's type, so that the tables of
        several runs join.
        """
        parquet = pytest.importorskip("pyarrow.parquet")
        record, samples = factory.cell(n=1)
        empty = replace(
            samples[0],
            nfe=None,
            details={},
            tokens=None,
            steps=[],
            confidences=[],
            official_text=None,
        )
        _, file = write_parquet(
            factory.write(create(tmp_path, "run"), [(record, [empty])]).path, tmp_path / "out"
        )
        table = parquet.read_table(file)
        types = {
            **dict.fromkeys(("prompt", "answer", "official_text", "why", "failure"), "string"),
            "verdict": "string",
            "blamed_step": "int64",
            "tokens": "list<element: string>",
            "steps": "list<element: int64>",
            "confidences": "list<element: double>",
            "nfe": "double",
        }
        assert {name: str(table.schema.field(name).type) for name in types} == types
        lists = ("steps", "confidences")
        assert {name: table[name].to_pylist() for name in types} == {
            name: [[]] if name in lists else [None] for name in types
        }

    def test_what_is_to_blame(self, tmp_path: Path) -> None:
        """Each answer's verdict, and the step that it names, counted from 0 as `steps` are."""
        record, samples = factory.blamed(factory.cell(n=2, right=[0.0, 1.0]), ["together", None])
        samples[0] = replace(samples[0], blame=Blame("together", "", 3))
        answers = tables(factory.write(create(tmp_path, "run"), [(record, samples)]).path)
        assert answers["samples"]["verdict"] == ["together", None]
        assert answers["samples"]["blamed_step"] == [3, None]
        assert answers["cells"]["lost_together"] == [0.5]


class TestCommand:
    def test_files_are_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A line per file."""
        run = run_of(tmp_path)
        assert main(["export", str(run.path), "--csv", str(tmp_path / "out")]) == 0
        assert capsys.readouterr().out.splitlines() == [
            str(tmp_path / "out" / "cells.csv"),
            str(tmp_path / "out" / "samples.csv"),
        ]
