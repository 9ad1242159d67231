"""pytest-benchmark's statistics of a worker, as the controller keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.plugin.benchmark_xdist import WorkerBenchmark

DATA: dict[str, Any] = {
    "fullname": "t.py::x",
    "name": "x",
    "group": None,
    "stats": {"mean": 2.0, "data": [1.0, 3.0]},
}


class TestWorkerBenchmark:
    def test_statistics_and_fields_are_looked_up_by_name(self) -> None:
        """As --benchmark-compare-fail asks for them; what it isn't is a KeyError."""
        bench = WorkerBenchmark(DATA)
        assert (bench["mean"], bench["name"], bench.fullname, bench.has_error) == (
            2.0,
            "x",
            "t.py::x",
            False,
        )
        with pytest.raises(KeyError):
            bench["median"]

    @pytest.mark.parametrize(
        ("options", "more"),
        [
            ({}, {"stats": {"mean": 2.0, "data": [1.0, 3.0]}}),
            ({"include_data": False}, {"stats": {"mean": 2.0}}),
            ({"include_data": False, "flat": True}, {"mean": 2.0}),
            ({"flat": True}, {"mean": 2.0, "data": [1.0, 3.0]}),
            ({"stats": False}, {}),
        ],
    )
    def test_as_a_dictionary(self, options: dict[str, bool], more: dict[str, Any]) -> None:
        """With the statistics beside the fields, under `stats`, or left out; the single times on
        demand.
        """
        assert (
            WorkerBenchmark(DATA).as_dict(**options)
            == {"fullname": "t.py::x", "name": "x", "group": None} | more
        )
