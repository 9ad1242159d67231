"""The tasks of docs/examples/lm-eval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integrations.lm_eval.harness import needs_harness

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "examples" / "lm-eval"


def test_the_harness_reads_them_from_the_projects_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question of the file is one of the task's, and a right answer scores 1."""
    needs_harness()
    from pbcore.integrations.lm_eval.tasks import add_harness_tasks
    from pbcore.tasks import load_task, registry
    from pbcore.tasks.scoring import SCORERS

    monkeypatch.setattr(registry, "_ADDED", {})
    monkeypatch.setattr(SCORERS, "_registered", dict(SCORERS.all()))
    monkeypatch.chdir(ROOT)
    assert add_harness_tasks(["lm_eval/insert"], FOLDER) == ["lm_eval/insert"]
    task = load_task("lm_eval/insert")
    rows = [json.loads(line) for line in (FOLDER / "insert.jsonl").read_text().splitlines()]
    assert len(task.samples) == len(rows) == 40
    answers = [row["answers"][1] for row in rows] + [row["wrong"] for row in rows]
    scored = task.score_many(answers, task.samples * 2)
    assert [one.scores["exact_match"] for one in scored] == [1] * 40 + [0] * 40
