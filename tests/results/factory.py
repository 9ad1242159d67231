"""Synthetic records: cells whose answers are right with a known chance, without any model."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pbcore.costs.calls import CallShape
from pbcore.models.base import Generation
from pbcore.report.answers import ReportCell, answers_alone
from pbcore.report.report import Report
from pbcore.report.rows import CellRow, cell_rows
from pbcore.results import CellRecord, Conditions, RunDir, SampleRecord, build_cell
from pbcore.results.build import blame_shares
from pbcore.results.record import Blame, BlameShares, BlameVerdict
from pbcore.results.rundir import RunFacts, StoredCell
from pbcore.results.stats import score_of
from pbcore.tasks.lists import OPERATIONS
from pbcore.tasks.scoring import Scored


def answer(
    nfe: int = 16,
    canvas: int = 32,
    length: int = 18,
    text: str = "an answer",
    rows: int | None = None,
    tokens: int | None = None,
) -> Generation:
    calls = None if tokens is None else {CallShape(1, tokens // 2, 0, canvas): 2}
    return Generation(
        text,
        tuple(range(canvas)),
        nfe,
        length,
        text_after_eos=False,
        rows=rows,
        calls=calls,
        tokens_padded=None if tokens is None else 3,
    )


def cell(
    model: str = "tiny",
    task: str = "waiting_line/shuffle",
    sampler: str = "confidence-k2",
    right: Sequence[float] | float = 0.9,
    n: int = 20,
    nfe: Sequence[int] | int = 16,
    rows: Sequence[int] | int | None = None,
    tokens: Sequence[int] | int | None = None,
    canvas: int = 32,
    headline: str = "accuracy",
    seed: int = 0,
    seeds: int = 1,
    **facts: Any,
) -> tuple[CellRecord, list[SampleRecord]]:
    """One cell with its samples; `right` is each sample's score, or the share of right answers
    (spread by a fixed seed).

    `tokens` are the tokens forwarded for each answer, an even number; None: not counted.
    With several `seeds` it holds each answer's score: those of the first seed, then the second's.
    """
    name = f"{model}/{task.split('/')[1]}/{sampler}"
    if isinstance(right, (int, float)):
        wrong = set(random.Random(f"{name}{seed}").sample(range(n), round(n * (1 - right))))
        right = [float(i not in wrong) for i in range(n)]
    steps = [nfe] * len(right) if isinstance(nfe, int) else list(nfe)
    canvases = list(rows) if isinstance(rows, Sequence) else [rows] * len(right)
    positions = list(tokens) if isinstance(tokens, Sequence) else [tokens] * len(right)
    known = {
        "data_source": "own",
        "data_hash": "d1",
        "key": f"key of {name}",
        "batch_size": 8,
        "device": "cpu",
        "dtype": "float32",
        "worker": "",
        "shared_device": False,
        "dummy": False,
        "threads": None,
        "model_info": {"source": "embedded", "revision": "r1"},
        "model_identity": {"digest": "w1", "weights": "w1"},
    }
    conditions = Conditions.unknown(**{key: facts.pop(key, value) for key, value in known.items()})
    record = CellRecord(name, model, task, sampler, conditions, headline=headline, **facts)
    scored = [
        Scored({headline: value}, {} if value == 1 else {"why": "wrong", "failure": "item missing"})
        for value in right
    ]
    number = len(scored) // seeds
    return build_cell(
        record,
        [
            answer(nfe=count, canvas=canvas, length=min(18, canvas), rows=forwarded, tokens=number)
            for count, forwarded, number in zip(steps, canvases, positions, strict=True)
        ],
        scored,
        rounds=[1.5],
        indices=list(range(number)) * seeds,
        seeds=[seed + i for i in range(seeds) for _ in range(number)],
    )


def failing(
    kind: str, record: CellRecord, samples: Sequence[SampleRecord]
) -> tuple[CellRecord, list[SampleRecord]]:
    """A cell whose first sample failed in this way, and no other did."""
    details = [
        {name: value for name, value in one.details.items() if name != "failure"} for one in samples
    ]
    details[0]["failure"] = [kind]
    told = [replace(one, details=detail) for one, detail in zip(samples, details, strict=True)]
    return replace(record, failures={kind: 1}), told


def with_score(
    entry: tuple[CellRecord, list[SampleRecord]], name: str, values: Sequence[float]
) -> tuple[CellRecord, list[SampleRecord]]:
    """A cell with another score beside its headline, one value an answer."""
    record, samples = entry
    scored = []
    for sample, value in zip(samples, values, strict=True):
        scored.append(replace(sample, scores={**sample.scores, name: value}))
    scores = {**record.scores, name: score_of(name, list(values))}
    return replace(record, scores=scores), scored


def grid(
    models: Sequence[str] = ("ideal", "tiny"),
    tasks: Sequence[str] = tuple(f"waiting_line/{name}" for name in OPERATIONS),
    ks: Sequence[int] = (1, 2, 4, 8),
    policies: Sequence[str] = ("random", "confidence"),
) -> list[tuple[CellRecord, list[SampleRecord]]]:
    """A full grid of top-k cells whose accuracy falls with k."""
    return [
        cell(
            model,
            task,
            f"{policy}-k{k}",
            right=max(0.0, 1 - (0.1 + 0.05 * (policy == "random")) * (k - 1)),
            nfe=32 // k,
        )
        for model in models
        for task in tasks
        for policy in policies
        for k in ks
    ]


def write(run: RunDir, entries: Sequence[tuple[CellRecord, list[SampleRecord]]]) -> RunDir:
    run.write_run(
        {
            "command": "pytest benches",
            "seeds": [0],
            "data_source": "own",
            "versions": {"pbcore": "0.1.0"},
        }
    )
    for record, samples in entries:
        run.write_cell(record, samples)
    return run


def blamed(
    entry: tuple[CellRecord, list[SampleRecord]],
    verdicts: Sequence[BlameVerdict | None],
    reference: str | None = "confidence-k1",
) -> tuple[CellRecord, list[SampleRecord]]:
    """A cell whose answers have these verdicts.

    Args:
        entry: the cell with its samples.
        verdicts: one for each sample; None: the answer is right, or its cause isn't known.
        reference: the sampler that reveals one token at a time.
    """
    cell, samples = entry
    answers = []
    for sample, verdict in zip(samples, verdicts, strict=True):
        blame = None if verdict is None else Blame(verdict)
        answers.append(replace(sample, blame=blame))
    shares = BlameShares("accuracy", reference, **blame_shares(answers), forwards=9, seconds=0.5)
    return replace(cell, blame=shares), answers


def report(
    records: Iterable[CellRecord], answers: Iterable[ReportCell] = (), **facts: Any
) -> Report:
    """The report of these cells, and of these answers to them; without any, none was kept."""
    cells = list(records)
    answered = list(answers) or [answers_alone(StoredCell(cell, ())) for cell in cells]
    return Report(cell_rows(cells), answered, [Path("run")], RunFacts(**facts))


def rows(records: Iterable[CellRecord]) -> list[CellRow]:
    """These cells as reports show them."""
    return cell_rows(records)
