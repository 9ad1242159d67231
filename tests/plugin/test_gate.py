"""Gates, floors, baselines and resuming, from the command line to the exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

import pbcore
from tests.markdown_tables import unpadded
from tests.plugin.conftest import Run

CELLS = ("--model", "ideal", "--limit", "20", "--task", "shuffle", "--task", "copy")
GOOD = (*CELLS, "--sampler", "confidence-k1")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that needs a baseline leaves it for the others."""
    return tmp_path_factory.mktemp("baseline")


@pytest.fixture
def baseline(run: Run, project: pytest.Pytester, measured: Path) -> Path:
    """A baseline file of two cells, and `base`, the run it came from; measured once for all
    tests.
    """
    if not (measured / "baseline.json").exists():
        result = run(*GOOD, "--out base --update-baseline baseline.json")
        result.stdout.fnmatch_lines(["baseline written: baseline.json (2 cells)"])
        shutil.copytree(project.path / "base", measured / "base")
        shutil.copy(project.path / "baseline.json", measured)
    shutil.copytree(measured, project.path, dirs_exist_ok=True)
    return project.path / "baseline.json"


def made_worse(path: Path, cell: str) -> None:
    """Rewrites the baseline so that `cell` was once a worse sampler's: as if the present one had
    been renamed over it.
    """
    data = json.loads(path.read_text())
    data["cells"][cell]["nfe"] = "31x20"
    path.write_text(json.dumps(data))


class TestGate:
    def test_an_unchanged_run_passes(self, run: Run, baseline: Path) -> None:
        """Exit code 0, and the screen says which drop the gate could have caught."""
        result = run(*GOOD, "--gate", str(baseline))
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            [f"gate PASSED: no worse than {baseline} (same weights): all 40 answers repeat"]
        )
        assert "is the fastest" not in result.stdout.str()

    def test_a_worse_run_fails_everywhere_it_is_looked_for(
        self, run: Run, project: pytest.Pytester, baseline: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Greedy decoding that takes more forwards fails its cell: screen, exit code, JUnit,
        gate.md and the step summary agree.
        """
        made_worse(baseline, "ideal/shuffle/confidence-k1")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "step.md"))
        result = run(*GOOD, "--gate", str(baseline), "--out out --junitxml j.xml")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                f"gate FAILED: slower than {baseline} (same weights): *of 2 cells 1 slower",
                "  shuffle  confidence-k1   slower: forwards 31 → 32 in all 20 answers*",
                "look: pbcore view out *",
                "*2 passed, 1 failed the gate in *",
            ]
        )
        screen = result.stdout.str()
        assert screen.splitlines()[-1] == f"gate FAILED: slower than {baseline}"
        assert screen.count("31 → 32") == 1
        assert re.findall(r"\[ *(\d+)%\]", screen)[-1] == "100"
        report = (project.path / "out" / "report.md").read_text(encoding="utf-8")
        assert report.splitlines()[2].startswith("**gate FAILED: slower than ")
        assert "gate FAILED: slower than " in (project.path / "out" / "report.html").read_text(
            encoding="utf-8"
        )
        failed = [
            case
            for case in ElementTree.parse("j.xml").iter("testcase")
            if case.find("failure") is not None
        ]
        assert [(case.get("classname"), case.get("name")) for case in failed] == [
            (f"gate.{baseline}", "ideal/shuffle/confidence-k1")
        ]
        assert (project.path / "step.md").read_text() == (
            project.path / "out" / "gate.md"
        ).read_text()
        assert "| slower |" in unpadded((project.path / "step.md").read_text())

    def test_the_command_for_a_flipped_sample_works(
        self, run: Run, in_process: Run, project: pytest.Pytester
    ) -> None:
        """What gate.md offers shows that sample alone, beyond the limit of the default run too,
        and is not judged by the gate again.
        """
        bad = (*CELLS[:4], "--task", "shuffle", "--sampler", "random-k4")
        run(*bad, "--out base --update-baseline b.json")
        data = json.loads((project.path / "b.json").read_text())
        scores = data["cells"]["ideal/shuffle/random-k4"]["scores"]
        scores["accuracy"] = scores["accuracy"][:8] + "1" * 12
        (project.path / "b.json").write_text(json.dumps(data))
        run(*bad, "--gate b.json --out judged")
        told = (project.path / "judged" / "gate.md").read_text(encoding="utf-8")
        command = next(line for line in told.splitlines() if line.startswith("pytest "))
        command = command.removeprefix("pytest ")
        sample = int(command.partition("]")[0].rpartition("/")[2])
        assert sample >= 8
        shown = in_process(*shlex.split(command))
        shown.assert_outcomes(failed=1)
        shown.stdout.fnmatch_lines([f"sample {sample} of waiting_line/shuffle is wrong*"])

    def test_a_dropped_cell_does_not_pass_in_silence(self, run: Run, baseline: Path) -> None:
        """A baseline row that the run lacks fails; a cell without a row is listed as new."""
        others = ("--task", "copy", "--task", "reverse", "--sampler", "confidence-k1")
        result = run(*CELLS[:4], *others, "--gate", str(baseline))
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "gate FAILED: cells of * are missing*of 3 cells 1 missing, 1 new",
                "  missing ideal/shuffle/confidence-k1: *",
                "  new, not judged: ideal/reverse/*",
            ]
        )

    def test_other_samples_are_refused(self, run: Run, baseline: Path) -> None:
        """A run over fewer samples is no comparison, and the difference is named."""
        result = run(
            *CELLS[:2], "--limit 5", *CELLS[4:], "--sampler confidence-k1", "--gate", str(baseline)
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "  refused ideal/copy/confidence-k1, ideal/shuffle/confidence-k1: 5 samples, the"
                " baseline has 20: add --limit 20*"
            ]
        )


class TestUnusable:
    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ('{"schema": 2', '{"schema": 1', "has schema 1, this version reads 2; make it again"),
            ("}}\n", "", "is not valid JSON"),
            ('"model": "ideal"', '"model": "mine"', "has no row for ideal, only for mine; make"),
        ],
    )
    def test_an_unusable_baseline_ends_the_run_before_it_begins(
        self, run: Run, project: pytest.Pytester, baseline: Path, old: str, new: str, said: str
    ) -> None:
        """One of an older format, one that was cut and one of another model: a line, exit code 4,
        and no run.
        """
        baseline.write_text(baseline.read_text().replace(old, new))
        result = run(*GOOD, "--gate", str(baseline), "--out out")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --gate: {baseline}*{said}*"])
        assert not (project.path / "out").exists()


class TestAnotherMachine:
    def test_other_threads(self, run: Run, project: pytest.Pytester) -> None:
        """A baseline made with one thread holds with two, answer by answer; beside a red verdict
        the threads are named.
        """
        cells = shlex.split("--model tiny --task copy --sampler threshold-0.9 --limit 4")
        run(*cells, "--threads 1 --update-baseline b.json")
        result = run(*cells, "--threads 2 --gate b.json")
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            ["gate PASSED: no worse than b.json (same weights): all 4 answers repeat"]
        )
        data = json.loads((project.path / "b.json").read_text())
        data["cells"]["tiny/copy/threshold-0.9"]["nfe"] = "1x4"
        data["cells"]["tiny/copy/threshold-0.9"]["tokens_forwarded"] = "1x4"
        (project.path / "b.json").write_text(json.dumps(data))
        red = run(*cells, "--threads 2 --gate b.json")
        red.stdout.fnmatch_lines(["also other than the baseline's: threads 1 → 2"])


class TestFloor:
    def test_floors_hold_or_fail_the_run(self, run: Run) -> None:
        """An absolute demand fails the run when a matching cell is below it, and only then."""
        kept = run(*GOOD, "--floor 'ideal/*/confidence-k1 accuracy>=0.98'")
        assert kept.ret == pytest.ExitCode.OK
        kept.stdout.fnmatch_lines(["floors kept: 1 asked for, 0 cells below"])
        result = run(*CELLS, "--sampler random-k4 --floor 'ideal/*/random-k4 accuracy>=0.98'")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            ["  FLOOR    ideal/shuffle/random-k4: accuracy is 0.* (floor *)"]
        )


class TestTime:
    def test_it_says_why_it_did_not_judge(
        self, run: Run, baseline: Path, project: pytest.Pytester
    ) -> None:
        """Against a file there are no timings, against another machine's none that count.

        A timing gate that judged nothing fails the run.
        """
        run(*GOOD, "--rounds 3 --out timed").assert_outcomes(passed=2)
        facts = project.path / "timed" / "run.json"
        told = json.loads(facts.read_text(encoding="utf-8"))
        told["machine"]["cpus"] = 999
        facts.write_text(json.dumps(told), encoding="utf-8")
        result = run(
            *GOOD, "--gate", str(baseline), "--gate timed --gate-time 10% --rounds 3 --out again"
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "timing not judged against *holds no timings*",
                "timing against timed:",
                "  2 cells (*different machines: cpus is *, the baseline's 999*",
                "timing FAILED: no cell's time could be judged*",
            ]
        )

    def test_too_few_rounds_are_refused(self, run: Run, baseline: Path) -> None:
        """Before the first cell."""
        result = run(*GOOD, "--gate base --gate-time 10%")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*--gate-time: 1 round a cell*add --rounds 3*"])


class TestUpdate:
    def test_a_run_with_errors_writes_no_baseline(self, run: Run, project: pytest.Pytester) -> None:
        """Later runs would otherwise pass unjudged where this one had a hole."""
        cells = shlex.split(
            "--model breaking --limit 2 --task copy --task sort --sampler random-k2"
        )
        result = run(*cells, "--update-baseline b.json")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["no baseline written: cells failed: *breaking/sort*"])
        assert not (project.path / "b.json").exists()


class TestResume:
    def test_finished_cells_are_taken_over_and_the_rest_is_done(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """Of three cells one is missing and one is broken: both are measured again, the third keeps
        its record.
        """
        cells = shlex.split(
            "--model ideal --limit 4 --sampler random-k2 --task copy --task sort --task shuffle"
        )
        run(*cells, "--out straight")
        run(*cells, "--out out")
        files = {
            task: next((project.path / "out" / "cells").glob(f"ideal_{task}_*.json"))
            for task in ("copy", "sort", "shuffle")
        }
        files["sort"].unlink()
        files["shuffle"].write_text(files["shuffle"].read_text()[:100])
        kept = os.stat(files["copy"]).st_mtime_ns
        result = run(*cells, "--resume out")
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["cell file * can't be read *"])
        result.stdout.no_fnmatch_line("*fixture was not used*")
        assert os.stat(files["copy"]).st_mtime_ns == kept
        drop = ["seconds", "samples_per_second", "tokens_per_second", "peak_memory_bytes"]
        tables = [pbcore.results.load(name).drop(columns=drop) for name in ("straight", "out")]
        pd.testing.assert_frame_equal(*tables)

    def test_another_seed_is_another_cell(self, run: Run, project: pytest.Pytester) -> None:
        """A record whose key differs is not taken over."""
        cells = ("--model", "ideal", "--limit", "4", "--sampler", "random-k2", "--task", "copy")
        run(*cells, "--out out")
        run(*cells, "--resume out --seed 9 --resume-anyway")
        assert pbcore.results.load("out")["seeds"].tolist() == ["9"]


class TestSeeds:
    """Cells answered by several seeds, judged on means."""

    SAMPLED = (
        "--model",
        "ideal",
        "--task",
        "shuffle",
        "--sampler",
        "confidence-k2+t1.0",
        "--limit",
        "8",
    )

    @pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
    def test_gate(self, run: Run, project: pytest.Pytester, workers: str) -> None:
        """One cell holds every seed's answers; it passes against itself, a run of fewer seeds is
        refused, and a worker changes nothing.
        """
        run(*self.SAMPLED, "--seed 0-2 --out base --update-baseline b.json")
        row = pbcore.results.load("base").iloc[0]
        assert (row["n"], row["seeds"]) == (8, "0,1,2")
        alone = [
            pbcore.results.load_samples("base")[row["id"]][3 * i].scores["accuracy"]
            for i in range(8)
        ]
        run(*self.SAMPLED, "--seed 0 --out first")
        assert alone == [
            entry.scores["accuracy"] for entry in pbcore.results.load_samples("first")[row["id"]]
        ]
        result = run(*self.SAMPLED, "--seed 0-2 --gate b.json", "-n", workers)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["gate PASSED: not shown to be worse than b.json*"])
        refused = run(*self.SAMPLED, "--seed 0,1 --gate b.json")
        assert refused.ret == pytest.ExitCode.TESTS_FAILED
        refused.stdout.fnmatch_lines(["*seeds 0, 1, the baseline has 0, 1, 2: add --seed 0,1,2"])

    def test_drill_down(self, run: Run) -> None:
        """A wrong answer is shown with the seed that gave it."""
        result = run(*self.SAMPLED, "--seed 3-9 -x")
        result.stdout.re_match_lines([r"rerun this sample:  .*--seed \d( |$)"])
