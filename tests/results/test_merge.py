"""pbcore.results.merge, resume and baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pbcore.decoding import register_policy
from pbcore.decoding.policies.registry import POLICIES
from pbcore.decoding.step import Step
from pbcore.models import load_model, register_model
from pbcore.models.registry import FACTORIES
from pbcore.results import RunDir, create, error_cell
from pbcore.results.baseline import BaselineError, baseline_cell, pack_runs, read_baseline, unpack_runs, write_baseline
from pbcore.results.merge import MergeConflict, merge
from pbcore.results.resume import cell_key, code_version, finished, user_code
from pbcore.results.rundir import RunDirError, StoredCell
from pbcore.source import source_digest
from tests.results import factory

KEY = {
    "model": "tiny",
    "model_identity": {"revision": "r1"},
    "task": "waiting_line/copy",
    "data_hash": "d",
    "sampler": "random-k2",
    "settings": {"max_new_tokens": 32},
    "dtype": "float32",
    "seeds": [0],
    "code": "c",
}


def shards(tmp_path: Path, count: int = 3) -> list[Path]:
    entries = factory.grid(tasks=("waiting_line/copy", "waiting_line/sort"))
    return [factory.write(create(tmp_path, f"s{i}"), entries[i::count]).path for i in range(count)]


def contents(run: RunDir) -> list[StoredCell]:
    return run.read_cells()


class TestMerge:
    def test_joins_shards_in_any_order(self, tmp_path: Path) -> None:
        """All cells of all shards are there, and the order of the shards makes no difference."""
        paths = shards(tmp_path)
        forth, back = merge(paths, tmp_path / "x"), merge(paths[::-1], tmp_path / "y")
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
                for entry in contents(merge([tmp_path / name for name in order], tmp_path / f"m{number}"))
            ] == [1.0]

    def test_conflicts_are_named(self, tmp_path: Path) -> None:
        """Another key, or another outcome under the same key, is refused with the cell's id, and nothing is written."""
        for name, entry in (("a", factory.cell()), ("b", factory.cell(key="other")), ("c", factory.cell(right=0.5))):
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
        assert [entry.cell.status for entry in contents(merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m"))] == [
            "ok"
        ]

    def test_target_is_never_overwritten(self, tmp_path: Path) -> None:
        """A target that holds something is refused."""
        paths = shards(tmp_path)
        with pytest.raises(RunDirError, match="exists"):
            merge(paths[:2], paths[2])


@dataclass(frozen=True)
class Mine:
    """A user's policy, and in its test a user's model too."""

    k: int = 1

    def select(self, step: Step) -> Tensor:
        return step.masked


class TestResume:
    @pytest.mark.parametrize(
        "changed",
        [{name: "other"} for name in KEY if name not in ("seeds", "settings", "model_identity")]
        + [{"seeds": [1]}, {"settings": {}}, {"model_identity": {"revision": "r2"}}]
        + [{"task_identity": "other"}, {"own_code": {"policy": "other"}}],
    )
    def test_every_part_counts(self, changed: dict[str, object]) -> None:
        """Changing any part of what decides an outcome changes the key; order of settings doesn't."""
        assert cell_key(**{**KEY, **changed}) != cell_key(**KEY)  # type: ignore[arg-type]
        assert cell_key(**KEY) == cell_key(**dict(reversed(KEY.items())))  # type: ignore[arg-type]

    def test_user_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A user's policy, factory and model have digests; pbcore's own have none."""
        monkeypatch.setattr(POLICIES, "_registered", dict(POLICIES.all()))
        monkeypatch.setattr(FACTORIES, "_registered", {})
        register_policy("mine")(Mine)
        register_model("mine", lambda **options: Mine())
        users = user_code("mine", Mine(), "mine-k2")
        assert {name: len(digest) for name, digest in users.items()} == {"policy": 16, "factory": 16, "model": 16}
        assert set(user_code("ideal", load_model("ideal"), "confidence-k2").values()) == {""}

    def test_code_version_of_this_package(self) -> None:
        """By default a key holds the digest of the five packages that decide an answer, read where they are
        installed.
        """
        names = [f"pbcore.{name}" for name in ("decoding", "metrics", "models", "tasks", "theory")]
        roots = {name: Path(str(import_module(name).__file__)).parent for name in names}
        assert code_version() == source_digest(roots)
        settings = {name: value for name, value in KEY.items() if name != "code"}
        assert cell_key(**settings) == cell_key(**settings, code=source_digest(roots))  # type: ignore[arg-type]

    def test_code_version_needs_its_packages(self) -> None:
        """A package that isn't there is named, not skipped."""
        with pytest.raises(ModuleNotFoundError, match="no_such_package"):
            code_version(("no_such_package",))

    def test_finished_leaves_out_errors(self, tmp_path: Path) -> None:
        """Only cells that ended well count as finished."""
        run = factory.write(
            create(tmp_path, "a"), [factory.cell(), (error_cell(factory.cell(sampler="ar")[0], "boom"), [])]
        )
        done = finished(run.path)
        assert list(done) == ["tiny/shuffle/confidence-k2"]
        key, entry = done["tiny/shuffle/confidence-k2"]
        assert key == entry.cell.conditions.key == "key of tiny/shuffle/confidence-k2"


class TestBaseline:
    def test_round_trip_and_one_line_a_cell(self, tmp_path: Path) -> None:
        """A written baseline reads back equal to the run it came from, sorted, a line per cell, the same bytes each
        time.
        """
        entries = [
            *factory.grid(tasks=("waiting_line/copy",)),
            factory.cell("tiny", "text_writing/summarization", right=[0.25, 1 / 3, 1.0], headline="rouge_l"),
        ]
        stored = [StoredCell(record, tuple(samples)) for record, samples in entries]
        path = write_baseline(tmp_path / "b.json", stored)
        assert read_baseline(path) == {entry.cell.id: baseline_cell(entry) for entry in stored}
        lines = path.read_text().splitlines()
        assert len(lines) == len(stored) + 2
        assert lines[1:-1] == sorted(lines[1:-1])
        assert write_baseline(tmp_path / "c.json", stored[::-1]).read_bytes() == path.read_bytes()

    def test_indices_with_gaps_survive_the_file(self, tmp_path: Path) -> None:
        """A run over chosen samples keeps their numbers; only samples 0 to n − 1 are shortened to a range."""
        for indices in ((0, 1, 2), (0, 1, 3), (3, 7, 9), (1, 2, 3)):
            record, samples = factory.cell(right=[1.0, 0.0, 1.0])
            chosen = [replace(sample, index=index) for sample, index in zip(samples, indices, strict=True)]
            row = read_baseline(write_baseline(tmp_path / "b.json", [StoredCell(record, tuple(chosen))]))[record.id]
            assert (row.indices, row.scores) == (indices, {"accuracy": (1.0, 0.0, 1.0)})
            assert ('"0-2"' in (tmp_path / "b.json").read_text()) == (indices == (0, 1, 2))

    def test_scores_that_one_sample_lacks_are_left_out(self) -> None:
        """A baseline compares sample by sample; a score with a hole can't be."""
        record, samples = factory.cell(right=[1.0, 0.0])
        graded = record.scores["accuracy"]
        part = [replace(samples[0], scores={"accuracy": 1.0, "grammar": 1.0}), samples[1]]
        row = baseline_cell(StoredCell(replace(record, scores={"accuracy": graded, "grammar": graded}), tuple(part)))
        assert row.scores == {"accuracy": (1.0, 0.0)}

    def test_refuses_holes_and_broken_files(self, tmp_path: Path) -> None:
        """No baseline from failed cells; broken or foreign files are named."""
        failed = StoredCell(error_cell(factory.cell()[0], "boom"), ())
        for cells in ([failed], []):
            with pytest.raises(BaselineError, match="no baseline written"):
                write_baseline(tmp_path / "b.json", cells)
        for text in ("{", '{"schema": 9, "cells": {}}', '{"schema": 1, "cells": {"a": {"nfe": "1"}}}', "[]"):
            (tmp_path / "b.json").write_text(text)
            with pytest.raises(BaselineError, match=r"b\.json"):
                read_baseline(tmp_path / "b.json")
        with pytest.raises(BaselineError, match="no baseline at"):
            read_baseline(tmp_path / "none.json")

    @given(st.lists(st.integers(0, 5), max_size=50))
    def test_runs_round_trip(self, values: list[int]) -> None:
        """Packed runs unpack to the same numbers."""
        assert list(unpack_runs(pack_runs(values))) == values
