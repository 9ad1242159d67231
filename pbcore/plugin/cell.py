"""Runs one cell: times decoding, scores the answers, and writes the record before the next cell
starts.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pbcore.grid.cellid import CellName
from pbcore.grid.levels import factors_of
from pbcore.grid.settings import Settings
from pbcore.metrics import grammar
from pbcore.metrics.text import TextScorer, now_measurable
from pbcore.models.base import Model
from pbcore.models.identity import identity
from pbcore.plugin.answering import Answerer, scored_text
from pbcore.plugin.blaming import Blaming
from pbcore.plugin.drilldown import judge_answers
from pbcore.plugin.recording import cell_record
from pbcore.plugin.rundir import RECORDED, run_dir, show
from pbcore.plugin.state import drilled
from pbcore.results import questions
from pbcore.results.questions import scored_again
from pbcore.results.resume import cell_key, user_code
from pbcore.results.rundir import StoredCell
from pbcore.tasks.base import Task
from pbcore.tasks.scoring import Scored, scorer

# Of load options and a model's `info`: where its files were found.
PLACES = ("source", "revision", "adapter", "draft")


@dataclass(frozen=True, slots=True)
class Cell:
    """What the fixture `cell` hands to a test."""

    name: CellName
    item: pytest.Item
    settings: Settings

    @property
    def id(self) -> str:
        return self.name.cell_id

    def measure(self, model: Model, task: Task, benchmark: Any) -> list[Scored]:
        """Decodes under the clock, scores off it, records. In the drill-down nothing is recorded:
        the test fails at the first wrong answer.

        Args:
            model: the fixture's.
            task: the fixture's, with the cell's samples.
            benchmark: pytest-benchmark's fixture.

        Returns:
            The scores: those of the first seed in the order of the samples, then the next seed's.
        """
        config = self.item.config
        key = "" if drilled(config) else self.key(model, task)
        benchmark.extra_info["cell"] = self.id
        answering = Answerer(self.item, self.settings, self.name, model)
        decoded = answering.timed(task.samples, benchmark)
        self._prepare_scorer(task)
        scored = task.score_many(
            [scored_text(self.settings, answered.answer) for answered in decoded.answers],
            [answered.sample for answered in decoded.answers],
        )
        if drilled(config):
            judge_answers(
                self.item, self.settings, self.name.sampler, model, task, decoded.answers, scored
            )
            return scored
        cell, samples = cell_record(
            config, self.settings, self.name, key, model, task, decoded, scored
        )
        questions.write_questions(run_dir(config), task)
        run_dir(config).write_cell(cell, samples)
        self.item.stash[RECORDED] = True
        if self.settings.blame:
            stored = StoredCell(cell, tuple(samples))
            cell = self.with_blame(model, task, stored).cell
        benchmark.extra_info.update(show(self.item, cell))
        return scored

    def key(self, model: Model, task: Task) -> str:
        """Digest of all that decides the outcome; equal keys mean that a finished cell need not be
        run again.
        """
        requested = self.settings
        options = {
            "official_text": requested.official_text,
            "level": factors_of(self.name.level),
            "max_new_tokens": requested.max_new_tokens,
            **requested.load_options,
        }
        facts = dict(model.info)
        if getattr(model, "files", None) is not None:  # their identity stands for where they are
            options = {name: value for name, value in options.items() if name not in PLACES}
            facts = {name: value for name, value in facts.items() if name not in PLACES}
        given = {name: value for name, value in options.items() if value}
        return cell_key(
            model=self.name.model,
            model_identity={**facts, "identity": identity(model)},
            task=task.name,
            data_hash=task.data_hash,
            sampler=str(self.name.sampler),
            settings={"rounds": requested.rounds, **given},
            dtype=str(model.info.get("dtype", requested.dtype or "")),
            seeds=requested.seed,
            task_identity=task.identity,
            own_code=user_code(self.name.model, model, self.name.sampler.name),
        )

    def rescored(self, task: Task, stored: StoredCell) -> StoredCell:
        """A stored cell, scored again and written if its scores lacked a tool that is here now."""
        absent = stored.cell.absent
        if not absent or not self._prepare_scorer(task):
            return stored
        if not now_measurable(absent, stored.cell.scores):
            return stored
        again = scored_again(stored, task)
        run_dir(self.item.config).write_cell(again.cell, again.samples)
        return again

    def with_blame(self, model: Model, task: Task, stored: StoredCell) -> StoredCell:
        """The cell with the blame of its wrong answers, written; as it is if it has that."""
        if stored.cell.blame is not None:
            return stored
        config = self.item.config
        run = run_dir(config)

        def key(name: CellName) -> str:
            return replace(self, name=name).key(model, task)

        blaming = Blaming(config, self.name, self.settings.official_text, run, key)
        entry = blaming.of(model, task, stored)
        run.write_cell(entry.cell, entry.samples)
        return entry

    def _prepare_scorer(self, task: Task) -> bool:
        """Downloads the grammar checker for a task whose texts are scored, and says whether it is
        such a task.
        """
        if not isinstance(scorer(task.scorer), TextScorer):
            return False
        capture = self.item.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            grammar.available()
        return True
