"""pbcore.results.load, flat, plain, published: one table from whatever a run or another project
left.
"""

from __future__ import annotations

import enum
import json
import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pbcore.base.check import LoadError, plain
from pbcore.report.junit import write_junit
from pbcore.results import create, error_cell, frame, load, load_many, properties
from pbcore.results.load import load_cells
from tests.results import factory


class Kind(enum.StrEnum):
    A = "a"


class TestLoad:
    def test_columns_of_the_contract(self, tmp_path: Path) -> None:
        """A row per cell with the names other code depends on."""
        table = load(factory.write(create(tmp_path, "a"), [factory.cell(right=0.9, n=20)]).path)
        first = table.iloc[0]
        assert (first["model"], first["task"], first["sampler"], first["n"]) == (
            "tiny",
            "waiting_line/shuffle",
            "confidence-k2",
            20,
        )
        assert first["accuracy"] == pytest.approx(0.9)
        assert first["accuracy_low"] < 0.9 < first["accuracy_high"]
        assert (first["nfe"], first["tokens_per_step"], first["seconds"]) == (16, 2, 1.5)
        assert first["tokens_per_forward"] == pytest.approx(18 / 16)

    def test_every_source_gives_the_same_rows(self, tmp_path: Path) -> None:
        """Run directory, interrupted run, results.json, lone JUnit and benchmark JSON hold the same
        table.
        """
        entries = [
            *factory.grid(tasks=("waiting_line/copy",)),
            (error_cell(factory.cell(sampler="ar")[0], "Äö <&> \x00 boom"), []),
        ]
        run = factory.write(create(tmp_path, "a"), entries)
        expected = load(run.path)
        results, _ = run.assemble()
        cells = [record for record, _ in entries]
        benchmark = tmp_path / "benchmark.json"
        benchmark.write_text(
            json.dumps(
                {
                    "benchmarks": (
                        [{"extra_info": dict(properties(record))} for record in cells]
                        + [{"extra_info": {}}]
                    )
                }
            )
        )
        for source in (results, run.path, benchmark, write_junit(cells, tmp_path / "junit.xml")):
            assert load(source).equals(expected), source
        assert math.isnan(expected[expected["status"] == "error"]["nfe"].iloc[0])

    def test_records_of_earlier_versions(self, tmp_path: Path) -> None:
        """A property that holds the record as plain JSON is read as well."""
        record = factory.cell()[0]
        text = json.dumps(record.to_json())
        old = tmp_path / "b.json"
        old.write_text(json.dumps({"benchmarks": [{"extra_info": {"pbcore_record": text}}]}))
        assert load_cells(old) == [record]

    def test_junit_names_causes(self, tmp_path: Path) -> None:
        """The JUnit file counts errors and shows their cause, readable for any XML parser."""
        broken = error_cell(factory.cell(sampler="ar")[0], "CUDA out of memory\x00\nmore")
        root = ElementTree.parse(
            write_junit([factory.cell()[0], broken], tmp_path / "junit.xml")
        ).getroot()
        assert root[0].get("tests") == "2"
        assert root[0].get("errors") == "1"
        assert "CUDA out of memory?" in [error.get("message") for error in root.iter("error")]

    def test_load_many_tells_runs_apart(self, tmp_path: Path) -> None:
        """Rows of two runs stand under each other, with the path each came from."""
        paths = [factory.write(create(tmp_path, name), [factory.cell()]).path for name in "ab"]
        assert list(load_many(paths)["run"]) == [str(path) for path in paths]

    def test_a_folder_of_runs_names_the_last(self, tmp_path: Path) -> None:
        """`reports` in place of `reports/RUN` is the usual slip."""
        for name in ("20260102-a", "20260103-b"):
            create(tmp_path, name)
        with pytest.raises(LoadError, match=r"it holds runs, the last one .*20260103-b$"):
            load(tmp_path)

    def test_an_empty_frame_has_the_columns(self) -> None:
        """No cells make a table without rows, not an error."""
        assert frame([]).empty
        assert "tokens_per_step" in frame([])


class TestPlain:
    def test_exact_builtins(self) -> None:
        """numpy values, str-enums, tuples and paths become exact builtins; what JSON can't hold is
        refused by place.
        """
        found = plain(
            {
                "a": np.float64(1.5),
                "b": (np.int64(2), Kind.A),
                Path("c"): np.array([1]),
                "d": np.bool_(True),
            }.items()
        )
        assert [type(value) for _, value in found] == [float, list, list, bool]
        assert [type(item) for item in found[1][1]] == [int, str]
        with pytest.raises(TypeError, match=r"facts\['x'\]"):
            plain({"x": object()}, "facts")
        with pytest.raises(ValueError, match="finite"):
            plain(float("nan"))

    def test_properties_are_exact(self) -> None:
        """Everything that goes on a report is of an exact builtin type."""
        assert all(
            type(name) is str and type(value) in (str, int, float, bool)
            for name, value in properties(factory.cell()[0])
        )


class TestPrompts:
    def test_prompts_of_own_rows(self) -> None:
        """The paper's for its tasks, whatever the data; the rewrite's only on its data; list_ops
        has its own.
        """
        rows = [
            factory.cell(data_source=source)[0] for source in ("own", "official", "rewrite-2026")
        ] + [factory.cell(task="list_ops/shuffle")[0]]
        assert list(frame(rows)["prompts"]) == ["v1", "v1", "rewrite-2026", "own"]


def test_records_need_no_table_library() -> None:
    """Writing records, which every worker does, imports neither pandas nor scipy."""
    code = "import pbcore.results, sys; print(*{'pandas', 'scipy'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == ""
    )
