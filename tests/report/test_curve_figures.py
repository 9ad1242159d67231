"""Figures of any runs: what is read, and several questions on one canvas."""

from __future__ import annotations

from pathlib import Path

from pbcore.report.curve_figures import over_questions, read_curves
from pbcore.results import create
from pbcore.results.rundir import StoredCell
from tests.results import factory


def stored(k: int, nfe: int, sampler: str = "confidence-k2") -> StoredCell:
    cell, samples = factory.cell(
        task=f"questions/shuffle-x{k}", sampler=sampler, nfe=nfe, canvas=32 * k
    )
    scores = {**cell.scores, "accuracy_all": cell.scores["accuracy"]}
    return StoredCell(type(cell)(**{**_fields(cell), "scores": scores}), tuple(samples))


def _fields(cell: object) -> dict[str, object]:
    return {name: getattr(cell, name) for name in cell.__slots__}  # type: ignore[attr-defined]


def test_the_speed_up_is_against_one_question_at_a_time() -> None:
    """4 questions in the forwards of 1 have speed-up 4, in twice as many 2."""
    drawing = over_questions([stored(1, 8), stored(2, 8), stored(4, 16)])
    assert [(row["k"], row["speed-up"]) for row in drawing.rows] == [(1, 1), (2, 2), (4, 2)]
    assert "speed-up 2.00 of 4" in drawing.said
    axis = drawing.figure.axes[0]
    measured, ideal = axis.get_lines()
    assert list(measured.get_ydata()) == [4, 8, 8]
    assert list(ideal.get_ydata()) == [4, 8, 16]


def test_a_sampler_without_one_question_has_no_curve() -> None:
    """Its speed-up isn't known."""
    drawing = over_questions([stored(1, 8), stored(2, 8), stored(2, 8, "random-k2")])
    assert {row["sampler"] for row in drawing.rows} == {"confidence-k2"}


def test_dummies_and_failures_are_left_out(tmp_path: Path) -> None:
    """Random weights show nothing."""
    run = factory.write(create(tmp_path, "a"), [factory.cell("m"), factory.cell("d", dummy=True)])
    assert [one.cell.model for one in read_curves([run.path])] == ["m"]
