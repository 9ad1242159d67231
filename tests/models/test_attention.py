"""Attention weights read beside a forward: equal to transformers' own, and without influence on the
answers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import Attending, Query
from tests.models.checkpoints import eager, llama_checkpoint

PROMPTS = [[2, 7, 8, 9, 10], [2, 11, 12]]
LENGTH = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three layers of four heads, two of which share their keys."""
    return load_model(str(llama_checkpoint(tmp_path_factory.mktemp("llama"), layers=3)))


def query(model: Any, rows: int, **asked: Any) -> Query:
    canvas = torch.full((rows, LENGTH), model.mask_id)
    canvas[:, 1] = 9
    slots = torch.arange(LENGTH).expand(rows, -1)
    return Query(
        canvas,
        canvas == model.mask_id,
        torch.zeros(rows, dtype=torch.long),
        attending=Attending(**asked),
        slots=slots,
    )


def context(model: Any, prompts: list[list[int]]) -> Any:
    requests = [model.encode(prompt, LENGTH, i) for i, prompt in enumerate(prompts)]
    return model.prepare(requests, cache=None, seed=0)


class TestWeights:
    @pytest.mark.parametrize(
        ("asked", "layers"), [({"share": 0.3}, range(2, 3)), ({"last": 2}, range(1, 3))]
    )
    @torch.inference_mode()
    def test_equal_those_of_transformers(
        self, model: Any, asked: dict[str, Any], layers: range
    ) -> None:
        """In a ragged batch, for slots alone and with the prompt's columns; padding receives
        nothing.
        """
        full = query(model, 2, prompt=True, sinks=True, **asked)
        _, _, weights = context(model, PROMPTS).logits_and_attention(full)
        _, _, narrow = context(model, PROMPTS).logits_and_attention(query(model, 2, **asked))
        for row, prompt in enumerate(PROMPTS):
            _, expected = eager(model, [*prompt, *full.canvas[row].tolist()], layers)
            pad = weights.prompt - len(prompt)
            torch.testing.assert_close(
                weights.weights[row, :, pad:], expected[len(prompt) :], atol=1e-6, rtol=1e-4
            )
            torch.testing.assert_close(
                narrow.weights[row], expected[-LENGTH:, -LENGTH:], atol=1e-6, rtol=1e-4
            )
            torch.testing.assert_close(
                weights.sinks[row, pad:], expected.mean(0), atol=1e-6, rtol=1e-4
            )
            assert not weights.weights[row, :, :pad].any()
            assert weights.visible[row].tolist() == [False] * pad + [True] * len(prompt) + [
                False,
                True,
                False,
                False,
            ]

    @torch.inference_mode()
    def test_reading_changes_no_logit(self, model: Any) -> None:
        """The layer's output is that of its own kernel."""
        asked = query(model, 2, share=1.0, sinks=True, prompt=True)
        plain = context(model, PROMPTS).logits(replace(asked, attending=None))
        logits, _, _ = context(model, PROMPTS).logits_and_attention(asked)
        torch.testing.assert_close(logits, plain, atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize(
        ("asked", "count", "layers"),
        [
            ({"share": 0.3}, 32, range(22, 32)),
            ({"share": 0.3}, 28, range(19, 28)),
            ({"last": 4}, 2, range(2)),
        ],
    )
    def test_layers(self, asked: dict[str, Any], count: int, layers: range) -> None:
        """LLaDA's and Dream's, and a model with fewer than are asked for."""
        assert Attending(**asked).layers(count) == layers


@pytest.mark.parametrize(
    "sampler",
    ["dapd_staged-0.1", "dawn-0.5", "axon-1-sink1.0-cover", "clad-0.3", "confidence-k2+adas40"],
)
def test_a_batch_changes_nothing(model: Any, sampler: str) -> None:
    """One by one, and together with a longer prompt."""
    together = decode(model, PROMPTS, sampler, max_new_tokens=8)
    alone = decode(model, PROMPTS, sampler, max_new_tokens=8, batch_size=1)
    assert [(a.token_ids, a.steps, a.nfe) for a in together] == [
        (a.token_ids, a.steps, a.nfe) for a in alone
    ]


def test_flash_attention_and_own_code_have_none(tmp_path: Path) -> None:
    """Only kernels that take pairwise masks are read."""
    model: Any = load_model(str(llama_checkpoint(tmp_path)))
    assert model.attention
    model.network.module.config._attn_implementation_internal = "flash_attention_2"
    assert not model.attention
