"""pbcore rescore: the questions of a run, found again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.exchange.rescore import rescore
from pbcore.results import RunDir, create
from pbcore.results.load import load_stored
from tests.exchange.test_rescore import run_of
from tests.results import factory


class TestQuestions:
    @pytest.mark.parametrize(
        "facts",
        [
            {"lengths": (6, 3)},
            {"lengths": (10,)},
            {"data_seed": 7},
            {"n": 120},
            {"shots": 3},
            {"shots": 0, "cot": True},
        ],
    )
    def test_they_are_found_again(self, tmp_path: Path, facts: dict[str, Any]) -> None:
        """Generated questions, whatever n, seed, number and way of asking the run had."""
        settings = {"n": list(facts["lengths"])} if "lengths" in facts else {}
        parent = run_of(tmp_path / "old", **facts, settings=settings)
        _, [one] = rescore(parent.path, tmp_path / "new")
        assert one.changed == {}

    def test_the_whole_of_an_answer_with_steps(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Scored otherwise than the run did, and back; the record says so."""
        parent = run_of(tmp_path / "old", shots=0, cot=True)
        [old] = load_stored(parent.path)
        plainly = [
            replace(one, text=one.text.removeprefix("The answer is: ")) for one in old.samples
        ]
        parent.write_cell(old.cell, plainly)
        means = []
        for made, words in (
            ("whole", ["--cot-answer", "whole"]),
            ("same", []),
            ("back", ["--cot-answer", "marked"]),
        ):
            assert main(["rescore", str(parent.path), "-o", str(tmp_path / made), *words]) == 0
            parent = RunDir(tmp_path / made)
            [new] = load_stored(parent.path)
            means.append(
                (new.cell.conditions.options.get("cot_answer"), new.cell.scores["accuracy"].mean)
            )
        assert means == [("whole", 1), ("whole", 1), ("marked", 0)]

    def test_official_data_that_moved(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The recorded folder is used, or the one that --data-dir names; without any it is asked
        for.
        """
        rows = tmp_path / "official" / "waiting_line"
        rows.mkdir(parents=True)
        line = {
            "input": {"context": '["Ann Lee", "Bo Ray", "Cy Poe"]'},
            "answer": '["Ann Lee", "Bo Ray", "Cy Poe"]',
        }
        (rows / "copy.jsonl").write_text(
            (json.dumps({**line, "metadata": {"length": 3}}) + "\n") * 3
        )
        run_of(
            tmp_path / "old", source=tmp_path / "official", n=3, data_dir=str(tmp_path / "official")
        )
        (tmp_path / "official").rename(tmp_path / "moved")
        assert main(["rescore", str(tmp_path / "old"), "-o", str(tmp_path / "new")]) == 2
        assert "give the folder that the run had with --data-dir" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
        words = [
            "rescore",
            str(tmp_path / "old"),
            "-o",
            str(tmp_path / "new"),
            "--data-dir",
            str(tmp_path / "moved"),
        ]
        assert main(words) == 0

    def test_other_questions_are_refused(self, tmp_path: Path) -> None:
        """Questions with another digest than the record's are not those that were answered."""
        parent = run_of(tmp_path / "old")
        [entry] = load_stored(parent.path)
        conditions = replace(entry.cell.conditions, data_hash="0" * 64)
        parent.write_cell(replace(entry.cell, conditions=conditions), entry.samples)
        with pytest.raises(
            ValueError,
            match=r"m/copy/ar: its questions can't be had: .*digest 00000000 is recorded",
        ):
            rescore(parent.path, tmp_path / "new")

    def test_an_unknown_task(self, tmp_path: Path) -> None:
        """Its file is asked for."""
        parent = create(tmp_path, "old")
        parent.write_cell(*factory.cell(task="mine/own"))
        with pytest.raises(ValueError, match="no task named mine/own; give its file with --tasks"):
            rescore(parent.path, tmp_path / "new")
