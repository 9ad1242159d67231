"""pbcore.report.runs: the runs of a folder."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pbcore.report.runs import FILE, head_of, list_runs
from pbcore.results import create
from pbcore.results.lock import HOLDER, is_held, lock_run
from tests.results import factory

PLANNED = {"cells": 2, "models": ["tiny", "ideal"], "samplers": 1, "tasks": 1}
BOTH = "tiny and ideal · 1 sampler · 1 task"
HEAD = (
    '<meta name="cells" content="1"><meta name="measured" content="tiny · 1 sampler · 1 task">'
    '<meta name="verdict" content="tiny: no verdict &amp; more"><style></style>'
    '<meta name="verdict" content="of the text">'
)


@pytest.mark.parametrize(
    ("facts", "head", "held", "seen"),
    [
        ({}, "", False, ("stopped", "1", "")),
        ({}, HEAD, False, ("finished", "1 of 1", "tiny · 1 sampler · 1 task")),
        ({"planned": PLANNED}, "", True, ("running", "1 of 2", BOTH)),
        ({"planned": PLANNED}, HEAD, False, ("stopped", "1 of 2", BOTH)),
        ({"planned": PLANNED | {"cells": 1}}, HEAD, False, ("finished", "1 of 1", BOTH)),
        ({"planned": {"cells": "x"}}, HEAD, True, ("running", "1", "tiny · 1 sampler · 1 task")),
    ],
)  # fmt: skip
def test_states(
    tmp_path: Path, facts: dict[str, Any], head: str, held: bool, seen: tuple[str, str, str]
) -> None:
    """Whether a run is at work, was stopped or is finished, and how many cells of all are done."""
    made = create(tmp_path, "a")
    made.write_run(facts)
    made.write_cell(*factory.cell(n=1))
    if head:
        (made.path / FILE).write_text(head)
    lock = lock_run(made.path) if held else None
    (listed,) = list_runs(tmp_path)
    assert (listed.state, listed.cells, listed.what) == seen
    assert listed.verdicts == (("tiny: no verdict & more",) if head else ())
    if lock is not None:
        lock.release()


def test_newest_first(tmp_path: Path) -> None:
    """By when they began; a damaged run.json and a file beside the runs are no obstacle."""
    for day, name in ((1, "c"), (3, "a"), (2, "b")):
        create(tmp_path, name).write_run({"started": f"2026-01-0{day}T00:00:00+00:00"})
    damaged = create(tmp_path, "damaged").path / "run.json"
    damaged.write_text("{")
    os.utime(damaged.parent, (0, 0))
    (tmp_path / "x.xml").write_text("")
    (tmp_path / "baselines").mkdir()
    assert [run.name for run in list_runs(tmp_path)] == ["a", "b", "c", "damaged"]


def test_no_page() -> None:
    assert head_of(Path("none")) == {}


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        (None, False),
        ({"pid": os.getpid(), "host": socket.gethostname()}, True),
        ({"pid": 2**22 + 1, "host": socket.gethostname()}, False),
        ({"pid": 1, "host": "elsewhere"}, True),
        ({"pid": 1}, False),
        ([], False),
    ],
)
def test_who_writes_a_run(tmp_path: Path, holder: object, held: bool) -> None:
    """A process that is there, or one on another machine."""
    if holder is not None:
        (tmp_path / HOLDER).write_text(json.dumps(holder))
    assert is_held(tmp_path) is held
