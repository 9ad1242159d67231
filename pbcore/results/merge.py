"""Joins run directories (shards, machines) into one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pbcore.results.rundir import RunDir, RunDirError, StoredCell, create, open_run


class MergeConflict(ValueError):
    """Two runs hold the same cell with different keys or outcomes."""


def merge(sources: Sequence[str | Path], target: str | Path) -> RunDir:
    """Joins the cells of `sources` into the new run directory `target` and assembles it.

    The same cell in several runs is taken once where key and outcome agree (times may differ: the first by path order of its
    contents is kept, so that the order of `sources` doesn't matter), and an error gives way to a success. Raises MergeConflict that
    names the cells otherwise, RunDirError for a source that is no run or a target that exists.
    """
    if not sources:
        raise RunDirError("no run directory given; name at least one to merge")
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
    """Why two records of one cell can't both be right; None where they agree or one of them errored."""
    if "error" in (first.cell.status, second.cell.status):
        return None
    if first.cell.conditions.key != second.cell.conditions.key:
        keys = [(entry.cell.conditions.key or "none")[:12] for entry in (first, second)]
        return f"keys differ ({' and '.join(keys)}): other data, model, settings, seed or code"
    answers = [
        {sample.place: (sample.text, sample.scores, sample.nfe) for sample in entry.samples}
        for entry in (first, second)
    ]
    differing = sorted(i for i in answers[0].keys() | answers[1].keys() if answers[0].get(i) != answers[1].get(i))
    return f"outcomes differ under the same key at samples {differing[:5]}" if differing else None


def _preferred(first: StoredCell, second: StoredCell) -> StoredCell:
    """The success over the error, then the faster one; ties by content, so that merging commutes."""
    return min(first, second, key=lambda entry: (entry.cell.status != "ok", entry.cell.seconds, repr(entry.cell)))
