"""The runs of a folder, as `pbcore view` lists them: when each began, what it measures, its verdict
and how many of its cells are done. Nothing is read but run.json, the names of the cells' files and
the head of each page.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from pathlib import Path

from pbcore.base.check import LoadError
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable
from pbcore.base.text import name
from pbcore.results.lock import is_held
from pbcore.results.rundir import BEGUN, RunDir, RunFacts

FILE = "report.html"
HEAD = 20_000  # characters of a page that hold what it says of itself
VERDICTS = 3  # lines of a run
_META = re.compile(r'<meta name="(\w+)" content="([^"]*)">')


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run of a folder: `name` is that of its directory, `state` says whether it is `running`,
    was `stopped` before its last cell, or is `finished`; `total` is None where it isn't known.
    """

    name: str
    when: str
    what: str
    verdicts: tuple[str, ...]
    done: int
    total: int | None
    state: str

    @property
    def cells(self) -> str:
        """`100 of 213`."""
        if self.total is None:
            return f"{self.done:,}"
        return f"{self.done:,} of {self.total:,}"


def list_runs(folder: Path) -> list[ListedRun]:
    """The runs of a folder, newest first. Raises InputError if there is none."""
    paths = []
    for path in folder.glob("*"):
        begun = (path / "cells").is_dir() or any((path / file).exists() for file in BEGUN)
        if path.is_dir() and begun:
            paths.append(path)
    if not paths:
        raise InputError(
            f"{folder} holds no run directory; run pytest benches, or give one: pbcore view RUN"
        )
    listed = [(_began(path), path.name, path) for path in paths]
    return [_listed(path, began) for began, _, path in sorted(listed, reverse=True)]


def _began(path: Path) -> float:
    """When a run began, in seconds since 1970; the time of its folder where it doesn't say."""
    try:
        return datetime.fromisoformat(_facts(path).get("started") or "").timestamp()
    except ValueError:
        return path.stat().st_mtime


def _facts(path: Path) -> RunFacts:
    try:
        return RunDir(path).read_run()
    except (LoadError, OSError):
        return RunFacts()


def _listed(path: Path, began: float) -> ListedRun:
    facts = _facts(path)
    head = head_of(path / FILE)
    done = cell_count(path)
    planned = facts.get("planned") or {}
    total = planned.get("cells")
    whole = total if isinstance(total, int) else None
    if is_held(path):
        state = "running"
    elif not head or (whole is not None and done < whole):
        state = "stopped"
    else:
        state = "finished"
        whole = done if whole is None else whole
    return ListedRun(
        name=path.name,
        when=f"{datetime.fromtimestamp(began):%Y-%m-%d %H:%M}",
        what=_what(planned) or "".join(head.get("measured", [])),
        verdicts=tuple(head.get("verdict", [])[:VERDICTS]),
        done=done,
        total=whole,
        state=state,
    )


def _what(planned: Mapping[str, object]) -> str:
    """What a run measures, as the heading of its page says it; empty where it isn't known."""
    models = planned.get("models")
    samplers = planned.get("samplers")
    tasks = planned.get("tasks")
    if not (isinstance(models, list) and isinstance(samplers, int) and isinstance(tasks, int)):
        return ""
    return grid_text(list(map(str, models)), samplers, tasks)


def grid_text(models: list[str], samplers: int, tasks: int) -> str:
    """`ideal and tiny · 8 samplers · 21 tasks`; of many models the first five."""
    *first, last = [name(model) for model in models[:5]]
    if len(models) > 5:
        first, last = [*first, last], f"{len(models) - 5} more"
    named = f"{', '.join(first)} and {last}" if first else last
    return f"{named} · {counted(samplers, 'sampler')} · {counted(tasks, 'task')}"


def head_of(file: Path) -> dict[str, list[str]]:
    """What a page says of itself in its head, by name; empty for a file that isn't there."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            text = stream.read(HEAD)
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for key, content in _META.findall(text.partition("<style>")[0]):
        found.setdefault(key, []).append(printable(unescape(content), 300))
    return found


def cell_count(run: Path) -> int:
    """How many cells of a run are done."""
    return sum(1 for _ in (run / "cells").glob("*.json"))


def cells_state(run: Path) -> tuple[int, float]:
    """What changes when a cell of a run is done or measured again, or its page is made anew: their
    number, and when the last one was written.
    """
    files = [*(run / "cells").glob("*.json"), *run.glob(FILE)]
    return len(files), max((file.stat().st_mtime for file in files), default=0.0)
