"""pbcore.report.page.points: what the page's plots show, for all tasks, each category and task."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from math import isnan, nan
from typing import Any

import pytest

from pbcore.analysis.order import method_of
from pbcore.report.axes import AXES
from pbcore.report.looks import MARKERS, looks
from pbcore.report.page.points import SHAPES, SHOWN, PointData, point_data
from pbcore.report.rows import CellRow
from pbcore.report.scopes import scopes
from pbcore.report.speed_quality import speed_quality
from tests.results import factory


def data_of(cells: list[CellRow], **given: Any) -> PointData:
    whole, _ = scopes(cells)
    names = [(row["model"], method_of(row["sampler"])) for row in whole.records]
    return point_data(whole, looks(names), **given)


def labels(cells: list[CellRow]) -> list[str]:
    return [axis["label"] for axis in data_of(cells)["axes"]]


def table(**fields: Any) -> list[CellRow]:
    return factory.rows([factory.cell(sampler="spec-8", n=4, **fields)[0]])


class TestAxes:
    def test_those_that_cells_have(self) -> None:
        """An axis without a value in any cell isn't there, nor rows where they are the forwards."""
        assert "rows per answer" in labels(table(rows=64))
        assert "rows per answer" not in labels(table())
        silent: Any = [
            {**row, "tokens_per_step": nan, "nfe": nan, "tokens_per_forward": nan}
            for row in table()
        ]
        assert labels(silent) == ["measured seconds per answer"]

    def test_the_axis_that_was_asked_for_is_first(self) -> None:
        """And each other one comes once; tokens per step are first otherwise, also where the
        asked one has no values.
        """
        firsts = {}
        for name in ("tokens-per-step", "calls", "tokens"):
            keys = [axis["key"] for axis in data_of(table(), across=AXES[name])["axes"]]  # type: ignore[index]
            assert len(set(keys)) == len(keys)
            firsts[name] = keys[0]
        assert firsts == {
            "tokens-per-step": "tokens_per_step",
            "calls": "nfe",
            "tokens": "tokens_per_step",
        }

    def test_price_lists_and_seconds(self) -> None:
        """Each list's seconds are an axis under its name; measured ones are of an answer."""
        cell, _ = factory.cell(n=4)
        priced = {"price_seconds:h200": 0.25, "price_seconds:here": nan}
        rows: Any = [{**row, **priced} for row in factory.rows([replace(cell, seconds=3.0)])]
        data = data_of(rows)
        keys = [axis["key"] for axis in data["axes"]]
        assert data["axes"][-1] == {
            "key": "price_seconds:h200",
            "label": "seconds per answer by h200",
            "better": "less",
        }
        (dot,) = data["plots"][""]["dots"]
        assert dot["at"][-1] == 0.25
        assert dot["at"][keys.index("seconds_per_answer")] == 0.75


def grid(seed: int) -> list[CellRow]:
    """Cells of three models on tasks of two categories, some of them missing, without a number of
    forwards, or of a server that tells no tokens per step.
    """
    drawn = random.Random(seed)
    cells = []
    for model in ("ideal", "tiny", "served"):
        for task in ("waiting_line/copy", "waiting_line/sort", "puzzle/sudoku"):
            for policy in ("random", "confidence", "eb"):
                for k in (1, 2, 4):
                    if drawn.random() < 0.1:
                        continue
                    nfe = drawn.randint(2, 32)
                    entry = factory.cell(
                        model, task, f"{policy}-k{k}", right=drawn.random(), n=9, nfe=nfe, rows=nfe
                    )
                    cell = replace(entry[0], rows_mean=nfe * drawn.choice((1, 2)))
                    if model == "served":
                        served = {"kind": "openai"} if policy == "eb" else cell.served
                        cell = replace(cell, tokens_per_step=None, served=served)
                    elif drawn.random() < 0.1:
                        cell = replace(cell, nfe_mean=None)
                    cells.append(cell)
    return factory.rows(cells)


@pytest.mark.parametrize("seed", range(2))
def test_as_plots_have_them(seed: int) -> None:
    """Points, intervals, fronts, leading curves and levels are those of `speed_quality`, on every
    axis, over all tasks, in a category and in a task; each category and each task has its plot.
    """
    cells = grid(seed)
    data = data_of(cells)
    categories = {row["category"] for row in cells}
    assert set(data["plots"]) == {"", *categories, *(row["task"] for row in cells)}
    first = cells[0]
    parts = {"": cells}
    parts[first["category"]] = [row for row in cells if row["category"] == first["category"]]
    parts[first["task"]] = [row for row in cells if row["task"] == first["task"]]
    axes = {axis.key: axis for axis in AXES.values()}
    for name, part in parts.items():
        plot = data["plots"][name]
        for number, axis_data in enumerate(data["axes"]):
            axis = axes[axis_data["key"]]
            shown = speed_quality(part, SHOWN, axis)
            wanted = set()
            for curve in shown.curves:
                for point in curve.points:
                    low = None if isnan(point.low) else round(point.low, 3)
                    wanted.add(
                        (
                            curve.model,
                            point.sampler,
                            round(point.rate, 3),
                            low,
                            shown.on_front(point),
                        )
                    )
            drawn = set()
            for dot in plot["dots"]:
                rate = dot["at"][number]
                if rate is not None:
                    model = data["models"][data["lines"][dot["line"]]["model"]]
                    low = None if dot["score"][1] is None else round(dot["score"][1], 3)
                    sampler = data["samplers"][dot["sampler"]]
                    drawn.add((model, sampler, round(rate, 3), low, number in dot["front"]))
            assert drawn == wanted, (name, axis.key)
            leads = {(curve.model, curve.method) for curve in shown.curves if curve.leads}
            assert len(plot["leads"][number]) == len(leads)
            levels = {level.sampler for level in shown.levels}
            assert {data["samplers"][one["sampler"]] for one in plot["levels"][number]} == levels


def test_a_point_of_one_cell_opens_it() -> None:
    """Means over several cells open none; ceilings from 99.95 % on are not drawn."""
    entries = [
        factory.cell(task=f"waiting_line/{name}", sampler="random-k2", n=4)
        for name in ("copy", "sort")
    ]
    cells = [replace(cell, ceiling=None) for cell, _ in entries]
    plots = data_of(factory.rows(cells))["plots"]
    assert plots[""]["dots"][0]["cell"] is None
    assert plots[""]["dots"][0]["n"] == 2
    assert plots["waiting_line/copy"]["dots"][0]["cell"] == cells[0].id
    lids = {}
    for ceiling in (0.5, 0.9999):
        known: Any = [{**row, "ceiling": 100 * ceiling} for row in factory.rows(cells)]
        lids[ceiling] = data_of(known)["plots"][""]["dots"][0]["ceiling"]
    assert lids == {0.5: 50, 0.9999: None}


def test_shapes_differ() -> None:
    """Each of matplotlib's markers has a path of its own."""
    assert len(set(SHAPES)) == len(SHAPES) == len(MARKERS)
    for shape in SHAPES:  # a move, then commands and numbers alone
        assert re.fullmatch(r"M[-\d.,\sMLHVaZ]+", shape)
