"""pytest's hooks for `--ray`: the connection, and the loop that replaces pytest's own."""

import pytest

from pbcore.base.printable import counted
from pbcore.extras.ray.connect import alive, check_nodes, connect, fitting, size_of, the_ray
from pbcore.extras.ray.options import RayOptions
from pbcore.plugin.options import given
from pbcore.plugin.state import HANDS_OUT, settings

NAME = "pbcore-cluster"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Connects before anything is collected. Raises pytest.UsageError for what can't go together or
    be reached.
    """
    if hasattr(config, "workerinput") or not given(config):
        return
    requested = settings(config).part(RayOptions)
    if requested.ray is None:
        return
    if config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError(
            "--ray and -n both say where cells run; give one of them (-n 0 undoes an -n in addopts)"
        )
    if not config.invocation_params.dir.is_relative_to(config.rootpath):
        raise pytest.UsageError(
            f"--ray copies {config.rootpath} to the nodes; call pytest there, or in a folder of it"
        )
    if config.getoption("usepdb", False):
        raise pytest.UsageError("--pdb can't reach the workers of --ray; leave one of the two out")
    if config.getoption("collectonly", False):
        return
    from pbcore.extras.ray.session import Cluster

    connect(requested.ray, config.rootpath)
    usable = fitting(alive(), requested.ray_cpus, requested.gpus(settings(config).gpu))
    check_nodes([node for node in alive() if node["NodeID"] in usable])
    config.pluginmanager.register(Cluster(config), NAME)
    config.stash[HANDS_OUT] = True
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.showfspath = False  # cells of several files run at once


def pytest_report_header(config: pytest.Config) -> list[str]:
    """How many workers there will be."""
    if not config.pluginmanager.hasplugin(NAME):
        return []
    requested = settings(config).part(RayOptions)
    nodes = alive()
    gpus = requested.gpus(settings(config).gpu)
    room = counted(sum(fitting(nodes, requested.ray_cpus, gpus).values()), "worker")
    size = size_of({"CPU": requested.ray_cpus, "GPU": gpus})
    return [f"pbcore: Ray has {counted(len(nodes), 'node')}, with room for {room} of {size}"]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin(NAME):
        the_ray().shutdown()
