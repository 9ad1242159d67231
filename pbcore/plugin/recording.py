"""The record of one cell, from its answers and their scores."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pbcore.analysis.decoding import exploration, order_statistics
from pbcore.ceilings.ceiling import Ceilings, kept_ceilings, mean_bits_lost
from pbcore.decoding.samplers import Sampler
from pbcore.grid.cellid import CellName
from pbcore.grid.settings import Settings
from pbcore.metrics.answer_law import answer_law
from pbcore.models.base import Model
from pbcore.models.identity import identity
from pbcore.models.tokenizer import pieces
from pbcore.plugin.answering import Answered, Decoded, scored_text
from pbcore.plugin.conditions import conditions
from pbcore.plugin.state import plan
from pbcore.results.build import build_cell, generated, length_text
from pbcore.results.record import CellRecord, Conditions, SampleRecord
from pbcore.results.resume import code_version
from pbcore.tasks.base import Task
from pbcore.tasks.scoring import Scored
from pbcore.theory.ceiling import Ceiling

_CEILINGS = pytest.StashKey[Ceilings]()
NO_TIME = "decoded with shared forwards (--share-forwards)"


def cell_record(
    config: pytest.Config,
    requested: Settings,
    name: CellName,
    key: str,
    model: Model,
    task: Task,
    decoded: Decoded,
    scored: Sequence[Scored],
) -> tuple[CellRecord, list[SampleRecord]]:
    """The record of a cell and of its samples.

    Args:
        config: pytest's.
        requested: the cell's settings.
        name: the cell.
        key: digest of all that decides the outcome.
        model: what answered.
        task: the cell's task.
        decoded: the answers and how they came about.
        scored: the scores of the answers, in their order.
    """
    answers = [answered.answer for answered in decoded.answers]
    facts = CellRecord(
        id=name.cell_id,
        model=name.model,
        task=task.name,
        sampler=str(name.sampler),
        conditions=replace(
            _conditions(config, name, model, task, decoded),
            key=key,
            model_identity=identity(model),
        ),
        n_available=task.available or plan(config).available(name.task, name.model),
        length=length_text(task.options.get("lengths") or ()),
        headline=task.headline,
    )
    facts, absent = _with_measured(facts, decoded)
    cell, entries = build_cell(
        facts,
        answers,
        scored,
        rounds=decoded.rounds,
        absent=absent,
        indices=[answered.sample.index for answered in decoded.answers],
        seeds=[answered.seed for answered in decoded.answers],
        pieces=pieces(model),
    )
    texts = [(one.sample, scored_text(requested, one.answer)) for one in decoded.answers]
    cell = replace(
        cell,
        decoding={
            **order_statistics(entries),
            **generated(answers),
            **exploration(entries, task.headline),
            **answer_law(task, texts),
        },
        served=None if decoded.asked is None else decoded.asked.part(entries),
        ceiling=ceiling_of(config, model, task, name.sampler),
        bits_lost=recorded_bits_lost(model, task, name.sampler, decoded.answers),
    )
    return cell, entries


def _with_measured(facts: CellRecord, decoded: Decoded) -> tuple[CellRecord, dict[str, str]]:
    """The record with what was measured beside the answers, and why the rest of it is absent."""
    if decoded.shared is not None:
        facts = replace(
            facts,
            forwards_shared=decoded.shared.shared,
            forwards_computed=decoded.shared.computed,
            seconds_estimated=decoded.shared.seconds,
        )
        return facts, dict.fromkeys(("seconds", "peak_memory_bytes"), NO_TIME)
    if decoded.peak is not None:
        facts = replace(facts, peak_memory_bytes=decoded.peak.reported)
    if decoded.asked is not None:
        return replace(facts, **decoded.asked.rates()), decoded.asked.absent()
    return facts, {}


def _conditions(
    config: pytest.Config, name: CellName, model: Model, task: Task, decoded: Decoded
) -> Conditions:
    """The conditions of the cell's measurement, with the batch that was decoded."""
    measured = conditions(config, name, model, task)
    if decoded.batch is not None:
        measured = replace(measured, batch_size=measured.at_once or decoded.batch)
    if decoded.peak is not None:
        measured = replace(measured, peak_memory_is=decoded.peak.kind)
    return measured


def ceiling_of(config: pytest.Config, model: Model, task: Task, sampler: Sampler) -> Ceiling | None:
    """The ideal model's expected accuracy on the task's samples. It is worked out once in this
    process; where it is decoded, once on this machine.

    Args:
        config: keeps what was worked out.
        model: the cell's; one with blocks of its own has no ceiling.
        task: the cell's.
        sampler: the cell's.

    Returns:
        The ceiling; None where theory doesn't know it.
    """
    if _CEILINGS not in config.stash:
        config.stash[_CEILINGS] = Ceilings(kept_ceilings(), code_version())
    ceilings = config.stash[_CEILINGS]
    return ceilings.of(task, sampler.alone, getattr(model, "block", None))


def recorded_bits_lost(
    model: Model, task: Task, sampler: Sampler, answers: Sequence[Answered]
) -> float | None:
    """The mean over answers of L_T, in bits, of the partition that the decoding took.

    Args:
        model: the cell's.
        task: the cell's.
        sampler: the cell's.
        answers: with their steps.

    Returns:
        The mean; None for answers with steps (chain of thought), of which theory knows only the
        end.
    """
    if task.cot:
        return mean_bits_lost(model, sampler.alone, [])
    taken = [(answered.sample, answered.answer.steps) for answered in answers]
    return mean_bits_lost(model, sampler.alone, taken)
