"""A run's scores on a terminal: a matrix per model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest

from pbcore.grid.cellid import CellName
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.report.answers import answers_alone
from pbcore.report.matrix import matrices
from pbcore.report.scopes import scopes
from pbcore.report.summary import answer, summary
from tests.outputs.entries import stored
from tests.results import factory

# Lines beside these: pytest's head (8), its last two, progress, what was left out, the page.
PYTEST = 16


def matrix(*cells: tuple[str, str, float | None], width: int = 80) -> list[str]:
    """The lines of one model's matrix, of cells given by task, sampler and score."""
    records = [
        factory.cell(model="tiny", task=task, sampler=sampler, right=right)[0]
        for task, sampler, right in cells
    ]
    [text] = matrices(scopes(factory.rows(records))[0], width)
    return text.splitlines()


class TestMatrix:
    """matrices."""

    def test_tasks_and_samplers(self) -> None:
        """Heads in two lines, neighbours under their policy; means of scores and speeds last."""
        samplers = ("confidence-k1", "confidence-k2", "wino")
        cells = []
        for sampler, copy, random in zip(samplers, (1.0, 0.9, 0.5), (0.8, 0.6, 0.1), strict=True):
            cells.append(("waiting_line/copy", sampler, copy))
            cells.append(("waiting_line/replace_random", sampler, random))
        told = matrix(*cells)
        assert [line.split() for line in told] == [
            ["tiny", "confidence", "wino"],
            ["score", "in", "%,", "n", "=", "20", "k1", "k2"],
            ["copy", "100", "90", "50"],
            ["replace_random", "80", "60", "10"],
            ["mean", "90.0", "75.0", "30.0"],
            ["tokens/step", "2.0", "2.0", "2.0"],
            ["TPF", "1.1", "1.1", "1.1"],
        ]

    def test_rates_that_nobody_has(self) -> None:
        """Published figures lack TPF, and so does their matrix."""
        record = factory.cell(task="waiting_line/copy", right=1.0)[0]
        [text] = matrices(scopes(factory.rows([replace(record, tokens_per_forward=None)]))[0], 80)
        assert [line.split()[0] for line in text.splitlines()[2:]] == ["copy", "tokens/step"]

    def test_rows_beside_calls(self) -> None:
        """Tokens per row have a line where a sampler forwards more rows than its calls."""
        [text] = matrices(scopes(factory.rows([factory.cell(sampler="spec-8", rows=64)[0]]))[0], 80)
        assert [line.split() for line in text.splitlines()[3:]] == [
            ["tokens/step", "2.0"],
            ["TPF", "1.1"],
            ["tokens/row", "0.5"],
        ]

    def test_what_was_not_measured(self) -> None:
        """A mark where a task was not run, no mean, and what the mark says."""
        told = matrix(
            ("waiting_line/copy", "random-k1", 1.0),
            ("waiting_line/copy", "random-k2", 1.0),
            ("waiting_line/sort", "random-k1", 0.5),
        )
        assert told[3].split() == ["sort", "50", "·"]
        assert told[4].split() == ["mean", "75.0", "–"]
        assert "· not run; means are over a model's own tasks, if all have a score" in told[-1]

    def test_one_task_has_no_mean(self) -> None:
        """It would stand there twice."""
        labels = [line.split()[0] for line in matrix(("waiting_line/copy", "random-k1", 1.0))]
        assert "mean" not in labels

    def test_tasks_of_one_name(self) -> None:
        """The second one has its category before it."""
        told = matrix(("waiting_line/copy", "random-k1", 1.0), ("list_ops/copy", "random-k1", 0.5))
        assert [line.split()[0] for line in told[2:4]] == ["copy", "list_ops/copy"]

    @pytest.mark.parametrize("width", [60, 80])
    def test_long_names_fit(self, width: int) -> None:
        """They lose their middle, and samplers that don't fit continue below."""
        samplers = [f"a_sampler_of_my_own_with_a_name_{'x' * 30}-k{k}" for k in range(1, 9)]
        samplers += [f"p{k}olicy-q0.{k}-of_which_the_rest_is_rather_long{k}" for k in range(6)]
        tasks = [f"my/a_task_with_a_very_long_name_{number}" for number in range(2)]
        told = matrix(*product(tasks, samplers, [1.0]), width=width)
        assert max(map(len, told)) <= width
        # each sampler has a score of each task
        scores = [line.split() for line in told if line.startswith("my/a_task")]
        assert sum(entry == "100" for line in scores for entry in line) == 2 * len(samplers)


def default_run() -> Iterable[CellName]:
    """The cells of `pytest benches`."""
    return make_plan(Settings.of()).items.values()


def test_the_default_run_fits_a_screen() -> None:
    """In 73 lines of 80 columns, pytest's own included."""
    entries = []
    for cell in default_run():
        k = cell.sampler.k or 8
        facts = {"model": cell.model, "task": cell.task, "sampler": str(cell.sampler)}
        right = 1 - k % 8 / 16
        entries.append(factory.cell(**facts, right=right, n=8, nfe=32 // k))
    records = [record for record, _ in entries]
    answers = list(map(answers_alone, stored(entries)))
    report = factory.report(records, answers)
    lines = summary(report, 80, verdict=answer(report, 80)).splitlines()
    assert {"ideal", "tiny"} == {record.model for record in records}
    assert len(lines) + PYTEST <= 73
    assert max(map(len, lines)) <= 80
    detailed = summary(report, 80, detailed=True).splitlines()
    assert len(detailed) > len(lines)
    assert any("[" in line for line in detailed)
