"""The way to a Ray cluster: connecting, how many workers fit on its nodes, and whether they hold
the same code.
"""

import logging
import os
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.links import install_command

PATIENCE = 5.0  # seconds until an address counts as unreachable
PROBE = 120.0  # seconds for the nodes to say what they have installed
LEFT_OUT = [
    ".git",
    ".venv",
    "venv",
    "reports",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    "**/__pycache__",
]
PASSED = ("PYTEST_ADDOPTS", "PBCORE_GRAMMAR_RUN")  # variables that workers get, too
COMPARED = ("python", "pbcore", "torch", "pbcore's source")


def the_ray() -> Any:
    """The package. Raises pytest.UsageError that names the extra if it is missing."""
    try:
        return import_module("ray")
    except ImportError as error:
        raise pytest.UsageError(f"--ray needs Ray ({error}): {install_command('ray')}") from error


def connect(address: str, root: Path) -> None:
    """Connects this process, and lets the nodes' workers begin in a copy of `root`. Raises
    pytest.UsageError if the head can't be reached or has other versions of Python or Ray.
    """
    ray = the_ray()
    if ray.is_initialized():
        return
    if ":" in address:  # Ray itself would try for a minute
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise pytest.UsageError(
                f"--ray {address}: nothing answers there ({error}); give HOST:PORT as `ray start"
                " --head` prints it, and run pytest on a machine of the cluster"
            ) from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    environment = {"working_dir": str(root), "excludes": LEFT_OUT, "env_vars": passed}
    python = shlex.quote(sys.executable)
    if python != sys.executable:
        environment["py_executable"] = python  # Ray's shell would part its path at a space
    try:
        ray.init(
            None if address == "auto" else address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=False,
            runtime_env=environment,
        )
    except Exception as error:
        # Ray raises RuntimeError, ValueError, ConnectionError and its own, and each of them ends
        # the run.
        raise pytest.UsageError(f"--ray {address}: {error}") from error


def facts() -> dict[str, str]:
    """What must be the same on all nodes. Local versions such as torch's +cpu may differ."""
    from pbcore.results.environment import versions
    from pbcore.results.resume import code_version

    installed = {**versions(), "pbcore's source": code_version()}
    return {name: installed.get(name, "not installed").partition("+")[0] for name in COMPARED}


def this_node() -> str:
    """The name of the node that this process runs on, as `node_name` gives it."""
    context = the_ray().get_runtime_context()
    address = import_module("ray.util").get_node_ip_address()
    return node_name({"NodeManagerAddress": address, "NodeID": context.get_node_id()})


def node_name(node: Mapping[str, Any]) -> str:
    """A node's address, with the start of its id, since a machine can hold several nodes."""
    return f"{node['NodeManagerAddress']}/{node['NodeID'][:6]}"


def alive() -> list[Mapping[str, Any]]:
    """The nodes of the cluster that are up."""
    return [node for node in the_ray().nodes() if node["Alive"]]


def fitting(nodes: Sequence[Mapping[str, Any]], cpus: float, gpus: float) -> dict[str, int]:
    """How many workers each node can hold; nodes that hold none are left out.

    Args:
        nodes: as `ray.nodes()` lists them.
        cpus: CPUs that a worker reserves; 0: any number fits.
        gpus: GPUs that a worker reserves, or a part of one; 0: any number fits.

    Returns:
        Node id → number of workers.
    """
    sizes = {kind: size for kind, size in (("CPU", cpus), ("GPU", gpus)) if size}
    fit = {}
    for node in nodes:
        has = node["Resources"]
        count = min(int(has.get(kind, 0.0) / size + 1e-6) for kind, size in sizes.items())
        if count:
            fit[node["NodeID"]] = count
    return fit


def check_nodes(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raises pytest.UsageError unless these nodes have the versions and the code of this
    process.
    """
    ray = the_ray()
    affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy

    # Defined here, it goes to the node as code and needs no pbcore there to arrive.
    def probe() -> dict[str, str]:
        try:
            from pbcore.extras.ray.connect import facts

            return facts()
        except ImportError as error:
            return {"pbcore": f"not importable ({error})"}

    task = ray.remote(num_cpus=0, max_retries=0)(probe)
    calls = {}
    for node in nodes:
        there = affinity(node["NodeID"], soft=False)
        calls[node_name(node)] = task.options(scheduling_strategy=there).remote()
    try:
        values = ray.get(list(calls.values()), timeout=PROBE)
    except ray.exceptions.RayError as error:
        raise pytest.UsageError(
            f"--ray: a node did not say what it has installed: {error}"
        ) from error
    different = node_differences(facts(), dict(zip(calls, values, strict=True)))
    if different:
        raise pytest.UsageError(f"--ray: {different}")


def node_differences(here: Mapping[str, str], there: Mapping[str, Mapping[str, str]]) -> str:
    """Which nodes differ from here in what, naming both; empty if none does."""
    lines = []
    for node, installed in there.items():
        for name in COMPARED:
            version = installed.get(name, "unknown")
            if version != here[name]:
                lines.append(f"{name} is {version} on {node} and {here[name]} on the controller")
    if not lines:
        return ""
    return "; ".join([*lines, "install the same on all machines"])


def cause_of(error: Any) -> str:
    """Why a call failed, without Ray's list of ids before it and its advice after it."""
    text = " ".join(str(getattr(error, "cause", None) or error).split())
    return text.rpartition("The actor is dead because ")[2].partition(" Some common causes")[0]


def size_of(resources: Mapping[str, float]) -> str:
    """What a node has, or a worker needs."""
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"
