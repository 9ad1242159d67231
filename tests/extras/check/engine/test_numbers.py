"""What docs/engines.md says of the check's numbers, on two families."""

from __future__ import annotations

import pytest

from benches.engine_deviations import measure, table_of_deviations


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["sdar", "fast_dllm_v2"])
def test_deviations_are_found_and_named(family: str) -> None:
    """None is missed, at most one in twenty has another name, and a right engine has no fault."""
    measured = measure(family, 0)
    trials = measured.trials
    assert {trial.name for trial in trials} >= {"mask written", "entropy for confidence"}
    assert [trial.name for trial in trials if not trial.found] == []
    misnamed = [(trial.name, trial.names) for trial in trials if trial.name not in trial.names]
    assert len(misnamed) <= len(trials) / 20, misnamed
    assert set(measured.wrong.values()) == {0}
    table = table_of_deviations(trials)
    assert [row[0] for row in table.rows] == [trial.name for trial in trials]
