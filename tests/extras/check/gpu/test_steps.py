"""Steps of `pbcore check gpu`: what is kept, what runs again, what a failure leaves behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.extras.check import command_gpu as command
from pbcore.extras.check.gpu import steps
from pbcore.extras.check.gpu.steps import Check, CheckStep, Setup
from tests.markdown_tables import unpadded


def ok(setup: Setup) -> Iterator[Check]:
    yield Check("first", True, "fine", {"number": 1})
    yield Check("second", None, "a figure")


def bad(setup: Setup) -> Iterator[Check]:
    yield Check("sum", False, "1 + 1 = 3")


def raising(setup: Setup) -> Iterator[Check]:
    yield Check("before", True, "fine")
    raise RuntimeError("CUDA error: device-side assert triggered\nCompile with …")


class Counted:
    """A step's function that notes each run."""

    def __init__(self, run: Callable[[Setup], Iterator[Check]]) -> None:
        self.run = run
        self.times = 0

    def __call__(self, setup: Setup) -> Iterator[Check]:
        self.times += 1
        return self.run(setup)


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the command on the CPU with steps of these functions, named by their keyword."""

    def run(*more: str, **functions: Any) -> int:
        chosen = tuple(
            CheckStep(name, name.title(), function) for name, function in functions.items()
        )
        monkeypatch.setattr(command, "STEPS", chosen)
        monkeypatch.setattr(command, "NAMES", tuple(functions))
        return main(["check", "gpu", "--device", "cpu", "--out", str(tmp_path), *more])

    return run


class TestOutcome:
    """The exit code, and what is printed and written."""

    def test_all_hold(
        self, check: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Status 0. The Markdown block is printed and written; its JSON is the file's."""
        assert check(one=ok) == 0
        text = capsys.readouterr().out
        block = (tmp_path / "gpu-check.md").read_text(encoding="utf-8")
        assert block in text
        assert "passed: ✓ 1, ✗ 0" in block
        assert "| ✓ | first | fine |" in unpadded(block)
        assert "| · | second | a figure |" in unpadded(block)
        content = json.loads((tmp_path / "gpu-check.json").read_text(encoding="utf-8"))
        assert json.loads(block.split("```json\n")[1].split("\n```")[0]) == content
        assert content["outcome"] == "passed"
        assert content["steps"][0]["checks"][0]["figures"] == {"number": 1}

    def test_a_cpu_is_a_rehearsal(
        self, check: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        check(one=ok)
        text = capsys.readouterr().out
        assert text.startswith(
            "A rehearsal on the CPU: it runs the same steps, and says nothing of"
        )
        assert "### pbcore check gpu: rehearsal on a CPU, not a GPU" in text

    def test_something_does_not_hold(self, check: Callable[..., int]) -> None:
        assert check(one=bad, two=ok) == 1

    def test_a_step_that_raises_lets_the_others_run(
        self, check: Callable[..., int], tmp_path: Path
    ) -> None:
        """✗ with the error's first line, after what was found before it."""
        after = Counted(ok)
        assert check(one=raising, two=after) == 1
        assert after.times == 1
        block = (tmp_path / "gpu-check.md").read_text(encoding="utf-8")
        assert "| ✓ | before | fine |" in unpadded(block)
        line = "| ✗ | raised RuntimeError | CUDA error: device-side assert triggered |"
        assert line in unpadded(block)

    def test_time_is_up(self, check: Callable[..., int], tmp_path: Path) -> None:
        """Each step that starts ends after its next check; status 3 says that more is to come."""
        assert check("--minutes", "1e-9", one=ok) == 3
        block = (tmp_path / "gpu-check.md").read_text(encoding="utf-8")
        assert "incomplete: ✓ 1, ✗ 0; not finished: one" in block
        assert "was up before the end of this step" in block


class TestAgain:
    """A rerun."""

    def test_what_is_done_and_holds_is_kept(
        self, check: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        good, wrong = Counted(ok), Counted(bad)
        check(one=good, two=wrong)
        capsys.readouterr()
        assert check(one=good, two=wrong) == 1
        assert (good.times, wrong.times) == (1, 2)
        assert "One (done before): 0 s" in capsys.readouterr().out

    def test_what_was_cut_short_runs_again(self, check: Callable[..., int]) -> None:
        step = Counted(ok)
        assert [check("--minutes", "1e-9", one=step), check(one=step)] == [3, 0]
        assert step.times == 2

    def test_on_request_all_runs_again(self, check: Callable[..., int]) -> None:
        step = Counted(ok)
        check(one=step)
        check("--again", one=step)
        assert step.times == 2

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "one"}', '{"checks": [{"x": 1}]}'])
    def test_a_damaged_file_runs_again(
        self, check: Callable[..., int], tmp_path: Path, text: str
    ) -> None:
        step = Counted(ok)
        check(one=step)
        (tmp_path / "one.json").write_text(text, encoding="utf-8")
        assert check(one=step) == 0
        assert step.times == 2

    def test_another_dtype_runs_again(self, check: Callable[..., int]) -> None:
        """Results count for the device, model, dtype, versions and code that they are of."""
        step = Counted(ok)
        check(one=step)
        check("--dtype", "bfloat16", one=step)
        assert step.times == 2


class TestDeadDevice:
    def test_the_other_steps_run_in_a_new_process(
        self, check: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """After an assert a GPU refuses the process; the command goes on in another one, and reads
        what that kept.
        """
        monkeypatch.setattr(command, "usable", lambda device: False)
        commands: list[list[str]] = []

        def fresh(words: list[str], **_: Any) -> None:
            commands.append(words)
            settings = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))["settings"]
            steps.write_result(
                steps.StepResult("two", "Two", settings, [Check("of two", True, "")], True),
                tmp_path,
            )

        monkeypatch.setattr(subprocess, "run", fresh)
        here = Counted(ok)
        assert check(one=raising, two=here, three=here) == 1
        assert here.times == 0
        (words,) = commands
        assert words[3:8] == ["check", "gpu", "tiny", "--steps", "two,three"]
        content = json.loads((tmp_path / "gpu-check.json").read_text(encoding="utf-8"))
        assert [step["complete"] for step in content["steps"]] == [True, True, False]


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (
                ["--steps", "device,speeed"],
                "there is no step 'speeed'; choose from device, embedded",
            ),
            (["--minutes", "0"], "--minutes 0: give a number above 0"),
            (["--dtype", "int8"], "dtype 'int8' is not known; choose from float32"),
            (["tinny"], "unknown model 'tinny'; did you mean tiny"),
        ],
    )
    def test_one_line(
        self, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["check", "gpu", "--device", "cpu", *words]) == 2
        error = capsys.readouterr().err
        assert expected in error
        assert error.count("\n") == 1

    def test_nothing_is_downloaded(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pbcore.extras.check.gpu.models.availability", lambda entry: "download")
        assert main(["check", "gpu", "llada-8b", "--device", "cpu"]) == 2
        error = capsys.readouterr().err
        assert "llada-8b isn't on this machine, and pbcore check gpu downloads nothing" in error
        assert "or check llada-8b:dummy" in error

    def test_without_a_gpu(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The default is a GPU; a CPU has to be asked for."""
        assert main(["check", "gpu"]) == 2
        assert "sees no GPU; use cpu" in capsys.readouterr().err
