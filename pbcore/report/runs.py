"""The runs in and below a folder, as `pbcore view` lists them: when each began, what it measures
with which samplers, its verdict and gate, and how many of its cells are done. Nothing is read but
run.json, the names of the cells' files and the head of each page. And the lines that lead to a
run's page.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from pathlib import Path

from pbcore.base.check import LoadError
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, from_here, printable, program, some
from pbcore.base.text import name
from pbcore.results.lock import is_held
from pbcore.results.rundir import BEGUN, RunDir, RunFacts

FILE = "report.html"
HEAD = 20_000  # characters of a page that hold what it says of itself
VERDICTS = 3  # lines of a run
SAMPLERS = 8  # of a run, named
_META = re.compile(r'<meta name="(\w+)" content="([^"]*)">')


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run of a folder: `name` is the path of its directory from there, `state` says whether it is
    `running`, was `stopped` before its last cell, or is `finished`; `total` is None where it isn't
    known. `gate` is the first line of each verdict of its gates, `failed` whether one failed.
    """

    name: str
    when: str
    what: str
    samplers: str
    verdicts: tuple[str, ...]
    gate: tuple[str, ...]
    failed: bool
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
    """The runs in a folder and those below it, newest first. Raises InputError if there is none."""
    paths = list(runs_below(folder))
    if not paths:
        raise InputError(
            f"{folder} holds no run directory; run pytest benches, or give one: pbcore view RUN"
        )
    listed = [(_began(path), path.relative_to(folder).as_posix(), path) for path in paths]
    return [_listed(path, name, began) for began, name, path in sorted(listed, reverse=True)]


def is_run(path: Path) -> bool:
    """Whether a folder is a run directory, also one whose run has no cell yet."""
    if not path.is_dir():
        return False
    return (path / "cells").is_dir() or any((path / file).exists() for file in BEGUN)


def runs_below(folder: Path) -> Iterator[Path]:
    """The run directories in a folder and in those below it; nothing is looked for within a run,
    in hidden folders, and behind links that aren't runs themselves.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = folder / entry.name
        if is_run(path):
            yield path
        elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from runs_below(path)


def page_lines(run: Path, page: Path) -> list[str]:
    """Where a run's page is, and the command that opens it, as a command's last lines."""
    return [
        f"page: {from_here(page)}",
        f"  or: {program('pbcore')} view {shlex.quote(str(from_here(run)))}",
    ]


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


def _listed(path: Path, name: str, began: float) -> ListedRun:
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
        name=name,
        when=f"{datetime.fromtimestamp(began):%Y-%m-%d %H:%M}",
        what=_what(planned) or "".join(head.get("measured", [])),
        samplers=_samplers(planned, head),
        verdicts=tuple(head.get("verdict", [])[:VERDICTS]),
        gate=_gate(facts),
        failed=bool(facts.get("gate_failed")),
        done=done,
        total=whole,
        state=state,
    )


def _gate(facts: RunFacts) -> tuple[str, ...]:
    """The first line of each verdict of a run's gates; what is indented are its cells."""
    lines = [verdict.partition("\n")[0] for verdict in facts.get("gate") or []]
    return tuple(line for line in lines if line[:1].strip())


def _samplers(planned: Mapping[str, object], head: Mapping[str, list[str]]) -> str:
    """The names of a run's samplers: those that it plans, else those of its page."""
    names = planned.get("sampler_names")
    if not isinstance(names, list):
        names = head.get("sampler", [])
    return some([name(sampler) for sampler in sorted(map(str, names))], SAMPLERS)


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
