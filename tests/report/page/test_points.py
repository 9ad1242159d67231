"""pbcore.report.page.points: the cells of a run as the page's plots take them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from pbcore.analysis.order import family
from pbcore.report.axes import AXES
from pbcore.report.looks import looks
from pbcore.report.page.points import PointData, point_data
from pbcore.report.page.tables import OVERVIEW
from pbcore.report.scopes import scopes
from pbcore.results import frame
from tests.results import factory


def data_of(cells: pd.DataFrame) -> PointData:
    whole, _ = scopes(cells)
    names = zip(whole.cells["model"], map(family, whole.cells["sampler"]), strict=True)
    return point_data(whole, cells, looks(names))


def labels(cells: pd.DataFrame) -> list[str]:
    return [axis["label"] for axis in data_of(cells)["axes"]]


def table(**fields: Any) -> pd.DataFrame:
    return frame([factory.cell(sampler="spec-8", n=4, **fields)[0]])


class TestAxes:
    def test_those_that_cells_have(self) -> None:
        """An axis without a value in any cell isn't there, nor rows where they are the forwards."""
        assert "rows per answer" in labels(table(rows=64))
        assert "rows per answer" not in labels(table())
        silent = table().assign(tokens_per_step=None, nfe=None, tokens_per_forward=float("nan"))
        assert labels(silent) == ["measured seconds per answer"]

    def test_the_papers_axis_is_first(self) -> None:
        """Tokens per step is what a plot shows by itself."""
        assert labels(table())[0] == "tokens per step"

    def test_the_axis_that_was_asked_for_is_first(self) -> None:
        """And each other one comes once; one without values gives way to the paper's."""
        whole, _ = scopes(table())
        known = looks([("tiny", "spec")])
        axes = point_data(whole, table(), known, AXES["calls"])["axes"]
        keys = [axis["key"] for axis in axes]
        assert keys[:2] == ["nfe", "tokens_per_step"]
        assert len(set(keys)) == len(keys)
        axes = point_data(whole, table(), known, AXES["tokens"])["axes"]
        assert axes[0]["key"] == "tokens_per_step"

    def test_price_lists(self) -> None:
        """Each list's seconds are an axis under its name; what was counted otherwise is not."""
        cells = table().assign(**{"price_seconds:h200": 0.25, "price_seconds:here": None})
        data = data_of(cells)
        assert data["axes"][-1] == {
            "key": "price_seconds:h200",
            "label": "seconds per answer by h200",
            "better": "less",
        }
        assert data["cells"]["price_seconds:h200"] == [0.25]

    def test_seconds_per_answer(self) -> None:
        """Measured seconds of a cell over its answers."""
        cell, _ = factory.cell(n=4)
        data = data_of(frame([replace(cell, seconds=3.0)]))
        assert data["cells"]["seconds_per_answer"] == [0.75]


def test_columns_name_models_tasks_and_samplers_by_number() -> None:
    """Each cell's numbers lead to its names, its curve and its score."""
    entries = [
        factory.cell(model, task, sampler, right=right, n=10)
        for model, task, sampler, right in (
            ("tiny", "waiting_line/copy", "random-k2", 1.0),
            ("ideal", "waiting_line/shuffle", "random-k4", 0.3),
        )
    ]
    data = data_of(frame([cell for cell, _ in entries]))
    cells = data["cells"]
    names = [
        [data[kind][number] for number in cells[column]]  # type: ignore[literal-required]
        for kind, column in (("models", "model"), ("tasks", "task"), ("samplers", "sampler"))
    ]
    assert names == [
        ["tiny", "ideal"],
        ["waiting_line/copy", "waiting_line/shuffle"],
        ["random-k2", "random-k4"],
    ]
    lines = [data["lines"][number] for number in cells["line"]]
    assert [line["name"] for line in lines] == ["tiny · random", "ideal · random"]
    assert [line["hollow"] for line in lines] == [False, True]  # single points of two models
    assert cells["score"] == [100, 30]


def test_the_page_has_the_numbers_of_its_means() -> None:
    """Under a filter the page's script computes every column of the table of means from cells."""
    columns = {column.key for column in OVERVIEW} - {"", "tasks"}
    counted = table(rows=64).assign(tokens_forwarded=100.0, bits_lost=0.5, ceiling=0.9)
    given = set(data_of(counted)["cells"])
    # The script divides answers by seconds.
    assert columns - given <= {"samples_per_second"}
