"""Our decoding beside the plain loop of LLaDA's paper: one prompt at a time, all logits at each
step, in a few lines.

The plain loop runs the model as transformers makes it. Both decode the same prompts with the same
sampler, in turns; a row's time is process CPU time, so that what else runs on the machine matters
less.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.llama import MASK, save_llama
from pbcore.decoding import denoise, resolve
from pbcore.decoding.samplers import of_name
from pbcore.models import load_model
from pbcore.models.base import Request
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from pbcore.tasks import load_task

NEW, K, ROWS, ROUNDS, PLAIN = (
    32,
    4,
    8,
    5,
    2,
)  # PLAIN: prompts of a round that the plain loop decodes


@torch.inference_mode()
def plain(model: MaskedModel, prompt: tuple[int, ...], steps: int) -> tuple[int, ...]:
    """Decodes NEW tokens in one block (LLaDA, arXiv 2502.09992, Algorithm 5): at each step predict
    all masked tokens, keep the most confident ones, and leave the others masked. Probabilities in
    float64, as LLaDA's code has them.
    """
    canvas = torch.tensor([[*prompt, *[model.mask_id] * NEW]])  # (1, T)
    places = torch.arange(canvas.shape[1])[None]
    for _ in range(steps):
        logits = model.network.project(model.network.hidden(Columns(canvas, places)))  # (1, T, V)
        logits[..., model.mask_id] = -torch.inf
        confidence, token = torch.softmax(logits.double(), dim=-1).max(-1)  # (1, T) each
        best = (
            confidence.masked_fill(canvas != model.mask_id, -torch.inf)[0]
            .topk(NEW // steps)
            .indices
        )
        canvas[0, best] = token[0, best]
    return tuple(canvas[0, len(prompt) :].tolist())


def pair(which: str, folder: Path) -> tuple[MaskedModel, MaskedModel]:
    """The same model twice: as pbcore loads it, and as transformers makes it."""
    name = which if which == "tiny" else str(save_llama(folder, int(which)))
    ours = load_model(name, dtype="float32")
    with torch.backends.mkldnn.flags(enabled=False):
        theirs = load_model(name, dtype="float32")
    assert isinstance(ours, MaskedModel)
    assert isinstance(theirs, MaskedModel)
    return ours, theirs


def prompts(which: str, model: MaskedModel) -> list[Request]:
    """ROWS prompts: a task's for `tiny`, 40 to 120 random ids for a random model."""
    if which == "tiny":
        return [
            model.encode(sample, NEW, sample.index)
            for sample in load_task("waiting_line/sort", limit=ROWS).samples
        ]
    draw = random.Random(0)
    ids = [
        tuple(draw.randrange(2, int(which)) for _ in range(draw.randint(40, 120)))
        for _ in range(ROWS)
    ]
    return [Request(row, (MASK,) * NEW, key) for key, row in enumerate(ids)]


@pytest.mark.speed
@pytest.mark.parametrize("which", ["tiny", "8192", "126464"])
def test_beside_the_plain_loop(
    benchmark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, which: str
) -> None:
    """CPU seconds a row of the plain loop over ours: `tiny`, and six layers of width 256 with both
    vocabularies.
    """
    ours, theirs = pair(which, tmp_path)
    requests = prompts(which, ours)
    name = resolve(f"confidence-k{K}").name
    seconds: dict[str, list[float]] = {"plain": [], "ours": []}
    same: list[bool] = []

    def run() -> None:
        start = time.process_time()
        answers = denoise(ours, requests, of_name(name).policy, name)
        seconds["ours"].append((time.process_time() - start) / ROWS)
        first = PLAIN * len(seconds["plain"]) % ROWS
        chosen = range(first, first + PLAIN)
        start = time.process_time()
        others = [plain(theirs, requests[i].prompt_ids, NEW // K) for i in chosen]
        seconds["plain"].append((time.process_time() - start) / PLAIN)
        same.extend(mine == answers[i].token_ids for mine, i in zip(others, chosen, strict=True))

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    # Random weights are sure of nothing, so that rounding decides between tokens now and then.
    assert all(same) if which == "tiny" else any(same)
    alone, batched = (statistics.median(seconds[kind][1:]) for kind in ("plain", "ours"))
    benchmark.extra_info.update(
        {"plain_over_ours": round(alone / batched, 2), "threads": torch.get_num_threads()}
    )
    with capsys.disabled():
        print(
            f"\n{which}, confidence-k{K}, {torch.get_num_threads()} threads: plain loop {alone:.3f}"
            f" CPU s a row, pbcore {batched:.3f}: {alone / batched:.2f} ×, {sum(same)} of"
            f" {len(same)} answers the same",
            end="",
        )
