"""pbcore.report.runs: the runs of a folder."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pbcore.report.runs import FILE, ListedRun, head_of, list_runs
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


def test_runs_below_folders(tmp_path: Path) -> None:
    """As deep as batch systems write them; not within a run, in hidden folders or behind links."""
    for name in ("b", "paper-a/shard-1", "paper-a/all", "x/y/z/deep"):
        create(tmp_path / Path(name).parent, Path(name).name)
    (tmp_path / "b" / "inner" / "cells").mkdir(parents=True)
    (tmp_path / ".hidden" / "run" / "cells").mkdir(parents=True)
    (tmp_path / "x" / "loop").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "b")
    names = sorted(run.name for run in list_runs(tmp_path))
    assert names == ["b", "linked", "paper-a/all", "paper-a/shard-1", "x/y/z/deep"]


class TestListed:
    """What a run is listed with, beside its cells."""

    def listed(self, tmp_path: Path, head: str = "", **facts: Any) -> ListedRun:
        made = create(tmp_path, "a")
        made.write_run(facts)
        if head:
            (made.path / FILE).write_text(head)
        [run] = list_runs(tmp_path)
        return run

    def test_samplers(self, tmp_path: Path) -> None:
        """Those that are planned, before there is a page."""
        planned = PLANNED | {"sampler_names": ["threshold-0.9", "confidence-k1"]}
        run = self.listed(tmp_path, planned=planned)
        assert run.samplers == "confidence-k1, threshold-0.9"

    def test_samplers_of_the_page(self, tmp_path: Path) -> None:
        """Of older and merged runs."""
        head = '<meta name="sampler" content="a-k1"><meta name="sampler" content="b+t1.0"><style>'
        assert self.listed(tmp_path, head, planned=PLANNED).samplers == "a-k1, b+t1.0"

    def test_many_samplers(self, tmp_path: Path) -> None:
        """The first eight, and how many there are."""
        names = [f"random-k{k}" for k in range(1, 13)]
        run = self.listed(tmp_path, planned={"sampler_names": names})
        assert run.samplers == f"{', '.join(sorted(names)[:8])} … (12)"

    @pytest.mark.parametrize("failed", [True, False])
    def test_gates(self, tmp_path: Path, failed: bool) -> None:
        """The first line of each verdict, and whether one failed."""
        gate = ["gate FAILED: worse\n  shuffle  worse", "floors hold", "  FLOOR  shuffle", ""]
        run = self.listed(tmp_path, gate=gate, gate_failed=failed)
        assert (run.gate, run.failed) == (("gate FAILED: worse", "floors hold"), failed)

    def test_none(self, tmp_path: Path) -> None:
        """Of a run that says nothing."""
        run = self.listed(tmp_path)
        assert (run.samplers, run.gate, run.failed) == ("", (), False)


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
