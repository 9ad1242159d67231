"""What a cell's record says of theory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.decoding import resolve
from pbcore.models import load_model
from pbcore.plugin.recording import ceiling_of, recorded_bits_lost
from pbcore.tasks import load_task


@pytest.mark.parametrize("cot", [False, True])
def test_answers_with_steps_have_neither_ceiling_nor_bits(cot: bool) -> None:
    """Their canvas holds more than the answers that are listed, so neither partition nor ceiling is
    of these.
    """
    task = load_task("waiting_line/shuffle", limit=2, cot=cot)
    config: Any = SimpleNamespace(stash=pytest.Stash())
    steps = [i // 8 for i in range(task.samples[0].max_new_tokens)]
    answers: Any = [
        SimpleNamespace(sample=one, answer=SimpleNamespace(steps=steps)) for one in task.samples
    ]
    model = load_model("tiny")
    sampler = resolve("left_to_right-k8")
    assert (ceiling_of(config, model, task, sampler) is None) == cot
    assert (recorded_bits_lost(model, task, sampler, answers) is None) == cot
