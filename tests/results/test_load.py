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
from pbcore.extras.paper.published import sampler_name
from pbcore.report.junit import write_junit
from pbcore.results import create, error_cell, frame, load, load_many, properties
from pbcore.results.load import load_cells
from tests.reference import bundled
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


class TestPublished:
    def test_run_folder(self) -> None:
        """The rewrite's run folder becomes rows of ours; tokens per step as published, text
        headline = grammar.
        """
        table = load(bundled("rewrite_run")).set_index("task")
        assert set(table.index) == {
            "puzzle/sudoku",
            "text_writing/paraphrasing",
            "waiting_line/copy",
        }
        sudoku = table.loc["puzzle/sudoku"]
        paraphrase = table.loc["text_writing/paraphrasing"]
        assert (sudoku["accuracy"], sudoku["nfe"], sudoku["sampler"]) == (
            0.78,
            4.21,
            "threshold-0.7",
        )
        assert sudoku["tokens_per_step"] == pytest.approx(18.2121, abs=1e-4)
        assert paraphrase["grammar"] == 0.84
        assert math.isnan(paraphrase["accuracy"])
        assert table.loc["waiting_line/copy", "model"] == "Dream-org/Dream-v0-Instruct-7B"

    def test_every_column_of_the_table(self, tmp_path: Path) -> None:
        """Percent become shares under our names, the score is that of the task's kind, other tasks
        are left out.
        """
        (tmp_path / "t.csv").write_text(
            "model,method,param,task,score,score_strict,grammar_score,inclusion_score,rougeL_score,bertscore_score,inv_bleu_score,"
            "nfe,tokens_per_step,output_length,run\n"
            "a__b,topk_margin,k2,waiting_line_copy,90,80,,,,,,16,2,20,r1\n"
            "a__b,topk_margin,k2,text_writing_paraphrasing,70,,70,60,50,40,30,N/A,4,40,r1\n"
            "a__b,topk_margin,k2,all,80,,,,,,,16,3,30,r1\n"
        )
        table = load(tmp_path / "t.csv").set_index("task")
        copy = table.loc["waiting_line/copy"]
        paraphrase = table.loc["text_writing/paraphrasing"]
        assert len(table) == 2
        assert copy[
            ["id", "model", "category", "sampler", "status", "headline", "run"]
        ].tolist() == [
            "a/b/copy/margin-k2",
            "a/b",
            "waiting_line",
            "margin-k2",
            "ok",
            "accuracy",
            "r1",
        ]
        assert copy[["data_source", "prompts", "dummy", "shared_device"]].tolist() == [
            "published",
            "rewrite-2026",
            False,
            False,
        ]
        numbers = [
            "score",
            "accuracy",
            "accuracy_strict",
            "nfe",
            "tokens_per_step",
            "output_length",
        ]
        assert copy[numbers].tolist() == [0.9, 0.9, 0.8, 16, 2, 20]
        scores = ["score", "grammar", "inclusion", "rouge_l", "bertscore", "inv_bleu"]
        assert paraphrase[scores].tolist() == [0.7, 0.7, 0.6, 0.5, 0.4, 0.3]
        assert paraphrase["headline"] == "grammar"
        assert math.isnan(paraphrase["nfe"])

    def test_a_run_folder_by_itself(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the folders above don't say what was run, model, method and parameter are
        unknown.
        """
        (tmp_path / "x_all").mkdir()
        results = {
            "results": {"parallelbench_waiting_line_copy": {"score,none": 50, "nfe,none": 8}}
        }
        (tmp_path / "x_all" / "results_parallelbench.json").write_text(json.dumps(results))
        monkeypatch.chdir(tmp_path)
        (row,) = load("x_all").to_dict("records")
        assert (row["model"], row["sampler"], row["run"]) == ("unknown", "unknown-unknown", "x_all")
        assert (row["accuracy"], row["nfe"]) == (0.5, 8)

    def test_a_row_of_the_papers_tables(self, tmp_path: Path) -> None:
        """Its metrics become columns of shares; the score is the accuracy, of text tasks the
        grammar.
        """
        (tmp_path / "p.csv").write_text(
            "table,model,task,setting,metric,value_percent\n"
            "7,LLaDA,text_writing_summarization,k2,grammar,80\n"
            "7,LLaDA,text_writing_summarization,k2,rouge_l,40\n"
            "5,LLaDA,waiting_line_copy,k2,accuracy,95\n"
        )
        table = load(tmp_path / "p.csv").set_index("task")
        copy = table.loc["waiting_line/copy"]
        summary = table.loc["text_writing/summarization"]
        assert (copy["score"], copy["accuracy"], summary["score"], summary["rouge_l"]) == (
            0.95,
            0.95,
            0.8,
            0.4,
        )
        assert [row["headline"] for row in (copy, summary)] == ["accuracy", "grammar"]
        assert copy[["id", "category", "sampler", "prompts", "status", "data_source"]].tolist() == [
            "LLaDA/copy/as-published",
            "waiting_line",
            "as-published",
            "v1",
            "ok",
            "published",
        ]
        assert not table[["dummy", "shared_device"]].any(axis=None)
        assert list(table.index) == [
            "text_writing/summarization",
            "waiting_line/copy",
        ]  # as in the file

    @pytest.mark.parametrize(
        ("task", "metric"), [("waiting_line/copy", "accuracy"), ("text_writing/x", "grammar")]
    )
    def test_a_table_of_one_kind_of_task(self, tmp_path: Path, task: str, metric: str) -> None:
        """It needs no column for the score of the other kind."""
        (tmp_path / "p.csv").write_text(
            f"table,model,task,setting,metric,value_percent\n5,M,{task},k2,{metric},50\n"
        )
        (row,) = load(tmp_path / "p.csv").to_dict("records")
        assert (row["headline"], row["score"]) == (metric, 0.5)

    def test_published_tables(self) -> None:
        """Both CSVs load: 17 tasks for each of 42 runs; Table 5's LLaDA copy at 100 %."""
        rewrite = load(bundled("parallelbench_v2.csv"))
        assert len(rewrite) == 42 * 17
        assert rewrite["score"].between(0, 1).all()
        assert rewrite["id"].is_unique
        assert set(rewrite["prompts"]) == {"rewrite-2026"}
        paper = load(bundled("paper_tables.csv"))
        chosen = paper[(paper["model"] == "LLaDA") & (paper["task"] == "waiting_line/copy")]
        assert list(chosen["accuracy"]) == [1.0]
        assert set(paper["prompts"]) == {"v1"}

    def test_prompts_of_own_rows(self) -> None:
        """The paper's for its tasks, whatever the data; the rewrite's only on its data; list_ops
        has its own.
        """
        rows = [
            factory.cell(data_source=source)[0] for source in ("own", "official", "rewrite-2026")
        ] + [factory.cell(task="list_ops/shuffle")[0]]
        assert list(frame(rows)["prompts"]) == ["v1", "v1", "rewrite-2026", "own"]

    def test_sampler_names(self) -> None:
        """Methods get our names where they have one."""
        assert sampler_name("topk_margin", "k2") == "margin-k2"
        assert (
            sampler_name("klass", "conf_threshold0.9_kl_history_length2_kl_threshold0.01")
            == "klass-0.9"
        )
        assert sampler_name("confidence_factor", "f1.3") == "factor-1.3-ref"


def test_records_need_no_table_library() -> None:
    """Writing records, which every worker does, imports neither pandas nor scipy."""
    code = "import pbcore.results, sys; print(*{'pandas', 'scipy'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == ""
    )
