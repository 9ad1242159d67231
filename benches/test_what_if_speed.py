"""What a step's own work costs in samplers with what-if rows and joint draws, beside the output
projection of an 8B-shaped model.

Hidden width 4096, vocabulary 126,464 (LLaDA 8B), one row with 32 masks. `spec-8` accepts or rejects
the drafts of 8 what-if rows and keeps the row that it takes; `+counts` and `+rounding` choose 32
tokens together. Each is set beside the projection of the positions whose logits it reads, which
alone is a small part of a forward.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pbcore.decoding import Step, resolve
from pbcore.decoding.joint_draws import together
from pbcore.decoding.predicted import Decoding, see
from pbcore.decoding.prediction import Prediction, predict
from pbcore.decoding.what_if import Answers, Forwards

WIDTH = 4096
VOCABULARY = 126_464
SLOTS = 32
ROWS = 8
ROUNDS = 3


def unsure(positions: int, seed: int) -> Tensor:
    """Logits (M, V) with some ten likely tokens a position, as in text that isn't decided."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(positions, VOCABULARY, generator=generator)
    logits[:, 100:112] += 12 + torch.randn(positions, 12, generator=generator)
    return logits


def a_step(logits: Tensor, temperature: float) -> Step:
    """The step of one row of masks with these logits."""
    places = torch.arange(SLOTS)[None]
    token, confidence = predict(logits, 0.0, None)
    whole = torch.ones(1, SLOTS, dtype=torch.bool)
    zero = torch.zeros(1, dtype=torch.long)
    full = zero + SLOTS
    step = Step(
        inside=whole,
        position=places,
        column=places,
        masked=whole,
        key=zero,
        index=zero,
        nfe=zero,
        slots=full,
        size=full,
        requested=full,
        targets=full,
        left=full,
        stale=zero.bool(),
        asked=SLOTS,
        decoding=Decoding(mask_id=0, temperature=temperature),
        token=token[None],
        confidence=confidence[None],
    )
    see(step, Prediction(token, confidence, logits))
    return step


def answered(step: Step, probe: Any, logits: Tensor) -> Answers:
    """The answers to a Probe from logits (W·C, V): of all slots, written ones too."""
    count = len(probe.row)
    canvas = torch.where(probe.write, probe.token, step.mask_id)
    at = torch.arange(count * SLOTS).view(count, SLOTS).masked_fill(probe.write, -1)
    where = step.column.expand(count, SLOTS)
    forwards = Forwards(canvas, at, logits)
    return Answers(probe.row, ~probe.write, forwards, where, 0.0, None, lambda chances, row: None)


def median(work: Callable[[], object]) -> float:
    """Seconds of one call, the median of some after one to warm up."""
    work()
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def of_the_projection() -> float:
    """Seconds of the projection of 32 positions."""
    weight = torch.randn(VOCABULARY, WIDTH) / WIDTH**0.5
    hidden = torch.randn(SLOTS, WIDTH)
    return median(lambda: hidden @ weight.T)


@pytest.mark.speed
@torch.inference_mode()
def test_own_work_beside_the_projection() -> None:
    """Prints seconds and ratio of each; that the work is done shows in what it reveals."""
    projection = of_the_projection()
    logits = unsure(SLOTS, 0)
    later = unsure(ROWS * SLOTS, 1)
    rule: Any = resolve("spec-8-sure2").policy

    def ask() -> Tensor:
        step = a_step_of[0]
        step.notes = {}
        step.answers = None
        step.answers = answered(step, rule.select(step), later)
        move = rule.select(step)
        step.answers.taken(move.take, torch.full_like(step.column, step.mask_id), step.mask_id)
        revealed: Tensor = move.reveal
        return revealed

    a_step_of = [a_step(logits, 0.0)]
    works: dict[str, tuple[Callable[[], object], int]] = {
        "spec-8: order, acceptance, what is taken": (ask, ROWS),
        "+counts": (lambda: together(a_step_of[0], a_step_of[0].masked, "counts"), 1),
        "+counts+t1.0": (lambda: together(a_step_of[1], a_step_of[1].masked, "counts"), 1),
        "+rounding+t1.0": (lambda: together(a_step_of[1], a_step_of[1].masked, "rounding"), 1),
    }
    a_step_of.append(a_step(logits, 1.0))
    assert 1 <= int(ask().sum()) <= ROWS
    print(f"\n{'work':44} {'seconds':>9} {'projection':>11} {'ratio':>7}")
    for name, (work, rows) in works.items():
        own = median(work)
        print(f"{name:44} {own:9.4f} {rows * projection:11.4f} {own / (rows * projection):7.1%}")
