"""What a cell's report and the command line say, once and from one place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.plugin.options import is_typed
from pbcore.plugin.rundir import show
from tests.plugin.conftest import Run
from tests.results import factory


def test_a_second_attempt_replaces_the_first() -> None:
    """A plugin that runs failed tests again keeps the item, so the first attempt's figures go."""
    item: Any = SimpleNamespace(user_properties=[("worker", "gw0")])
    item.add_report_section = lambda *parts: None
    for right in (0.5, 1.0):
        cell, _ = factory.cell(right=right)
        show(item, cell)
    names = [name for name, _ in item.user_properties]
    assert len(names) == len(set(names))
    assert dict(item.user_properties)["score"] == 1.0
    assert names[0] == "worker"


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["--out", "x"], True),
        (["--out=x"], True),
        (["--pbcore-out", "x"], True),
        (["@words.txt"], True),
        (["benches", "--outer"], False),
        ([], False),
    ],
)
def test_what_is_typed(words: list[str], typed: bool) -> None:
    """And doesn't come from an ini file or the environment."""
    config: Any = SimpleNamespace(invocation_params=SimpleNamespace(args=words))
    assert is_typed(config, "--out", "--pbcore-out") is typed


def test_resume_wins_over_an_out_that_is_not_typed(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that resumes a run works where its folder comes from the environment."""
    cells = "--model ideal --task copy --sampler confidence-k2 --limit 2"
    monkeypatch.setenv("PYTEST_ADDOPTS", "--out here")
    run(cells).assert_outcomes(passed=1)
    again = run(cells, "--resume here")
    again.stdout.fnmatch_lines(["*1 cell kept, 0 measured*"])


def test_a_case_has_its_figures_whatever_is_logged(run: Run, project: pytest.Pytester) -> None:
    """JUnit's default keeps no output of tests that pass."""
    cells = "--model ideal --task copy --sampler confidence-k2 --limit 2 --junitxml j.xml"
    run(cells, "-o junit_logging=no").assert_outcomes(passed=1)
    text = Path("j.xml").read_text(encoding="utf-8")
    assert "<system-out>accuracy 100.0 % [" in text


def test_a_baseline_does_not_lose_a_score(run: Run, project: pytest.Pytester) -> None:
    """Without LanguageTool: exit code 4, unless `--allow-missing grammar` says that it may."""
    cells = "--model tiny --task summarization --sampler confidence-k8 --limit 1"
    where = "--languagetool-url http://127.0.0.1:9 --update-baseline b.json"
    refused = run(cells, where)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stdout.fnmatch_lines(["*no baseline written: grammar could not be measured*"])
    assert not Path("b.json").exists()
    allowed = run(cells, where, "--allow-missing grammar")
    allowed.stdout.fnmatch_lines(["baseline written: b.json (1 cell, without grammar)"])
