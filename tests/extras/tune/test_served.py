"""A model behind a server whose sampler is part of the request is tuned as any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.extras.tune.tuning import _within_cost
from pbcore.results.rundir import RunDir
from pbcore.tasks import load_task
from tests.extras.servers.fake import Act, FakeServer, serving

DECLARED = """mine:
  base_url: {url}/v1
  model: the-model
  retries: 0
  sampler: threshold-1.0
  sampler_fields: {{threshold: {{number: threshold, b: block_length}}}}
  nfe_field: num_forwards
  stream: false
  prices: {{input: 1.0, output: 1.0}}
"""


def declare(folder: Path, server: FakeServer) -> None:
    (folder / "models.yaml").write_text(DECLARED.format(url=server.url))


def test_tuned_by_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The threshold of the request with fewest forwards whose answers stay right is recommended,
    with the fields of a request; what it cost counts against --max-cost as a whole.
    """
    samples = load_task("waiting_line/copy", limit=400).samples
    right = {sample.prompt: sample.answer for sample in samples}

    def answer(number: int, body: dict[str, Any]) -> Act:
        threshold = body["threshold"]
        forwards = {"num_forwards": round(32 * threshold**4)}
        text = right[body["messages"][-1]["content"]] if threshold > 0.8 else "[]"
        return Act(text=text or "", extra=forwards)

    monkeypatch.chdir(tmp_path)
    words = ["--task", "copy", "--samplers", "threshold", "--max-loss", "20", "--axis", "calls"]
    with serving(answer) as server:
        declare(tmp_path, server)
        status = main(
            ["tune", "mine", "--models", "models.yaml", *words, "--max-cost", "5", "--out", "run"]
        )
    output = capsys.readouterr().out
    assert status == 0, output
    assert "threshold-0.9 is the fastest that is confirmed" in output
    assert 'in requests to mine: {"threshold": 0.9, "block_length": ' in output
    cells = RunDir(tmp_path / "run").read_cells()
    assert {cell.cell.sampler for cell in cells} >= {"threshold-1.0", "threshold-0.5"}
    spent = sum(cell.cell.served.cost for cell in cells)  # type: ignore[union-attr]
    assert spent > 0
    left = _within_cost(["--max-cost", "5"], tmp_path / "run", tmp_path / "run/race/1")
    assert float(left[1]) == pytest.approx(5 - spent)
    assert _within_cost(["--max-cost=5"], tmp_path / "run", tmp_path / "run") == [
        "--max-cost=5.000000000"
    ]


def test_a_server_with_one_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose sampler is its own setting has nothing to tune: a line, and no request."""
    monkeypatch.chdir(tmp_path)
    with serving() as server:
        (tmp_path / "models.yaml").write_text(
            f"one: {json.dumps({'base_url': server.url, 'model': 'm', 'sampler': 'server'})}\n"
        )
        assert main(["tune", "one", "--models", "models.yaml", "--task", "copy"]) == 2
        assert server.asked == []
    [line] = capsys.readouterr().err.splitlines()
    assert "one can't run" in line
    assert "its sampler is server" in line
