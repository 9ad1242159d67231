"""Which new name of a run stands for which of its baseline's, and the command that judges it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.analysis.new_names import compare_command
from pbcore.analysis.verdict_text import gate_markdown, gate_text
from tests.analysis.test_verdict import Entry, gate
from tests.analysis.toys import rerun_command
from tests.results import factory

RUN = Path("reports/my run")


def cells(samplers: str, tasks: str = "copy shuffle", model: str = "tiny") -> list[Entry]:
    """A cell for each task and sampler."""
    found = []
    for task in tasks.split():
        for sampler in samplers.split():
            found.append(factory.cell(model, f"waiting_line/{task}", sampler))
    return found


@pytest.mark.parametrize(
    ("run", "base", "options"),
    [
        (
            cells("confidence-k2 threshold-0.8"),
            cells("confidence-k2 threshold-0.9"),
            "--sampler threshold-0.8=threshold-0.9",
        ),
        (
            cells("random-k4 threshold-0.8"),
            cells("threshold-0.9 random-k2"),
            "--sampler random-k4=random-k2 --sampler threshold-0.8=threshold-0.9",
        ),
        (
            cells("confidence-k2 eb-0.1"),
            cells("confidence-k2 threshold-0.9"),
            "--sampler eb-0.1=threshold-0.9",
        ),
        (
            [*cells("confidence-k2"), *cells("confidence-k2", model="v2")],
            [*cells("confidence-k2"), *cells("confidence-k2", model="v1")],
            "--model v2=v1",
        ),
    ],
    ids=["one", "two", "another policy", "a model"],
)
def test_names_that_belong_together(run: list[Entry], base: list[Entry], options: str) -> None:
    """Those of the same policy first; a path with a space is quoted. On the screen and in
    Markdown.
    """
    verdict = gate(run, base)
    command = f"pbcore compare 'reports/my run' b.json {options}"
    assert compare_command(verdict, RUN, "b.json") == command
    screen = gate_text(verdict, "b.json", RUN).splitlines()
    assert f"a new setting is judged by its scores: {command}" in screen
    assert command in gate_markdown(verdict, rerun_command, "b.json", RUN).splitlines()


@pytest.mark.parametrize(
    ("run", "base"),
    [
        (cells("confidence-k2"), cells("confidence-k2 threshold-0.9")),
        (cells("confidence-k2 threshold-0.8"), cells("confidence-k2")),
        (cells("eb-0.1", "copy"), cells("eb-0.2", "shuffle")),
        (cells("eb-0.1 eb-0.2", "copy"), cells("eb-0.1", "copy shuffle")),
    ],
    ids=["dropped", "added", "other tasks", "a task less"],
)
def test_nothing_was_renamed(run: list[Entry], base: list[Entry]) -> None:
    """Cells that are only missing, or only new, or have no question in common."""
    verdict = gate(run, base)
    assert compare_command(verdict, RUN, "b.json") == ""
    assert "pbcore compare" not in gate_text(verdict, "b.json", RUN)
