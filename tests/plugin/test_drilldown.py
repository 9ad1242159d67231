"""The drill-down: a wrong answer fails its own item and is explained."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from pbcore.grid.settings import Settings
from pbcore.plugin.options import rerun
from tests.plugin.conftest import Run


def test_a_cell_is_named_by_its_short_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its file is; a cell of a project's own file by its node id."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    config = SimpleNamespace(
        rootpath=tmp_path,
        stash={},
        getini=lambda name: None,
        invocation_params=SimpleNamespace(dir=tmp_path / "below"),
        getoption=lambda name, default: default,
    )
    name = "[ideal/sudoku/random-k2]"
    for node in (f"benches/test_puzzles.py::test_cell{name}", f"::test_cell{name}"):
        command = rerun(config, Settings(), node, 3)  # type: ignore[arg-type]
        assert command == "pytest ideal/sudoku/random-k2/3"
    for node in (f"mine.py::test_cell{name}", f"test_puzzles.py::test_other{name}"):
        words = shlex.split(rerun(config, Settings(), node, 3))  # type: ignore[arg-type]
        assert words[1] == f"../{node[:-1]}/3]"


WRONG = ("--model", "ideal", "--task", "shuffle", "--sampler", "random-k4")


class TestStopAtFirst:
    def test_it_shows_the_wrong_answer_and_how_it_came_about(
        self, run: Run, project: pytest.Pytester, in_process: Run
    ) -> None:
        """`-x` stops at the first wrong sample; prompt, answer, label, reason, trajectory, and a
        command that fails the same way.
        """
        result = run(*WRONG, "--limit 12 -x")
        assert (
            result.ret == pytest.ExitCode.TESTS_FAILED or result.ret == pytest.ExitCode.INTERRUPTED
        )
        result.assert_outcomes(failed=1, passed=result.parseoutcomes().get("passed", 0))
        result.stdout.fnmatch_lines(
            [
                "sample * of waiting_line/shuffle is wrong: *",
                "    prompt  You are managing a waiting line*",
                "    answer  *",
                "     label  *one of several valid answers)",
                "    scores  accuracy 0*",
                "trajectory  step  1  *",
                "rerun this sample:  pytest *",
                "*samples right",
            ]
        )
        assert not (project.path / "reports").exists()
        command = next(
            line for line in result.stdout.lines if line.startswith("rerun this sample:")
        ).partition("pytest ")[2]
        again = in_process(*shlex.split(command))
        again.assert_outcomes(failed=1)
        shown = [
            line for line in result.stdout.lines if line.startswith(("    answer", "trajectory"))
        ]
        assert shown
        assert set(shown) <= set(again.stdout.lines)

    def test_the_command_holds_where_pytest_was_started(
        self, in_process: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a folder of the project, whose node ids begin at its root."""
        monkeypatch.chdir(project.path / "benches")
        result = in_process("test_waiting_line.py", *WRONG, "--limit 12 -x")
        (line,) = (line for line in result.stdout.lines if line.startswith("rerun this sample:"))
        words = shlex.split(line)
        assert words[4].startswith("ideal/shuffle/random-k4/")
        in_process(*words[4:]).assert_outcomes(failed=1)

    def test_the_command_repeats_the_options_that_decide_the_answer(self, run: Run) -> None:
        """Switches and values; what selects cells is in the node id."""
        result = run(*WRONG, "--limit 12 -x --official-text --data-seed 3 --batch-size 5")
        (command,) = (line for line in result.stdout.lines if line.startswith("rerun this sample:"))
        words = shlex.split(command)
        assert "--official-text" in words
        assert [words[words.index(name) + 1] for name in ("--data-seed", "--batch-size")] == [
            "3",
            "5",
        ]
        assert not {"--model", "--task", "--limit"} & set(words)

    def test_the_trajectory_reveals_every_position_once(self, run: Run) -> None:
        """random-k4 on 32 tokens: 8 steps, and the steps together name each position."""
        result = run(*WRONG, "--limit 12 -x")
        steps = [
            line.partition("step ")[2]
            for line in result.stdout.lines
            if line.startswith(("trajectory  step", "            step"))
        ]
        assert len(steps) == 8
        places: list[int] = []
        for step in steps:
            for part in step.split("  ", 1)[1].strip().split("   "):
                spans = part.split(" ", 1)[0].split(",")
                for first, _, last in (span.partition("-") for span in spans):
                    places += range(int(first), int(last or first) + 1)
        assert sorted(places) == list(range(32))

    def test_tokens_that_are_masked_again(self, run: Run) -> None:
        """The trajectory of a sampler that masks tokens again has each step's canvas."""
        result = run("--model tiny --task shuffle --sampler wino-0.3 --limit 1 --per-sample")
        result.stdout.fnmatch_lines(["            step *masked again: *"])


class TestSample:
    def test_a_sample_is_found_whatever_the_limit(self, run: Run) -> None:
        """--sample 17 runs the 18th sample of each cell, although the profile takes fewer."""
        result = run("--model ideal --task copy --sampler random-k2 --sample 17")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["ideal/copy/random-k2: 1 of 1 samples right"])

    def test_a_right_sample_shows_how_it_came_about(self, run: Run) -> None:
        """With -rP: prompt, answer and a step of the trajectory for each forward; else nothing."""
        cells = "--model ideal --task copy --sampler random-k8 --sample 3"
        shown = run(cells, "-rP")
        shown.assert_outcomes(passed=1)
        shown.stdout.fnmatch_lines(
            [
                "sample 3 of waiting_line/copy is right",
                "    answer  *",
                "trajectory  step  1  *",
                "            step  3  *",
                "rerun this sample:  pytest *",
            ]
        )
        assert "trajectory" not in run(cells).stdout.str()

    @pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
    def test_samples_fail_each_on_its_own(self, run: Run, workers: str) -> None:
        """--per-sample goes on after a wrong answer, with a worker as without; the counts are those
        of a measured cell.
        """
        each = run(*WRONG, "--limit 12 --per-sample", "-n", workers)
        outcomes = each.parseoutcomes()
        assert outcomes["passed"] + outcomes["failed"] == 12
        assert outcomes["failed"] > 0
        each.stdout.fnmatch_lines(
            [f"ideal/shuffle/random-k4: {outcomes['passed']} of 12 samples right"]
        )
        measured = run(*WRONG, "--limit 12 --out out")
        share = 100 * outcomes["passed"] / 12
        measured.stdout.fnmatch_lines([f"shuffle *{share:.0f}"])
