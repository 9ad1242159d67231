"""pbcore.results.merge."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.check import LoadError
from pbcore.results import RunDir, create, error_cell
from pbcore.results.merge import MergeConflict, merge
from pbcore.results.rundir import RunDirError, StoredCell, StoredRun
from tests.results import factory
from tests.results.files import written


def shards(tmp_path: Path, count: int = 3) -> list[Path]:
    entries = factory.grid(tasks=("waiting_line/copy", "waiting_line/sort"))
    return [factory.write(create(tmp_path, f"s{i}"), entries[i::count]).path for i in range(count)]


def contents(run: StoredRun) -> Sequence[StoredCell]:
    return RunDir(run.path).read_cells()


class TestMerge:
    def test_joins_shards_in_any_order(self, tmp_path: Path) -> None:
        """All cells of all shards are there, and the order of the shards makes no difference."""
        paths = shards(tmp_path)
        forth = merge(paths, tmp_path / "x")
        back = merge(paths[::-1], tmp_path / "y")
        assert len(contents(forth)) == 32
        assert contents(forth) == contents(back)
        assert (forth.path / "results.json").read_text() == (back.path / "results.json").read_text()

    def test_overlap_that_agrees(self, tmp_path: Path) -> None:
        """The same cell measured twice is taken once, though its times differ."""
        record, samples = factory.cell()
        for name, seconds in (("a", 2.0), ("b", 1.0)):
            factory.write(create(tmp_path, name), [(replace(record, seconds=seconds), samples)])
        for number, order in enumerate(("ab", "ba")):
            assert [
                entry.cell.seconds
                for entry in contents(
                    merge([tmp_path / name for name in order], tmp_path / f"m{number}")
                )
            ] == [1.0]

    def test_one_run_given_twice(self, tmp_path: Path) -> None:
        """Through a link or in another spelling it is the same run, counted once."""
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        (tmp_path / "link").symlink_to(run.path, target_is_directory=True)
        sources = [run.path, tmp_path / "link", tmp_path / "x" / ".." / "a"]
        merged = merge(sources, tmp_path / "m")
        assert len(merged.facts["merged_from"]) == 1

    def test_conflicts_are_named(self, tmp_path: Path) -> None:
        """Another key, or another outcome under the same key, is refused with the cell's id, and
        nothing is written.
        """
        for name, entry in (
            ("a", factory.cell()),
            ("b", factory.cell(key="other")),
            ("c", factory.cell(right=0.5)),
        ):
            factory.write(create(tmp_path, name), [entry])
        with pytest.raises(MergeConflict, match=r"tiny/shuffle/confidence-k2 .*keys differ"):
            merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
        with pytest.raises(MergeConflict, match="outcomes differ"):
            merge([tmp_path / "a", tmp_path / "c"], tmp_path / "m")
        assert not (tmp_path / "m").exists()

    def test_success_replaces_error(self, tmp_path: Path) -> None:
        """A cell that failed on one machine and ran on another counts as run."""
        record, samples = factory.cell()
        factory.write(create(tmp_path, "a"), [(error_cell(record, "out of memory"), [])])
        factory.write(create(tmp_path, "b"), [(record, samples)])
        assert [
            entry.cell.status
            for entry in contents(merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m"))
        ] == ["ok"]

    def test_target_is_never_overwritten(self, tmp_path: Path) -> None:
        """A target that holds something is refused."""
        paths = shards(tmp_path)
        with pytest.raises(RunDirError, match="exists"):
            merge(paths[:2], paths[2])


class TestRunsThatBelongTogether:
    def run(self, folder: Path, name: str, sampler: str = "random-k1", **facts: Any) -> Path:
        run = factory.write(create(folder, name), [factory.cell(sampler=sampler, n=4)])
        run.write_run(
            {
                "profile": "ci",
                "data_seed": 0,
                "seeds": [0],
                "limit": None,
                "data_dir": None,
                **facts,
            }
        )
        return run.path

    def test_results_without_cells_are_read(self, tmp_path: Path) -> None:
        """A run that kept results.json and samples.jsonl alone loses nothing."""
        first = self.run(tmp_path, "a")
        second = self.run(tmp_path, "b", "random-k2")
        expected = merge([first, second], tmp_path / "m").cells
        RunDir(second).assemble()
        shutil.rmtree(second / "cells")
        assert merge([first, second], tmp_path / "n").cells == expected
        (second / "samples.jsonl").unlink()
        with_less = merge([second, self.run(tmp_path, "c", "random-k2")], tmp_path / "o").cells
        assert with_less == expected[1:]
        with pytest.raises(
            LoadError, match=r"no answers to .*random-k2 \(1 such cell\): .* needs samples.jsonl"
        ):
            merge([first, second], tmp_path / "p")
        assert not (tmp_path / "p").exists()

    @pytest.mark.parametrize("failed", [False, True])
    def test_models_may_have_limits_of_their_own(self, tmp_path: Path, failed: bool) -> None:
        """As in the default run: only cells of a task with as many samples must have the same
        ones.
        """
        first, (fewer, samples) = factory.cell(n=4), factory.cell(model="other", n=2)
        fewer = replace(fewer, conditions=replace(fewer.conditions, data_hash="fewer"))
        entries = [first, (fewer, samples)]
        if failed:
            entries = [
                (replace(error_cell(cell, "broken"), n_samples=0), []) for cell, _ in entries
            ]
        run = factory.write(create(tmp_path, "a"), entries)
        assert len(merge([run.path], tmp_path / "m").cells) == 2

    def test_models_with_the_same_limit_have_the_same_samples(self, tmp_path: Path) -> None:
        second, samples = factory.cell(model="other", n=4)
        second = replace(second, conditions=replace(second.conditions, data_hash="others"))
        run = factory.write(create(tmp_path, "a"), [factory.cell(n=4), (second, samples)])
        with pytest.raises(MergeConflict, match="waiting_line/shuffle has other samples"):
            merge([run.path], tmp_path / "m")

    def test_missing_shards_are_named(self, tmp_path: Path) -> None:
        """1/3 and 3/3 without 2/3, also when they were merged before; allowed on demand."""
        paths = [self.run(tmp_path, f"s{i}", f"random-k{i}", shard=f"{i}/3") for i in (1, 2, 3)]
        with pytest.raises(MergeConflict, match=r"missing shards: 2/3"):
            merge([paths[0], paths[2]], tmp_path / "m")
        partial = merge([paths[0], paths[2]], tmp_path / "m", allow_missing_shards=True)
        with pytest.raises(MergeConflict, match=r"missing shards: 2/3"):
            merge([partial.path], tmp_path / "n")
        assert len(merge([partial.path, paths[1]], tmp_path / "n").cells) == 3

    @pytest.mark.parametrize(
        ("shards", "told"), [(11, r"10/11, 11/11; add"), (12, r"10/12, 11/12 … \(11\); add")]
    )
    def test_ten_missing_shards_are_listed(self, tmp_path: Path, shards: int, told: str) -> None:
        """Of more their number."""
        with pytest.raises(MergeConflict, match=told):
            merge([self.run(tmp_path, "s", shard=f"1/{shards}")], tmp_path / "m")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("profile", "quick"),
            ("data_seed", 1),
            ("seeds", [0, 1]),
            ("limit", 5),
            ("data_dir", "x"),
        ],
    )
    def test_other_settings_are_refused(self, tmp_path: Path, name: str, value: Any) -> None:
        """The first difference is named with both values and both runs, and nothing is written."""
        first = self.run(tmp_path, "a")
        second = self.run(tmp_path, "b", "random-k2", **{name: value})
        with pytest.raises(
            MergeConflict, match=rf"different settings: {name} is .* in {first} and .* in {second}"
        ):
            merge([first, second], tmp_path / "m")
        assert not (tmp_path / "m").exists()

    def test_what_reports_show_is_kept_where_all_agree(self, tmp_path: Path) -> None:
        """Price lists, axis and allowed loss; the report's own defaults where the runs differ."""
        facts = {"price": ["h200"], "axis": "tokens"}
        first = self.run(tmp_path, "a", max_loss=5.0, **facts)
        second = self.run(tmp_path, "b", "random-k2", max_loss=3.0, **facts)
        known = merge([first, second], tmp_path / "m").facts
        assert (known.get("price"), known.get("axis")) == (["h200"], "tokens")
        assert "max_loss" not in known

    def test_other_data_is_refused(self, tmp_path: Path) -> None:
        """The folders' paths may differ between machines, but not what is in them."""
        first = self.run(tmp_path, "a", data_dir="/one/data")
        second = self.run(tmp_path, "b", "random-k2", data_dir="/two/data")
        merge([first, second], tmp_path / "m")
        written(RunDir(second), lambda data: data["cell"]["conditions"].update(data_hash="d2"))
        with pytest.raises(MergeConflict, match="waiting_line/shuffle has other samples"):
            merge([first, second], tmp_path / "n")
