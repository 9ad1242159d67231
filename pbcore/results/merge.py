"""Merges run directories (e.g. of shards or machines) into one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pbcore.base.check import LoadError, refuse
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable, shown, some
from pbcore.results import questions
from pbcore.results.load import load_stored
from pbcore.results.rundir import (
    RunDirError,
    RunFacts,
    StoredCell,
    StoredRun,
    create,
    open_run,
    run_facts,
)
from pbcore.results.weights import same_weights, weights_text

_SHARD = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")
# Of run.json: equal for all parts of one run.
SHOWN = ("max_loss", "axis", "price", "price_batch")  # what reports show, kept where all agree
SETTINGS = ("profile", "data_seed", "seeds", "limit", "data_dir")
ADVICE = "merge parts of one run; to see runs side by side: pbcore report A B"


class MergeConflict(InputError):
    """Runs that don't make one run: a cell with different keys or outcomes, other settings, a
    missing shard.
    """

    status = 1


def merge(
    sources: Sequence[str | Path], target: str | Path, *, allow_missing_shards: bool = False
) -> StoredRun:
    """Merges runs into one and assembles it.

    A cell in several runs is kept once if key and outcome agree: a success before an error, then
    the faster record, ties broken by content, so that the order of `sources` doesn't matter.

    Args:
        sources: run directories, which are only read. One may have results.json (and samples.jsonl)
            in place of cells/.
        target: the new run directory.
        allow_missing_shards: whether to merge where a shard of the run is not among `sources`.

    Returns:
        The new run, read once.

    Raises:
        MergeConflict: naming the cells or settings that differ or the shards that are missing.
        RunDirError: for a source that is not a run, or a target that is not empty.
        LoadError: for a source that can't be read whole.
    """
    if not sources:
        raise RunDirError("no run directory given; give at least one to merge")
    # A run that is given twice, through a link too, counts once.
    distinct = {Path(path).resolve(): str(path) for path in reversed(sources)}
    runs = {path: open_run(path) for path in reversed(distinct.values())}
    parts = [part for path, run in runs.items() for part in _parts(path, run.read_run())]
    _check_settings(parts)
    if not allow_missing_shards:
        _check_shards(parts)
    chosen: dict[str, StoredCell] = {}
    conflicts: list[str] = []
    # whose samples → their digest, the run that has it first
    data: dict[tuple[str, int | str], tuple[str, str]] = {}
    for path in runs:
        for entry in load_stored(path, refuse):
            _check_data(entry, path, data)
            earlier = chosen.setdefault(entry.cell.id, entry)
            if reason := conflict(earlier, entry):
                conflicts.append(f"{printable(entry.cell.id)} ({path}): {reason}")
            else:
                chosen[entry.cell.id] = min(earlier, entry, key=_order)
    if conflicts:
        listed = "\n  ".join(conflicts[:20])
        raise MergeConflict(
            f"the runs differ in {counted(len(conflicts), 'cell')}; merge runs of the same code,"
            f" data and models:\n  {listed}"
        )
    bare = [id for id, entry in chosen.items() if entry.cell.n_samples and not entry.samples]
    if bare:
        raise LoadError(
            f"no answers to {printable(bare[0])} ({counted(len(bare), 'such cell')}): a run without"
            " cells/ needs samples.jsonl beside results.json"
        )
    run = create(Path(target).parent, Path(target).name)
    merged = [facts for _, facts in parts]
    settings = _shared_settings(merged)
    for name in SHOWN:
        values = [facts.get(name) for facts in merged]
        if values[0] is not None and values.count(values[0]) == len(values):
            settings[name] = values[0]
    run.write_run({**settings, "merged_from": sorted(merged, key=str)})
    for entry in chosen.values():
        run.write_cell(entry.cell, entry.samples)
    questions.gather(runs.values(), run)
    stored = run.read()
    run.assemble(stored.cells)
    return stored


def _shared_settings(facts: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The settings that all runs have in common, as `_check_settings` has seen."""
    return {name: part[name] for part in facts for name in SETTINGS if name in part}


def _parts(path: str, facts: RunFacts) -> list[tuple[str, RunFacts]]:
    """(where, facts) of the runs that a run consists of: its own, or those of the runs that were
    merged into it.
    """
    if not facts.get("merged_from"):
        return [(path, {"path": Path(path).name, **facts})]
    parts: list[tuple[str, RunFacts]] = []
    for merged in facts["merged_from"]:
        where = f"{path} (merged from {shown(merged.get('path'))})"
        parts += _parts(where, run_facts(merged, where))
    return parts


def _check_settings(parts: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    """Raises MergeConflict for the first setting that differs. A run that was killed before
    run.json was written has none. Folders with the data may have other paths on other machines;
    `_check_data` compares what is in them.
    """
    for name in SETTINGS:
        values = [(where, facts[name]) for where, facts in parts if name in facts]
        for where, value in values:
            first, expected = values[0]
            if (value is None) != (expected is None) or (name != "data_dir" and value != expected):
                raise MergeConflict(
                    f"the runs have different settings: {name} is {shown(expected)} in {first} and"
                    f" {shown(value)} in {where}; {ADVICE}"
                )


def _check_data(
    entry: StoredCell, path: str, data: dict[tuple[str, int | str], tuple[str, str]]
) -> None:
    """Raises MergeConflict if another cell has other samples. A profile may give models limits of
    their own, so cells of a task are compared where they have as many samples; a cell without any,
    with those of its model.
    """
    cell = entry.cell
    digest = cell.conditions.data_hash
    if not digest:
        return
    known, first = data.setdefault((cell.task, cell.n_samples or cell.model), (digest, path))
    if known != digest:
        raise MergeConflict(
            f"{printable(cell.task)} has other samples in {path} than in {first} (digests"
            f" {shown(digest)} and {shown(known)}); {ADVICE}"
        )


def _check_shards(parts: Sequence[tuple[str, RunFacts]]) -> None:
    there: dict[int, set[int]] = {}
    for where, facts in parts:
        shard = facts.get("shard")
        if shard is None:
            continue
        match = _SHARD.fullmatch(shard)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise LoadError(
                f"{where}: field shard of run.json is {shown(shard)}; it should be like 1/3"
            )
        there.setdefault(int(match[2]), set()).add(int(match[1]))
    missing: list[str] = []
    for n, numbers in sorted(there.items()):
        missing += [f"{k}/{n}" for k in range(1, n + 1) if k not in numbers]
    if missing:
        raise MergeConflict(
            f"missing shards: {some(missing, 10)}; add their run directories, or allow it:"
            " --allow-missing-shards"
        )


def conflict(first: StoredCell, second: StoredCell) -> str | None:
    """Why two records of one cell contradict each other; None if they agree or one of them is an
    error.
    """
    if "error" in (first.cell.status, second.cell.status):
        return None
    if first.cell.conditions.key != second.cell.conditions.key:
        ours = first.cell.conditions.model_identity or {}
        theirs = second.cell.conditions.model_identity or {}
        if same_weights(ours, theirs) is False:
            return f"the models differ: {weights_text([(ours, theirs)])}"
        keys = [(entry.cell.conditions.key or "none")[:12] for entry in (first, second)]
        return f"keys differ ({' and '.join(keys)}): different data, model, settings, seed or code"
    if not first.samples or not second.samples:
        if first.cell.scores == second.cell.scores:
            return None
        return "scores differ under the same key"
    outcomes = _outcomes(first)
    others = _outcomes(second)
    places = sorted(outcomes.keys() | others.keys())
    differing = [place for place in places if outcomes.get(place) != others.get(place)]
    if not differing:
        return None
    return f"outcomes differ under the same key at samples {differing[:5]}"


def _outcomes(entry: StoredCell) -> dict[tuple[int, int], tuple[Any, ...]]:
    """What each answer of a cell came to, by its index and seed."""
    return {sample.place: (sample.text, sample.scores, sample.nfe) for sample in entry.samples}


def _order(entry: StoredCell) -> tuple[Any, ...]:
    """A success before an error, timed before untimed, then the faster; ties by content, so that
    merging commutes.
    """
    seconds = entry.cell.seconds
    return (
        entry.cell.status != "ok",
        not entry.samples,
        seconds is None,
        seconds or 0,
        repr(entry.cell),
    )
