"""The pytest plugin. A run without cells loads options and fixtures alone; all else comes with the
first sign of cells: an option of the group, `benches`, workers, or a test that is marked. Importing
it imports no torch.

| module | hooks and fixtures | what for |
|---|---|---|
| this one | load_initial_conftests, generate_tests | loads those below `fixtures` once cells are likely or there |
| options | addoption, cmdline_main | an option and an ini value for each setting; --help-pbcore |
| nodes | configure | which tests and arguments are cells |
| state | configure | settings and the plan: what all others ask |
| conditions | | the conditions of a cell, for its record |
| omp_wait_policy | | how torch's threads wait, chosen before torch is imported |
| rundir | configure, report_header, pyfunc_call, runtest_makereport | run directory, run.json, records of cells |
| collection | itemcollected, collection_modifyitems, report_header | cells and samples as items |
| fixtures | cell, task, model, model_cache | what a test of cells takes; `cell` is a `cell.Cell` |
| cell, answering, drilldown, blaming, recording | | one cell: its answers under the clock, one by one under -x, what broke them, its record |
| benchmark_xdist | runtest_setup, runtest_teardown, runtest_logreport, benchmark_group_stats | clocks of workers |
| scheduling | xdist_make_scheduler, xdist_setupnodes, configure_node | which worker runs which cell on which GPU |
| neighbours' early plugins | any | what has options or items beside cells |
| neighbours' plugins | any | what runs cells elsewhere, or waits for their answers |
| estimate | configure, runtestloop | --estimate: the cost estimate in place of the cells |
| progress | runtest_logstart, runtest_logfinish, report_teststatus | one line of progress |
| gate | configure, report_teststatus | gates and floors, read before the run and judged after it |
| run_lifecycle | collection_finish, runtest_logreport, sessionfinish, terminal_summary | report, verdicts, tables |
"""

from os import PathLike
from os.path import exists, join

import pytest

from pbcore.base.extensions import points

pytest_plugins = [
    "pbcore.plugin.options",
    "pbcore.plugin.fixtures",
    *(point.value for point in points("pbcore.early_plugins")),
]
OF_CELLS = ("nodes", "state", "collection", "rundir", "benchmark_xdist", "scheduling")
OF_RUNS = ("estimate", "progress", "gate", "run_lifecycle")  # after those of neighbours


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Where cells are likely the hooks come before any conftest.py; else with the first test of
    cells.
    """
    from pbcore.plugin.options import may_be_given

    benches = any("benches" in argument or may_name_cell(argument) for argument in args)
    known = early_config.known_args_namespace
    if any(map(may_name_cell, getattr(known, "file_or_dir", ()))):
        # Its file is the package's, as `--pyargs` would find it: that of an editable install stands
        # below a conftest.py which isn't the project's.
        known.pyargs = True
    # What workers of xdist run is not known here.
    workers = getattr(known, "numprocesses", None) or getattr(known, "tx", None)
    if benches or workers or may_be_given(early_config, args):
        load_hooks(early_config)
    if benches:
        from pbcore.plugin.omp_wait_policy import choose_waiting

        choose_waiting(early_config)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    markers = (
        "cells(*categories): a cell per model, task and sampler; without categories: the user's own"
        " tasks",
        "quick: a cell of the default run",
        "ci: a cell of the run in continuous integration",
    )
    for marker in markers:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("cells")
    if marker is not None:
        load_hooks(metafunc.config)
        from pbcore.plugin.collection import parametrize

        parametrize(metafunc, marker.args)


def load_hooks(config: pytest.Config) -> None:
    """Loads the hooks of a run of cells, once."""
    if config.pluginmanager.hasplugin("pbcore.plugin.state"):
        return
    modules = [f"pbcore.plugin.{name}" for name in OF_CELLS]
    modules += [point.value for point in points("pbcore.plugins")]
    modules += [f"pbcore.plugin.{name}" for name in OF_RUNS]
    for module in modules:
        config.pluginmanager.import_plugin(module)


def may_name_cell(argument: str, start: str | PathLike[str] = "") -> bool:
    """Whether an argument has the form of a cell's name and is no file below `start`."""
    named = argument.count("/") > 1 and "::" not in argument and not argument.startswith("-")
    return named and not exists(join(start, argument))
