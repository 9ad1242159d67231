"""What runs on a node: an actor that holds one pytest session, whose cells the controller sends one
by one.

The session runs in a thread and is an ordinary one but for its loop, so a cell goes through the
same hooks, fixtures and clock as in a run without a cluster. `workerinput` marks it as a worker, as
xdist does: it writes no reports, its run directory is a temporary one, and what it finds goes home
as report data and record text.
"""

import io
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr
from itertools import pairwise
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from xdist.remote import serialize_warning_message

if TYPE_CHECKING:
    from pbcore.results.environment import Machine

# Ray imports this module before pytest could rewrite the package's assertions, of which it has none
# to rewrite.
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


class Refused(RuntimeError):
    """Why no worker can run cells here; another one on the same node would say the same."""


class Begun(NamedTuple):
    """A worker that has collected: the name of its node, its tests, and what timings there depend
    on.
    """

    node: str
    collected: list[str]
    machine: "Machine"


class Done(NamedTuple):
    """What came of a cell: reports and warnings as plain data, and the text of the record, if there
    is one.
    """

    reports: list[dict[str, Any]]
    record: str | None
    warnings: list[dict[str, Any]]


class Worker:
    """The actor, and the plugin that makes its pytest session take cells from a queue. `begin`,
    `run` and `end` are the controller's calls; `begin` comes first.
    """

    def __init__(self) -> None:
        self._orders: Queue[tuple[str, str | None, bool] | None] = Queue()
        # A text is what an ended session said last.
        self._results: Queue[list[str] | Done | str] = Queue()
        self._errors: list[str] = []
        self._done = Done([], None, [])

    def begin(
        self,
        name: str,
        root: str,
        folder: str,
        arguments: Sequence[str],
        here: dict[str, str],
        gpu: bool,
    ) -> Begun:
        """Starts pytest on the node and collects.

        Args:
            name: the worker's, as in reports (`ray0`).
            root: pytest's root directory on the controller; its copy is the current directory here.
            folder: where pytest was called, relative to `root`.
            arguments: pytest's command line on the controller.
            here: the controller's versions by package.
            gpu: True if the worker has reserved a GPU.

        Returns:
            The node, the ids of the collected cells and the machine.

        Raises:
            Refused: for other versions than the controller's, a failed collection, and a missing
                GPU.
        """
        from pbcore.extras.ray.connect import facts, node_differences, this_node
        from pbcore.results.environment import machine

        where = this_node()
        copy = os.getcwd()
        different = node_differences(here, {where: facts()})
        if different:
            raise Refused(different)
        os.chdir(os.path.join(copy, folder))
        temporary = tempfile.mkdtemp(prefix="pbcore-")
        self._temporary = temporary
        (Path(temporary) / "run" / "cells").mkdir(parents=True)
        self._workerinput: dict[str, Any] = {
            "workerid": f"{name}@{where}",
            "workercount": 1,
            "pbcore_run": f"{temporary}/run",
            "pbcore_shared": False,
        }
        options = [
            f"--rootdir={copy}",
            f"--basetemp={temporary}/tmp",
            "-o",
            f"cache_dir={temporary}/cache",
            *QUIET,
        ]
        there = [moved(argument, root, copy) for argument in arguments]
        threading.Thread(target=self._run_pytest, args=([*there, *options],), daemon=True).start()
        collected = self._results.get()
        if not isinstance(collected, list):
            raise Refused(f"{where}: {collected}")
        has = machine(gpu)
        if gpu and not has["gpus"]:
            raise Refused(f"{where}: --gpu, and torch sees no usable GPU in a worker there")
        return Begun(where, collected, has)

    def run(self, node_id: str, stored: str | None, shared: bool) -> Done:
        """Runs a cell.

        Args:
            node_id: pytest's id of the cell.
            stored: the text of the cell's record from an earlier run; None without one.
            shared: True if other workers compute on the same node meanwhile.

        Returns:
            Reports, warnings and the cell's record.

        Raises:
            RuntimeError: if the session has ended.
        """
        self._orders.put((node_id, stored, shared))
        result = self._results.get()
        if not isinstance(result, Done):
            raise RuntimeError(f"pytest ended on the worker: {result}")
        return result

    def end(self) -> None:
        """Ends the session, so that its fixtures clean up."""
        self._orders.put(None)
        self._results.get()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _run_pytest(self, arguments: list[str]) -> None:
        with redirect_stderr(io.StringIO()) as said:
            code = pytest.main(arguments, plugins=[self])
        last = "\n".join([*self._errors, said.getvalue()]).strip()
        self._results.put(last or f"its pytest session ended with exit code {int(code)}")

    def _run_item(self, item: pytest.Item, stored: str | None, shared: bool) -> Done:
        from pbcore.plugin.nodes import cell_name
        from pbcore.plugin.rundir import remember, run_dir
        from pbcore.results.rundir import cell_file, parse_cell, write_atomic

        self._workerinput["pbcore_shared"] = shared
        self._done = Done([], None, [])
        name = cell_name(item)
        file = None if name is None else run_dir(item.config).cells_dir / cell_file(name.cell_id)
        if file is not None and stored is not None:  # --resume finds it here
            write_atomic(file, stored)
            remember(item.config, parse_cell(stored, str(file)))
        # Which item is next nobody knows: all but the session's own fixtures, such as the model,
        # are torn down.
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=item.session)
        record = file.read_text(encoding="utf-8") if file is not None and file.is_file() else None
        return self._done._replace(record=record)

    def pytest_plugin_registered(self, plugin: object) -> None:
        if isinstance(plugin, pytest.Config):
            self._config = plugin
            vars(plugin)["workerinput"] = self._workerinput

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # pytest says how many errors there are
        items = {item.nodeid: item for item in session.items}
        self._results.put(list(items))
        while (order := self._orders.get()) is not None:
            node_id, stored, shared = order
            self._results.put(self._run_item(items[node_id], stored, shared))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._done.reports.append(
            self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._errors.append(report.longreprtext)

    def pytest_internalerror(self, excrepr: object) -> None:
        self._errors.append(str(excrepr))

    def pytest_warning_recorded(
        self, warning_message: Any, when: str, nodeid: str, location: Any
    ) -> None:
        facts = {"warning_message": serialize_warning_message(warning_message)}
        self._done.warnings.append({**facts, "when": when, "nodeid": nodeid, "location": location})


def moved(argument: str, root: str, copy: str) -> str:
    """An argument whose paths in the folder `root`, and no others, lead into its copy."""
    place = rf"(?<![\w./-]){re.escape(root)}(?=[/:,]|$)"
    return re.sub(place, lambda _: copy, argument)


def for_workers(arguments: Sequence[str]) -> list[str]:
    """The arguments without the file of --benchmark-json, which every pytest opens that reads
    them.
    """
    file = "--benchmark-json"
    kept = []
    for before, argument in pairwise(["", *arguments]):
        if before != file and not argument.startswith(file):
            kept.append(argument)
    return kept
