"""pbcore.results.rundir: whole cells or none, whatever happens."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.base.check import LoadError
from pbcore.report.rows import frame_rows
from pbcore.report.scopes import scopes
from pbcore.results import SCHEMA, RunDir, create, load, load_samples, open_run
from pbcore.results.rundir import CorruptCellWarning, RunDirError, cell_file, write_atomic
from tests.results import factory


def write_share(path: str, numbers: list[int]) -> None:
    for number in numbers:
        RunDir(Path(path)).write_cell(*factory.cell(sampler=f"random-k{number}"))


class TestCreate:
    def test_never_overwrites(self, tmp_path: Path) -> None:
        """A name that is taken by an earlier run is refused, and the default name is new each
        time.
        """
        factory.write(create(tmp_path, "a"), [factory.cell()])
        with pytest.raises(RunDirError, match="exists and is not empty"):
            create(tmp_path, "a")
        assert create(tmp_path).path != create(tmp_path).path

    def test_an_empty_folder_is_free_and_a_file_is_not(self, tmp_path: Path) -> None:
        """A folder made beforehand is used; whatever else has the name is left alone."""
        (tmp_path / "empty").mkdir()
        assert create(tmp_path, "empty").cells_dir.is_dir()
        (tmp_path / "file").write_text("mine")
        with pytest.raises(RunDirError, match="choose another name"):
            create(tmp_path, "file")
        assert (tmp_path / "file").read_text() == "mine"

    def test_open_names_what_is_missing(self, tmp_path: Path) -> None:
        """A folder that is no run says so."""
        with pytest.raises(RunDirError, match=r"neither cells/ nor results\.json"):
            open_run(tmp_path)
        with pytest.raises(RunDirError, match="is not a directory"):
            open_run(tmp_path / "none")


class TestCells:
    def test_round_trip(self, tmp_path: Path) -> None:
        """What is written is read back equal, cells sorted by id."""
        entries = factory.grid(tasks=("waiting_line/copy", "puzzle/sudoku"))
        stored = factory.write(create(tmp_path, "a"), entries).read_cells()
        assert [(entry.cell, list(entry.samples)) for entry in stored] == sorted(
            entries, key=lambda entry: entry[0].id
        )

    def test_a_model_stands_before_those_whose_names_begin_with_its_name(
        self, tmp_path: Path
    ) -> None:
        """In the cells, in the tables made of them, and in results.json alone."""
        models = ["tiny", "tiny-ar", "tiny-sedd", "tiny-sedd-uniform"]
        run = factory.write(
            create(tmp_path, "a"), [factory.cell(model) for model in reversed(models)]
        )
        results, _ = run.assemble()
        assert [entry.cell.model for entry in run.read_cells()] == models
        whole, _ = scopes(frame_rows(load(run.path)))
        assert whole.models == models
        data = json.loads(results.read_text())
        results.write_text(json.dumps(data | {"cells": data["cells"][::-1]}))
        assert list(load(results)["model"]) == models

    def test_corrupt_cell_is_set_aside(self, tmp_path: Path) -> None:
        """A resumed run renames a half-written file with a message; the other cells stay."""
        run = factory.write(
            create(tmp_path, "a"), [factory.cell(), factory.cell(sampler="random-k1")]
        )
        broken = run.cells_dir / cell_file("tiny/shuffle/random-k1")
        broken.write_text("{")
        said: list[str] = []
        assert [entry.cell.sampler for entry in run.read_cells(said.append, set_aside=True)] == [
            "confidence-k2"
        ]
        assert len(said) == 1
        assert broken.name in said[0]
        assert not broken.exists()
        assert broken.with_name(broken.name + ".corrupt").read_text() == "{"
        run.assemble()
        assert len(load(run.path)) == 1

    def test_what_was_set_aside_is_never_overwritten(self, tmp_path: Path) -> None:
        """The same cell damaged again and again leaves a file each time, numbered from 2."""
        run = create(tmp_path, "a")
        for text in ("{", "{{", "{{{"):
            factory.write(run, [factory.cell()])
            file = run.cells_dir / cell_file("tiny/shuffle/confidence-k2")
            file.write_text(text)
            run.read_cells(lambda said: None, set_aside=True)
        kept = {
            path.name.partition(".json")[2]: path.read_text()
            for path in run.cells_dir.glob("*.corrupt*")
        }
        assert kept == {".corrupt": "{", ".corrupt2": "{{", ".corrupt3": "{{{"}

    def test_truncated_at_any_byte(self, tmp_path: Path) -> None:
        """Every proper prefix of a cell file is noticed, none is read as a smaller cell."""
        run = factory.write(create(tmp_path, "a"), [factory.cell(n=2)])
        file = run.cells_dir / cell_file("tiny/shuffle/confidence-k2")
        text = file.read_text()
        for length in range(0, len(text) - 2, 37):
            file.write_text(text[:length])
            with pytest.warns(CorruptCellWarning):
                assert run.read_cells() == []

    def test_failed_write_leaves_the_old_cell(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A disk that fills up while writing loses neither the earlier record nor leaves litter."""
        run = factory.write(create(tmp_path, "a"), [factory.cell(right=1.0)])

        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        record, samples = factory.cell(right=0.5)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                run.write_cell(record, samples)
        assert run.read_cells()[0].cell.scores["accuracy"].mean == 1
        assert not list(run.cells_dir.glob("*.tmp"))
        assert not list(run.cells_dir.glob(".*"))

    def test_several_processes_write_at_once(self, tmp_path: Path) -> None:
        """Cells written by several processes, some of them by two, are all there and whole."""
        run = create(tmp_path, "a")
        context = multiprocessing.get_context("fork")
        shares = [list(range(24)), list(range(12, 36))]
        workers = [
            context.Process(target=write_share, args=(str(run.path), share)) for share in shares
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert {entry.cell.sampler for entry in run.read_cells()} == {
            f"random-k{number}" for number in range(36)
        }

    def test_what_is_not_finite_is_refused(self, tmp_path: Path) -> None:
        """A NaN never reaches the disk, for JSON has none."""
        record, samples = factory.cell(n=1)
        run = create(tmp_path, "a")
        broken = replace(samples[0], scores={"accuracy": float("nan")})
        with pytest.raises(ValueError, match="finite"):
            run.write_cell(record, [broken])

    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"answer_tokens": -5}, r"samples\[1\]: field answer_tokens is -5"),
            ({"nfe": -1}, r"samples\[1\]: field nfe is -1"),
            ({"scores": {"accuracy": 2.0}}, r"samples\[1\]: field scores.accuracy is 2"),
            ({"index": 0}, "1 sample"),
        ],
    )
    def test_what_reading_refuses_is_not_written(
        self, change: dict[str, Any], place: str, tmp_path: Path
    ) -> None:
        """The error names the cell and the place, and an earlier record stays."""
        run = factory.write(create(tmp_path, "a"), [factory.cell(n=2)])
        record, samples = factory.cell(n=2)
        with pytest.raises(LoadError, match=rf"^record of {record.id}: .*{place}"):
            run.write_cell(record, [samples[0], replace(samples[1], **change)])
        assert len(run.read_cells()[0].samples) == 2


class TestCellFile:
    @given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
    def test_distinct_and_safe(self, first: str, second: str) -> None:
        """Distinct ids get names that differ even where case is ignored, without separators, short
        enough for any file system.
        """
        names = [cell_file(text) for text in (first, second)]
        assert (names[0].lower() == names[1].lower()) == (first == second)
        assert all(
            "/" not in name and len(name.encode()) < 200 and not name.startswith(".tmp")
            for name in names
        )


class TestAssemble:
    def test_results_and_samples(self, tmp_path: Path) -> None:
        """results.json holds facts and every cell; samples.jsonl a line per sample; load_samples
        needs either.
        """
        run = factory.write(
            create(tmp_path, "a"), [factory.cell(n=3), factory.cell(sampler="random-k1", n=4)]
        )
        results, lines = run.assemble()
        data = json.loads(results.read_text())
        assert data["schema"] == SCHEMA
        assert data["run"]["seeds"] == [0]
        assert len(data["cells"]) == 2
        assert len(lines.read_text().splitlines()) == 7
        before = load_samples(run.path)
        for file in run.cells_dir.iterdir():
            file.unlink()
        assert load_samples(run.path) == before

    @pytest.mark.posix
    def test_write_atomic_names_the_file(self, tmp_path: Path) -> None:
        """That was to be written, and not the temporary one beside it."""
        (tmp_path / "f").mkdir()
        for path, kind in ((Path("/proc/x.md"), OSError), (tmp_path / "f", IsADirectoryError)):
            with pytest.raises(kind) as caught:
                write_atomic(path, "text")
            assert caught.value.filename == str(path)
        assert [path.name for path in tmp_path.iterdir()] == ["f"]

    def test_files_of_a_killed_writer_go(self, tmp_path: Path) -> None:
        """And nothing else does."""
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        kept = sorted(run.path.rglob("*.json"))
        for folder in (run.path, run.cells_dir):
            (folder / ".results.json-0123456789abcdef.tmp").write_text("{")
        run.remove_torn()
        assert sorted(path for path in run.path.rglob("*") if path.is_file()) == kept

    def test_write_atomic_replaces(self, tmp_path: Path) -> None:
        """The second text replaces the first whole."""
        write_atomic(tmp_path / "x" / "f", "long text")
        assert write_atomic(tmp_path / "x" / "f", "s").read_text() == "s"

    def test_readable_as_any_file(self, tmp_path: Path) -> None:
        """Others may read results as they may read any file made here (a CI's artifact step runs as
        another user).
        """
        (tmp_path / "plain").write_text("")
        assert (
            write_atomic(tmp_path / "f", "s").stat().st_mode == (tmp_path / "plain").stat().st_mode
        )
