"""`--task lm_eval/NAME`: tasks of lm-evaluation-harness as cells, on local task files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pbcore
from pbcore.cli import main
from pbcore.tasks.registry import task_spec
from pbcore.tasks.scoring import SCORERS
from tests.extras.lm_eval.harness import copy_task, needs_harness, write_task
from tests.plugin.conftest import Run

ANSWER = ["--model", "speaker", "--sampler", "eb-0.1", "--out", "out"]
SCORED: dict[str, Any] = {
    "output_type": "generate_until",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_target": "answer",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 16},
    "metric_list": [{"metric": "exact_match"}],
    "filter_list": [
        {
            "name": "number",
            "filter": [
                {"function": "regex", "regex_pattern": "(\\d+)"},
                {"function": "take_first"},
            ],
        },
        {"name": "none", "filter": [{"function": "take_first"}]},
    ],
}
SUMS = [
    {"question": question, "answer": answer}
    for question, answer in (("1+1", "2"), ("1+2", "3"), ("2+2", "4"))
]


@pytest.fixture
def harness() -> None:
    needs_harness()


@pytest.mark.usefixtures("harness")
def test_the_harness_asks_and_scores(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is cut at the stop string, goes through the filters, and each filter has its
    score.
    """
    folder = write_task(project.path / "tasks", "sums", SUMS, **SCORED)
    monkeypatch.setenv("SPEAKER_SAYS", "It is 3.\n4")
    output = run(*ANSWER, "--task", "lm_eval/sums", "--lm-eval-path", str(folder))
    output.assert_outcomes(passed=1)
    [cell] = pbcore.results.load_cells(project.path / "out")
    assert cell.id == "speaker/lm_eval/sums/eb-0.1"
    assert cell.n_samples == 3
    assert cell.headline == "exact_match,number"
    assert {name: round(score.mean, 3) for name, score in cell.scores.items()} == {
        "exact_match,number": 0.333,
        "exact_match": 0,
    }
    assert cell.conditions.data_source == "lm_eval"


@pytest.mark.usefixtures("harness")
def test_the_canvas_has_the_tasks_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tokens as its answers may have, else as the harness's own models take."""
    from pbcore.extras.lm_eval.tasks import add_harness_tasks

    monkeypatch.setattr(SCORERS, "_registered", dict(SCORERS.all()))
    folder = write_task(tmp_path, "sums", SUMS, **SCORED)
    write_task(tmp_path, "open_end", SUMS, **SCORED | {"generation_kwargs": {"until": ["\n"]}})
    names = add_harness_tasks(["lm_eval/sums", "lm_eval/open_end"], folder)
    lengths = [pbcore.load_task(name).samples[0].max_new_tokens for name in names]
    specs = [task_spec(name).max_new_tokens for name in names]
    assert lengths == specs == [16, 256]


@pytest.mark.usefixtures("harness")
def test_a_single_answer_by_its_node_id(
    in_process: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that a node id names is found, and its sample judged."""
    folder = write_task(project.path / "tasks", "sums", SUMS, **SCORED)
    monkeypatch.setenv("SPEAKER_SAYS", "3")
    for number, outcome in ((1, "passed"), (2, "failed")):
        name = f"benches/test_own_tasks.py::test_cell[speaker/lm_eval/sums/eb-0.1/{number}]"
        in_process(name, "--lm-eval-path", str(folder)).assert_outcomes(**{outcome: 1})


@pytest.mark.usefixtures("harness")
def test_a_cell_is_what_the_harness_itself_finds(run: Run, project: pytest.Pytester) -> None:
    """`tiny` on its own copy questions: answers, scores and NFE are those of `lm_eval --model
    pbcore`.
    """
    folder = copy_task(project.path / "tasks", rows=3)
    settings = ["--model", "tiny", "--sampler", "threshold-0.9", "--out", "out"]
    run(*settings, "--task", "lm_eval/toy_copy", "--lm-eval-path", str(folder)).assert_outcomes(
        passed=1
    )
    [cell] = pbcore.results.load_cells(project.path / "out")
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from pbcore.extras.lm_eval.model import PbcoreLM

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    lm = PbcoreLM("tiny", "threshold-0.9", device="cpu")
    chat: dict[str, Any] = {"apply_chat_template": True, "fewshot_as_multiturn": False}
    found = simple_evaluate(lm, tasks=["toy_copy"], task_manager=manager, bootstrap_iters=0, **chat)
    assert found["results"]["toy_copy"]["exact_match,none"] == cell.scores["exact_match"].mean
    assert found["config"]["pbcore"]["tasks"]["toy_copy"]["nfe_mean"] == cell.nfe_mean
    texts = [sample.text for sample in pbcore.results.load_samples(project.path / "out")[cell.id]]
    assert texts == [row["resps"][0][0] for row in found["samples"]["toy_copy"]]


@pytest.mark.usefixtures("harness")
def test_a_finished_cell_is_kept(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--resume` knows it by its key."""
    folder = write_task(project.path / "tasks", "sums", SUMS, **SCORED)
    given = [
        "--model",
        "speaker",
        "--sampler",
        "eb-0.1",
        "--task",
        "lm_eval/sums",
        "--lm-eval-path",
        str(folder),
    ]
    run(*given, "--out", "out").assert_outcomes(passed=1)
    output = run(*given, "--resume", "out")
    output.stdout.fnmatch_lines(["*1 *kept*"])


@pytest.mark.usefixtures("harness")
def test_its_answers_are_not_scored_again(
    run: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pbcore rescore` starts no code of task files that a record names."""
    folder = write_task(project.path / "tasks", "sums", SUMS, **SCORED)
    run(*ANSWER, "--task", "lm_eval/sums", "--lm-eval-path", str(folder)).assert_outcomes(passed=1)
    assert main(["rescore", str(project.path / "out")]) == 2
    assert "lm-evaluation-harness asked and scored" in capsys.readouterr().err


@pytest.mark.usefixtures("harness")
def test_a_sampler_that_contradicts_the_task_is_left_out(
    run: Run, project: pytest.Pytester
) -> None:
    """A task that asks for greedy decoding isn't sampled."""
    folder = copy_task(project.path / "tasks", rows=1)
    given = ["--model", "tiny", "--sampler", "confidence-k4+t1.0", "--task", "lm_eval/toy_copy"]
    output = run(*given, "--lm-eval-path", str(folder))
    output.stdout.fnmatch_lines(
        ["*left out*lm_eval/toy_copy × confidence-k4+t1.0: the task asks for greedy decoding*"]
    )


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"unsafe_code": True}, "*--confirm-run-unsafe-code*"),
        (
            {"output_type": "multiple_choice", "doc_to_choice": ["2", "3"]},
            "*judged by likelihoods*pbcore lm-eval*",
        ),
        ({"repeats": 2}, "*repeats*"),
        ({"doc_to_image": "image"}, "*images or sound*"),
    ],
)
def test_tasks_that_can_not_be_cells(
    run: Run, project: pytest.Pytester, config: dict[str, Any], message: str
) -> None:
    """A usage error names the reason and what to do."""
    folder = write_task(project.path / "tasks", "sums", SUMS, **{**SCORED, **config})
    output = run(*ANSWER, "--task", "lm_eval/sums", "--lm-eval-path", str(folder))
    assert output.ret == pytest.ExitCode.USAGE_ERROR
    output.stderr.fnmatch_lines([message])


@pytest.mark.usefixtures("harness")
def test_the_opt_in_admits_tasks_that_run_code(run: Run, project: pytest.Pytester) -> None:
    """With the harness's own switch such a task is a cell."""
    folder = write_task(project.path / "tasks", "sums", SUMS, **SCORED, unsafe_code=True)
    output = run(
        *ANSWER,
        "--task",
        "lm_eval/sums",
        "--lm-eval-path",
        str(folder),
        "--confirm-run-unsafe-code",
    )
    output.assert_outcomes(passed=1)


def test_without_the_harness_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usage error says what to install."""
    monkeypatch.setattr("pbcore.extras.lm_eval.tasks.find_spec", lambda name: None)
    output = run(*ANSWER, "--task", "lm_eval/gsm8k")
    assert output.ret == pytest.ExitCode.USAGE_ERROR
    output.stderr.fnmatch_lines(["*pip install *'.[[]lm-eval]'*"])


@pytest.mark.usefixtures("harness")
def test_a_missing_folder_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    output = run(*ANSWER, "--task", "lm_eval/sums", "--lm-eval-path", str(tmp_path / "none"))
    assert output.ret == pytest.ExitCode.USAGE_ERROR
    output.stderr.fnmatch_lines(["*--lm-eval-path*no such folder*"])
