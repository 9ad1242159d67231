"""Forwards by kind, and the columns that they compute: a block model beside LLaDA-shaped decoding
of the same size.

`pytest -m speed benches/test_block_forwards.py -s` prints the table. The same transformer of width
256 with random weights is decoded twice, with block-causal attention and with full attention; both
reveal two tokens a step in blocks of 4. Counts don't depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from pbcore.base.tabular import Table, markdown
from pbcore.decoding import decode
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.loading import load_masked
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from pbcore.models.registry import resolve_model

PROMPT = 62
ANSWER = 128
RUNS = (
    ("block-causal", "confidence-k2"),
    ("block-causal", "sdar_static-2"),
    ("full attention", "confidence-k2+b4"),
    ("full attention", "confidence-k2+b4+dual"),
)

pytestmark = pytest.mark.speed


def model(kind: str) -> MaskedModel:
    """SDAR's shape at width 256 with two layers; its body with full attention is a Qwen3
    checkpoint's.
    """
    small = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
    }
    shape = {**(resolve_model("sdar-4b:dummy").shape or {}), **small}
    if kind != "block-causal":
        shape = {**shape, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    entry = ModelEntry(
        kind, "masked", mask_id=999, eos_id=998, shift=False, shape=shape, dummy=True, layers=2
    )
    return replace(load_masked(entry, "cpu", "float32", LoadOptions()), stop_ids=frozenset())


def counted(network: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The columns of each forward."""
    columns: list[int] = []
    forward: Callable[..., torch.Tensor] = network.hidden

    def hidden(run: Columns) -> torch.Tensor:
        columns.append(run.ids.shape[1])
        return forward(run)

    monkeypatch.setattr(network, "hidden", hidden)
    return columns


def test_forwards_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block model stores each block at the price of a forward, and computes only the block's
    columns in each.
    """
    rows = []
    totals = {}
    for kind, sampler in RUNS:
        one = model(kind)
        columns = counted(one.network, monkeypatch)
        (run,) = decode(one, [list(range(PROMPT))], sampler, max_new_tokens=ANSWER)
        assert run.nfe is not None
        store = run.store or 0
        rows.append(
            (
                kind,
                sampler,
                run.prefill or 0,
                run.nfe - store,
                store,
                run.nfe,
                len(columns),
                sum(columns),
            )
        )
        totals[kind, sampler] = sum(columns)
        assert len(columns) == run.nfe + (run.prefill or 0)
    heads = [
        "attention",
        "sampler",
        "prefill",
        "denoising",
        "store",
        "nfe",
        "forwards",
        "columns computed",
    ]
    print(f"\nprompt {PROMPT}, answer {ANSWER} tokens\n{markdown(Table(heads, rows))}")
    assert totals[RUNS[0]] < totals[RUNS[3]] < totals[RUNS[2]]
