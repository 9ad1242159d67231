"""A Ray cluster whose nodes are processes of this machine, and a project whose cells run there."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from tests.plugin.conftest import CONFTEST, ROOT

LOG = """
import os
import warnings
os.environ["DIED"] = {log!r} + ".died"

def pytest_runtest_call(item):
    with open({log!r}, "a") as log:  # one write of one line: whole, whoever writes beside it
        log.write(f"{{os.getpid()}} {{item.callspec.id}}\\n")
    warnings.warn("told where it runs")
"""


SMALL = {"object_store_memory": 80 * 2**20}


class Nodes:
    """A cluster whose head runs nothing, and nodes that come and go."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        quick = {
            "health_check_period_ms": 500,
            "health_check_timeout_ms": 500,
            "health_check_failure_threshold": 4,
        }
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "include_dashboard": False,
                **SMALL,
                "_system_config": quick,
            },
        )
        self.address: str = self._cluster.address
        self.nodes: list[Any] = []
        self._addresses = count(2)

    def add(self, **options: Any) -> Any:
        # Addresses of their own: a driver belongs to the node that has its address, here always the
        # head. And files of their own, as machines have.
        number = next(self._addresses)
        place = {"node_ip_address": f"127.0.0.{number}", "runtime_env_dir_name": f"files{number}"}
        self.nodes.append(self._cluster.add_node(**{"num_cpus": 1, **SMALL, **place, **options}))
        return self.nodes[-1]

    def kill(self, node: Any) -> None:
        """Kills a node and all its workers at once, as a machine that loses power does."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def stop(self) -> None:
        self._cluster.shutdown()


class Project:
    """A folder with the stock cells and a log of the cells that were begun."""

    def __init__(self, path: Path) -> None:
        self.path = path / "project"
        self.log = path / "log"
        (self.path / "benches").mkdir(parents=True)
        shutil.copy(ROOT / "benches" / "test_waiting_line.py", self.path / "benches")
        (self.path / "conftest.py").write_text(CONFTEST + LOG.format(log=str(self.log)))
        (self.path / "pytest.ini").write_text(
            "[pytest]\njunit_family = xunit1\nmarkers = quick: x\n"
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "benches/test_waiting_line.py",
            "-p",
            "no:cacheprovider",
            *arguments,
        ]
        return subprocess.Popen(
            command,
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        said = process.communicate(timeout=300)[0]
        return process.returncode, said

    def begun(self) -> list[tuple[int, str]]:
        """Process and cell of each beginning, in their order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(int(pid), cell) for pid, cell in (line.split() for line in lines)]

    def wait(self, begun: int, process: subprocess.Popen[str]) -> None:
        while len(self.begun()) < begun:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
