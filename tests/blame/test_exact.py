"""Blame beside exact truth: whether a right answer still fits each canvas of a wrong one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import pbcore
from pbcore.blame import Continuing, blamed, reference_of
from pbcore.blame.taken import Canvas, taken
from pbcore.decoding import decode
from pbcore.decoding.samplers import resolve
from pbcore.models.ideal import Ideal
from pbcore.models.tokenizer import pieces
from pbcore.names import parse
from pbcore.results.build import sample_record
from pbcore.results.record import SampleRecord
from pbcore.tasks.base import Task
from pbcore.tasks.registry import all_task_names
from pbcore.theory.canvas import MASKED
from pbcore.theory.distributions import answer_distribution, supports

GROUPS = ("waiting_line/", "list_ops/", "puzzle/", "walk/")
TASKS = [name for name in all_task_names() if name.startswith(GROUPS) and supports(name)]
SAMPLERS = (
    "random-k2",
    "random-k4",
    "confidence-k2",
    "confidence-k4",
    "left_to_right-k2",
    "margin-k2",
    "entropy-k3",
    "threshold-0.5",
    "factor-1.0",
    "eb-0.5",
    "klass-0.5",
    "confidence-k2+rcr",
)
LOSSY = {"shuffle", "insert_random", "remove_random", "replace_random", "latin_square", "graph"}


def answered(model: Ideal, task: Task, sampler: str) -> list[SampleRecord]:
    """The records of a model's answers."""
    answers = decode(model, task.samples, sampler)
    scored = task.score_many([answer.text for answer in answers], task.samples)
    records = []
    for sample, answer, result in zip(task.samples, answers, scored, strict=True):
        records.append(sample_record(sample.index, answer, result, 0, pieces(model)))
    return records


def with_blocks(model: Ideal, task: Task, sampler: str) -> Iterator[str]:
    """The sampler without blocks, and with some that divide every canvas of the task."""
    yield sampler
    counts = [model.encode(one, None, 0).canvas.count(model.mask_id) for one in task.samples]
    for size in (8, 6, 5, 4, 3, 2):
        if all(count % size == 0 for count in counts):
            name = parse(sampler)
            modifier = f"{str(name).partition('+')[0]}+b{size}"
            yield modifier + "".join(f"+{part}" for part in sampler.split("+")[1:])
            return


def fits(model: Ideal, task: Task, index: int, canvas: Canvas) -> bool:
    """Whether a right answer to a sample still fits a canvas."""
    law = answer_distribution(next(one for one in task.samples if one.index == index))
    ids = {token: number for number, token in enumerate(law.vocabulary)}
    local = []
    for token in canvas:
        known = ids.get(model.text([token]) or law.vocabulary[-1], len(ids))
        local.append(MASKED if token == model.mask_id else known)
    return law.fits(np.array(local))


@pytest.mark.parametrize("name", TASKS)
def test_continuations_end_right_where_a_right_answer_fits(name: str) -> None:
    """At every step of every wrong answer, with and without blocks."""
    assert_exact(name, SAMPLERS[1::4], 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_twelve_samplers(name: str) -> None:
    """The same of all samplers and more questions; tasks with one answer have no wrong ones."""
    wrong = assert_exact(name, SAMPLERS, 2)
    assert (wrong > 0) == (name.partition("/")[2] in LOSSY)


def assert_exact(name: str, samplers: Sequence[str], limit: int) -> int:
    """Checks all canvases of wrong answers, and that `ideal`, which never errs one at a time, is
    only wrong by tokens that were revealed together; returns how many answers were wrong.
    """
    model = Ideal()
    task = pbcore.load_task(name, limit=limit)
    continuing = Continuing(model, task, "accuracy")
    wrong = 0
    for sampler in samplers:
        for whole in with_blocks(model, task, sampler):
            records, shares = blamed(continuing, resolve(whole), answered(model, task, whole))
            assert shares.model.mean == shares.gained.mean == shares.token.mean == 0
            broken = [record for record in records if record.blame is not None]
            wrong += len(broken)
            for record in broken:
                assert_together(record, takes_back="rcr" in whole)
            assert_same(continuing, whole, broken)
    return wrong


def assert_together(record: SampleRecord, takes_back: bool) -> None:
    """A wrong answer is one of tokens that each alone would have ended right; of a sampler that
    takes tokens back it may be undecided.
    """
    blame = record.blame
    assert blame is not None
    if takes_back and blame.verdict == "undecided":
        return
    assert blame.verdict == "together"
    assert False not in [token.alone for token in blame.revealed]


def assert_same(continuing: Continuing, sampler: str, records: list[SampleRecord]) -> None:
    """`fits` and the continuation say the same of every canvas of some answers."""
    model = continuing.model
    assert isinstance(model, Ideal)
    places = []
    canvases = []
    for record in records:
        steps = taken(record, continuing.empty(record.index), model.mask_id)
        for step in range(steps.count):
            places.append(record.place)
            canvases.append(steps.canvas(step))
    if not canvases:
        return
    endings = continuing.endings(reference_of(resolve(sampler)), places, canvases)
    for (index, _), canvas, ending in zip(places, canvases, endings, strict=True):
        assert ending.right == fits(model, continuing.task, index, canvas)
