"""pbcore.results.baseline: what is written reads back equal, and absurd files are refused in one
line.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.base.errors import InputError
from pbcore.results import create, error_cell
from pbcore.results.baseline import (
    baseline_cell,
    pack_runs,
    read_baseline,
    unpack_runs,
    write_baseline,
)
from pbcore.results.rundir import StoredCell
from tests.results import factory
from tests.results.files import run_command

CELL = "tiny/shuffle/confidence-k2"


class TestBaseline:
    def test_round_trip_and_one_line_a_cell(self, tmp_path: Path) -> None:
        """A written baseline reads back equal to the run it came from, sorted, a line per cell, the
        same bytes each time.
        """
        entries = [
            *factory.grid(tasks=("waiting_line/copy",)),
            factory.cell(
                "tiny", "text_writing/summarization", right=[0.25, 1 / 3, 1.0], headline="rouge_l"
            ),
        ]
        stored = [StoredCell(record, tuple(samples)) for record, samples in entries]
        path = write_baseline(tmp_path / "b.json", stored)
        assert read_baseline(path) == {entry.cell.id: baseline_cell(entry) for entry in stored}
        lines = path.read_text().splitlines()
        assert len(lines) == len(stored) + 2
        assert lines[1:-1] == sorted(lines[1:-1])
        assert write_baseline(tmp_path / "c.json", stored[::-1]).read_bytes() == path.read_bytes()

    def test_indices_with_gaps_survive_the_file(self, tmp_path: Path) -> None:
        """A run over chosen samples keeps their numbers; only samples 0 to n − 1 are shortened to a
        range.
        """
        for indices in ((0, 1, 2), (0, 1, 3), (3, 7, 9), (1, 2, 3)):
            record, samples = factory.cell(right=[1.0, 0.0, 1.0])
            chosen = [
                replace(sample, index=index) for sample, index in zip(samples, indices, strict=True)
            ]
            row = read_baseline(
                write_baseline(tmp_path / "b.json", [StoredCell(record, tuple(chosen))])
            )[record.id]
            assert (row.indices, row.scores) == (indices, {"accuracy": (1.0, 0.0, 1.0)})
            assert ('"0-2"' in (tmp_path / "b.json").read_text()) == (indices == (0, 1, 2))

    def test_rows_that_are_not_the_forwards(self, tmp_path: Path) -> None:
        """They survive the file, summed over seeds; where they are the forwards, the row has
        none.
        """
        asking = factory.cell(right=[1.0] * 4, nfe=[2, 2, 3, 3], rows=[5, 6, 7, 9], seeds=2)
        for entry, rows in ((asking, (12, 15)), (factory.cell(right=[1.0, 0.0]), ())):
            file = write_baseline(tmp_path / "b.json", [StoredCell(entry[0], tuple(entry[1]))])
            row = read_baseline(file)[entry[0].id]
            assert (row.rows, row.forwarded) == (rows, rows or row.nfe)
            assert (
                ('"rows": "12 15"' in file.read_text())
                == ('"rows"' in file.read_text())
                == bool(rows)
            )

    def test_tokens_forwarded(self, tmp_path: Path) -> None:
        """They survive the file, summed over seeds; a run that doesn't count them has none."""
        counted = factory.cell(right=[1.0] * 4, tokens=[20, 30, 40, 50], seeds=2)
        for entry, tokens in ((counted, (60, 80)), (factory.cell(right=[1.0, 0.0]), ())):
            file = write_baseline(tmp_path / "b.json", [StoredCell(entry[0], tuple(entry[1]))])
            assert read_baseline(file)[entry[0].id].tokens_forwarded == tokens
            assert ("tokens_forwarded" in file.read_text()) == bool(tokens)

    def test_what_made_it(self, tmp_path: Path) -> None:
        """Versions and machine stand once, and in the rows where they differ."""
        versions = {"torch": "2.9.1", "pbcore": "0.2.0"}
        cells = []
        for sampler, threads in (("ar", 1), ("random-k2", 2)):
            record, samples = factory.cell(sampler=sampler, threads=threads)
            conditions = replace(record.conditions, versions=versions)
            cells.append(StoredCell(replace(record, conditions=conditions), tuple(samples)))
        file = write_baseline(tmp_path / "b.json", cells, {"processor": "A", "gpus": []})
        first, *rows, _ = file.read_text().splitlines()
        assert '"made_with": {"processor": "A", "torch": "2.9.1"}' in first
        assert ['"made_with": {"threads": "1"}' in row for row in rows] == [True, False]
        made_with = [row.made_with for row in read_baseline(file).values()]
        known = {"processor": "A", "torch": "2.9.1"}
        assert made_with == [known | {"threads": "1"}, known | {"threads": "2"}]

    def test_the_kind_of_device(self) -> None:
        """A GPU by its name, where the run knows it."""
        cell, samples = factory.cell(device="cuda")
        entry = StoredCell(cell, tuple(samples))
        assert baseline_cell(entry, {"gpus": ["NVIDIA H100"]}).device == "cuda (NVIDIA H100)"
        assert baseline_cell(entry).device == "cuda"

    def test_what_decides_scores(self) -> None:
        """Options that were given; those at their default are left out."""
        given = {"official_text": True, "cot_answer": "marked", "max_new_tokens": 8, "limit": 3}
        record, samples = factory.cell()
        conditions = replace(record.conditions, options=given)
        row = baseline_cell(StoredCell(replace(record, conditions=conditions), tuple(samples)))
        assert row.options == {"max_new_tokens": "8", "official_text": "True"}

    def test_a_killed_writer_leaves_the_earlier_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The new text takes the file's place only when it is whole."""
        record, samples = factory.cell()
        file = write_baseline(tmp_path / "b.json", [StoredCell(record, tuple(samples))])
        before = file.read_bytes()

        def killed(descriptor: int) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("os.fsync", killed)
        other = factory.cell(sampler="random-k2")
        with pytest.raises(OSError, match="no space left"):
            write_baseline(file, [StoredCell(other[0], tuple(other[1]))])
        assert file.read_bytes() == before

    def test_scores_that_one_sample_lacks_are_left_out(self) -> None:
        """A baseline compares sample by sample; a score with a hole can't be."""
        record, samples = factory.cell(right=[1.0, 0.0])
        graded = record.scores["accuracy"]
        part = [replace(samples[0], scores={"accuracy": 1.0, "grammar": 1.0}), samples[1]]
        row = baseline_cell(
            StoredCell(replace(record, scores={"accuracy": graded, "grammar": graded}), tuple(part))
        )
        assert row.scores == {"accuracy": (1.0, 0.0)}

    def test_a_run_directory_is_a_baseline(self, tmp_path: Path) -> None:
        """Its finished cells are rows, one that failed is none; without samples there is nothing to
        compare.
        """
        failed = (error_cell(factory.cell(sampler="random-k1")[0], "boom"), [])
        run = factory.write(create(tmp_path, "a"), [factory.cell(), failed])
        assert list(read_baseline(run.path)) == [CELL]
        run.assemble()
        shutil.rmtree(run.cells_dir)
        assert list(read_baseline(run.path)) == [CELL]
        (run.path / "samples.jsonl").unlink()
        with pytest.raises(InputError, match="no finished cell with samples"):
            read_baseline(run.path)

    def test_refuses_holes_and_missing_files(self, tmp_path: Path) -> None:
        """No baseline from failed cells, and none that isn't there."""
        failed = StoredCell(error_cell(factory.cell()[0], "boom"), ())
        for cells in ([failed], []):
            with pytest.raises(InputError, match="no baseline written"):
                write_baseline(tmp_path / "b.json", cells)
        with pytest.raises(InputError, match="no baseline at"):
            read_baseline(tmp_path / "none.json")

    @given(st.lists(st.integers(0, 5), max_size=50))
    def test_runs_round_trip(self, values: list[int]) -> None:
        """Packed runs unpack to the same numbers."""
        assert list(unpack_runs(pack_runs(values))) == values

    def test_level(self, tmp_path: Path) -> None:
        """A record says at which level of the factors it was measured; a file has it in the id."""
        record, samples = factory.cell()
        at = replace(record.conditions, level={"shots": 0, "cot": "on"})
        cell = replace(record, id=f"{record.id}/shots:0+cot:on", conditions=at)
        path = write_baseline(tmp_path / "b.json", [StoredCell(cell, tuple(samples))])
        assert read_baseline(path)[cell.id].level == "shots:0+cot:on"
        renamed = StoredCell(replace(cell, id="another/id"), tuple(samples))
        assert baseline_cell(renamed).level == "shots:0+cot:on"
        assert baseline_cell(StoredCell(record, tuple(samples))).level == ""


class TestAbsurdFiles:
    ROW: dict[str, Any] = {  # noqa: RUF012
        "model": "tiny",
        "task": "waiting_line/shuffle",
        "sampler": "confidence-k2",
        "seeds": [0],
        "dtype": "float32",
        "data_hash": "d1",
        "length": "",
        "headline": "accuracy",
        "model_identity": {},
        "indices": "0-3",
        "scores": {"accuracy": "1111"},
        "nfe": "16x4",
        "tokens_per_step": 2.0,
        "device": "cpu",
        "texts": "0123abcd" * 4,
    }

    @pytest.mark.parametrize(
        "change",
        [
            {"indices": "0-999999999"},
            {"indices": "5-8"},
            {"indices": "0--3"},
            {"indices": []},
            {"indices": [0, 0, 1, 2]},
            {"nfe": "16x999999999"},
            {"nfe": "16x"},
            {"nfe": [16]},
            {"nfe": "-1x4"},
            {"nfe": "1e3x4"},
            {"nfe": "16x3"},
            {"rows": "16x3"},
            {"rows": [16]},
            {"scores": {"accuracy": "1191"}},
            {"scores": {"accuracy": [2, 0, 0, 0]}},
            {"scores": [1]},
            {"scores": {"accuracy": None}},
            {"seeds": []},
            {"seeds": "0"},
            {"tokens_per_step": "2"},
            {"tokens_per_step": -1},
            {"model_identity": None},
            {"headline": 3},
            {"id": "x"},
            {"colour": "red"},
            {"options": {"official_text": 1}},
            {"made_with": ["torch"]},
            {"texts": "0123abcd" * 3},
            {"texts": "0123abcg" * 4},
            {"texts": "0123"},
            {"device": None},
        ],
        ids=str,
    )
    def test_absurd_rows_name_file_and_cell(self, tmp_path: Path, change: dict[str, Any]) -> None:
        """Wrong types and ranges are told in one line, before anything large is built."""
        file = tmp_path / "b.json"
        file.write_text(json.dumps({"schema": 2, "cells": {CELL: self.ROW}}))
        assert list(read_baseline(file)) == [CELL]
        file.write_text(json.dumps({"schema": 2, "cells": {CELL: {**self.ROW, **change}}}))
        with pytest.raises(InputError, match=rf"b\.json: cell {CELL}") as raised:
            read_baseline(file)
        assert "\n" not in str(raised.value)

    def test_nothing_to_judge_by_is_an_error(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An empty file passes no run: the command's exit status is 2."""
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        (tmp_path / "b.json").write_text('{"schema": 2, "cells": {}}')
        assert run_command("compare", run.path, tmp_path / "b.json") == 2
        said = capsys.readouterr()
        assert "b.json" in said.err
        assert "PASSED" not in said.out

    def test_unpack_runs_has_a_bound(self) -> None:
        """Counts in a file can't fill the memory."""
        with pytest.raises(ValueError, match="longer than"):
            unpack_runs("1x999999 2x999999")
