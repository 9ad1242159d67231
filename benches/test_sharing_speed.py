"""What `--share-forwards` saves: the paper's grid of `tiny` on three tasks, with a store of
forwards and without.

`pytest -m speed benches/test_sharing_speed.py` prints the table. Times are CPU seconds of decoding;
`fill` is the mean number of rows in a forward that the store could not answer (8 at most), and `-n
2` what two workers would compute if a task's cells were dealt out to them in turns or in halves
instead of staying on one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from pbcore.base.tabular import Table, terminal
from pbcore.decoding import decode, run
from pbcore.decoding.sharing import ForwardStore
from pbcore.grid.profiles import profiles
from pbcore.models import load_model, model_names
from pbcore.models.base import Generation
from pbcore.tasks import Sample, load_task

TASKS = ("waiting_line/copy", "waiting_line/shuffle", "puzzle/sudoku")
SAMPLES = 2
HEADERS = (
    "task",
    "cells",
    "forwards asked",
    "computed",
    "fill",
    "MB",
    "CPU s without",
    "with",
    "times less",
    "estimate / without",
    "rows that differ",
    "-n 2: in turns",
    "in halves",
)
Runs = list[list[Generation]]

pytestmark = pytest.mark.speed


def decoded(
    model: Any, samples: Sequence[Sample], samplers: Iterable[str], store: ForwardStore | None
) -> tuple[Runs, float, float]:
    """Every sampler's answers, with the CPU seconds and the seconds that they took."""
    cpu = time.process_time()
    clock = time.perf_counter()
    runs = [decode(model, samples, sampler, record=True, store=store) for sampler in samplers]
    return runs, time.process_time() - cpu, time.perf_counter() - clock


def differing(plain: Runs, shared: Runs) -> int:
    """Answers whose tokens, NFE, steps or canvases differ, or whose confidences do by more than
    1e-5.
    """
    pairs = [
        (one, two)
        for left, right in zip(plain, shared, strict=True)
        for one, two in zip(left, right, strict=True)
    ]
    return sum(
        (one.token_ids, one.nfe, one.steps, one.trajectory)
        != (two.token_ids, two.nfe, two.steps, two.trajectory)
        or one.confidences != pytest.approx(two.confidences, abs=1e-5)
        for one, two in pairs
    )


def distinct(runs: Runs) -> int:
    """The canvases that a store would have to ask the model about, whichever sampler comes upon
    them.
    """
    return len(
        {
            (row, canvas)
            for answers in runs
            for row, one in enumerate(answers)
            for canvas in (one.trajectory or ())[:-1]
        }
    )


@pytest.mark.skipif(
    "tiny" not in model_names(), reason="the trained model tiny is not part of this installation"
)
def test_fill(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in a forward (8 at most) over every tenth cell of a task's grid and 32 samples: rows
    that the store answers leave room, which further rows of the same cell fill.
    """
    model: Any = load_model("tiny")
    samples = load_task("waiting_line/shuffle", limit=32).samples
    samplers = profiles()["paper"].sampler_names(samples[0].max_new_tokens)[::10]
    fills = []
    for live in (1, run.LIVE):
        monkeypatch.setattr(run, "LIVE", live)
        store = ForwardStore(model)
        decoded(model, samples, samplers, store)
        fills.append(f"{store.computed / store.batches:.2f} with {8 * live} rows side by side")
    with capsys.disabled():
        print(
            f"\n{len(samplers)} samplers, {store.computed:,} forwards; rows in a forward:"
            f" {', '.join(fills)}"
        )


@pytest.mark.skipif(
    "tiny" not in model_names(), reason="the trained model tiny is not part of this installation"
)
def test_paper_grid(capsys: pytest.CaptureFixture[str]) -> None:
    """The same rows from fewer forwards; the store computes each canvas once."""
    model: Any = load_model("tiny")
    rows = []
    for task in TASKS:
        samples = load_task(task, limit=SAMPLES).samples
        samplers = profiles()["paper"].sampler_names(samples[0].max_new_tokens)
        store = ForwardStore(model)
        shared, with_store, _ = decoded(model, samples, samplers, store)
        plain, without, clock = decoded(model, samples, samplers, None)
        asked = sum(one.nfe or 0 for answers in plain for one in answers)
        differ = differing(plain, shared)
        half = len(plain) // 2
        assert (differ, store.computed, store.shared + store.computed) == (
            0,
            distinct(plain),
            asked,
        )
        in_turns, halves = (
            distinct(one) + distinct(other)
            for one, other in ((plain[::2], plain[1::2]), (plain[:half], plain[half:]))
        )
        estimate = asked * store.seconds / store.computed / clock
        counts = (
            len(samplers),
            asked,
            store.computed,
            store.computed / store.batches,
            store.size / 1e6,
        )
        rows.append(
            (
                task,
                *counts,
                without,
                with_store,
                without / with_store,
                estimate,
                differ,
                in_turns,
                halves,
            )
        )
    with capsys.disabled():
        print(f"\n{SAMPLES} samples a task\n" + terminal(Table(HEADERS, rows, forms=".2f")))
