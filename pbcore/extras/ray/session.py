"""The controller's loop under --ray: cells go to workers on the cluster's nodes; reports and
records come back.

The cell of a worker that died goes to another one. It is an error once it has taken MAX_KILLED
workers with it whose nodes stayed up, or was running on MAX_LOST nodes that went away.
"""

import os
from collections import Counter
from functools import partial
from typing import Any
from warnings import WarningMessage

import pytest
from xdist.workermanage import unserialize_warning_message

from pbcore.base.printable import counted
from pbcore.extras.ray.connect import (
    alive,
    cause_of,
    facts,
    fitting,
    node_name,
    size_of,
    the_ray,
)
from pbcore.extras.ray.options import RayOptions
from pbcore.extras.ray.pool import Pool, Remote, cells_by_gpus, crowded
from pbcore.extras.ray.worker import Begun, Done, Refused, Worker, for_workers
from pbcore.grid.capabilities import is_served
from pbcore.plugin import progress, run_lifecycle
from pbcore.plugin.nodes import cell_of
from pbcore.plugin.rundir import run_dir
from pbcore.plugin.scheduling import group_of
from pbcore.plugin.state import say, settings

MAX_KILLED = 2
MAX_LOST = 5
FETCH = 120.0  # seconds for a result that is ready to arrive, before its node counts as lost
GRACE = 20.0  # seconds for the last workers' fixtures to clean up
DIED = "worker process has died"  # Ray's words for a worker that died on a node that is up
PATIENCE = 30.0  # seconds without any worker, until that is said


class Cluster:
    """The plugin of the controller: it collects as ever, and its loop runs no test itself."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ray = the_ray()
        self._options = settings(config).part(RayOptions)
        # Ray's reference → whose call, which method
        self._calls: dict[Any, tuple[Remote, str]] = {}
        self._open: dict[str, pytest.Item] = {}  # node id → item, of all that are not reported yet
        self._before: dict[str, str] = {}  # cell id → its record of an earlier run
        self._killed: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._stillborn = 0  # workers that died before they began, since the last finished cell
        self._nodes: set[str] = set()
        self._room: dict[str, int] = {}  # node → how many workers without a GPU it can hold
        self._places: dict[str, str] = {}
        self._workers: list[Remote] = []
        self._notes: list[str] = []
        self._quiet = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Raises pytest.UsageError for models behind servers: their answers and bills are kept on
        one machine.
        """
        models = set()
        for item in session.items:
            cell = cell_of(self._config, item.nodeid)
            if cell is not None:
                models.add(cell.model)
        served = sorted(filter(is_served, models))
        if served:
            raise pytest.UsageError(
                f"--ray: {', '.join(served)} answers behind a server; run it without --ray"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Raises pytest.UsageError if no node can hold a worker, or workers can't begin."""
        errors = session.testsfailed and not self._config.option.continue_on_collection_errors
        if errors or not session.items:
            return None  # pytest says so
        self._open = {item.nodeid: item for item in session.items}
        self._before = _stored(self._config)
        shown = self._config.pluginmanager.get_plugin(progress.NAME)
        if shown is not None:
            shown.places = self._places
        try:
            self._begin()
            while self._open and not session.shouldfail and not session.shouldstop:
                self._step()
            # -x: what has begun is finished.
            while any(worker.running for worker, _ in self._calls.values()):
                self._step(more=False)
            ends = [reference for reference, (_, stage) in self._calls.items() if stage == "end"]
            if ends:  # the last workers' fixtures clean up
                self._ray.wait(ends, num_returns=len(ends), timeout=GRACE)
        finally:
            for worker in self._workers:
                self._ray.kill(worker.actor)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Where the cells ran, and what was run again."""
        if not self._workers:
            return
        terminalreporter.write_sep("=", "Ray")
        for node in sorted({worker.node for worker in self._workers} - {""}):
            there = [worker.cells for worker in self._workers if worker.node == node]
            terminalreporter.write_line(
                f"{node}: {counted(len(there), 'worker')}, {counted(sum(there), 'cell')}"
            )
        for note in self._notes:
            terminalreporter.write_line(note)

    # What the scheduler asks for

    def _call(self, worker: Remote, *arguments: Any, stage: str) -> None:
        """Calls a method of the worker's actor; the loop takes its result."""
        self._calls[getattr(worker.actor, stage).remote(*arguments)] = worker, stage

    def _send(self, worker: Remote, node_id: str) -> None:
        """Has the worker run a cell."""
        item = self._open[node_id]
        name = cell_of(self._config, node_id)
        if worker.pool.gpus:
            shared = worker.pool.gpus % 1 > 0
        else:
            others = [other for other, _ in self._calls.values()]
            shared = crowded(worker, others, self._room[worker.node])
        worker.running = node_id
        self._places[node_id] = f"{worker.id}@{worker.node} ({worker.cells}) "
        self._config.hook.pytest_runtest_logstart(nodeid=node_id, location=item.location)
        stored = None if name is None else self._before.get(name.cell_id)
        self._call(worker, node_id, stored, shared, stage="run")

    # The loop

    def _begin(self) -> None:
        """Asks Ray for the workers; it places them as there is room."""
        requested = self._options
        nodes = alive()
        for gpus, ids in cells_by_gpus(self._config, list(self._open)).items():
            room = sum(fitting(nodes, requested.ray_cpus, gpus).values())
            if not room and not requested.ray_workers:
                has = "; ".join(
                    f"{node_name(node)} has {size_of(node['Resources'])}" for node in nodes
                )
                size = size_of({"CPU": requested.ray_cpus, "GPU": gpus})
                raise pytest.UsageError(f"--ray: no node can hold a worker of {size}: {has}")
            pool = Pool(
                gpus,
                ids,
                partial(group_of, self._config),
                self._send,
                partial(self._call, stage="end"),
            )
            for _ in range(min(len(ids), requested.ray_workers or room)):
                self._add_worker(pool)
        # How many workers may die before their first cell.
        self._patience = max(8, len(self._workers))

    def _add_worker(self, pool: Pool) -> None:
        name = f"ray{len(self._workers)}"
        cpus = self._options.ray_cpus
        actor = self._ray.remote(Worker).options(num_cpus=cpus, num_gpus=pool.gpus, max_restarts=0)
        worker = Remote(name, pool, actor.remote(), self._config)
        self._workers.append(worker)
        root = self._config.rootpath
        invocation = self._config.invocation_params
        folder = os.path.relpath(invocation.dir, root)
        arguments = for_workers([str(argument) for argument in invocation.args])
        gpu = settings(self._config).gpu
        self._call(worker, name, str(root), folder, arguments, facts(), gpu, stage="begin")

    def _step(self, more: bool = True) -> None:
        """Takes what has come back, and hands out `more`."""
        ready, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=1.0)
        if any(worker.node for worker, _ in self._calls.values()):
            self._quiet = 0.0
        elif not ready:
            self._quiet += 1.0
        if self._quiet == PATIENCE:
            say(
                self._config,
                "waiting for a node with room for a worker; `ray status` shows what the"
                " cluster has",
            )
        for reference in ready:
            worker, stage = self._calls.pop(reference)
            try:
                result = self._ray.get(reference, timeout=FETCH)
            except self._ray.exceptions.RayError as error:
                self._failed(worker, stage, error, more)
                continue
            if stage == "begin":
                self._meet(worker, result)
                if more:
                    worker.pool.welcome(worker)
            elif stage == "run":
                self._finished(worker, result, more)
            else:
                self._ray.kill(worker.actor)

    def _meet(self, worker: Remote, begun: Begun) -> None:
        """Keeps what a worker says of itself; what timings on its node depend on goes to run.json.
        Raises pytest.UsageError if it collected other tests.
        """
        worker.node = begun.node
        if worker.node not in self._room:
            nodes = alive()
            fit = fitting(nodes, self._options.ray_cpus, 0)
            self._room = {worker.node: 1}
            for node in nodes:
                self._room[node_name(node)] = fit.get(node["NodeID"], 0)
        missing = set(worker.pool.ids) - set(begun.collected)
        if missing:
            raise pytest.UsageError(
                f"--ray: {worker.id} on {worker.node} lacks {min(missing)} "
                f"({counted(len(missing), 'missing test')}); do all nodes read the same files?"
            )
        run = run_dir(self._config)
        if worker.node not in self._nodes and (run.path / "run.json").is_file():
            self._nodes.add(worker.node)
            facts_of_run = run.read_run()
            machines = {**facts_of_run.get("nodes", {}), worker.node: begun.machine}
            run.write_run({**facts_of_run, "nodes": machines})

    def _finished(self, worker: Remote, done: Done, more: bool) -> None:
        node_id = str(worker.running)
        worker.running = None
        self._stillborn = 0
        worker.cells += 1
        unwritten = self._write(node_id, done.record)
        for warning in done.warnings:
            facts = {**warning, "warning_message": warning_of(warning["warning_message"])}
            self._config.hook.pytest_warning_recorded.call_historic(kwargs=facts)
        for data in done.reports:
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=data
            )
            if unwritten and report.when == "call":
                report.outcome = "failed"
                report.longrepr = unwritten
                report.user_properties.append(("pbcore_unwritten", unwritten))
            report.node = worker
            self._config.hook.pytest_runtest_logreport(report=report)
        self._close(node_id)
        if more:
            worker.pool.done(worker, node_id)

    def _write(self, node_id: str, record: str | None) -> str:
        """Writes the record of a cell to this run's directory; returns why it can't be written, if
        it can't.
        """
        from pbcore.results.rundir import parse_cell

        name = cell_of(self._config, node_id)
        if record is None or name is None or record == self._before.get(name.cell_id):
            return ""
        stored = parse_cell(record, f"the record of {name.cell_id} from a worker")
        try:
            run_dir(self._config).write_cell(stored.cell, stored.samples)
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def _close(self, node_id: str) -> None:
        item = self._open.pop(node_id)
        self._places.pop(node_id, None)
        self._config.hook.pytest_runtest_logfinish(nodeid=node_id, location=item.location)

    # Workers that die

    def _failed(self, worker: Remote, stage: str, error: Exception, more: bool) -> None:
        """A worker is gone: its cell runs again elsewhere, or is recorded as an error."""
        self._ray.kill(worker.actor)
        if stage == "end":
            return
        cause = cause_of(error)
        if stage == "begin":
            self._stillborn += 1
            self._notes.append(f"{worker.id} could not begin: {cause}")
            workers = [other for other, _ in self._calls.values()]
            others = any(other.node and other.pool is worker.pool for other in workers)
            refused = isinstance(error, Refused)
            if (refused and not others) or self._stillborn > self._patience:
                raise pytest.UsageError(f"--ray: {self._notes[-1]}")
            if refused:
                return
        node_id = worker.running
        worker.running = None
        if worker in worker.pool.nodes:
            worker.pool.remove_node(worker)
        if node_id is not None:
            # A worker that died while its node was up, or whose pytest ended; whatever else it was,
            # the node was lost.
            killed = DIED in cause or isinstance(error, self._ray.exceptions.RayTaskError)
            deaths = self._killed if killed else self._lost
            deaths[node_id] += 1
            self._run_again(worker, node_id, cause, killed, more)
        if more and worker.pool.waiting:
            self._add_worker(worker.pool)

    def _run_again(
        self, worker: Remote, node_id: str, cause: str, killed: bool, more: bool
    ) -> None:
        """Has a cell whose worker is gone run again, or records it as an error after too many."""
        end = "died" if killed else "went away with its node"
        what = f"{node_id}: {worker.id} on {worker.node} {end}"
        if self._killed[node_id] >= MAX_KILLED or self._lost[node_id] >= MAX_LOST:
            times = f"{self._killed[node_id] + self._lost[node_id]} times while running this cell"
            cause = f"its worker died {times}, last on {worker.node}: {cause}"
            outcome: Any = self._config.pluginmanager.get_plugin(run_lifecycle.NAME)
            outcome.crashed(node_id, cause)
            report = pytest.TestReport(
                node_id, self._open[node_id].location, {}, "failed", cause, "call"
            )
            vars(report)["node"] = worker
            self._config.hook.pytest_runtest_logreport(report=report)
            self._close(node_id)
        elif more:
            say(self._config, f"{what}; the cell runs again")
            self._notes.append(f"run again: {what}")
            worker.pool.mark_test_pending(node_id)


def warning_of(data: dict[str, Any]) -> WarningMessage:
    """The warning of a worker; a UserWarning that names the class where that can't be had here."""
    try:
        warning: WarningMessage = unserialize_warning_message(data)
        return warning
    except Exception:  # noqa: BLE001  importing another's module, or making its warning, can raise anything
        text = f"{data['category_module']}.{data['category_class_name']}: {data['message_str']}"
        return WarningMessage(UserWarning(text), UserWarning, data["filename"], data["lineno"])


def _stored(config: pytest.Config) -> dict[str, str]:
    """Cell id → the text of its record, of the cells that a resumed run had finished."""
    if settings(config).resume is None:
        return {}
    from pbcore.results.resume import finished
    from pbcore.results.rundir import cell_file

    run = run_dir(config)
    return {
        cell_id: (run.cells_dir / cell_file(cell_id)).read_text(encoding="utf-8")
        for cell_id in finished(run.path)
    }
