"""Which worker runs which cell: models spread over workers, and a model's cells are shared with
workers that would idle (decision 12). Where cells share forwards, each of a model's tasks stays
with one worker while there are others.
"""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from pbcore.plugin.nodes import cell_of
from pbcore.plugin.state import settings

WorkGroup = tuple[str, str]  # a model and one of its tasks, or "" for all of them
MIN_PENDING = 2  # a worker runs a test only when it knows the next one, or that there is none


class ModelScheduling:
    """xdist's scheduler protocol. Items wait in one queue per group, (model, task) or (model, "")
    for all its tasks; a worker keeps to its group while that has items left.

    Then it takes a task of its model that nobody has begun, else a model that nobody has begun,
    else any such task, else it helps the group with the most items left. `group_of` reads the group
    from a node id (("", "") for tests that are no cells). Models that are `alone` stay with one
    worker: a server's limit of requests at once holds per process. A worker holds up to `ahead`
    items, the one that it runs included.
    """

    def __init__(
        self,
        workers: int,
        group_of: Callable[[str], WorkGroup],
        complain: Callable[[str], None],
        alone: Callable[[str], bool] = lambda model: False,
        ahead: int = MIN_PENDING,
    ) -> None:
        self._expected = workers
        self._alone = alone
        self._ahead = ahead
        self._group_of = group_of
        self._complain = complain
        self._collections: dict[Any, list[str]] = {}
        self._pending: dict[Any, list[int]] = {}
        self._group: dict[Any, WorkGroup] = {}
        self._begun: dict[WorkGroup, Any] = {}  # the worker that began it
        self._queues: dict[WorkGroup, deque[int]] = defaultdict(deque)
        self._collection: list[str] = []  # once it is handed out

    @property
    def nodes(self) -> list[Any]:
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        return len(self._collections) >= self._expected

    @property
    def tests_finished(self) -> bool:
        all_held = self.collection_is_completed and not self.waiting
        return all_held and all(len(items) < self._ahead for items in self._pending.values())

    @property
    def has_pending(self) -> bool:
        return self.waiting or any(self._pending.values())

    @property
    def waiting(self) -> bool:
        """Whether items are left that no worker holds."""
        return any(self._queues.values())

    def add_node(self, node: Any) -> None:
        self._pending[node] = []

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        if self._collection and list(collection) != self._collection:
            self._complain(
                f"{node.gateway.id} collected other tests than the workers before it and gets no"
                " work"
            )
            return
        self._collections[node] = list(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self._pending[node].remove(item_index)
        self._feed(node)

    def mark_test_pending(self, item: str) -> None:
        self._give_back([self._collection.index(item)])

    def remove_node(self, node: Any) -> str | None:
        """Forgets a worker; returns the test it crashed in, and gives the tests it had not begun to
        others.
        """
        pending = self._pending.pop(node)
        self._group.pop(node, None)
        if not pending:
            return None
        crashed, *rest = pending
        self._give_back(rest)
        return self._collection[crashed]

    def schedule(self) -> None:
        """Hands out work: all of it at the first call, to new workers at later ones."""
        if not self._collection:
            first, *others = self._collections.values()
            if any(other != first for other in others):
                self._complain("the workers collected different tests; nothing is run")
                for node in self.nodes:
                    node.shutdown()
                return
            self._collection = first
            for index, node_id in enumerate(first):
                self._queues[self._group_of(node_id)].append(index)
        # In turns, so that with few cells each worker gets one before any gets two.
        for _ in range(self._ahead):
            for node in self.nodes:
                self._send(node)
        for node in self.nodes:
            self._feed(node)

    def _give_back(self, indices: Sequence[int]) -> None:
        for index in reversed(indices):
            self._queues[self._group_of(self._collection[index])].appendleft(index)
        for node in self.nodes:
            self._feed(node)

    def _feed(self, node: Any) -> None:
        while len(self._pending[node]) < self._ahead and self._send(node):
            pass
        if self._choose(node) is None and not node.shutting_down:
            node.shutdown()

    def _send(self, node: Any) -> bool:
        """Sends the worker one more item; False where it needs none or none is left."""
        if (
            node.shutting_down
            or node not in self._collections
            or len(self._pending[node]) >= self._ahead
        ):
            return False
        group = self._choose(node)
        if group is None:
            return False
        self._group[node] = group
        # Who helps where forwards are shared takes the last cells, whose samplers differ most from
        # the present ones.
        helps = bool(group[1]) and self._begun.setdefault(group, node) is not node
        index = self._queues[group].pop() if helps else self._queues[group].popleft()
        self._pending[node].append(index)
        node.send_runtest_some([index])
        return True

    def _choose(self, node: Any) -> WorkGroup | None:
        left = {group: len(queue) for group, queue in self._queues.items() if queue}
        own = self._group.get(node)
        if own in left:
            return own
        begun = set(self._group.values())
        models = {model for model, _ in begun}
        left = {
            group: count
            for group, count in left.items()
            if group[0] not in models or not self._alone(group[0])
        }
        free = [group for group in left if group not in begun]
        mine = [group for group in free if own is not None and group[0] == own[0]]
        new = [group for group in free if group[0] not in models]
        return next(iter([*mine, *new, *free]), None) or max(
            left, key=lambda group: left[group], default=None
        )


def group_of(config: pytest.Config, node_id: str) -> WorkGroup:
    """The model of the cell that a node id names, and its task if cells share forwards; empty for
    other tests.
    """
    name = cell_of(config, node_id)
    if name is None:
        return "", ""
    return name.model, name.task if settings(config).sharing and not _served(name.model) else ""


def _served(model: str) -> bool:
    from pbcore.grid.capabilities import is_served  # a project without cells needs none of it

    return is_served(model)


class CellsOrOthers:
    """xdist's own scheduling until the first collection shows that the run has cells; then
    `ours`.
    """

    def __init__(
        self, others: Any, ours: ModelScheduling, has_cells: Callable[[Sequence[str]], bool]
    ) -> None:
        self._inner = others
        self._ours = ours
        self._has_cells = has_cells
        self._decided = False

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        if not self._decided and self._has_cells(collection):
            for known in self._inner.nodes:
                self._ours.add_node(known)
            self._inner = self._ours
        self._decided = True
        self._inner.add_node_collection(node, collection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> CellsOrOthers | None:
    """Ours for plain `-n` and runs with cells; any other --dist is the user's own choice."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScheduling
    from xdist.workermanage import parse_tx_spec_config

    terminal = config.pluginmanager.get_plugin("terminalreporter")
    complain = terminal.write_line if terminal else log
    ours = ModelScheduling(
        len(parse_tx_spec_config(config)), partial(group_of, config), complain, _served
    )
    return CellsOrOthers(
        LoadScheduling(config, log), ours, lambda ids: any(cell_of(config, one) for one in ids)
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Gives each worker a GPU of its own, in turns where there are fewer; a replacement inherits
    its spec.
    """
    for spec, gpu in zip(specs, cycle(visible_gpus(config)), strict=False):
        spec.env["CUDA_VISIBLE_DEVICES"] = gpu


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells the worker whether others compute on its device, which makes its timings inexact."""
    workers = node.workerinput["workercount"]
    devices = len(visible_gpus(node.config)) or 1
    node.workerinput["pbcore_shared"] = workers > devices
    node.workerinput["pbcore_on_device"] = -(-workers // devices)


def visible_gpus(config: pytest.Config) -> list[str]:
    """The GPUs this run may use, as CUDA_VISIBLE_DEVICES names them; none without --gpu."""
    if not settings(config).gpu:
        return []
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return chosen.split(",")
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]
