"""How torch's threads wait: chosen once, before torch is imported, and left alone where the user
has chosen.
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

import pytest

from pbcore.plugin import omp_wait_policy
from tests.plugin.conftest import SMALL


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that has not imported torch, on an idle machine, with nothing set."""
    for name in (*omp_wait_policy.OPENMP, "CI"):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(omp_wait_policy, "_busy_cores", lambda: 0.1)
    return monkeypatch


def chosen(**config: object) -> str | None:
    omp_wait_policy.choose_waiting(SimpleNamespace(**config))  # type: ignore[arg-type]
    return os.environ.get("OMP_WAIT_POLICY")


@pytest.mark.usefixtures("fresh")
class TestChoice:
    def test_idle(self) -> None:
        """A machine of one's own keeps spinning threads, the fastest there."""
        assert chosen() is None

    def test_beside_others(self, fresh: pytest.MonkeyPatch) -> None:
        """Threads sleep while they wait where other processes compute, on a CI's runner, and in
        xdist's workers.
        """
        assert chosen(workerinput={}) == "PASSIVE"
        fresh.delenv("OMP_WAIT_POLICY")
        fresh.setenv("CI", "true")
        assert chosen() == "PASSIVE"
        fresh.delenv("OMP_WAIT_POLICY")
        fresh.delenv("CI")
        fresh.setattr(omp_wait_policy, "_busy_cores", lambda: 2.0)
        assert chosen() == "PASSIVE"

    @pytest.mark.parametrize("name", omp_wait_policy.OPENMP)
    def test_the_user_decides(self, fresh: pytest.MonkeyPatch, name: str) -> None:
        """Any setting of OpenMP's threads is the user's and stays alone."""
        fresh.setenv("CI", "true")
        fresh.setenv(name, "active")
        assert chosen() == ("active" if name == "OMP_WAIT_POLICY" else None)

    def test_too_late(self, fresh: pytest.MonkeyPatch) -> None:
        """Once torch is imported a policy has no effect, so none is claimed."""
        fresh.setenv("CI", "true")
        fresh.setitem(sys.modules, "torch", omp_wait_policy)
        assert chosen() is None


@pytest.mark.slow
def test_a_run_chooses_in_time(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plugin or conftest.py imports torch before the choice: the record of a run in CI has the
    policy.
    """
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("OMP_NUM_THREADS")
    project.makeconftest("import torch")
    project.runpytest_subprocess(
        "benches", *SMALL, "--task", "list_ops/copy", "--sampler", "random-k2"
    )
    (record,) = project.path.glob("out/cells/*.json")
    assert json.loads(record.read_text())["cell"]["conditions"]["wait_policy"] == "passive"
