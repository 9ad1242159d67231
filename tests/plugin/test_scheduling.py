"""The scheduler, played through without processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pbcore.plugin.scheduling import Group, ModelScheduling


@dataclass(eq=False)
class Worker:
    """What the scheduler sees of a worker; `queue` is what it was sent and has not run."""

    name: str
    queue: list[int] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    shutting_down: bool = False

    @property
    def gateway(self) -> Any:
        return SimpleNamespace(id=self.name)

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.queue += indices
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def by_model(node_id: str) -> Group:
    return node_id.split("/")[0], ""


def by_task(node_id: str) -> Group:
    model, task, *_ = node_id.split("/")
    return model, task


def begin(
    models: list[str], workers: int, group_of: Callable[[str], Group] = by_model
) -> tuple[ModelScheduling, list[Worker], list[str]]:
    said: list[str] = []
    scheduler = ModelScheduling(workers, group_of, said.append)
    nodes = [Worker(f"gw{i}") for i in range(workers)]
    collection = [f"{model}/{i}" for i, model in enumerate(models)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, collection)
    scheduler.schedule()
    return scheduler, nodes, collection


def play(scheduler: ModelScheduling, nodes: list[Worker], collection: list[str]) -> list[str]:
    """Runs workers in turns as xdist does: a worker starts an item once it knows the next, or that there is none."""
    done: list[str] = []
    while any(len(node.queue) > 1 or (node.queue and node.shutting_down) for node in nodes):
        for node in nodes:
            if len(node.queue) > 1 or (node.queue and node.shutting_down):
                index = node.queue.pop(0)
                model = collection[index].split("/")[0]
                if not node.models or node.models[-1] != model:
                    node.models.append(model)
                done.append(collection[index])
                scheduler.mark_test_complete(node, index)
        if scheduler.tests_finished:
            for node in nodes:
                node.shutdown()
    return done


class TestModelScheduling:
    def test_each_model_is_loaded_once_while_there_are_models_enough(self) -> None:
        """Two workers and two models of equal size: each worker loads one."""
        scheduler, nodes, collection = begin(["a"] * 10 + ["b"] * 10, 2)
        assert sorted(play(scheduler, nodes, collection)) == sorted(collection)
        assert sorted(node.models for node in nodes) == [["a"], ["b"]]

    def test_one_model_is_shared_by_all_workers(self) -> None:
        """With one model neither of two workers idles."""
        scheduler, nodes, collection = begin(["a"] * 10, 2)
        assert sorted(play(scheduler, nodes, collection)) == sorted(collection)
        assert [node.models for node in nodes] == [["a"], ["a"]]

    def test_a_worker_that_would_idle_helps_with_the_model_that_has_most_left(self) -> None:
        """The worker with the small model goes on with the big one."""
        scheduler, nodes, collection = begin(["small"] * 2 + ["big"] * 20, 2)
        play(scheduler, nodes, collection)
        assert sorted(node.models for node in nodes) == [["big"], ["small", "big"]]

    def test_few_cells_are_spread(self) -> None:
        """Two cells of one model and two workers: one each."""
        _, nodes, _ = begin(["a", "a"], 2)
        assert [node.queue for node in nodes] == [[0], [1]]
        assert all(node.shutting_down for node in nodes)

    def test_every_item_runs_once_whatever_the_mix(self) -> None:
        """Cells of several models between other tests are all run, each once, and the run ends."""
        models = ["", "a", "b", "", "c", "a", "", "b"] * 5
        for workers in (1, 2, 3, 7):
            scheduler, nodes, collection = begin(models, workers)
            assert sorted(play(scheduler, nodes, collection)) == sorted(collection)
            assert scheduler.tests_finished
            assert not scheduler.has_pending

    def test_a_crash_costs_only_the_cell_that_was_running(self) -> None:
        """The dead worker's other items go to its replacement."""
        scheduler, nodes, collection = begin(["a"] * 9, 2)
        dead = nodes.pop(0)
        crashed = scheduler.remove_node(dead)
        assert crashed == collection[dead.queue[0]]
        fresh = Worker("gw2")
        scheduler.add_node(fresh)
        scheduler.add_node_collection(fresh, collection)
        scheduler.schedule()
        done = play(scheduler, [*nodes, fresh], collection)
        assert sorted([*done, crashed]) == sorted(collection)

    def test_a_task_stays_on_one_worker(self) -> None:
        """Where cells share forwards, a worker ends its task before the next, and two meet only in the last one."""
        cells = [f"a/{task}" for task in "stuvw" for _ in range(8)] + ["b/s"] * 6
        scheduler, nodes, collection = begin(cells, 2, by_task)
        assert sorted(play(scheduler, nodes, collection)) == sorted(collection)
        of = [{by_task(collection[index]) for index in node.sent} for node in nodes]
        assert len(of[0] & of[1]) <= 1
        assert [node.models for node in nodes] == [["a"], ["b", "a"]]

    def test_workers_that_disagree_run_nothing(self) -> None:
        """Different collections end the run with a message instead of running wrong tests."""
        said: list[str] = []
        scheduler = ModelScheduling(2, lambda node_id: ("", ""), said.append)
        nodes = [Worker("gw0"), Worker("gw1")]
        for node, collection in zip(nodes, (["a"], ["b"]), strict=True):
            scheduler.add_node(node)
            scheduler.add_node_collection(node, collection)
        scheduler.schedule()
        assert "different tests" in said[0]
        assert all(node.shutting_down and not node.queue for node in nodes)
