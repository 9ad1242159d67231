"""The pytest plugin. Importing it imports no torch.

| module | hooks and fixtures | what for |
|---|---|---|
| options | addoption | one option and ini value for each field of `grid.settings.Settings` |
| help | cmdline_main | --help-pbcore: all options by what they are for |
| pasted | configure | a cell's name among the arguments, in the place of its node id |
| state | configure | settings, the plan, and which node is a cell: what all others ask |
| omp_wait_policy | load_initial_conftests | how torch's threads wait, chosen before torch is imported |
| rundir | configure, configure_node, report_header, unconfigure | the run directory, run.json, the copy of junit.xml |
| collection | generate_tests, itemcollected, collection_modifyitems, report_header | cells and samples as items |
| fixtures | cell, task, model, model_cache | what a test of cells takes; `cell` holds the work (`cell.Cell`) |
| recording | pyfunc_call, runtest_makereport | resumed cells, records of cells that failed |
| benchmark_xdist | runtest_setup, runtest_teardown, runtest_logreport, benchmark_group_stats | timing in xdist's
workers |
| scheduling | xdist_make_scheduler, xdist_setupnodes, configure_node | which worker runs which cell on which GPU |
| integrations' plugins | any | e.g. --ray: cells on the nodes of a Ray cluster |
| estimate | configure, runtestloop | --estimate: the cost estimate in place of the cells |
| progress | runtest_logstart, runtest_logfinish, report_teststatus | one line of progress |
| gate | configure, report_teststatus | gates and floors, read before the run and judged after it |
| run_lifecycle | collection_finish, runtest_logreport, sessionfinish, terminal_summary | the controller: report,
verdicts, tables |
"""

from pbcore.extensions import integrations

pytest_plugins = [
    f"pbcore.plugin.{name}"
    for name in (
        "options",
        "help",
        "pasted",
        "omp_wait_policy",
        "state",
        "collection",
        "fixtures",
        "rundir",
        "recording",
        "benchmark_xdist",
        "scheduling",
    )
]
pytest_plugins += [name for integration in integrations().values() for name in integration.plugins]
pytest_plugins += [f"pbcore.plugin.{name}" for name in ("estimate", "progress", "gate", "run_lifecycle")]
