"""Records whose sampler this version no longer has: `+ahead` was removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.analysis.verdict import greedy
from pbcore.exchange.blame import RunBlame
from pbcore.names import SamplerNameError, parse, recorded
from pbcore.report.files import write_files
from pbcore.report.under_load import load_levels
from pbcore.results import RunDir, create
from pbcore.results.load import load_stored
from pbcore.results.questions import Questions
from tests.results import factory

OLD = "eb-0.1+ahead16"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Cells of the old sampler, two of them several rows at a time, beside others."""
    entries = [factory.cell(sampler=name) for name in ("random-k2+b8", "random-k2+b16")]
    for at_once in (None, 2, 4):
        cell, samples = factory.cell(sampler=OLD if at_once is None else f"{OLD}+x{at_once}")
        conditions = replace(cell.conditions, at_once=at_once)
        entries.append((replace(cell, conditions=conditions), samples))
    return factory.write(create(tmp_path), entries)


def test_they_are_shown(run: RunDir) -> None:
    """Reports and pages name the sampler as it was recorded."""
    report, page, *_ = write_files(run.path)
    assert OLD in report.read_text()
    assert OLD in page.read_text()


def test_curves_under_load(run: RunDir) -> None:
    """A sampler at several rows at a time is one."""
    cells = load_stored(run.path)
    levels = load_levels(factory.rows(stored.cell for stored in cells))
    assert [level["at once"] for level in levels] == [2, 4]
    assert not greedy(OLD)


def test_blame_leaves_them_out(run: RunDir) -> None:
    """It would have to decode."""
    cells = load_stored(run.path)
    kept = [stored for stored in cells if OLD in stored.cell.sampler]
    blame = RunBlame(run, kept, Questions(run.path, run.read_run(), None, ()), "any")
    assert blame.blame() == []
    assert blame.notes == ["left out: 3 cells whose samplers this version doesn't have"]


@pytest.mark.parametrize("modifier", ["+ahead", "+ahead4"])
def test_new_runs_refuse_it(modifier: str) -> None:
    """In one line that says what to do."""
    assert recorded(f"eb-0.1{modifier}") is None
    with pytest.raises(SamplerNameError) as refused:
        parse(f"eb-0.1{modifier}")
    assert f"'{modifier}' was removed" in str(refused.value)
    assert "leave it out" in str(refused.value)
