"""Cells whose answers have tokens, steps and confidences, without any model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pbcore.results import CellRecord, RunDir, SampleRecord, create
from pbcore.results.questions import write_questions
from pbcore.results.record import FormerToken
from pbcore.tasks import load_task
from tests.results import factory

WORDS = ('["', "Ann", " Li", '", "', "Bo", " Ek", '"]', "<eos>")
STEPS = [0, 0, 1, 1, 2, 2, 3, 3, 3, 3]  # two tokens of the canvas repeat the last one
SURE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.95, 0.99, 0.99, 0.99]

Entry = tuple[CellRecord, list[SampleRecord]]


def filmed(entry: Entry, **changes: Any) -> Entry:
    """The cell with a film for each answer; sample 1 had a token masked again."""
    cell, samples = entry
    films = []
    for sample in samples:
        former = (
            [FormerToken(2, " Xu", 0, 0, 0.3), FormerToken(4, "Bob", 1, 1, 0.25)]
            if sample.index == 1
            else []
        )
        words = list(WORDS) if sample.scores.get("accuracy") else [*WORDS[:4], "Ann", *WORDS[5:]]
        text = "".join(words[:-1])
        films.append(
            replace(sample, text=text, tokens=words, steps=STEPS, confidences=SURE, former=former)
        )
    return replace(cell, **changes), films


def run(root: Path, name: str = "a", n: int = 6, **cell: Any) -> RunDir:
    """A run of two models and two samplers on two tasks, with its questions."""
    made = create(root, name)
    digests = {}
    for task in ("waiting_line/copy", "waiting_line/shuffle"):
        loaded = load_task(task, limit=n)
        write_questions(made, loaded)
        digests[task] = loaded.data_hash
    entries = [
        filmed(
            factory.cell(
                model, task, sampler, right=right, n=n, nfe=nfe, data_hash=digests[task], **cell
            )
        )
        for model in ("ideal", "tiny")
        for task in digests
        for sampler, right, nfe in (("confidence-k2", 0.5, 8), ("threshold-0.9", 1.0, 16))
    ]
    return factory.write(made, entries)
