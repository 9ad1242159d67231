"""The tasks of docs/examples/lm-eval, and the solved examples in the questions of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pbcore.tasks import Task, load_task, registry
from pbcore.tasks.scoring import SCORERS
from tests.extras.lm_eval.harness import copy_task, needs_harness

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "examples" / "lm-eval"


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], Task]:
    """Adds a task of a folder for this test alone."""
    needs_harness()
    from pbcore.extras.lm_eval.tasks import add_harness_tasks

    monkeypatch.setattr(SCORERS, "_registered", dict(SCORERS.all()))

    def added(name: str, folder: Path) -> Task:
        assert add_harness_tasks([name], folder) == [name]
        return load_task(name)

    return added


def test_the_harness_reads_them_from_the_projects_folder(
    add: Callable[[str, Path], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question of the file is one of the task's, and a right answer scores 1."""
    monkeypatch.chdir(ROOT)
    task = add("lm_eval/insert", FOLDER)
    rows = [json.loads(line) for line in (FOLDER / "insert.jsonl").read_text().splitlines()]
    assert len(task.samples) == len(rows) == 40
    answers = [row["answers"][1] for row in rows] + [row["wrong"] for row in rows]
    scored = task.score_many(answers, task.samples * 2)
    assert [one.scores["exact_match"] for one in scored] == [1] * 40 + [0] * 40


@pytest.mark.parametrize("shots", [None, 2])
def test_solved_examples_are_those_that_the_harness_draws(
    add: Callable[[str, Path], Task], tmp_path: Path, shots: int | None
) -> None:
    """With its own seed; none where the task doesn't say how many."""
    copy_task(tmp_path, rows=3, shots=5, num_fewshot=shots)
    task = add("lm_eval/toy_copy", tmp_path)
    assert {one.source for one in task.samples} == {task.source} == {"lm_eval"}
    assert registry.task_spec("lm_eval/toy_copy").settings["n_shot"] == (shots or 0)
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from pbcore.extras.lm_eval.model import PbcoreLM

    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    lm = PbcoreLM("tiny", "random-k4", device="cpu")
    found = simple_evaluate(lm, tasks=["toy_copy"], task_manager=manager, bootstrap_iters=0)
    prompts = [str(sample.prompt) for sample in task.samples]
    assert prompts == [row["arguments"][0][0] for row in found["samples"]["toy_copy"]]
    examples = [one.prompt for one in load_task("waiting_line/copy", n=3).samples[3:8]]
    assert (
        sum(str(one) in prompts[0] for one in examples)
        == found["n-shot"]["toy_copy"]
        == (shots or 0)
    )
