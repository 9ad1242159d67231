"""--gate-time: seconds judged against a run of the same machine, or, with --against, interleaved
with the base's code. Fails a slow-down only between comparable measurements, and otherwise says why
it did not judge.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pbcore.analysis.timing.alike import timed_otherwise
from pbcore.analysis.timing.interleaved import BaseError, NotTimed, checkout, interleaved, sides
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.base.text import first_lines
from pbcore.grid.plan import Plan
from pbcore.grid.settings import Settings
from pbcore.results.environment import Machine
from pbcore.results.record import CellRecord
from pbcore.results.rundir import StoredRun, open_run

LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class TimingVerdict:
    """`ratio`: median head / median base seconds; None: they are not comparable, `reason` says
    why.
    """

    ok: bool
    reason: str
    ratio: float | None = None

    @property
    def judged(self) -> bool:
        return self.ratio is not None


def _unjudged(reason: str) -> TimingVerdict:
    return TimingVerdict(True, f"timing not judged: {reason}")


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
            outcome = "FAILED" if self.slower else "passed"
            change = f"{len(self.slower)} slower, median change {100 * (median(ratios) - 1):+.1f} %"
            yield (
                f"timing {outcome} against {self.base}: {counted(len(ratios), 'cell')} judged,"
                f" {change}"
            )
        else:
            yield f"timing against {self.base}:"
        yield from first_lines([f"  SLOWER   {name}: {reason}" for name, reason in self.slower])
        unjudged: dict[str, list[str]] = {}  # reason → cells
        for name, verdict in self.verdicts.items():
            if not verdict.judged:
                unjudged.setdefault(verdict.reason, []).append(name)
        for reason, cells in unjudged.items():
            more = " …" if len(cells) > 1 else ""
            yield f"  {counted(len(cells), 'cell')} ({cells[0]}{more}): {reason}"

    def markdown(self) -> str:
        """The same as a section of gate.md."""
        title, *rest = self.lines()
        lines = [f"### {title}", ""]
        lines += [f"- {line.strip()}" for line in rest]
        return "\n".join(lines).rstrip() + "\n"


def judge_timing(
    head: Sequence[float],
    base: Sequence[float],
    margin: float,
    machines: Sequence[Machine],
    otherwise: str = "",
) -> TimingVerdict:
    """Judges the seconds of head's rounds against base's (interleaved where possible).

    Slower means that the fastest head round took longer than the slowest base round by more than
    the margin. Not judged: different machines, seconds taken otherwise, fewer than three rounds on
    a side.

    Args:
        head: seconds of each round.
        base: seconds of each round.
        margin: a share of the seconds, 0.1 for 10 %.
        machines: head's and base's.
        otherwise: why they were not timed alike; empty if they were.

    Raises:
        InputError: for a negative margin.
    """
    if margin < 0:
        raise InputError(f"margin {margin}: give a share >= 0, e.g. 0.1 for 10 %")
    if not all(machines):
        return _unjudged("a run has no record of the machine it was timed on")
    head_machine, base_machine = machines
    for key in sorted(head_machine.keys() | base_machine.keys()):
        value = head_machine.get(key)
        other = base_machine.get(key)
        if value != other:
            return _unjudged(f"different machines: {key} is {value!r}, the baseline's {other!r}")
    if otherwise:
        return _unjudged(otherwise)
    if not head or not base:
        return _unjudged(
            "a cell has no time of its own (its forwards were shared, or its answers kept)"
        )
    if min(len(head), len(base)) < LEAST_ROUNDS:
        needed = f"at least {LEAST_ROUNDS} per side are needed (--rounds {LEAST_ROUNDS})"
        return _unjudged(f"{len(head)} and {len(base)} rounds; {needed}")
    if min(*head, *base) <= 0:
        return _unjudged("a round has no measured time")
    ratio = median(head) / median(base)
    text = (
        f"median {median(base):.3g} s → {median(head):.3g} s ({100 * (ratio - 1):+.1f} %), "
        f"fastest head round {min(head):.3g} s, slowest base round {max(base):.3g} s"
    )
    slower = min(head) > max(base) * (1 + margin)
    if slower:
        text = f"slower by more than {100 * margin:g} %: {text}"
    return TimingVerdict(not slower, text, ratio)


def against_run(settings: Settings, run: StoredRun, path: Path) -> Timings:
    """The run's rounds against those of an earlier run; a baseline file has none, for they hold on
    one machine.

    Args:
        settings: with the margin, `gate_time`.
        run: as it was read.
        path: the earlier run's directory.
    """
    assert settings.gate_time is not None
    if not path.is_dir():
        return Timings(
            str(path),
            silent="it holds no timings; give a run directory of this machine, or --against REV",
        )
    earlier = open_run(path).read()
    timings = Timings(str(path))
    machines = [side.facts.get("machine", {}) for side in (run, earlier)]
    base = {cell.id: cell for cell in _finished(earlier)}
    for cell in _finished(run):
        other = base.get(cell.id)
        if other is None:
            continue
        otherwise = timed_otherwise(cell, other)
        timings.verdicts[cell.id] = judge_timing(
            cell.rounds, other.rounds, settings.gate_time, machines, otherwise
        )
    return timings


def check_timed(baselines: Sequence[Path], rounds: int) -> None:
    """Raises InputError unless a run of so many `rounds` can be judged against one of the
    baselines: a run directory with a cell that was timed by itself, in enough rounds.
    """
    if not baselines:
        return
    if rounds < LEAST_ROUNDS:
        raise InputError(
            f"{counted(rounds, 'round')} a cell, and seconds are judged from {LEAST_ROUNDS} on: add"
            f" --rounds {LEAST_ROUNDS}, or --against REV, which takes its own"
        )
    if any(_most_rounds(path) >= LEAST_ROUNDS for path in baselines):
        return
    reasons = []
    for path in baselines:
        most = _most_rounds(path)
        if most:
            reasons.append(f"no cell of {path} has more than {counted(most, 'round')}")
        elif path.is_dir():
            reasons.append(f"no cell of {path} has a time of its own")
        else:
            reasons.append(f"{path} holds no timings")
    raise InputError(
        f"{'; '.join(reasons)}: give --gate the directory of a run on this machine with --rounds"
        f" {LEAST_ROUNDS}, or add --against REV"
    )


def _most_rounds(path: Path) -> int:
    """The most rounds of a cell of a baseline; 0 for a file, which has no timings."""
    if not path.is_dir():
        return 0
    return max((len(cell.rounds) for cell in _finished(open_run(path).read())), default=0)


def _finished(run: StoredRun) -> list[CellRecord]:
    return [entry.cell for entry in run.cells if entry.cell.status == "ok"]


def against_code(
    plan: Plan, run: StoredRun, gated: Collection[str] | None, say: Callable[[str], None]
) -> Timings:
    """Cells of the run decoded again by this code and the base's, interleaved, with nothing else
    running. The rounds of the run itself don't count: they were not interleaved.

    Args:
        plan: what was run, with the base's revision, `against`.
        run: as it was read.
        gated: ids of the cells that are timed; None: all.
        say: shows which cell is being timed.
    """
    settings = plan.settings
    timings = Timings(f"{settings.against}, interleaved")
    cells = [cell for cell in _finished(run) if gated is None or cell.id in gated]
    rounds = max(settings.rounds, LEAST_ROUNDS)
    machine = run.facts.get("machine", {})
    assert settings.against is not None
    assert settings.gate_time is not None
    try:
        with checkout(settings.against) as folder, sides(folder) as (head, base):
            for number, cell in enumerate(sorted(cells, key=lambda cell: cell.model), 1):
                if cell.served is not None:
                    timings.verdicts[cell.id] = _unjudged(
                        "a server would be asked, and paid, again"
                    )
                    continue
                say(
                    f"timing interleaved with {settings.against}: cell {number} of {len(cells)},"
                    f" {cell.id}"
                )
                try:
                    ours, theirs = interleaved(head, base, job(plan, cell), rounds)
                except NotTimed as error:
                    timings.verdicts[cell.id] = _unjudged(str(error))
                    continue
                timings.verdicts[cell.id] = judge_timing(
                    ours, theirs, settings.gate_time, (machine, machine)
                )
    except BaseError as error:
        timings.silent = str(error)
    if not cells:
        timings.silent = "the run has no finished cell that is gated"
    return timings


def job(plan: Plan, cell: CellRecord) -> dict[str, Any]:
    """A cell as a job for a timing process: options of pbcore's public functions, the same for both
    sides.
    """
    plan = plan.at(cell.conditions.level_text)
    settings = plan.settings
    return {
        "model": {
            "name": cell.model,
            "device": settings.place,
            "dtype": settings.dtype,
            **settings.load_options,
        },
        "task": {
            "files": [str(file.absolute()) for file in settings.tasks],
            "name": cell.task,
            "data_dir": None if settings.data_dir is None else str(settings.data_dir.absolute()),
            "n": plan.lengths(cell.task),
            "limit": plan.limit(cell.model, cell.task),
            "seed": settings.data_seed,
            **plan.asked(cell.task),
        },
        "sampler": cell.sampler,
        "seed": settings.seed[0],
        "batch_size": settings.rows,
    }


def judge_time(
    plan: Plan,
    run: StoredRun,
    complete: bool,
    gated: Collection[str] | None,
    say: Callable[[str], None],
) -> Sequence[Timings]:
    """The timings against each base that was given: the code of --against, else each --gate.

    Args:
        plan: what was run.
        run: as it was read.
        complete: False times nothing against other code.
        gated: ids of the cells that are timed again; None: all.
        say: shows which cell is being timed.
    """
    settings = plan.settings
    if settings.against is None:
        return [against_run(settings, run, path) for path in settings.gate]
    if not complete:
        return [Timings(settings.against, silent="the run is not complete")]
    return [against_code(plan, run, gated, say)]
