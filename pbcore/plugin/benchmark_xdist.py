"""pytest-benchmark under pytest-xdist, where it switches itself off: workers time, the controller
keeps and writes.
"""

import json
from collections.abc import Generator
from typing import Any

import pytest

from pbcore.plugin.options import given
from pbcore.plugin.state import UNTIMED

STATS = "pbcore_benchmark"  # the report property that carries a worker's statistics
SAVES = ("benchmark_json", "benchmark_save", "benchmark_autosave")


class WorkerBenchmark:
    """A worker's statistics on the controller, shaped like pytest-benchmark's of its own
    process.
    """

    has_error = False

    def __init__(self, data: dict[str, Any]) -> None:
        self._stats: dict[str, Any] = data["stats"]
        self._fields = {key: value for key, value in data.items() if key != "stats"}
        self.fullname = data["fullname"]
        self.name = data["name"]

    def __getitem__(self, key: str) -> Any:
        """A statistic (`mean`, `min` …) or a field, as --benchmark-compare-fail asks for them."""
        return {**self._fields, **self._stats}[key]

    def as_dict(
        self,
        include_data: bool = True,
        flat: bool = False,
        stats: bool = True,
        cprofile: Any = None,
    ) -> dict[str, Any]:
        """The benchmark as plain data, as pytest-benchmark asks for it.

        Args:
            include_data: False leaves the single rounds out of the statistics.
            flat: True puts the statistics beside the fields, False under `stats`.
            stats: False leaves them out.
            cprofile: not used; cells have no profile.
        """
        if not stats:
            return dict(self._fields)
        numbers = dict(self._stats)
        if not include_data:
            numbers.pop("data", None)
        return self._fields | (numbers if flat else {"stats": numbers})


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Only the controller writes files. Where cells are likely a worker's clock is switched off by
    option, since pytest-benchmark would warn that it switches itself off; a cell's setup switches
    it on.
    """
    if hasattr(config, "workerinput"):
        if given(config) or any("benches" in argument for argument in config.args):
            config.option.benchmark_disable, config.option.benchmark_enable = True, False
        for name in SAVES:
            setattr(config.option, name, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Lets pytest-benchmark time the cells of a worker, too."""
    yield
    benchmark = _of_cell(item)
    if benchmark is not None and hasattr(item.config, "workerinput"):
        benchmark.disabled = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Puts a worker's statistics on the test's report."""
    benchmark = _of_cell(item)
    if benchmark is not None:
        if ("pbcore_resumed", True) in item.user_properties or UNTIMED in item.stash:
            benchmark.skipped = True  # pytest-benchmark would warn that it was not used
        if hasattr(item.config, "workerinput") and benchmark.stats and not benchmark.has_error:
            item.user_properties.append(
                (STATS, json.dumps(benchmark.stats.as_dict(include_data=True), default=str))
            )
    yield


def _of_cell(item: pytest.Item) -> Any:
    """The `benchmark` fixture of a cell; None for other tests, and where setting it up failed."""
    return (
        getattr(item, "funcargs", {}).get("benchmark") if item.get_closest_marker("cells") else None
    )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Takes the statistics off a report, so that JUnit doesn't show them, and keeps them for
    pytest_sessionfinish.
    """
    if report.when != "teardown" or not hasattr(report, "node"):
        return
    statistics = [text for name, text in report.user_properties if name == STATS]
    if statistics:
        session = report.node.config.pluginmanager.get_plugin("pytest-benchmark")
        session.benchmarks.extend(WorkerBenchmark(json.loads(str(text))) for text in statistics)
        report.user_properties = [pair for pair in report.user_properties if pair[0] != STATS]


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_benchmark_group_stats(benchmarks: list[Any]) -> Generator[None, Any, Any]:
    """Keeps cells out of pytest-benchmark's table: the trade-off tables show their speed beside
    their score.
    """
    groups = yield
    shown = []
    for name, group in groups:
        others = [bench for bench in group if "cell" not in bench["extra_info"]]
        if others:
            shown.append((name, others))
    return shown
