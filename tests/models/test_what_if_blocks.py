"""What-if canvases of block models: the same predictions as with a cache of their own, though they
share their row's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from pbcore.decoding.sharing import of_rows
from pbcore.models.base import Query, Request
from pbcore.models.blocks import WhatIfContext
from pbcore.models.transfer import narrow_context
from tests.models.block_models import EOS, MASK, block_model

PROMPTS = [[5, 6, 7, 8, 9, 10], [11, 12, 13], [5, 6, 7, 8, 9, 10, 14, 15, 16], [7, 8, 9, 10]]
LENGTH = 8
ROWS = [2, 0, 0, 2, 3, 0]  # the rows of the what-if canvases: in any order, not all, of 3, 2 and 1


def prepared(model: Any) -> Any:
    """A context of ragged prompts whose whole blocks are stored."""
    requests = [Request(tuple(prompt), (MASK,) * LENGTH, key=i) for i, prompt in enumerate(PROMPTS)]
    context = model.prepare(requests, cache=None, seed=0)
    canvas = torch.full((len(PROMPTS), LENGTH), MASK)
    every = torch.ones(len(PROMPTS), dtype=torch.bool)
    context.store(canvas, torch.zeros(len(PROMPTS), dtype=torch.long), every)
    return context


def asked(rows: list[int], block: int, causal: bool) -> Query:
    """A query of canvases with different tokens, about the columns of the active block."""
    generator = torch.Generator().manual_seed(1)
    canvas = torch.randint(0, EOS, (len(rows), LENGTH), generator=generator)
    lead = torch.tensor([len(PROMPTS[row]) % block for row in rows])
    place = torch.arange(LENGTH)
    want = place < (block - lead)[:, None]  # the block with the prompt's end
    hidden = torch.rand(canvas.shape, generator=generator) < 0.5
    canvas = canvas.masked_fill(hidden | ~want, MASK)
    if not causal:
        want = want & (canvas == MASK)
    return Query(
        canvas,
        want,
        torch.zeros(len(rows), dtype=torch.long),
        block=torch.zeros(len(rows), dtype=torch.long),
        causal=causal,
        wanted=tuple(want.sum(-1).tolist()),
        blocks=(0,) * len(rows),
    )


@contextmanager
def runs(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """The shapes of ids that the network gets."""
    shapes: list[tuple[int, ...]] = []

    def note(module: Any, args: Any, kwargs: Any) -> None:
        shapes.append(tuple(args[0].shape))

    with model.network.module.model.register_forward_pre_hook(note, with_kwargs=True):
        yield shapes


def copied(context: Any, query: Query) -> Tensor:
    """Logits of the canvases with a copy of the cache each."""
    part = prepared(context.model)
    narrow_context(part, torch.tensor(ROWS), ROWS)
    logits: Tensor = part.logits(query)
    return logits


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("family", ["sdar", "fast_dllm_v2", "llada2"])
@torch.inference_mode()
def test_the_same_logits_as_with_copies(family: str, causal: bool) -> None:
    """With logits in place and shifted, dense and of experts, ragged, token by token or not."""
    options: Any = {"block": 4} if family == "llada2" else {}
    model = block_model(family, **options)
    assert model.block is not None
    query = asked(ROWS, model.block, causal)
    context = prepared(model)
    ours = of_rows(context, torch.tensor(ROWS), len(PROMPTS), ROWS)
    assert isinstance(ours, WhatIfContext)
    torch.testing.assert_close(ours.logits(query), copied(context, query), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_row_is_read_once_for_all_of_its_canvases() -> None:
    """The network gets a row for each row that has canvases; their own cache is as it was."""
    model = block_model("sdar")
    context = prepared(model)
    finished = [kept[:, :4].clone() for kept in context.cache._layers[0]]
    with runs(model) as shapes:
        of_rows(context, torch.tensor(ROWS), len(PROMPTS), ROWS).logits(asked(ROWS, 4, False))
    assert shapes == [(3, 3 * 4)]
    for before, kept in zip(finished, context.cache._layers[0], strict=True):
        assert torch.equal(before, kept[:, :4])


@torch.inference_mode()
def test_the_next_forward_is_as_without() -> None:
    """What canvases leave behind is written over before it is read."""
    model = block_model("sdar")
    every = list(range(len(PROMPTS)))
    query = asked(every, 4, False)
    alone = prepared(model).logits(query)
    context = prepared(model)
    of_rows(context, torch.tensor(ROWS * 3), len(PROMPTS), ROWS * 3).logits(
        asked(ROWS * 3, 4, False)
    )
    assert torch.equal(context.logits(query), alone)
