"""`--cot` and `--shots`: how questions are asked, what of an answer is scored, and who is left
out.
"""

from __future__ import annotations

import pytest

import pbcore
from pbcore.models import model_names
from tests.plugin.conftest import Run

SPEAKER = ("--model", "speaker", "--sampler", "eb-0.1", "--out", "out", "--limit", "2")
COPY = ("--task", "waiting_line/copy")


def test_the_final_answer_is_scored_and_the_record_says_how_it_was_asked(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two answers comes after the words; the steps before it don't count."""
    label = pbcore.load_task("waiting_line/copy", limit=1).samples[0].answer
    monkeypatch.setenv("SPEAKER_SAYS", f"[] is where I begin.\nThe answer is: {label}")
    run(*SPEAKER, *COPY, "--cot", "--shots", "0").assert_outcomes(passed=1)
    row = pbcore.results.load(project.path / "out").iloc[0]
    assert row["accuracy"] == 0.5
    assert (row["options"]["cot"], row["options"]["shots"]) == (True, 0)


def test_answers_without_one_are_counted(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEAKER_SAYS", "First I look at the list")
    output = run(*SPEAKER, *COPY, "--cot")
    assert pbcore.results.load(project.path / "out").iloc[0]["failures"] == {"no final answer": 2}
    output.stdout.fnmatch_lines(["wrong answers by kind: no final answer 2"])


def test_the_whole_text_is_scored_on_demand(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the official code does; the record says which, and neither run passes for the other."""
    label = pbcore.load_task("waiting_line/copy", limit=1).samples[0].answer
    monkeypatch.setenv("SPEAKER_SAYS", f"I copy it: {label}")
    speaker = (*SPEAKER[:4], "--limit", "1")
    run(*speaker, *COPY, "--cot", "--out marked").assert_outcomes(passed=1)
    result = run(*speaker, *COPY, "--cot --cot-answer whole --out whole --gate marked")
    result.stdout.fnmatch_lines(
        ["*refused *: --cot-answer is whole, the baseline has none: leave it out"]
    )
    marked, whole = (
        pbcore.results.load(project.path / name).iloc[0] for name in ("marked", "whole")
    )
    assert (marked["accuracy"], whole["accuracy"]) == (0, 1)
    assert (marked["options"]["cot_answer"], whole["options"]["cot_answer"]) == ("marked", "whole")
    assert marked["key"] != whole["key"]
    assert "cot_answer" in run(*speaker, *COPY, "--cot-answer whole").stderr.str().replace("-", "_")


def test_the_drill_down_shows_the_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEAKER_SAYS", "Nobody moves.\nThe answer is: []")
    output = run(*SPEAKER[:4], *COPY, "--limit 2 --cot -x")  # no --out: it writes nothing
    output.assert_outcomes(failed=1)
    output.stdout.fnmatch_lines(["*Nobody moves.*"])


def test_models_and_tasks_without_steps_are_left_out(run: Run) -> None:
    output = run(
        "--model ideal --model speaker --sampler eb-0.1 --task copy --task list_ops/copy --cot"
        " --limit 1"
    )
    output.assert_outcomes(passed=1)
    text = " ".join(output.stdout.str().split())  # lines are folded
    assert (
        "ideal × chain of thought: it knows the right answers, and no steps that lead to them"
        in text
    )
    assert (
        "list_ops with --cot: its canvas is given in part, which leaves no room for steps" in text
    )


def test_an_embedded_model_lacks_the_words(run: Run) -> None:
    output = run("--model tiny --sampler random-k4 --task copy --cot --limit 1")
    output.stdout.fnmatch_lines(["*its vocabulary covers the package's own data*"])


def test_shots_are_of_lists_and_puzzles(run: Run, project: pytest.Pytester) -> None:
    """Text tasks beside them keep theirs."""
    run(*SPEAKER, "--task copy --task sudoku --task paraphrasing", "--shots 3").assert_outcomes(
        passed=3
    )
    asked = pbcore.load_task("puzzle/sudoku", limit=2, shots=3)
    rows = pbcore.results.load(project.path / "out").set_index("task")
    assert rows.loc["puzzle/sudoku", "data_hash"] == asked.data_hash
    assert (
        rows.loc["text_writing/paraphrasing", "data_hash"]
        == pbcore.load_task("text_writing/paraphrasing", limit=2).data_hash
    )


def test_the_canvas_has_the_length_that_is_asked_for(run: Run, project: pytest.Pytester) -> None:
    """Infilling keeps its own; the record says what was asked."""
    asked = ("--max-new-tokens", "16", "--task", "list_ops/copy", *COPY)
    run("--model ideal --sampler random-k1 --limit 2 --out out", *asked).assert_outcomes(passed=2)
    rows = pbcore.results.load(project.path / "out").set_index("task")
    assert rows.loc["waiting_line/copy", "nfe"] == 16
    assert rows.loc["waiting_line/copy", "options"]["max_new_tokens"] == 16
    assert rows.loc["list_ops/copy", "nfe"] < 16
    assert "max_new_tokens" not in rows.loc["list_ops/copy", "options"]


@pytest.mark.skipif("tiny-ar" not in model_names(), reason="no embedded tiny-ar in this copy")
@pytest.mark.parametrize(("asked", "most"), [("", 32), ("--max-new-tokens 5", 5)])
def test_autoregressive_answers_end_there(
    asked: str, most: int, run: Run, project: pytest.Pytester
) -> None:
    run(
        f"--model tiny-ar --sampler ar --sampler ar-lookup4 --task copy --limit 2 --out out {asked}"
    )
    rows = pbcore.results.load(project.path / "out")
    assert len(rows) == 2
    for decoding in rows["decoding"]:
        assert decoding["max_new_tokens"] == {str(most): 2}
        assert decoding["finish"] == ({"length": 2} if asked else {"stop": 2})


def test_no_number_of_shots(run: Run) -> None:
    output = run("--shots", "9")
    output.stderr.fnmatch_lines(["*'9' is not a number of solved examples; write 0 to 8"])
