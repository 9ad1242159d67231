"""The scheduler, played through without processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.plugin import scheduling
from pbcore.plugin.scheduling import CellsOrOthers, ModelScheduling, WorkGroup


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


def by_model(node_id: str) -> WorkGroup:
    return node_id.split("/")[0], ""


def by_task(node_id: str) -> WorkGroup:
    model, task, *_ = node_id.split("/")
    return model, task


def begin(
    models: list[str],
    workers: int,
    group_of: Callable[[str], WorkGroup] = by_model,
    alone: str = "-",
) -> tuple[ModelScheduling, list[Worker], list[str]]:
    said: list[str] = []
    scheduler = ModelScheduling(workers, group_of, said.append, lambda model: model == alone)
    nodes = [Worker(f"gw{i}") for i in range(workers)]
    collection = [f"{model}/{i}" for i, model in enumerate(models)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, collection)
    scheduler.schedule()
    return scheduler, nodes, collection


def play(scheduler: ModelScheduling, nodes: list[Worker], collection: list[str]) -> list[str]:
    """Runs workers in turns as xdist does: a worker starts an item once it knows the next, or that
    there is none.
    """
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

    def test_a_model_behind_a_server_stays_with_one_worker(self) -> None:
        """Its requests at once are limited per process; idle workers help with other models, and
        end.
        """
        for others in (["b"] * 3, ["b"] * 20, []):
            scheduler, nodes, collection = begin(["served"] * 10 + others, 3, alone="served")
            assert sorted(play(scheduler, nodes, collection)) == sorted(collection)
            assert sum("served" in node.models for node in nodes) == 1
            assert scheduler.tests_finished

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

    def test_a_worker_of_a_cluster_holds_one_item(self) -> None:
        """So no item waits behind a long one while others idle; the worker that is first done gets
        the last item.
        """
        scheduler = ModelScheduling(1, by_model, print, ahead=1)
        nodes = [Worker("ray0"), Worker("ray1")]
        for node in nodes:  # as they begin, one by one
            scheduler.add_node(node)
            scheduler.add_node_collection(node, ["a/0", "a/1", "a/2"])
            scheduler.schedule()
        assert [node.sent for node in nodes] == [[0], [1]]
        assert scheduler.waiting
        scheduler.mark_test_complete(nodes[1], 1)
        assert [node.sent for node in nodes] == [[0], [1, 2]]
        assert not scheduler.waiting
        assert scheduler.remove_node(nodes[0]) == "a/0"
        scheduler.mark_test_pending("a/0")
        assert scheduler.waiting

    def test_a_task_stays_on_one_worker(self) -> None:
        """Where cells share forwards, a worker ends its task before the next, and two meet only in
        the last one.
        """
        cells = [f"a/{task}" for task in "stuvw" for _ in range(8)] + ["b/s"] * 6
        scheduler, nodes, collection = begin(cells, 2, by_task)
        assert sorted(play(scheduler, nodes, collection)) == sorted(collection)
        of = [{by_task(collection[index]) for index in node.sent} for node in nodes]
        assert len(of[0] & of[1]) <= 1
        assert [node.models for node in nodes] == [["a"], ["b", "a"]]

    def test_who_helps_takes_the_last_cells(self) -> None:
        """Two workers at one task each run a stretch of it, since neighbouring samplers share
        most.
        """
        scheduler, nodes, collection = begin(["a/s"] * 12, 2, by_task)
        play(scheduler, nodes, collection)
        first, second = (node.sent for node in nodes)
        assert first == sorted(first)
        assert second == sorted(second, reverse=True)
        assert max(first) < min(second)

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


class TestNewWorkers:
    def test_other_tests_than_the_first_workers_are_refused(self) -> None:
        """A replacement that collects something else gets no work, and the message names it."""
        said: list[str] = []
        scheduler = ModelScheduling(1, lambda node_id: ("", ""), said.append)
        first = Worker("gw0")
        other = Worker("gw1")
        scheduler.add_node(first)
        scheduler.add_node_collection(first, ["a", "b", "c", "d"])
        scheduler.schedule()
        scheduler.add_node(other)
        scheduler.add_node_collection(other, ["a"])
        scheduler.schedule()
        assert said == ["gw1 collected other tests than the workers before it and gets no work"]
        assert (first.queue, other.queue) == ([0, 1], [])

    def test_a_worker_that_dies_idle_leaves_nothing_behind(self) -> None:
        """No test crashed with it."""
        scheduler, nodes, _ = begin(["a"], 2)
        assert scheduler.remove_node(nodes[1]) is None
        assert scheduler.nodes == [nodes[0]]

    def test_a_test_given_back_is_run_next(self) -> None:
        """Before those that nobody has begun."""
        scheduler, nodes, collection = begin(["a"] * 6, 1)
        scheduler.mark_test_pending(collection[0])
        scheduler.mark_test_complete(nodes[0], nodes[0].queue.pop(0))
        assert nodes[0].queue == [1, 0]

    def test_it_is_done_when_the_last_items_are_with_their_workers(self) -> None:
        """xdist then lets the workers end; while a queue holds items it is not."""
        scheduler, nodes, _ = begin(["a"] * 4, 1)
        assert (scheduler.tests_finished, scheduler.has_pending) == (False, True)
        for _ in range(3):
            scheduler.mark_test_complete(nodes[0], nodes[0].queue.pop(0))
        assert (scheduler.tests_finished, scheduler.has_pending) == (True, True)
        scheduler.mark_test_complete(nodes[0], nodes[0].queue.pop(0))
        assert (scheduler.tests_finished, scheduler.has_pending) == (True, False)


class TestCellsOrOthers:
    @pytest.mark.parametrize("cells", [True, False])
    def test_the_first_collection_decides(self, cells: bool) -> None:
        """With cells the workers known so far come over to the scheduling by models; later
        collections change nothing.
        """
        plain, ours = (ModelScheduling(2, lambda node_id: ("", ""), print) for _ in range(2))
        either = CellsOrOthers(plain, ours, lambda ids: "cell" in ids)
        nodes = [Worker("gw0"), Worker("gw1")]
        for node in nodes:
            either.add_node(node)
        either.add_node_collection(nodes[0], ["cell"] if cells else ["other"])
        either.add_node_collection(nodes[1], ["other"] if cells else ["cell"])
        chosen = ours if cells else plain
        assert chosen.nodes == nodes
        assert chosen.collection_is_completed
        assert either.nodes == nodes


class TestDevices:
    def config(self, monkeypatch: pytest.MonkeyPatch, gpu: bool, **values: Any) -> Any:
        monkeypatch.setattr(scheduling, "settings", lambda config: SimpleNamespace(gpu=gpu))
        monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
        return SimpleNamespace(getvalue=values.get)

    def test_workers_take_gpus_in_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All that torch sees, or those that the user left visible; none without --gpu."""
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        specs = [SimpleNamespace(env={}) for _ in range(3)]
        scheduling.pytest_xdist_setupnodes(self.config(monkeypatch, gpu=False), specs)
        assert [spec.env for spec in specs] == [{}] * 3
        config = self.config(monkeypatch, gpu=True)
        scheduling.pytest_xdist_setupnodes(config, specs)
        assert [spec.env["CUDA_VISIBLE_DEVICES"] for spec in specs] == ["0", "1", "0"]
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,7")
        scheduling.pytest_xdist_setupnodes(config, specs)
        assert [spec.env["CUDA_VISIBLE_DEVICES"] for spec in specs] == ["3", "5", "7"]

    @pytest.mark.parametrize(
        ("gpu", "workers", "shared", "on_device"),
        [(True, 2, False, 1), (True, 3, True, 2), (False, 1, False, 1), (False, 2, True, 2)],
    )
    def test_a_worker_knows_whether_its_device_is_shared(
        self,
        monkeypatch: pytest.MonkeyPatch,
        gpu: bool,
        workers: int,
        shared: bool,
        on_device: int,
    ) -> None:
        """Two GPUs serve two workers; the CPU is one device. Batches leave the others on the same
        one their part of its memory.
        """
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        node = SimpleNamespace(
            workerinput={"workercount": workers}, config=self.config(monkeypatch, gpu)
        )
        scheduling.pytest_configure_node(node)
        assert node.workerinput["pbcore_shared"] is shared
        assert node.workerinput["pbcore_on_device"] == on_device

    def test_another_dist_is_the_users_own_choice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """xdist schedules then."""
        config = self.config(monkeypatch, gpu=False, dist="loadscope")
        assert scheduling.pytest_xdist_make_scheduler(config, print) is None
