"""A project with a model behind a local server that copies."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.results.rundir import RunDir
from pbcore.tasks import load_task
from tests.extras.servers.fake import Act, FakeServer

COPY = {
    sample.prompt: sample.answer for sample in load_task("waiting_line/copy", limit=100).samples
}


def right(number: int, body: dict[str, Any]) -> Act:
    """Copies as it should; anything else it answers with nothing."""
    asked = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    return Act(text=COPY.get(asked) or "")


def declare(project: pytest.Pytester, server: FakeServer, **keys: Any) -> None:
    """models.yaml with `mine`, which ends at the first failure."""
    path = "" if keys.get("kind") == "anthropic" else "/v1"
    entry = {
        "base_url": server.url + path,
        "model": "the-model",
        "retries": 0,
        "timeout": 20,
        **keys,
    }
    text = "".join(f"  {name}: {value}\n" for name, value in entry.items())
    (project.path / "models.yaml").write_text(f"mine:\n{text}")


MINE = "--models models.yaml --model mine"
FIVE = f"{MINE} --task copy --limit 5"


def stored(project: pytest.Pytester, cell_id: str = "mine/copy/ar", run: str = "out") -> Any:
    return next(
        entry for entry in RunDir(project.path / run).read_cells() if entry.cell.id == cell_id
    )


def bodies(server: FakeServer, *fields: str) -> list[tuple[Any, ...]]:
    """These fields of each request, in the order in which they came."""
    return [tuple(one.body.get(name) for name in fields) for one in server.asked]
