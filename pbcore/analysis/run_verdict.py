"""The verdict on a whole run: its gates, floors, time gates and the baseline it updates. Knows no
pytest.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pbcore.analysis.answering import little_to_lose
from pbcore.analysis.floors import Floor, broken_floors, parse_floor
from pbcore.analysis.timing.gate import Timings, check_timed, judge_time
from pbcore.analysis.timing.interleaved import check_base
from pbcore.analysis.verdict import Verdict, judge
from pbcore.analysis.verdict_text import (
    Rerun,
    baseline_text,
    gate_markdown,
    gate_text,
    pooled_text,
    reason_text,
    short_headline,
)
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, first_line, from_here, some
from pbcore.base.text import first_lines
from pbcore.grid.plan import Plan
from pbcore.grid.settings import Settings
from pbcore.results.baseline import BaselineCell, read_baseline, rows_by_id, write_baseline
from pbcore.results.environment import Machine
from pbcore.results.record import question_scores
from pbcore.results.rundir import StoredCell, StoredRun


@dataclass(slots=True)
class Ruling:
    """Text for the screen, failures as (name, reason) for JUnit and exit code, Markdown for a CI's
    step summary, and what failed in a line each, the last of the screen. `kept` are cells that
    passed although they lost answers or other scores, as failures are. `unusable`: the exit code
    is that of a usage error.
    """

    text: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    unusable: bool = False


def check_gates(settings: Settings, models: Collection[str] = ()) -> None:
    """Raises InputError for baselines, floors and bases that can't be read, for baselines without a
    row for any of the run's `models`, and for a time gate whose baselines have no timings: before
    the run, not after it.
    """
    baselines, _ = _given(settings)
    for path, rows in baselines.items():
        known = {row.model for row in rows.values()}
        if models and known.isdisjoint(models):
            raise InputError(
                f"--gate: {path} has no row for {some(sorted(models), 4)}, only for"
                f" {some(sorted(known), 4)}; make one with --update-baseline"
            )
    if settings.gate_time is not None and settings.against is None:
        with _naming("--gate-time"):
            check_timed(settings.gate, settings.rounds)
    if settings.against is not None:
        with _naming("--against"):
            check_base(settings.against)


def _given(settings: Settings) -> tuple[dict[Path, dict[str, BaselineCell]], list[Floor]]:
    """The baselines and floors that the settings name."""
    with _naming("--gate"):
        baselines = {path: read_baseline(path) for path in settings.gate}
    with _naming("--floor"):
        floors = [parse_floor(text) for text in settings.floor]
    return baselines, floors


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Puts the option in front of what an InputError says."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option}: {error}") from error


def judge_run(
    plan: Plan, run: StoredRun, complete: bool, rerun: Rerun, say: Callable[[str], None]
) -> Ruling:
    """Judges a run by its settings.

    Args:
        plan: what was run.
        run: as it was read.
        complete: False writes no baseline and times nothing against other code.
        rerun: cell id and sample → the command that runs this sample again.
        say: shows which cell is being timed.
    """
    settings = plan.settings
    ruling = Ruling()
    stored = run.cells
    machine = run.facts.get("machine")
    baselines, floors = _given(settings)
    for path, baseline in baselines.items():
        verdict = judge(
            rows_by_id(stored, machine), baseline, settings.gate_level, exact=settings.gate_exact
        )
        verdict = verdict.with_floors(broken_floors(floors, [entry.cell for entry in stored]))
        _rule_on_gate(path, run.path, verdict, rerun, ruling)
        floors = []  # they are judged once, with the first baseline
    if floors:
        _rule_on_floors(floors, stored, ruling)
    if settings.gate_time is not None:
        gated = set().union(*baselines.values()) if baselines else None
        _rule_on_time(judge_time(plan, run, complete, gated, say), ruling)
    if settings.update_baseline is not None:
        _update(settings, stored, machine, complete, ruling)
    return ruling


def nothing_to_judge(requested: Sequence[str], ini: Path | None) -> Ruling:
    """The ruling on a run without any cell. Verdicts that the command line requests (the options,
    as written there) fail; those that only the ini file sets are reported as unused: the project's
    other tests run under it, too.
    """
    if not requested:
        unused = f"no cell in this run: the gates and floors that {ini} sets were not applied"
        return Ruling(text=[unused])
    reason = (
        f"{' and '.join(requested)}: the run has no cell, so nothing was judged; check the paths,"
        " -k and --task"
    )
    return Ruling(
        text=[f"gate FAILED: {reason}"],
        last=["gate FAILED: nothing was judged"],
        failures=[("no cell", reason)],
        markdown=[f"### gate FAILED\n\n{reason}\n"],
    )


def _rule_on_gate(path: Path, run: Path, verdict: Verdict, rerun: Rerun, ruling: Ruling) -> None:
    """Adds the verdict against one baseline to the ruling.

    Args:
        path: the baseline.
        run: the run's directory.
        verdict: on the run.
        rerun: cell id and sample → the command that runs this sample again.
        ruling: takes it.
    """
    ruling.text.append(gate_text(verdict, str(path), from_here(run)))
    ruling.markdown.append(gate_markdown(verdict, rerun, str(path), from_here(run)))
    for cell in verdict.judgements:
        reason = f"{cell.status}: {reason_text(verdict, cell)}"
        if not cell.ok:
            ruling.failures.append((f"{path}::{cell.id}", reason))
        elif cell.status == "lost" or cell.others or cell.unmeasured:
            ruling.kept.append((f"{path}::{cell.id}", reason))
    for pooled in verdict.pooled:
        if pooled.status == "worse" and pooled.cells > 1:
            reason = f"worse, all cells together: {pooled_text(pooled, verdict.judged_score)}"
            ruling.failures.append((str(path), reason))
    if not verdict.ok:
        ruling.last.append(short_headline(verdict, str(path)))
    elif not verdict.judged:
        reason = "the baseline has no row for any cell of this run, so nothing was judged"
        ruling.failures.append((str(path), reason))
        ruling.text.append(f"gate FAILED against {path}: {reason}")
        ruling.last.append(f"gate FAILED: nothing was judged against {path}")


def _rule_on_floors(demands: Sequence[Floor], stored: Sequence[StoredCell], ruling: Ruling) -> None:
    """Floors without a baseline: the cells below them, without a word about comparisons."""
    broken = broken_floors(demands, [entry.cell for entry in stored])
    cells = {entry.cell.id for entry in stored}
    unmatched = sum(name not in cells for name, _ in broken)
    outcome = "BROKEN" if broken else "kept"
    below = counted(len(broken) - unmatched, "cell")
    title = f"floors {outcome}: {len(demands)} asked for, {below} below"
    if unmatched:
        title += f", {unmatched} without a cell"
    ruling.text.append(title)
    ruling.text += first_lines([f"  FLOOR    {name}: {reason}" for name, reason in broken])
    lines = [f"### {title}", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in broken]
    ruling.markdown.append("\n".join(lines) + "\n")
    ruling.failures += [(f"floors::{name}", reason) for name, reason in broken]
    if broken:
        ruling.last.append(title)


def _rule_on_time(bases: Sequence[Timings], ruling: Ruling) -> None:
    judged = False
    for timings in bases:
        ruling.text += timings.lines()
        ruling.markdown.append(timings.markdown())
        ruling.failures += [
            (f"time against {timings.base}::{name}", reason) for name, reason in timings.slower
        ]
        if timings.slower:
            ruling.last.append(f"timing FAILED against {timings.base}")
        if any(verdict.judged for verdict in timings.verdicts.values()):
            judged = True
    if not judged:
        reason = "no cell's time could be judged, for the reasons given with each base"
        ruling.text.append(f"timing FAILED: {reason}")
        ruling.failures.append(("time", reason))
        ruling.last.append("timing FAILED: no cell's time could be judged")


def _update(
    settings: Settings,
    stored: Sequence[StoredCell],
    machine: Machine | None,
    complete: bool,
    ruling: Ruling,
) -> None:
    """Writes the baseline, unless a score is missing that it should have.

    Args:
        settings: of the run: the file, and the scores that it may lack.
        stored: the run's cells.
        machine: that they ran on.
        complete: False writes none.
        ruling: takes what is said of it.
    """
    path = settings.update_baseline
    assert path is not None
    try:
        if not complete:
            raise InputError("no baseline written: the run is not complete")
        missing = missing_scores(stored, path)
        refused = [name for name in missing if name not in settings.allow_missing]
        if refused:
            ruling.unusable = True
            raise InputError(
                f"no baseline written: {'; '.join(missing[name] for name in refused)}. Make it"
                f" measurable, or do without: --allow-missing {' --allow-missing '.join(refused)}"
            )
        written = write_baseline(path, stored, machine)
        without = f", without {', '.join(missing)}" if missing else ""
        ruling.text.append(f"baseline written: {written} ({counted(len(stored), 'cell')}{without})")
        rows = list(rows_by_id(stored, machine).values())
        ruling.text += baseline_text(rows, settings.gate_level)
        scores = [question_scores(entry.samples, entry.cell.headline) for entry in stored]
        little = little_to_lose([list(cell.values()) for cell in scores], settings.max_loss)
        if little:
            ruling.text.append(f"it {little}: hardly anything can get worse than this baseline")
    except (InputError, OSError) as error:
        ruling.failures.append((f"update of {path}", str(error)))
        ruling.text.append(str(error))
        ruling.last.append(str(error))


def missing_scores(stored: Sequence[StoredCell], path: Path) -> dict[str, str]:
    """Scores that could not be measured, by which a cell's task is judged or which the baseline at
    `path` has: name → in how many cells, and why.
    """
    earlier: dict[str, BaselineCell] = {}
    with suppress(InputError):
        earlier = read_baseline(path)
    cells: dict[str, list[str]] = {}
    for entry in stored:
        cell = entry.cell
        before = earlier[cell.id].scores if cell.id in earlier else {}
        for name, reason in cell.absent.items():
            root = reason.partition(": ")[0]  # of a score that is made from another one
            if name in cell.scores or root in cell.absent:
                continue
            if name == cell.headline or name in before:
                cells.setdefault(name, []).append(reason)
    return {
        name: f"{name} could not be measured in {counted(len(why), 'cell')} ({first_line(why[0])})"
        for name, why in cells.items()
    }
