"""Forwards a second beside plain matrix products of the same sizes, and decoding beside a plain
loop that decodes one prompt at a time.

R rows, P prompt columns, L canvas positions, T = P + L.
"""

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from pbcore.decoding import decode
from pbcore.extras.check.gpu.models import random_prompts, timed_model
from pbcore.extras.check.gpu.steps import Check, Setup
from pbcore.models.base import Query
from pbcore.models.device import wait_for
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns, NativeNetwork

BATCHES = (1, 4, 16, 64)
PROMPT = 96
CANVAS = 32
K = 4  # tokens a step
ROUNDS = 5
PATIENCE = 10.0  # seconds after which a timing takes no further round
BESIDE = 1.5  # times the plain loop's seconds that a row in a batch may take at most


def check_speed(setup: Setup) -> Iterator[Check]:
    """Figures by batch; what is judged is that a batch decodes its rows faster than the plain loop
    decodes one after the other.
    """
    model = timed_model(setup)
    if model is None or not isinstance(model.network, NativeNetwork):
        yield Check(setup.model, None, "not a masked model of known build: not timed")
        return
    yield from _forwards(model, setup)
    if model.block is None and not model.shift:
        yield from _beside_the_plain_loop(model, setup)
    else:
        yield Check("plain loop", None, f"{model.name} needs another loop than the plain one")


def _forwards(model: MaskedModel, setup: Setup) -> Iterator[Check]:
    """A forward of each batch beside the products of its layers alone."""
    for rows in BATCHES:
        try:
            forward = seconds(forward_of(model, rows), setup)
            products = seconds(products_of(model, rows), setup)
        except torch.OutOfMemoryError:
            yield Check(f"batch {rows}", None, "doesn't fit in memory")
            return
        per_second = rows / forward
        share = products / forward
        work = operations(model, rows) / products / 1e12
        text = (
            f"{1 / forward:,.1f} forwards/s, {per_second:,.1f} rows/s; the layers' matrix products"
            f" alone take {share:.0%} of a forward ({work:.2f} TFLOP/s)"
        )
        figures = {"forwards_per_second": 1 / forward, "rows_per_second": per_second}
        figures |= {"share_of_products": share, "tflops_of_products": work}
        yield Check(f"batch {rows}", None, text, figures)
        if setup.device.type == "cpu" and forward > 1:
            yield Check("larger batches", None, "left out on a CPU")
            return


def forward_of(model: MaskedModel, rows: int) -> Callable[[], None]:
    """What runs a forward of rows with every position of the canvas masked, and its logits; of a
    block model its first block.
    """
    prompts = random_prompts(model, rows, PROMPT)
    requests = [model.encode(ids, CANVAS, key) for key, ids in enumerate(prompts)]
    canvas = torch.full((rows, CANVAS), model.mask_id, device=model.device)
    none = torch.zeros(rows, dtype=torch.long, device=model.device)
    want = torch.ones_like(canvas, dtype=torch.bool)
    block = None
    if model.block is not None:
        block = none
        want[:, model.block - PROMPT % model.block :] = False
    query = Query(canvas, want, none, block=block)
    context = model.prepare(requests, cache=None, seed=0)

    def run() -> None:
        with torch.inference_mode():
            context.logits(query)

    return run


def matrices(model: MaskedModel) -> Iterator[Tensor]:
    """The weights of the layers' products; experts' stacked weights aren't among them."""
    for weight in model.network.module.model.layers.parameters():
        if weight.dim() == 2:
            yield weight


def products_of(model: MaskedModel, rows: int) -> Callable[[], None]:
    """What runs the layers' matrix products of a forward, each on numbers of its size, and nothing
    else.
    """
    weights = list(matrices(model))
    columns = rows * (PROMPT + CANVAS)
    first = weights[0]
    widths = {weight.shape[1] for weight in weights}
    inputs = {}
    for width in widths:
        inputs[width] = torch.ones(columns, width, dtype=first.dtype, device=first.device)

    def run() -> None:
        with torch.inference_mode():
            for weight in weights:
                torch.nn.functional.linear(inputs[weight.shape[1]], weight)

    return run


def operations(model: MaskedModel, rows: int) -> int:
    """Floating-point operations of `products_of`: two for each weight and column."""
    return 2 * rows * (PROMPT + CANVAS) * sum(weight.numel() for weight in matrices(model))


def _beside_the_plain_loop(model: Any, setup: Setup) -> Iterator[Check]:
    """Seconds a row: plain, one row at a time, and in a batch."""
    rows = BATCHES[1] if setup.device.type == "cpu" else BATCHES[2]
    prompts = random_prompts(model, rows, PROMPT)
    sampler = f"confidence-k{K}"

    def ours(count: int) -> None:
        decode(model, prompts[:count], sampler, max_new_tokens=CANVAS, batch_size=count)

    plain = seconds(lambda: plain_loop(model, prompts[0]), setup)
    alone = seconds(lambda: ours(1), setup)
    together = seconds(lambda: ours(rows), setup) / rows
    text = (
        f"seconds a row of {CANVAS} tokens, {K} a step: plain loop {plain:.4f}, one row at a time"
        f" {alone:.4f}, {rows} together {together:.4f}"
    )
    figures = {"plain": plain, "alone": alone, "together": together, "rows": rows}
    yield Check("decoding", together <= BESIDE * plain, text, figures)


@torch.inference_mode()
def plain_loop(model: MaskedModel, prompt: list[int]) -> list[int]:
    """Decodes one prompt as LLaDA's paper writes it down (arXiv 2502.09992, Algorithm 5): all
    logits at each step, probabilities in float64, and the most confident tokens stay.
    """
    masks = [model.mask_id] * CANVAS
    ids = [*prompt, *masks]
    canvas = torch.tensor([ids], device=model.device)  # (1, T)
    places = torch.arange(len(ids), device=model.device)[None]
    for _ in range(CANVAS // K):
        hidden = model.network.hidden(Columns(canvas, places))
        logits = model.network.project(hidden)  # (1, T, V)
        logits[..., model.mask_id] = -torch.inf
        confidence, token = torch.softmax(logits.double(), dim=-1).max(-1)  # (1, T) each
        open_ = canvas == model.mask_id
        best = confidence.masked_fill(~open_, -torch.inf)[0].topk(K).indices
        canvas[0, best] = token[0, best]
    answer: list[int] = canvas[0, len(prompt) :].tolist()
    return answer


def seconds(run: Callable[[], Any], setup: Setup) -> float:
    """The median of ROUNDS runs after a first one, fewer where they take long; each until the
    device has finished.
    """
    run()
    wait_for(setup.device)
    taken: list[float] = []
    while len(taken) < ROUNDS and sum(taken) < min(PATIENCE, max(0.0, setup.seconds_left)):
        start = perf_counter()
        run()
        wait_for(setup.device)
        taken.append(perf_counter() - start)
    return median(taken) if taken else float("inf")
