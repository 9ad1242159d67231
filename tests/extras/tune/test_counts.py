"""What counts in a tuning and in a verdict on the same records: one count, one set of questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.analysis.beside import Beside
from pbcore.analysis.headline import headline
from pbcore.base.errors import InputError
from pbcore.costs.kinds import Cost
from pbcore.extras.tune.answers import beside_reference, read_round
from pbcore.extras.tune.axis import CostAxis
from pbcore.extras.tune.state import TuningRequest, TuningRun
from pbcore.extras.tune.tuning import _axis, _too_late
from pbcore.grid.settings import Settings
from pbcore.results import create
from pbcore.results.record import CellRecord, SampleRecord
from tests.results import factory
from tests.results.test_damaged_files import TUNING

Entry = tuple[CellRecord, list[SampleRecord]]
N = 200


def prefilled(entry: Entry, forwards: int) -> Entry:
    """A cell of a block model: each answer took so many more forwards that stored the prompt."""
    record, samples = entry
    return (
        replace(record, prefill_mean=float(forwards)),
        [replace(sample, prefill=forwards) for sample in samples],
    )


def in_a_tuning(folder: Path, entries: list[Entry], axis: CostAxis) -> Beside:
    run = create(folder)
    for record, samples in entries:
        run.write_cell(record, samples)
    own = beside_reference("eb-0.1", "confidence-k1", [read_round(run, axis)], axis.name)
    assert own is not None
    return own


def in_the_verdict(entries: list[Entry], cost: Cost) -> Beside:
    chosen = headline("tiny", entries, cost=cost).chosen
    assert chosen is not None
    return chosen


def test_calls_are_without_prefill(tmp_path: Path) -> None:
    """NFE, as in every table and gate: 32 / 4 are 8 times fewer, not 33 / 5."""
    entries = [
        prefilled(factory.cell(sampler="confidence-k1", right=1.0, n=N, nfe=32), 1),
        prefilled(factory.cell(sampler="eb-0.1", right=1.0, n=N, nfe=4), 1),
    ]
    own = in_a_tuning(tmp_path, entries, CostAxis("calls", "calls"))
    assert own.speed == in_the_verdict(entries, "calls").speed == 8


@pytest.mark.parametrize(("axis", "fewer"), [("calls", 2), ("tokens", 4)])
def test_only_questions_that_both_answered(tmp_path: Path, axis: Cost, fewer: float) -> None:
    """The last question cost the reference most, and the sampler has no answer to it."""
    base = factory.cell(
        sampler="confidence-k1",
        right=[1.0] * N,
        nfe=[10] * (N - 1) + [9000],
        tokens=[80] * (N - 1) + [9000],
    )
    less = factory.cell(sampler="eb-0.1", right=[1.0] * (N - 1), nfe=5, tokens=20)
    own = in_a_tuning(tmp_path, [base, less], CostAxis(axis, axis))
    assert own.speed == in_the_verdict([base, less], axis).speed == fewer
    assert own.questions == N - 1


def test_an_axis_that_was_not_counted(tmp_path: Path) -> None:
    entries = [factory.cell(sampler="confidence-k1"), factory.cell(sampler="eb-0.1")]
    with pytest.raises(InputError, match="its record has no tokens forwarded; choose another axis"):
        in_a_tuning(tmp_path, entries, CostAxis("tokens", "tokens forwarded"))


def test_why_the_axis_is_calls() -> None:
    """A model without forwards to measure has calls as its axis; one that nobody has timed here,
    too, and the reason is told.
    """
    notes = {}
    for model in ("ideal", "tiny"):
        request = TuningRequest(model, [], 5, axis=None, price=None, budget=None, words=[])
        axis, notes[model] = _axis(request, Settings.of(model=(model,)))
        assert axis.name == "calls"
    assert notes["ideal"] == ""
    assert "tiny" in notes["tiny"]


@pytest.mark.parametrize(("budget", "late"), [(None, False), (1e9, False), (11.0, True)])
def test_a_budget_that_the_next_round_would_exceed(budget: float | None, late: bool) -> None:
    """At the pace so far; without a budget no round comes too late, and the first never does."""
    state = replace(
        TUNING,
        request=replace(TUNING.request, budget=budget),
        sizes=[4, 8],
        rounds=[TuningRun(["eb-0.1"], 10.0)],
    )
    assert _too_late(state, 1, 1) is late
    assert not _too_late(replace(state, rounds=[]), 0, 1)
