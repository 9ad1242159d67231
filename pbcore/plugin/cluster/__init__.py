"""`--ray`: cells on the nodes of a Ray cluster (docs/cluster.md). pytest stays the runner: a worker on a node is an
actor with a pytest session of its own, and the controller's loop hands it cells and takes back reports and records.
"""

from __future__ import annotations

import pytest

from pbcore.plugin.options import given
from pbcore.plugin.state import settings
from pbcore.printable import counted


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Connects before anything is collected. Raises pytest.UsageError for what can't go together or be reached."""
    if hasattr(config, "workerinput") or not given(config) or settings(config).ray is None:
        return
    if config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError(
            "--ray and -n both say where cells run; give one of them (-n 0 undoes an -n in addopts)"
        )
    if not config.invocation_params.dir.is_relative_to(config.rootpath):
        raise pytest.UsageError(f"--ray copies {config.rootpath} to the nodes; call pytest there, or in a folder of it")
    if config.getoption("usepdb", False):
        raise pytest.UsageError("--pdb can't reach the workers of --ray; leave one of the two out")
    if config.getoption("collectonly", False):
        return
    from pbcore.plugin.cluster.connect import alive, check_nodes, connect, fitting, the_ray
    from pbcore.plugin.cluster.session import NAME, Cluster

    the_ray()
    connect(str(settings(config).ray), config.rootpath)
    usable = fitting(alive(), settings(config).ray_cpus, settings(config).gpus)
    check_nodes([node for node in alive() if node["NodeID"] in usable])
    config.pluginmanager.register(Cluster(config), NAME)
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.showfspath = False  # cells of several files run at once


def pytest_report_header(config: pytest.Config) -> list[str]:
    """How many workers there will be."""
    if not config.pluginmanager.hasplugin("pbcore-cluster"):
        return []
    from pbcore.plugin.cluster.connect import alive, fitting

    requested, nodes = settings(config), alive()
    fit = fitting(nodes, requested.ray_cpus, requested.gpus)
    size = f"{requested.ray_cpus} CPUs and {requested.gpus:g} GPUs"
    return [
        f"pbcore: Ray has {counted(len(nodes), 'node')}, with room for {counted(sum(fit.values()), 'worker')} of {size}"
    ]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("pbcore-cluster"):
        from pbcore.plugin.cluster.connect import the_ray

        the_ray().shutdown()
