"""--gate-time: seconds judged against a run directory of the same machine, or, with --against, interleaved with the
base's code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pbcore.gates.timing.interleaved import BaseError, NotTimed, Side, checkout, interleaved, sides
from pbcore.gates.timing.verdict import LEAST_ROUNDS, TimingVerdict, judge_timing
from pbcore.grid.plan import Plan
from pbcore.grid.settings import Settings
from pbcore.printable import counted
from pbcore.text import listed

if TYPE_CHECKING:
    from pbcore.results.record import CellRecord
    from pbcore.results.rundir import RunDir


@dataclass(slots=True)
class Timings:
    """The verdicts against one base by cell; `silent`: why nothing was judged at all."""

    base: str
    verdicts: dict[str, TimingVerdict] = field(default_factory=dict)
    silent: str = ""

    @property
    def slower(self) -> list[tuple[str, str]]:
        """(cell, reason) of the cells that fail."""
        return [(name, verdict.reason) for name, verdict in self.verdicts.items() if not verdict.ok]

    def lines(self) -> Iterator[str]:
        """For the screen: the verdict, the slower cells, and why others were not judged."""
        if self.silent:
            yield f"timing not judged against {self.base}: {self.silent}"
            return
        ratios = [verdict.ratio for verdict in self.verdicts.values() if verdict.ratio is not None]
        if ratios:
            change = f"median change {100 * (median(ratios) - 1):+.1f} %"
            outcome = "FAILED" if self.slower else "passed"
            counts = f"{counted(len(ratios), 'cell')} judged, {len(self.slower)} slower"
            yield f"timing {outcome} against {self.base}: {counts}, {change}"
        else:
            yield f"timing against {self.base}:"
        yield from listed([f"  SLOWER   {name}: {reason}" for name, reason in self.slower])
        reasons: dict[str, list[str]] = {}
        for name, verdict in self.verdicts.items():
            if not verdict.judged:
                reasons.setdefault(verdict.reason, []).append(name)
        for reason, cells in reasons.items():
            yield f"  {counted(len(cells), 'cell')} ({cells[0]}{' …' if len(cells) > 1 else ''}): {reason}"

    def markdown(self) -> str:
        """The same as a section of gate.md."""
        title, *rest = self.lines()
        return "\n".join([f"### {title}", "", *(f"- {line.strip()}" for line in rest)]).rstrip() + "\n"


def against_run(settings: Settings, run: RunDir, path: Path) -> Timings:
    """The run's rounds against those of an earlier run; a file of --update-baseline has none, for they hold on one
    machine only.
    """
    from pbcore.results.rundir import open_run

    assert settings.gate_time is not None
    if not path.is_dir():
        return Timings(str(path), silent="it holds no timings; give a run directory of this machine, or --against REV")
    earlier = open_run(path)
    base = {entry.cell.id: entry.cell for entry in earlier.read_cells() if entry.cell.status == "ok"}
    machines = [one.read_run().get("machine", {}) for one in (run, earlier)]
    timings = Timings(str(path))
    for cell in (entry.cell for entry in run.read_cells() if entry.cell.status == "ok" and entry.cell.id in base):
        timings.verdicts[cell.id] = judge_timing(
            cell.rounds,
            base[cell.id].rounds,
            settings.gate_time,
            head_machine=machines[0],
            base_machine=machines[1],
            shared=bool(cell.conditions.shared_device or base[cell.id].conditions.shared_device),
        )
    return timings


def against_code(plan: Plan, run: RunDir, gated: Collection[str] | None, say: Callable[[str], None]) -> Timings:
    """Cells of the run (those in `gated`, if given) decoded again by this code and the base's, interleaved, with
    nothing else running.

    The rounds of the run itself don't count: they were not interleaved.
    """
    settings, timings = plan.settings, Timings(f"{plan.settings.against}, interleaved")
    stored = [entry.cell for entry in run.read_cells() if entry.cell.status == "ok"]
    cells = [cell for cell in stored if gated is None or cell.id in gated]
    rounds = max(settings.rounds, LEAST_ROUNDS)
    machine = run.read_run().get("machine", {})
    assert settings.against is not None
    try:
        with checkout(settings.against) as folder, sides(folder) as (head, base):
            for number, cell in enumerate(sorted(cells, key=lambda cell: cell.model), 1):
                if cell.served is not None:
                    timings.verdicts[cell.id] = TimingVerdict(
                        False, True, "timing not judged: a server would be asked, and paid, again"
                    )
                    continue
                say(f"timing interleaved with {settings.against}: cell {number} of {len(cells)}, {cell.id}")
                timings.verdicts[cell.id] = _interleaved(head, base, job(plan, cell), rounds, settings, machine)
    except BaseError as error:
        timings.silent = str(error)
    if not cells:
        timings.silent = "the run has no finished cell that is gated"
    return timings


def _interleaved(
    head: Side, base: Side, task: dict[str, Any], rounds: int, settings: Settings, machine: Any
) -> TimingVerdict:

    assert settings.gate_time is not None
    try:
        seconds = interleaved(head, base, task, rounds)
    except NotTimed as error:
        return TimingVerdict(False, True, f"timing not judged: {error}")
    return judge_timing(*seconds, settings.gate_time, head_machine=machine, base_machine=machine)


def job(plan: Plan, cell: CellRecord) -> dict[str, Any]:
    """A cell as a job for a timing process: options of pbcore's public functions, the same for both sides."""
    settings = plan.settings
    return {
        "model": {"name": cell.model, "device": settings.place, "dtype": settings.dtype, **settings.load_options},
        "task": {
            "files": [str(file.absolute()) for file in settings.tasks],
            "name": cell.task,
            "data_dir": None if settings.data_dir is None else str(settings.data_dir.absolute()),
            "n": plan.lengths(cell.task),
            "limit": plan.limit(cell.model),
            "seed": settings.data_seed,
            **plan.asked(cell.task),
        },
        "sampler": cell.sampler,
        "seed": settings.seed[0],
        "batch_size": settings.rows,
    }


def judge_time(
    plan: Plan, run: RunDir, complete: bool, gated: Collection[str] | None, say: Callable[[str], None]
) -> Sequence[Timings]:
    """The timings against each base that was given: the code of --against, else each --gate."""
    settings = plan.settings
    if settings.against is None:
        return [against_run(settings, run, path) for path in settings.gate]
    if not complete:
        return [Timings(settings.against, silent="the run is not complete")]
    return [against_code(plan, run, gated, say)]
