"""The blame of a run's wrong answers (`--blame`), and of the one that the drill-down shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest

from pbcore.base.check import LoadError
from pbcore.blame import AnswerKey, Continuing, blamed, not_blamed, reference_of
from pbcore.decoding.samplers import Sampler
from pbcore.grid.cellid import CellName
from pbcore.models.base import Denoiser, Model
from pbcore.report.blame_text import Broken, broken
from pbcore.results.record import SampleRecord
from pbcore.results.rundir import RunDir, StoredCell, cell_file, parse_cell
from pbcore.results.stats import right_or_wrong
from pbcore.tasks.base import Task
from pbcore.tasks.scoring import scorer

References = dict[Sampler, dict[AnswerKey, SampleRecord]]  # its answers
# By model, task and level.
_REFERENCES = pytest.StashKey[dict[tuple[str, str, str], References]]()


@dataclass(frozen=True, slots=True)
class Blaming:
    """The blame of a cell of this run.

    - `official_text`: whether the whole canvas is scored.
    - `run`: may hold the cell of the reference, whose answers then serve.
    - `key`: a cell's key with this model and task, by its name.
    """

    config: pytest.Config
    name: CellName
    official_text: bool
    run: RunDir
    key: Callable[[CellName], str]

    def of(self, model: Model, task: Task, stored: StoredCell) -> StoredCell:
        """The cell with the blame of its wrong answers; as it is for graded scores."""
        score = right_or_wrong(task.headline, scorer(task.scorer).metrics)
        if score is None:
            return stored
        found = not_blamed(model, score, stored.samples)
        if found is None:
            continuing = Continuing(
                cast(Denoiser, model),
                task,
                score,
                self.official_text,
                stored.cell.conditions.batch_size,
                self._references(),
            )
            found = blamed(continuing, self.name.sampler, stored.samples)
        samples, shares = found
        return StoredCell(replace(stored.cell, blame=shares), tuple(samples))

    def _references(self) -> References:
        """The answers one token at a time that this process knows, those of a finished cell among
        them.
        """
        name = self.name
        known = self.config.stash.setdefault(_REFERENCES, {})
        references = known.setdefault((name.model, name.task, name.level), {})
        sampler = reference_of(name.sampler)
        if sampler not in references:
            kept = self._kept(replace(name, sampler=sampler))
            references[sampler] = {answer.place: answer for answer in kept}
        return references

    def _kept(self, name: CellName) -> Sequence[SampleRecord]:
        """The answers of a finished cell of the run with the same settings; none without one."""
        file = self.run.cells_dir / cell_file(name.cell_id)
        if not file.exists():
            return ()
        try:
            stored = parse_cell(file.read_text(encoding="utf-8"), str(file))
        except LoadError:
            return ()
        same = stored.cell.status == "ok" and stored.cell.conditions.key == self.key(name)
        return stored.samples if same else ()


def why_wrong(
    model: Model, task: Task, sampler: Sampler, record: SampleRecord, official_text: bool
) -> Broken | None:
    """What broke one wrong answer, found by going on from its canvases; None where it can't be
    told.

    Args:
        model: what answered.
        task: with the answer's sample.
        sampler: the cell's.
        record: the answer.
        official_text: whether the whole canvas is scored.
    """
    score = right_or_wrong(task.headline, scorer(task.scorer).metrics)
    if score is None:
        return broken(record)
    found = not_blamed(model, score, [record])
    if found is None:
        continuing = Continuing(cast(Denoiser, model), task, score, official_text)
        found = blamed(continuing, sampler, [record])
    return broken(found[0][0])
