"""--ray over a real Ray cluster whose nodes are processes of this machine, some of them killed in
mid-run.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import psutil
import pytest

import pbcore
from tests.extras.ray.nodes import Nodes, Project
from tests.plugin.conftest import ROOT, TIMES

pytestmark = [pytest.mark.ray, pytest.mark.posix]
TEN = ("--limit", "2", "--task", "waiting_line/*", "--sampler", "random-k4")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    """One cluster for all tests of this file, with two nodes of one CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
        nodes = Nodes()
        nodes.add()
        nodes.add()
        yield nodes
        nodes.stop()


@pytest.fixture
def two(cluster: Nodes) -> Nodes:
    """The cluster with its two nodes, whatever the test before has killed."""
    while len(cluster.nodes) < 2:
        cluster.add()
    return cluster


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv(
        "CI", raising=False
    )  # there pytest repeats whole messages in its short summary
    return Project(tmp_path)


def rows(run: Path) -> pd.DataFrame:
    return pbcore.results.load(run).drop(columns=TIMES)


def passed(said: str, number: int) -> None:
    assert f"{number} passed" in said, said
    assert not re.search(r"\d failed", said), said  # Ray's own lines may have the word


class TestRows:
    def test_rows_equal_those_of_one_process(self, cells: Project, two: Nodes) -> None:
        """Weights and exact marginals over two nodes: the same rows but for times, JUnit and tables
        as ever, and each record says where it was made.
        """
        both = (
            "--model",
            "tiny",
            "--model",
            "ideal",
            "--limit",
            "2",
            "--task",
            "copy",
            "--task",
            "sort",
        )
        assert cells.run(*both, "--out", "one")[0] == 0
        straight = cells.begun()
        code, said = cells.run(
            *both, "--out", "many", "--junitxml", "junit.xml", "--ray", two.address
        )
        assert code == 0, said
        assert "score in %" in said
        assert "told where it runs" in said
        pd.testing.assert_frame_equal(
            rows(cells.path / "many"), rows(cells.path / "one"), check_like=True
        )
        workers = pbcore.results.load(cells.path / "many")["worker"]
        assert len(set(workers)) == 2
        assert {worker.partition("@")[0] for worker in workers} == {"ray0", "ray1"}
        junit = (cells.path / "many" / "junit.xml").read_text()
        assert junit.count("<testcase ") == len(straight)
        again = cells.begun()[len(straight) :]
        assert sorted(cell for _, cell in again) == sorted(cell for _, cell in straight)
        assert os.getpid() not in {pid for pid, _ in again}

    def test_resume_goes_across(self, cells: Project, two: Nodes) -> None:
        """Cells that one process has finished are kept by a run on the cluster, and the other way
        round.
        """
        three = (
            "--model",
            "ideal",
            "--limit",
            "2",
            "--sampler",
            "random-k4",
            "--task",
            "copy",
            "--task",
            "sort",
        )
        cells.run(
            "--model",
            "ideal",
            "--limit",
            "2",
            "--sampler",
            "random-k4",
            "--task",
            "copy",
            "--out",
            "out",
        )
        code, said = cells.run(*three, "--resume", "out", "--ray", two.address)
        assert code == 0, said
        assert "resumed: 1 cell kept, 1 measured" in said
        code, said = cells.run(*three, "--task", "reverse", "--resume", "out", "-n", "2")
        assert code == 0, said
        assert "resumed: 2 cells kept, 1 measured" in said

    def test_x_stops_after_the_cells_that_run(self, cells: Project, two: Nodes) -> None:
        """The first cell that breaks ends the run with exit code 1, whichever worker is there
        first; what had begun is kept.
        """
        floor = ("--floor", "broken/* accuracy>=0")  # so that -x judges cells and not samples
        code, said = cells.run(
            "--model", "broken", *TEN, "-x", *floor, "--out", "out", "--ray", two.address
        )
        assert code == 1, said
        assert "stopping after" in said
        assert "of 10 cells" in said
        begun = {cell.split("/")[1] for _, cell in cells.begun()}
        assert 0 < len(begun) < 10
        kept = pbcore.results.load(cells.path / "out")["task"]
        assert {task.removeprefix("waiting_line/") for task in kept} == begun


class TestDeaths:
    def test_a_cell_that_kills_its_worker_once_runs_again(self, cells: Project, two: Nodes) -> None:
        """kill -9 of a worker costs one more start of its cell, and no other cell begins twice."""
        code, said = cells.run("--model", "dying-once", *TEN, "--out", "out", "--ray", two.address)
        assert code == 0, said
        passed(said, 10)
        assert "died; the cell runs again" in said
        begun = Counter(cell for _, cell in cells.begun())
        assert begun.pop("dying-once/sort/random-k4") == 2
        assert set(begun.values()) == {1}

    def test_a_cell_that_kills_two_workers_is_an_error(self, cells: Project, two: Nodes) -> None:
        """It is recorded with its cause, and the nine others go on."""
        code, said = cells.run("--model", "dying", *TEN, "--out", "out", "--ray", two.address)
        assert code == 1
        assert "1 failed, 9 passed" in said
        table = pbcore.results.load(cells.path / "out").set_index("task")
        assert len(table) == 10
        broken = table.loc["waiting_line/sort"]
        assert broken["status"] == "error"
        assert "died 2 times while running this cell" in broken["error"]
        assert "its worker process has died" in broken["error"]
        begun = Counter(cell for _, cell in cells.begun())
        assert begun.pop("dying/sort/random-k4") == 2
        assert set(begun.values()) == {1}

    def test_a_node_that_dies_costs_its_cell_alone(self, cells: Project, two: Nodes) -> None:
        """The other node finishes the run, and rows equal those of one process."""
        assert cells.run("--model", "slow", *TEN, "--out", "one")[0] == 0
        before = len(cells.begun())
        process = cells.start("--model", "slow", *TEN, "--out", "many", "--ray", two.address)
        cells.wait(before + 3, process)
        two.kill(two.nodes[0])
        said = process.communicate(timeout=300)[0]
        assert process.returncode == 0, said
        passed(said, 10)
        begun = Counter(cell for _, cell in cells.begun()[before:])
        assert sum(begun.values()) <= 11
        assert len(begun) == 10
        pd.testing.assert_frame_equal(
            rows(cells.path / "many"), rows(cells.path / "one"), check_like=True
        )

    def test_a_killed_controller_resumes(self, cells: Project, two: Nodes) -> None:
        """kill -9 of pytest: its workers end, and the resumed run repeats no finished cell."""
        process = cells.start("--model", "slow", *TEN, "--out", "out", "--ray", two.address)
        cells.wait(4, process)
        process.kill()
        process.communicate()
        done = {path.name for path in (cells.path / "out" / "cells").glob("*.json")}
        assert done
        workers = {pid for pid, _ in cells.begun()}
        code, said = cells.run("--model", "slow", *TEN, "--resume", "out", "--ray", two.address)
        assert code == 0, said
        assert f"resumed: {len(done)} cells kept, {10 - len(done)} measured" in said
        assert not any(psutil.pid_exists(pid) for pid in workers)

    @pytest.mark.nightly
    def test_five_random_node_kills(self, cells: Project, two: Nodes) -> None:
        """Each kill costs at most the cell that its node was running; nothing is lost."""
        chance = random.Random(20)
        tasks = ("--task", "waiting_line/*", "--limit", "2")
        samplers = [word for k in (2, 4, 8) for word in ("--sampler", f"random-k{k}")]
        process = cells.start(
            "--model", "slow", *tasks, *samplers, "--out", "out", "--ray", two.address
        )
        for kill in range(5):
            cells.wait(3 + 5 * kill + chance.randint(0, 3), process)
            two.kill(chance.choice(two.nodes))
            two.add()
        said = process.communicate(timeout=600)[0]
        assert process.returncode == 0, said
        passed(said, 30)
        begun = Counter(cell for _, cell in cells.begun())
        assert len(begun) == 30
        assert sum(begun.values()) <= 30 + 5
        assert len(pbcore.results.load(cells.path / "out")) == 30


class TestPlaces:
    def test_a_model_gets_the_gpus_that_it_asks_for(self, cells: Project, two: Nodes) -> None:
        """`big` says that it needs two and runs on the one node that has them, beside workers with
        one.
        """
        single = two.add(num_gpus=1)
        double = two.add(num_gpus=2)
        try:
            code, said = cells.run(
                "--model",
                "big",
                "--model",
                "ideal",
                "--limit",
                "2",
                "--task",
                "copy",
                "--task",
                "sort",
                "--sampler",
                "random-k4",
                "--ray-gpus",
                "1",
                "--out",
                "out",
                "--ray",
                two.address,
            )
            assert code == 0, said
            table = pbcore.results.load(cells.path / "out")
            nodes = table.groupby("model")["worker"].agg(
                lambda names: {name.partition("/")[2] for name in names}
            )
            assert nodes["big"] == {double.node_id[:6]}
        finally:
            two.kill(single)
            two.kill(double)

    def test_no_room_is_a_usage_error(self, cells: Project, two: Nodes) -> None:
        """It says what each node has."""
        code, said = cells.run("--model", "ideal", *TEN, "--ray-cpus", "64", "--ray", two.address)
        assert code == pytest.ExitCode.USAGE_ERROR
        assert "no node can hold a worker of 64 CPUs and 0 GPUs" in said
        assert "has 1 CPUs and 0 GPUs" in said

    def test_other_versions_are_named_at_the_start(
        self, cells: Project, two: Nodes, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """A node where another torch is installed: its version, this one, and where."""
        other = tmp_path_factory.mktemp("site") / "torch-1.2.3.dist-info"
        other.mkdir()
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.2.3\n")
        node = two.add(env_vars={"PYTHONPATH": f"{other.parent}:{ROOT}"})
        try:
            code, said = cells.run("--model", "ideal", *TEN, "--ray", two.address)
        finally:
            two.kill(node)
        assert code == pytest.ExitCode.USAGE_ERROR
        assert f"torch is 1.2.3 on {node.node_ip_address}/{node.node_id[:6]} and " in said
        assert not cells.begun()
