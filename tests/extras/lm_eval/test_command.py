"""`pbcore lm-eval`: the harness's command line, and the run that it leaves."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from pbcore import results
from pbcore.cli import main
from pbcore.extras.lm_eval import command
from pbcore.extras.lm_eval.records import CACHED, results_files
from pbcore.results.load import load_stored
from tests.extras.lm_eval.harness import copy_task, needs_harness

needs_harness()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command ran over a local task with two filters."""
    folder = tmp_path_factory.mktemp("ran")
    tasks = copy_task(
        folder / "tasks",
        filter_list=[
            {"name": "whole", "filter": [{"function": "take_first"}]},
            {
                "name": "first",
                "filter": [
                    {"function": "regex", "regex_pattern": '"([A-Z][a-z]+)'},
                    {"function": "take_first"},
                ],
            },
        ],
    )
    arguments = [
        "--model_args",
        "pretrained=tiny,sampler=threshold-0.9",
        "--tasks",
        "toy_copy",
        "--device",
        "cpu",
    ]
    options = [
        "--include_path",
        str(tasks),
        "--apply_chat_template",
        "--fewshot_as_multiturn",
        "true",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["lm-eval", *arguments, *options]) == 0
    return folder


@pytest.mark.slow  # the harness reads all its tasks
def test_the_run_has_a_record_per_task_and_sampler(ran: Path) -> None:
    """Scores by filter, forwards, tokens and seconds are in the record; the harness's files are
    beside it.
    """
    [run] = (ran / "reports").iterdir()
    [cell] = results.load_cells(run)
    assert cell.id == "tiny/lm_eval/toy_copy/threshold-0.9"
    assert cell.scores["exact_match,whole"].mean == 1
    assert cell.scores["exact_match,first"].mean == 0
    assert cell.headline == "exact_match,whole"
    assert cell.n_samples == 4
    assert cell.nfe_mean is not None
    answers = results.load_samples(run)[cell.id]
    assert [one.canvas_tokens for one in answers] == [32] * 4
    assert cell.tokens_per_step == pytest.approx(
        sum(32 / one.nfe for one in answers if one.nfe) / 4
    )
    assert cell.seconds
    told = json.loads(next((run / "lm_eval").rglob("results_*.json")).read_text())["config"][
        "pbcore"
    ]["tasks"]
    assert told["toy_copy"]["nfe_mean"] == cell.nfe_mean
    assert told["toy_copy"]["tokens_per_forward"] == pytest.approx(cell.tokens_per_forward)
    assert results.load(run)["task"].tolist() == ["lm_eval/toy_copy"]
    assert "toy_copy" in (run / "report.md").read_text()
    assert 'content="4/4"' in (run / "report.html").read_text()  # all answers are on the page


@pytest.mark.slow
def test_the_whole_record(ran: Path, file_regression: FileRegressionFixture) -> None:
    """Cell, answers, questions and facts of the run, without seconds, paths and versions."""
    [run] = (ran / "reports").iterdir()
    told = json.loads(next((run / "lm_eval").rglob("results_*.json")).read_text())["config"][
        "pbcore"
    ]
    [stored] = load_stored(run)
    facts = json.loads((run / "run.json").read_text())
    whole = {
        "told": told,
        "cell": stored.cell.to_json(),
        "answers": [asdict(one) for one in stored.samples],
        "questions": sorted(path.read_text() for path in (run / "questions").rglob("*.json*")),
        "run": {**facts, "command": facts["command"][:3]},
    }
    text = json.dumps(whole, indent=1, ensure_ascii=False, default=str)
    text = re.sub(
        r'("\w*(?:seconds?|per_second|rounds|peak_memory\w*|gpu\w*|cpu\w*|note)":'
        r' )(\d[^,\n]*|"[^"]*")',
        r'\1"…"',
        text,
    )
    text = re.sub(r'"rounds": \[[^]]*\]', '"rounds": "…"', text)
    text = re.sub(r'"versions": \{[^}]*\}', '"versions": "…"', text)
    text = re.sub(r"(\d\.\d{5})\d+", r"\1", text)
    file_regression.check(text + "\n", encoding="utf-8")


@pytest.mark.slow
def test_its_files_can_be_imported_again(
    ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`import` makes the same record of what `lm_eval --output_path --log_samples` wrote."""
    [run] = (ran / "reports").iterdir()
    monkeypatch.chdir(tmp_path)
    assert main(["lm-eval", "import", str(run / "lm_eval"), "again"]) == 0
    assert results.load_cells("again") == results.load_cells(run)
    assert "tiny/lm_eval/toy_copy/threshold-0.9" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("dummy", [True, False])
def test_random_weights_are_told(ran: Path, tmp_path: Path, dummy: bool) -> None:
    """A record says so where the model said it."""
    [run] = (ran / "reports").iterdir()
    shutil.copytree(run / "lm_eval", tmp_path / "lm_eval")
    file = next((tmp_path / "lm_eval").rglob("results_*.json"))
    written = json.loads(file.read_text())
    written["config"]["pbcore"]["model_info"]["dummy"] = dummy
    file.write_text(json.dumps(written))
    assert main(["lm-eval", "import", str(tmp_path / "lm_eval"), str(tmp_path / "again")]) == 0
    assert results.load_cells(tmp_path / "again")[0].conditions.dummy is dummy


@pytest.mark.slow
def test_answers_of_the_harness_cache_have_no_forwards_and_seconds(
    ran: Path, tmp_path: Path
) -> None:
    """One cached answer among four: scores stay, what its forwards would say is not measured, with
    the reason.
    """
    [run] = (ran / "reports").iterdir()
    shutil.copytree(run / "lm_eval", tmp_path / "lm_eval")
    file = next((tmp_path / "lm_eval").rglob("results_*.json"))
    written = json.loads(file.read_text())
    requests = written["config"]["pbcore"]["tasks"]["toy_copy"]["requests"]
    assert requests.pop()["doc"] == 3
    file.write_text(json.dumps(written))
    assert main(["lm-eval", "import", str(tmp_path / "lm_eval"), str(tmp_path / "again")]) == 0
    [all_asked], [cell] = results.load_cells(run), results.load_cells(tmp_path / "again")
    assert cell.scores == all_asked.scores
    assert (cell.nfe_mean, cell.seconds, cell.tokens_per_step) == (None, None, None)
    assert cell.absent == {**all_asked.absent, "nfe": CACHED, "seconds": CACHED}
    assert all_asked.absent.keys().isdisjoint({"nfe", "seconds"})


@pytest.mark.slow
def test_a_missing_file_of_samples(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with what writes it; files of one run twice are refused."""
    [run] = (ran / "reports").iterdir()
    for folder in ("a", "b"):
        shutil.copytree(run / "lm_eval", tmp_path / "twice" / folder)
    assert main(["lm-eval", "import", str(tmp_path / "twice"), str(tmp_path / "again")]) == 2
    assert "import one of the two" in capsys.readouterr().err
    rows = next((tmp_path / "twice" / "a").rglob("samples_*.jsonl"))
    rows.unlink()
    assert main(["lm-eval", "import", str(tmp_path / "twice" / "a"), str(tmp_path / "other")]) == 2
    assert f"{rows} is missing; run the harness with --log_samples" in capsys.readouterr().err


ADDED = ["--model", "pbcore", "--batch_size", "auto", "--log_samples", "--output_path"]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (["--tasks", "t"], ADDED),
        (
            ["run", "--tasks", "t", "--help"],
            ADDED,
        ),
        (["--tasks", "t", "-M", "hf", "-b", "4", "-s", "-o", "out"], []),
        (["--log", "x", "--mod", "y"], ADDED),
    ],
)
def test_what_the_harness_is_given(
    given: list[str], added: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's words as they are, behind what they lack; its exit status is the command's."""
    asked: list[Sequence[str]] = []
    monkeypatch.chdir(tmp_path)

    def harness(words: Sequence[str]) -> int:
        asked.append(words)
        return 3

    monkeypatch.setattr(command, "_harness", harness)
    assert main(["lm-eval", *given]) == 3
    own = [word for word in given if word != "run"]
    words = list(asked[0])
    assert (words[0], words[-len(own) :]) == ("run", own)
    between = words[1 : -len(own)]
    assert between[: len(added)] == added
    assert len(between) == len(added) + bool(added)  # the folder is named anew each time


@pytest.mark.parametrize(
    ("ends", "status"), [(None, 0), (SystemExit(), 0), (SystemExit(3), 3), (SystemExit("x"), 1)]
)
def test_the_harness_own_commands(
    ends: SystemExit | None,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`ls` and `validate` are the harness's, which reads the words and ends as it likes."""
    import lm_eval.__main__ as harness

    def evaluate() -> None:
        print(sys.argv)
        if ends is not None:
            raise ends

    monkeypatch.setattr(harness, "cli_evaluate", evaluate)
    before = list(sys.argv)
    assert main(["lm-eval", "ls", "tasks"]) == status
    assert capsys.readouterr().out == "['lm_eval', 'ls', 'tasks']\n"
    assert sys.argv == before


def test_results_files_come_by_date(tmp_path: Path) -> None:
    """The oldest first, whatever their folders' names."""
    for place in (
        "b/results_2025-01.json",
        "a/results_2026-01.json",
        "a/c/results_2025-01.json",
        "a/other.json",
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    found = [str(file.relative_to(tmp_path)) for file in results_files(tmp_path)]
    assert found == ["a/c/results_2025-01.json", "b/results_2025-01.json", "a/results_2026-01.json"]


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_its_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The harness's arguments, the import, and an example."""
    with pytest.raises(SystemExit, match="0"):
        main(["lm-eval", *arguments])
    said = capsys.readouterr().out
    assert said.startswith("usage: pbcore lm-eval ARGUMENTS")
    assert "pbcore lm-eval import FOLDER [RUN]" in said


def test_an_option_without_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    """Of those that are read here; the usage is this command's."""
    with pytest.raises(SystemExit, match="2"):
        main(["lm-eval", "run", "--tasks", "t", "--output_path"])
    said = capsys.readouterr().err
    assert said.startswith("usage: pbcore lm-eval ARGUMENTS")
    assert (
        said.splitlines()[-1]
        == "pbcore lm-eval: error: argument --output_path/-o: expected one argument"
    )


@pytest.mark.slow  # the harness reads all its tasks first
def test_an_error_of_ours_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that can't be used ends with status 2 and no traceback."""
    tasks = copy_task(tmp_path / "tasks")
    arguments = [
        "--tasks",
        "toy_copy",
        "--include_path",
        str(tasks),
        "--output_path",
        str(tmp_path),
    ]
    assert main(["lm-eval", "--model_args", "pretrained=tiny", *arguments]) == 2
    assert "needs a model and a sampler" in capsys.readouterr().err


@pytest.mark.slow  # the harness reads all its tasks
def test_an_unknown_task_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--model_args",
        "pretrained=tiny,sampler=threshold-0.9",
        "--output_path",
        str(tmp_path),
    ]
    assert main(["lm-eval", *arguments, "--tasks", "nope_task"]) == 2
    assert (
        "pbcore lm-eval: Tasks not found: nope_task; `pbcore lm-eval ls tasks` lists"
        in capsys.readouterr().err
    )
