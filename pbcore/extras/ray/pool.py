"""The workers of one size, as the scheduler sees them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from pbcore.extras.ray.options import RayOptions
from pbcore.grid.cellid import CellName
from pbcore.plugin.nodes import cell_of
from pbcore.plugin.scheduling import ModelScheduling, WorkGroup
from pbcore.plugin.state import plan, settings


@dataclass(eq=False)
class Remote:
    """A worker with xdist's interface, for the scheduler and for pytest's reporters, and what it is
    doing.
    """

    id: str
    pool: Pool
    actor: Any
    config: pytest.Config
    node: str = ""  # where it runs, once it has begun
    running: str | None = None  # node id of its cell
    cells: int = 0
    shutting_down: bool = False

    @property
    def gateway(self) -> Remote:
        return self

    @property
    def workerinfo(self) -> dict[str, Any]:
        """What pytest prints above a failure. Python is the same on all nodes."""
        where = {"id": self.id, "sysplatform": sys.platform, "executable": f"on {self.node}"}
        return {**where, "version_info": sys.version_info}

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.pool.send(self, self.pool.ids[index])

    def shutdown(self) -> None:
        self.shutting_down = True
        self.pool.end(self)


def crowded(worker: Remote, others: Iterable[Remote], room: int) -> bool:
    """Whether others compute on the worker's node, or may before its cell ends.

    Args:
        worker: the one that gets the cell.
        others: all workers; those that have not begun have no node yet.
        room: how many workers the node can hold.
    """
    nodes = [other.node for other in others if other is not worker]
    here = 1 + nodes.count(worker.node)
    return min(here + nodes.count(""), max(here, room)) > 1


class Pool(ModelScheduling):
    """The cells that need workers with `gpus` GPUs, in the order in which they are handed out.
    `send` has a worker run a cell, `end` ends its session.
    """

    def __init__(
        self,
        gpus: float,
        ids: list[str],
        group_of: Callable[[str], WorkGroup],
        send: Callable[[Remote, str], None],
        end: Callable[[Remote], None],
    ) -> None:
        # All have the collection of the controller, so that there is nothing to complain of.
        super().__init__(1, group_of, lambda complaint: None, ahead=1)
        self.gpus = gpus
        self.ids = ids
        self.send = send
        self.end = end

    def welcome(self, worker: Remote) -> None:
        """Gives a worker that has begun its first cell."""
        self.add_node(worker)
        self.add_node_collection(worker, self.ids)
        self.schedule()

    def done(self, worker: Remote, node_id: str) -> None:
        """The worker has run a cell and gets the next."""
        self.mark_test_complete(worker, self.ids.index(node_id))


def cells_by_gpus(config: pytest.Config, node_ids: Sequence[str]) -> dict[float, list[str]]:
    """GPUs of a worker → the cells that need as many, the biggest workers first. Cells that can
    take longest come first, since the run ends with its last cell; where cells share forwards they
    keep their order, in which neighbours share most.
    """
    from pbcore.grid.cost import weights

    cells = {node_id: cell_of(config, node_id) for node_id in node_ids}
    if not settings(config).sharing and any(cells.values()):
        weight = weights(plan(config), attrgetter("high"))
        cost = {node_id: 0.0 if name is None else weight(name) for node_id, name in cells.items()}
        cells = dict(sorted(cells.items(), key=lambda pair: -cost[pair[0]]))
    pools: dict[float, list[str]] = {}
    for node_id, name in cells.items():
        pools.setdefault(needed(config, name), []).append(node_id)
    return dict(sorted(pools.items(), reverse=True))


def needed(config: pytest.Config, name: CellName | None) -> float:
    """GPUs that a worker needs for a cell: what the options say, or the model's own number if that
    is more.
    """
    from pbcore.models import resolve_model

    least = settings(config).part(RayOptions).gpus(settings(config).gpu)
    if name is None or not least:
        return least
    return max(least, float(resolve_model(name.model).gpus))
