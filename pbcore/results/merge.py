"""Merges run directories (e.g. of shards or machines) into one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pbcore.errors import InputError
from pbcore.results.rundir import RunDir, RunDirError, StoredCell, create, open_run


class MergeConflict(InputError):
    """Two runs hold the same cell with different keys or outcomes."""


def merge(sources: Sequence[str | Path], target: str | Path) -> RunDir:
    """Merges the cells of `sources` into the new run directory `target` and assembles it.

    A cell in several runs is kept once if key and outcome agree. A success replaces an error; otherwise the faster record is kept, with
    ties broken by content, so that the order of `sources` doesn't matter. Raises MergeConflict naming the cells that differ, RunDirError
    for a source that is not a run or a target that exists and is not empty.
    """
    if not sources:
        raise RunDirError("no run directory given; give at least one to merge")
    chosen: dict[str, StoredCell] = {}
    conflicts: list[str] = []
    for path in sources:
        for entry in open_run(path).read_cells():
            known = chosen.get(entry.cell.id)
            reason = None if known is None else conflict(known, entry)
            if reason:
                conflicts.append(f"{entry.cell.id} ({path}): {reason}")
            else:
                chosen[entry.cell.id] = entry if known is None else _preferred(known, entry)
    if conflicts:
        listed = "\n  ".join(conflicts[:20])
        raise MergeConflict(
            f"{len(conflicts)} cells differ between the runs; merge runs of the same code, data and models:\n  {listed}"
        )
    facts = [{"path": Path(path).name, **open_run(path).read_run()} for path in sources]
    run = create(Path(target).parent, Path(target).name)
    run.write_run({"merged_from": sorted(facts, key=str)})
    for entry in chosen.values():
        run.write_cell(entry.cell, entry.samples)
    run.assemble()
    return run


def conflict(first: StoredCell, second: StoredCell) -> str | None:
    """Why two records of one cell contradict each other; None if they agree or one of them is an error."""
    if "error" in (first.cell.status, second.cell.status):
        return None
    if first.cell.conditions.key != second.cell.conditions.key:
        keys = [(entry.cell.conditions.key or "none")[:12] for entry in (first, second)]
        return f"keys differ ({' and '.join(keys)}): different data, model, settings, seed or code"
    answers = [
        {sample.place: (sample.text, sample.scores, sample.nfe) for sample in entry.samples}
        for entry in (first, second)
    ]
    differing = sorted(i for i in answers[0].keys() | answers[1].keys() if answers[0].get(i) != answers[1].get(i))
    return f"outcomes differ under the same key at samples {differing[:5]}" if differing else None


def _preferred(first: StoredCell, second: StoredCell) -> StoredCell:
    """A success before an error, then the faster one; ties by content, so that merging is commutative."""
    return min(first, second, key=lambda entry: (entry.cell.status != "ok", entry.cell.seconds, repr(entry.cell)))
