"""`pbcore figures film`: the canvases of an answer that tokens revealed together broke."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.report.film import film
from pbcore.results.record import Blame, BlamedToken, Continued
from pbcore.results.rundir import StoredCell
from tests.results import factory

TOKENS = ['["', "Hannah", '", "', "Hannah", '"]', "<eos>"]


def broken(**changes: Any) -> StoredCell:
    """A cell whose one answer was broken by step 2, which revealed the same name twice."""
    cell, samples = factory.cell(sampler="confidence-k2")
    blame = Blame(
        "together",
        step=1,
        revealed=[BlamedToken(1, "Hannah", 0.69, True), BlamedToken(3, "Hannah", 0.73, True)],
        rest=Continued(
            text='["Hannah", "Bob"]',
            tokens=['["', "Hannah", '", "', "Bob", '"]', "<eos>"],
            steps=[0, 2, 0, 3, 0, 0],
            confidences=[1.0] * 6,
        ),
    )
    answer = replace(
        samples[0],
        text='["Hannah", "Hannah"]',
        details={"failure": "item twice", "why": "Hannah twice"},
        tokens=TOKENS,
        steps=[0, 1, 0, 1, 0, 0],
        blame=replace(blame, **changes),
    )
    return StoredCell(cell, [answer])


def test_the_canvases_of_a_broken_answer() -> None:
    """Before the step, after it, the answer, and one token at a time."""
    drawn = film([broken()])
    canvases: dict[str, list[str | None]] = {}
    marked: dict[str, list[int]] = {}
    for row in drawn.rows:
        canvases.setdefault(row["canvas"], []).append(row["token"])
        marked.setdefault(row["canvas"], [])
        if row["marked"]:
            marked[row["canvas"]].append(row["at"])
    whole = TOKENS[:-1]
    assert canvases == {
        "before step 2": ['["', None, '", "', None, '"]'],
        "step 2 reveals Hannah (.69) and Hannah (.73) together; each alone would still end right": (
            whole
        ),
        "one token at a time from step 1: right": ['["', "Hannah", '", "', "Bob", '"]'],
        "the answer, wrong: Hannah twice": whole,
    }
    assert list(marked.values()) == [[], [1, 3], [1, 3], [1, 3]]


def test_another_fault_is_the_first_item_that_differs() -> None:
    """Where no item stands twice."""
    cell = broken()
    (answer,) = cell.samples
    other = replace(answer, text='["Hannah", "Eve"]', details={"failure": "unknown item"})
    assert film([replace(cell, samples=[other])]).said.endswith(
        "the answer, wrong: Eve at place 2, where Bob is right"
    )


def test_one_cell_and_one_question() -> None:
    """Of a run with others; what the run lacks is said."""
    cells = [broken(), StoredCell(*factory.cell(sampler="random-k2"))]
    cell = cells[0].cell.id
    question = cells[0].samples[0].index
    assert film(cells, cell, question).said.startswith(f"{cell}, question {question};")
    for given, said in (
        ({"cell": "tiny/copy/none"}, "no cell 'tiny/copy/none' in the runs; they have"),
        ({"question": 99}, "no question 99 there; there are 0"),
        ({"cell": cells[1].cell.id, "question": 0}, "no answer to question 0 that tokens"),
    ):
        with pytest.raises(InputError, match=said):
            film(cells, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [[], [broken(verdict="model")], [broken(rest=None)]])
def test_nothing_was_broken_together(cells: list[StoredCell]) -> None:
    """The line says how to measure such an answer."""
    with pytest.raises(InputError, match=r"measure with `pytest benches --blame`"):
        film(cells)
