"""A run's records: on disk, on reports, at the end on the screen."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

import pbcore
from pbcore.ceilings.ceiling import ceiling
from pbcore.models import onednn
from pbcore.report import markdown
from pbcore.report.plots import write_plots
from pbcore.tasks import Sample, load_task
from tests.models.checkpoints import llama_checkpoint
from tests.plugin.conftest import SMALL, TIMES, Run


def samples_of(task: str) -> Sequence[Sample]:
    return load_task(f"waiting_line/{task}", limit=2).samples


def table(path: Path) -> pd.DataFrame:
    return pbcore.results.load(path).set_index("id").sort_index()


ODD_MODEL = """
from pbcore.models import register_model
from pbcore.models.base import Generation

class Odd:
    name = "odd"
    info = {"source": "x", "family": "odd", "parameters": 0, "dummy": False}

    def check(self, sampler):
        pass

    def generate(self, prompts, sampler, *, max_new_tokens, seed):
        return [Generation("[]", (1,), nfe=1, answer_tokens=-5) for _ in prompts]

register_model("odd", lambda **options: Odd())
"""
DAMAGE = """
import pathlib
import pytest

@pytest.fixture(autouse=True)
def after():
    yield
    for file in pathlib.Path("out/cells").glob("*.json"):
        file.write_text("{}")
"""


class TestOneProcess:
    def test_a_run_writes_its_directory_and_shows_its_table(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Cells, results.json, samples.jsonl, report.md, curves, and what was measured is what the
        closed form says.
        """
        monkeypatch.setattr(markdown, "write_plots", write_plots)
        result = run(
            *SMALL, "--task copy --task shuffle --sampler confidence-k1 --sampler confidence-k2"
        )
        result.assert_outcomes(passed=4)
        out = project.path / "out"
        assert {
            "results.json",
            "samples.jsonl",
            "report.md",
            "run.json",
            "cells",
            "curves.png",
        } <= {path.name for path in out.iterdir()}
        rows = table(out)
        assert rows.loc[
            "ideal/copy/confidence-k2", ["accuracy", "nfe", "tokens_per_step"]
        ].tolist() == [1.0, 16.0, 2.0]
        assert rows.loc["ideal/shuffle/confidence-k1", "accuracy"] == 1.0
        assert len((out / "samples.jsonl").read_text().splitlines()) == 16
        result.stdout.fnmatch_lines(
            [
                "ideal *confidence*",
                "score in %*",
                "copy *",
                "shuffle *",
                "mean *",
            ]
        )
        assert "OPS: Operations" not in result.stdout.str()

    def test_figures_are_the_output_of_a_cell(self, run: Run, project: pytest.Pytester) -> None:
        """For views that show output alone: pytest-html, and JUnit's where junit_logging says so;
        resumed cells too.
        """
        words = (
            "--model ideal --limit 4 --task copy --sampler random-k2 -o junit_logging=system-out"
        )
        for number, where in enumerate(("--out out", "--resume out")):
            run(words, where, f"--junitxml {number}.xml")
            (output,) = ElementTree.parse(project.path / f"{number}.xml").iter("system-out")
            assert re.search(
                r"accuracy \d+\.\d % \[.*\], \d+ samples, NFE 16, \d+ tokens forwarded,"
                r" 2 tokens per step",
                output.text or "",
            )

    def test_records_have_ceilings_and_bits_lost(self, run: Run, project: pytest.Pytester) -> None:
        """What the ideal model reaches on these samples; a text task has neither."""
        run(*SMALL, "--model tiny --task shuffle --task w2s_easy --sampler random-k8")
        rows = table(project.path / "out")
        lists = rows.loc["ideal/shuffle/random-k8"]
        limit = int(lists["n"])
        expected = ceiling(load_task("waiting_line/shuffle", limit=limit).samples, "random-k8")
        assert (lists["ceiling"], lists["ceiling_kind"]) == (expected.mean, "exact")
        assert lists["bits_lost"] > 0
        assert rows.loc["tiny/w2s_easy/random-k8", ["ceiling", "gap", "bits_lost"]].isna().all()

    def test_junit_and_benchmark_json_hold_the_same_rows(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """Tables can be made from either file alone; the benchmark JSON's seconds are the
        record's.
        """
        run(
            *SMALL,
            "--task copy --sampler random-k2 --rounds 3 --junitxml j.xml --benchmark-json b.json",
        )
        rows = table(project.path / "out")
        for name in ("j.xml", "b.json", "out/junit.xml"):
            pd.testing.assert_frame_equal(table(project.path / name), rows)
        (timed,) = json.loads((project.path / "b.json").read_text())["benchmarks"]
        assert timed["stats"]["rounds"] == 3
        assert timed["stats"]["median"] == rows["seconds"].item()
        names = {
            entry.get("name")
            for entry in ElementTree.parse(project.path / "j.xml").iter("property")
        }
        assert names == {
            "model",
            "task",
            "sampler",
            "score",
            "interval",
            "forwards",
            "seconds",
            "pbcore_record",
        }

    def test_a_cell_that_cannot_run_is_recorded_and_the_others_finish(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """Its cause is on the screen and in its record; the exit code tells."""
        result = run(
            "--model breaking --model missing --limit 2 --out out --sampler random-k2 --task copy",
            "--task sort --task reverse",
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        rows = table(project.path / "out")
        assert rows["status"].to_dict() == {
            "breaking/copy/random-k2": "ok",
            "breaking/reverse/random-k2": "ok",
            "breaking/sort/random-k2": "error",
            "missing/copy/random-k2": "error",
            "missing/reverse/random-k2": "error",
            "missing/sort/random-k2": "error",
        }
        assert rows.loc["breaking/sort/random-k2", "error"] == "MemoryError: no more of it"
        result.stdout.fnmatch_lines(
            ["4 cells could not be run:", "*breaking/sort/random-k2: MemoryError: no more of it"]
        )

    def test_what_no_reader_takes_is_the_cells_error(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """A model of one's own whose count is below 0: the cell fails and says so, and its error is
        its record.
        """
        with (project.path / "conftest.py").open("a") as stream:
            stream.write(ODD_MODEL)
        result = run("--model odd --task copy --limit 2 --sampler confidence-k1 --out out")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        (error,) = pbcore.results.load(project.path / "out")["error"]
        assert "is -5.0; it should be greater than or equal to 0" in error

    def test_a_run_that_lost_a_cell_fails(self, run: Run, project: pytest.Pytester) -> None:
        """A record that was damaged since counts as not run."""
        with (project.path / "conftest.py").open("a") as stream:
            stream.write(DAMAGE)
        result = run("--model ideal --task copy --limit 2 --sampler random-k2 --out out")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        (named,) = [line for line in result.outlines if line.startswith("cell file ")]
        assert "counts as not run" in named

    def test_the_first_error_of_a_cell_is_its_cause(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """What goes wrong while cleaning up after it doesn't replace it."""
        with (project.path / "conftest.py").open("a") as stream:
            stream.write(
                "\nimport pytest\n\n@pytest.fixture(autouse=True)\ndef after():\n    yield\n    1"
                " / 0\n"
            )
        run("--model breaking --limit 2 --task sort --sampler random-k2 --out out")
        (error,) = pbcore.results.load(project.path / "out")["error"]
        assert error == "MemoryError: no more of it"

    def test_without_the_clock_a_cell_says_so(self, run: Run) -> None:
        """What takes pytest-benchmark away is a usage error; a record without seconds would
        mislead.
        """
        for option in ("--benchmark-disable", "--benchmark-skip", "-pno:benchmark"):
            result = run(*SMALL, "--task copy --sampler random-k2", option)
            assert result.ret == pytest.ExitCode.USAGE_ERROR
            assert "cells are timed by pytest-benchmark; drop that option" in result.stderr.str()

    def test_the_record_says_what_it_was_made_of(self, run: Run, project: pytest.Pytester) -> None:
        """Seed, data, lengths and settings stand in the row, as asked for."""
        run(
            "--model ideal --limit 2 --out out --task copy --sampler random-k2 --seed 5 --n 7",
            "--batch-size 3",
        )
        row = table(project.path / "out").iloc[0]
        assert row[
            ["seeds", "length", "n", "batch_size", "data_source", "device", "dtype"]
        ].tolist() == [
            "5",
            "7",
            2,
            3,
            "own",
            "cpu",
            "float64",
        ]
        assert row["options"]["limit"] == 2
        assert row["versions"]["torch"]
        facts = json.loads((project.path / "out" / "run.json").read_text())
        assert facts["seeds"] == [5]
        assert {"pytest", "benches", "--seed"} <= set(facts["command"])


class TestTextAfterEos:
    def test_it_is_counted_and_scored_on_demand(self, run: Run, project: pytest.Pytester) -> None:
        """The answer ends at the first EOS; --official-text scores the whole canvas, and neither
        run passes for the other.
        """
        cells = ("--model", "late", "--task", "copy", "--sampler", "eb-0.1", "--limit", "3")
        run(*cells, "--out cut")
        result = run(*cells, "--out whole --official-text --gate cut")
        cut, whole = (table(project.path / name).iloc[0] for name in ("cut", "whole"))
        assert (cut["accuracy"], whole["accuracy"]) == (0, 1)
        assert cut["text_after_eos"] == whole["text_after_eos"] == 3
        assert cut["key"] != whole["key"]
        result.stdout.fnmatch_lines(
            ["*refused *: the baseline was made without --official-text: leave it out"]
        )

    def test_a_decoder_that_does_not_tell_has_no_count(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        run("--model speaker --task copy --sampler eb-0.1 --limit 2 --out out").assert_outcomes(
            passed=1
        )
        row = table(project.path / "out").iloc[0]
        assert pd.isna(row["text_after_eos"])
        assert "first EOS" in row["absent"]["text_after_eos"]


class TestLoading:
    def test_options_reach_the_model_and_its_record(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """What isn't the default is passed on, recorded, part of the key, and said before code of a
        checkpoint runs.
        """
        cell = ("--task", "copy", "--sampler", "random-k8", "--limit", "2")
        asked = ("--attn-implementation", "eager", "--trust-remote-code", "--revision", "abc")
        result = run("--model telling", *cell, *asked)
        result.stdout.fnmatch_lines(
            ["pbcore: --trust-remote-code: code that comes with a checkpoint is run"]
        )
        for given in (
            "'attn_implementation': 'eager'",
            "'trust_remote_code': True",
            "'revision': 'abc'",
        ):
            assert given in result.stdout.str()
        assert "quantization" not in result.stdout.str()
        result = run("--model remote", *cell, "--out a")
        result.stdout.fnmatch_lines(["code that came with the checkpoint was run: remote"])
        assert (
            "| ran code that came with the checkpoint | remote |"
            in (project.path / "a" / "report.md").read_text()
        )
        run("--model remote", *cell, "--out b --device-map auto")
        (plain,), (mapped,) = (
            table(project.path / "a").to_dict("records"),
            table(project.path / "b").to_dict("records"),
        )
        assert mapped["options"]["device_map"] == "auto"
        assert "device_map" not in plain["options"]
        assert mapped["key"] != plain["key"]


class TestDummy:
    def test_random_weights_are_timed_and_never_scored_in_tables(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """The cell runs and is marked; the tables hold the other model alone, and the screen says
        who is left out.
        """
        models = ("--model", "ideal", "--model", "weightless")
        result = run(*models, "--task copy --sampler random-k8 --limit 2 --out out")
        result.assert_outcomes(passed=2)
        rows = table(project.path / "out")
        assert rows["dummy"].to_dict() == {
            "ideal/copy/random-k8": False,
            "weightless/copy/random-k8": True,
        }
        assert (rows["seconds"] > 0).all()
        result.stdout.fnmatch_lines(
            ["left out of the tables (random weights, for timing only): weightless"]
        )
        tables, _, rest = (project.path / "out" / "report.md").read_text().partition("## Speed")
        assert "| ideal " in tables.partition("## ")[2]
        assert "weightless" not in tables.partition("## ")[2]
        assert "weightless" in rest


class TestTwoWorkers:
    @pytest.mark.slow
    def test_they_give_the_same_rows_and_one_of_each_file(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only times differ from a run without workers: every token and confidence of a masked
        model is the same in float32, one model uses both workers, and the controller has statistics
        for every cell.
        """
        # This process has the products of workers, as any user's has.
        monkeypatch.setattr(onednn, "onednn_is_faster", onednn.onednn_is_faster.__wrapped__)
        tasks = ("copy", "sort", "shuffle")
        prompts = [
            message["content"]
            for task in tasks
            for one in samples_of(task)
            for message in one.messages
        ]
        model = llama_checkpoint(
            project.path / "llama", text=" ".join(prompts), max_position_embeddings=512
        )
        cells = shlex.split(
            f"--model {model} --limit 2 --rounds 2 --sampler confidence-k4 --sampler random-k4+t1"
        )
        cells += [word for task in tasks for word in ("--task", task)]
        run(*cells, "--out alone").assert_outcomes(passed=6)
        result = run(*cells, "--out both -n 2 --junitxml j.xml --benchmark-json b.json")
        result.assert_outcomes(passed=6)
        alone = table(project.path / "alone")
        both = table(project.path / "both")
        pd.testing.assert_frame_equal(alone.drop(columns=TIMES), both.drop(columns=TIMES))
        assert set(alone["dtype"]) == {"float32"}
        assert set(both["worker"]) == {"gw0", "gw1"}
        assert set(both["threads"]) == {1}
        assert both["shared_device"].all()
        assert not alone["shared_device"].any()
        timed = {
            entry["param"]: entry["stats"]
            for entry in json.loads((project.path / "b.json").read_text())["benchmarks"]
        }
        assert {name: stats["rounds"] for name, stats in timed.items()} == dict.fromkeys(
            both.index, 2
        )
        pd.testing.assert_frame_equal(table(project.path / "j.xml"), both)
        assert (
            "Benchmarks are automatically disabled" not in result.stdout.str() + result.stderr.str()
        )
        first, second = (
            (project.path / name / "samples.jsonl").read_text() for name in ("alone", "both")
        )
        assert first == second

    @pytest.mark.posix
    @pytest.mark.slow
    def test_a_worker_that_dies_costs_its_cell_alone(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """The others finish on the remaining workers, and record and JUnit file say once what
        happened to the lost cell.
        """
        tasks = [
            word
            for task in ("copy", "sort", "reverse", "shuffle", "insert_index")
            for word in ("--task", task)
        ]
        options = shlex.split(
            "--model dying --limit 2 --out out --sampler random-k2 -n 2 --junitxml j.xml"
        )
        result = run(*options, *tasks)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        rows = table(project.path / "out")
        assert (rows["status"] == "ok").sum() == 4
        assert "worker process died" in rows.loc["dying/sort/random-k2", "error"]
        assert (
            rows.loc["dying/sort/random-k2", ["device", "dtype", "data_source", "worker"]]
            .isna()
            .all()
        )
        assert table(project.path / "j.xml")["status"].to_dict() == rows["status"].to_dict()
        cases = [
            case
            for case in ElementTree.parse("j.xml").iter("testcase")
            if "sort" in case.get("name", "")
        ]
        assert len(cases) == 1
