"""Finds the step that broke each wrong answer of a finished run, with the run's own models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import cast

from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable, some
from pbcore.blame import AnswerKey, Continuing, blamed, not_blamed, reference_of
from pbcore.blame.search import Which
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import Sampler, sampler_of
from pbcore.grid.option import Role
from pbcore.grid.settings import OPTIONS
from pbcore.models.base import Denoiser, Model
from pbcore.models.identity import identity
from pbcore.models.registry import load_model
from pbcore.models.tokenizer import pieces
from pbcore.names import recorded
from pbcore.results.build import sample_record
from pbcore.results.questions import Questions
from pbcore.results.record import Blame, CellRecord, SampleRecord
from pbcore.results.rundir import RunDir, StoredCell
from pbcore.results.stats import right_or_wrong
from pbcore.results.weights import same_weights, weights_text
from pbcore.tasks.scoring import Scored

DIFFERS = "decoded again, the answer differs"


@dataclass(slots=True)
class RunBlame:
    """The blame of a run's cells.

    - `run`: the run directory.
    - `cells`: what it holds.
    - `questions`: of these cells.
    - `which`: the step to look for.
    - `notes`: what is said beside the table.
    """

    run: RunDir
    cells: Sequence[StoredCell]
    questions: Questions
    which: Which
    notes: list[str] = field(default_factory=list)

    def blame(self) -> list[StoredCell]:
        """Blames all cells that can be, model by model; each is written when it is done. Cells that
        have their verdicts keep them, unless a certain step is asked for.
        """
        done: list[StoredCell] = []
        waiting: list[StoredCell] = []
        for entry in self._open():
            kept = self.which == "any" and entry.cell.blame is not None
            (done if kept else waiting).append(entry)
        if done:
            self.notes.append(f"{counted(len(done), 'cell')} with verdicts already")
        for model_at, cells in groupby(waiting, key=lambda entry: entry.cell.model_at):
            entries = list(cells)
            model = self._model(model_at, entries[0].cell)
            references: dict[str, dict[Sampler, dict[AnswerKey, SampleRecord]]] = {}
            for entry in entries:
                known = references.setdefault(entry.cell.task, {})
                after = self._blamed(model, entry, known)
                self.run.write_cell(after.cell, after.samples)
                done.append(after)
        return done

    def _open(self) -> Iterator[StoredCell]:
        """The cells with wrong answers to trace."""
        left_out = Counter[str]()
        for entry in self.cells:
            cell = entry.cell
            if cell.status != "ok" or not entry.samples:
                continue
            if right_or_wrong(cell.headline, cell.scores) is None:
                left_out["with graded scores"] += 1
            elif recorded(cell.sampler) is None:
                left_out["whose samplers this version doesn't have"] += 1
            else:
                yield entry
        for why, number in left_out.items():
            self.notes.append(f"left out: {counted(number, 'cell')} {why}")

    def _model(self, name: str, cell: CellRecord) -> Model:
        """The model of some cells. Raises InputError for one that has other weights now."""
        conditions = cell.conditions
        loading = [option.field for option in OPTIONS if option.role is Role.LOADS]
        known = conditions.options
        options = {field: known[field] for field in loading if field in known}
        device = (conditions.device or "cpu").partition(":")[0]
        model = load_model(cell.model, device=device, dtype=conditions.dtype, **options)
        now = identity(model)
        then = conditions.model_identity or {}
        if same_weights(now, then) is False:
            raise InputError(
                f"{printable(name)} has {weights_text([(now, then)])} than in {self.run.path};"
                " blame needs the run's own"
            )
        return model

    def _blamed(
        self,
        model: Model,
        entry: StoredCell,
        references: dict[Sampler, dict[AnswerKey, SampleRecord]],
    ) -> StoredCell:
        """A cell with the blame of its wrong answers.

        Args:
            model: the cell's.
            entry: the cell.
            references: the answers of reference samplers to the task's questions, as far as they
                are known.
        """
        cell = entry.cell
        score = right_or_wrong(cell.headline, cell.scores)
        assert score is not None
        found = not_blamed(model, score, entry.samples)
        if found is None:
            task = self.questions.of(cell)
            sampler = sampler_of(cell.sampler)
            reference = reference_of(sampler)
            if reference not in references:
                kept = self._reference(cell, str(reference))
                references[reference] = {answer.place: answer for answer in kept}
            continuing = Continuing(
                cast(Denoiser, model),
                task,
                score,
                bool(cell.conditions.options.get("official_text")),
                cell.conditions.batch_size,
                references,
            )
            records, differing = self._with_ids(continuing, entry)
            samples, shares = blamed(continuing, sampler, records, self.which)
            found = [_with_reason(sample, differing) for sample in samples], shares
        samples, shares = found
        return StoredCell(replace(cell, blame=shares), tuple(samples))

    def _reference(self, cell: CellRecord, sampler: str) -> Sequence[SampleRecord]:
        """The answers of the run's own cell of the reference; none without one."""
        for entry in self.cells:
            other = entry.cell
            same = (other.model_at, other.task, other.sampler) == (
                cell.model_at,
                cell.task,
                sampler,
            )
            if same and other.status == "ok" and _agree(other, cell):
                return entry.samples
        return ()

    def _with_ids(
        self, continuing: Continuing, entry: StoredCell
    ) -> tuple[list[SampleRecord], set[AnswerKey]]:
        """A cell's answers with the ids of their tokens, and which of them can't have any. Records
        from before ids were kept, and those of ids that stand for other tokens now, are decoded
        again; answers that then differ are named.
        """
        cell = entry.cell
        piece = pieces(continuing.model)
        assert piece is not None
        lacking = []
        for record in entry.samples:
            if continuing.is_wrong(record) and record.steps and not _tells_ids(record, piece):
                lacking.append(record)
        if not lacking:
            return list(entry.samples), set()
        again: dict[AnswerKey, SampleRecord] = {}
        for seed, same in groupby(sorted(lacking, key=_seed), key=_seed):
            asked = [continuing.sample(record.index) for record in same]
            decoded = decode(
                continuing.model, asked, cell.sampler, seed=seed, batch_size=continuing.batch_size
            )
            for sample, answer in zip(asked, decoded, strict=True):
                record = sample_record(sample.index, answer, Scored({}), seed, piece)
                again[record.place] = record
        records = []
        differing = set()
        for record in entry.samples:
            other = again.get(record.place, record)
            if (other.text, other.steps) != (record.text, record.steps):
                differing.add(record.place)
                record = replace(record, token_ids=None)
            else:
                record = replace(record, token_ids=other.token_ids, former=other.former)
            records.append(record)
        if differing:
            names = some([f"{index} (seed {seed})" for index, seed in sorted(differing)], 8)
            self.notes.append(f"{printable(cell.id)}: {DIFFERS} for samples {names}")
        return records, differing


def _seed(record: SampleRecord) -> int:
    return record.seed


def _tells_ids(record: SampleRecord, piece: Callable[[int], str]) -> bool:
    """Whether a record has the ids of its tokens, and they stand for the same tokens here."""
    ids = record.token_ids
    former = record.former or []
    if ids is None or any(token.id is None for token in former):
        return False
    return record.tokens is None or [piece(token) for token in ids] == record.tokens


def _with_reason(record: SampleRecord, differing: set[AnswerKey]) -> SampleRecord:
    """An answer whose verdict is open because it differs now, with that reason."""
    blame = record.blame
    if blame is None or blame.verdict != "undecided" or record.place not in differing:
        return record
    return replace(record, blame=Blame("undecided", DIFFERS))


def _agree(a: CellRecord, b: CellRecord) -> bool:
    """Whether two cells of one model and task have the same questions, settings and seeds."""
    ours = a.conditions
    theirs = b.conditions
    same = ours.data_hash == theirs.data_hash and ours.seeds == theirs.seeds
    return same and ours.options == theirs.options and ours.dtype == theirs.dtype
