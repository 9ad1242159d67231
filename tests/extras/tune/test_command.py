"""`pbcore tune` as its user sees it: a tuning from end to end, one that was killed, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from pbcore.cli import main
from pbcore.costs.measured import Measurement
from pbcore.extras.tune.state import read_state
from pbcore.results.rundir import RunDir
from tests.results.test_damaged_files import TUNING
from tests.warm_python import warm_python

SMALL = ("--task", "shuffle", "--samplers", "threshold,eb-0.1", "--samplers", "confidence")
COMMAND = ("-m", "pbcore", "tune")


def tune(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm_python(), *COMMAND, *words], cwd=folder, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A tuning of `ideal` among 7 samplers: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("tuned")
    done = tune(folder, "ideal", *SMALL, "--max-loss", "10", "--out", "run")
    assert done.returncode == 0, done.stderr + done.stdout
    return folder / "run", done.stdout


@pytest.mark.slow
class TestTuning:
    def test_says_what_it_will_do(self, tuned: tuple[Path, str]) -> None:
        """Before it runs: the candidates, and questions and forwards of the proof at 5 and 10 %."""
        _, text = tuned
        assert "ideal: 7 candidates against confidence-k1 on 1 task (shuffle)" in text
        state = read_state(tuned[0])
        for share, need in zip((5, 10), state.need, strict=True):
            assert f"proof at {share} % discordant answers: {need:,} questions" in text
        assert "forwards" in text
        assert "front: " in text

    def test_recommends_what_is_right(self, tuned: tuple[Path, str]) -> None:
        """`ideal` loses nothing under eb-0.1, and two tokens a step break shuffles."""
        folder, text = tuned
        preset = yaml.safe_load((folder / "tuned.yaml").read_text())
        assert preset["options"] == {"sampler": ["eb-0.1"]}
        assert preset["tuned"]["times_fewer"] > 5
        assert "eb-0.1 is the fastest that is confirmed to lose less than 10 points" in text
        report = (folder / "tune.md").read_text()
        assert "| `confidence-k8` " in report
        assert "shown to lose more than 10 points" in report

    def test_the_folder_is_a_run(self, tuned: tuple[Path, str]) -> None:
        """Its cells are those of the proof, with report and page; no question of it was asked in a
        round, and all samplers of a run answered the same ones.
        """
        folder, _ = tuned
        assert (folder / "report.html").is_file()
        assert main(["report", str(folder)]) == 0
        asked = set()
        for part in (*sorted((folder / "race").iterdir()), folder):
            cells = RunDir(part).read_cells()
            questions = [{sample.index for sample in cell.samples} for cell in cells]
            assert all(one == questions[0] for one in questions)
            assert asked.isdisjoint(questions[0])
            assert "confidence-k1" in {cell.cell.sampler for cell in cells}
            asked |= questions[0]

    def test_resumed_when_done(self, tuned: tuple[Path, str]) -> None:
        """A finished tuning says the same again and runs no cell."""
        folder, text = tuned
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("cells/*.json")}
        again = tune(folder.parent, "--resume", "run")
        assert again.returncode == 0
        assert again.stdout.splitlines()[-3:] == text.splitlines()[-3:]
        assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("cells/*.json")}

    @pytest.mark.nightly
    def test_two_processes(self, tuned: tuple[Path, str], tmp_path: Path) -> None:
        """`-n 2` gives the same rounds, counts and scores."""
        words = ["ideal", *SMALL, "--max-loss", "10", "-n", "2", "--out", "run"]
        done = tune(tmp_path, *words)
        assert done.returncode == 0, done.stderr + done.stdout
        assert counts(tmp_path / "run") == counts(tuned[0])
        assert (tmp_path / "run/tuned.yaml").read_text() == (tuned[0] / "tuned.yaml").read_text()

    def test_the_preset_can_be_used(self, tuned: tuple[Path, str]) -> None:
        """`--preset FILE` runs the recommended sampler."""
        folder, _ = tuned
        command = [warm_python(), "-m", "pytest", "--pyargs", "pbcore.benches", "--co", "-q"]
        command += ["--model", "ideal", "--task", "copy", "--preset", str(folder / "tuned.yaml")]
        listed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert "test_cell[ideal/copy/eb-0.1]" in listed.stdout


@pytest.mark.slow
@pytest.mark.posix
def test_goes_on_after_a_kill(tuned: tuple[Path, str], tmp_path: Path) -> None:
    """Killed in the race and again in the proof, it ends as one that was not, and keeps every cell
    that was finished.
    """
    words = ["ideal", *SMALL, "--max-loss", "10", "--out", "run"]
    process = subprocess.Popen(
        [warm_python(), *COMMAND, *words], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    _kill_at(process, tmp_path / "run/race/1", 3)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("cells/*.json")}
    again = [warm_python(), *COMMAND, "--resume", "run"]
    process = subprocess.Popen(again, cwd=tmp_path, stdout=subprocess.DEVNULL)
    _kill_at(process, tmp_path / "run", 1)
    done = tune(tmp_path, "--resume", "run")
    assert done.returncode == 0, done.stderr
    assert all(path.read_bytes() == text for path, text in kept.items())
    assert _without_seconds(tmp_path / "run") == _without_seconds(tuned[0])
    assert counts(tmp_path / "run") == counts(tuned[0])
    assert (tmp_path / "run/tuned.yaml").read_text() == (tuned[0] / "tuned.yaml").read_text()


def _kill_at(process: subprocess.Popen[bytes], run: Path, cells: int) -> None:
    """Kills a tuning once a run of it has so many cells."""
    while len(list(run.glob("cells/*.json"))) < cells:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def counts(folder: Path) -> dict[str, object]:
    """Calls, canvases, tokens and scores of all cells of rounds and proof."""
    found: dict[str, object] = {}
    for run in (*sorted((folder / "race").glob("[0-9]*")), folder):
        for stored in RunDir(run).read_cells():
            cell = stored.cell
            scores = {sample.index: sample.scores for sample in stored.samples}
            numbers = (cell.nfe_mean, cell.rows_mean, cell.tokens_forwarded, scores)
            found[f"{run.relative_to(folder)} {cell.id}"] = numbers
    return found


def _without_seconds(folder: Path) -> object:
    state = json.loads((folder / "tune.json").read_text())
    for run in (*state["rounds"], state["proof"]):
        run.pop("seconds")
    state.pop("row_seconds")
    return state


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name the model, e.g. pbcore tune tiny"),
        (["idel"], "--model: unknown model 'idel'; did you mean ideal"),
        (["ideal", "--task", "shufle"], "--task: no task 'shufle'; did you mean"),
        (["ideal", "--samplers", "eb-x"], "--samplers: "),
        (["ideal", "--bogus"], "unrecognized arguments: --bogus"),
        (["tiny", "--task", "copy", "--price", "nowhere"], "--price 'nowhere'"),
        (["tiny", "--task", "copy", "--price", "h200", "--axis", "calls"], "--price gives seconds"),
        (["ideal", "--samplers", "nope"], "--samplers: unknown policy 'nope'"),
        (["tiny-ar", "--task", "copy"], "tiny-ar decodes by itself"),
        (["ideal", "--task", "copy", "--sampler", "eb-0.1"], "--sampler: a tuning sets it itself"),
        (["ideal", "--task", "copy", "--limit", "5"], "--limit: a tuning sets it itself"),
        (["ideal", "--task", "w2s_easy"], "ideal can't run text_writing/w2s_easy"),
        (["--resume", "nowhere"], "--resume nowhere: it has no tune.json"),
        (["ideal", "--resume", "nowhere"], "goes on as it began (tune.json); leave ideal out"),
        (["ideal", "--task", "copy", "--budget", "1s"], "--budget 1s: a first round with a proof"),
    ],
)
def test_bad_input(
    words: Sequence[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line says what is wrong, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("pbcore tune: ")
    assert told in lines[0]
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize("text", ["0", "-2", "100", "three"])
def test_no_loss(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A loss lies above 0 and below 100 points."""
    with pytest.raises(SystemExit):
        main(["tune", "ideal", f"--max-loss={text}"])
    told = f"'{text}' is not a loss in points, above 0 and below 100; write e.g. 5 or 2.5"
    assert told in capsys.readouterr().err


def test_prices_of_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A measured list is that of one model; nothing is written."""
    monkeypatch.chdir(tmp_path)
    measured = Measurement("mine-8b", "float32", None, {})
    (tmp_path / "prices.json").write_text(measured.text())
    words = ["--task", "copy", "--samplers", "eb-0.1", "--price", "prices.json", "--plan"]
    assert main(["tune", "tiny", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "price list prices.json is of mine-8b, not of tiny" in line


STATE: dict[str, Any] = asdict(TUNING)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps({"schema": 1, **STATE, "tasks": ["a"]}), "field tasks doesn't fit the others"),
        (
            json.dumps({"schema": 1, **STATE, "rounds": [{"samplers": ["eb-0.1"]}]}),
            "field rounds doesn't fit the others",
        ),
    ],
)
def test_a_damaged_state(
    text: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line says what is damaged and what to do; the folder stays as it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/tune.json").write_text(text)
    assert main(["tune", "--resume", "run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line
    assert "the tuning can't go on: start it anew with another --out" in line
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["tune.json"]
    assert (tmp_path / "run/tune.json").read_text() == text


@pytest.mark.parametrize("text", ["30", "0m", "half an hour", "-5m"])
def test_no_time(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A budget has a unit."""
    with pytest.raises(SystemExit):
        main(["tune", "ideal", f"--budget={text}"])
    assert "is not a time; write 90s, 30m or 2h" in capsys.readouterr().err


def test_a_policy_of_conftest(
    tmp_path: Path,
    registries: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A policy that the folder's conftest.py registers is a candidate, without more options; its
    seconds say what they assume.
    """
    (tmp_path / "conftest.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        words = ["--task", "copy", "--samplers", "mine", "--price", "h200", "--plan"]
        assert main(["tune", "tiny", *words]) == 0
    finally:
        sys.modules.pop("conftest", None)
    told = " ".join(capsys.readouterr().out.split())
    assert "mine-0.9 mine-0.6 mine-0.96" in told
    assert "own work of mine-0.9, mine-0.6, mine-0.96 isn't known and counts as that of" in told


OWN = '''
from typing import Annotated
from pbcore import register_policy
from pbcore.decoding.policies.registry import Span

@register_policy("mine")
class Mine:
    """Reveals all confidence of at least gamma."""

    gamma: Annotated[float, Span(0.6, 0.96, "rest")] = 0.9

    def select(self, step):
        return step.at_least_best(step.confidence >= self.gamma, step.confidence)
'''
