"""The reference checkpoints: logits, and every reference decoding with tokens and forwards."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import Query
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from tests.reference import KEPT, bundled, reference_cases


@cache
def model(name: str) -> MaskedModel:
    loaded = load_model(str(bundled(name)))
    assert isinstance(loaded, MaskedModel)
    return loaded


def grouped(file: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Reference decodings by sampler name and length, so that each group is one batch of ragged
    prompts.
    """
    groups = defaultdict(list)
    for case in reference_cases(file):
        policy = case["policy"].removesuffix("_topk")
        if file == "decode_dream":
            name = f"{policy}+s{'_'.join(map(str, case['counts']))}"
        else:
            name = (
                f"confidence-k{case['k']}"
                if policy == "confidence"
                else f"threshold-{case['threshold']}"
            )
            name += f"+b{case['block_length']}" + (
                "" if case["cache"] == "none" else f"+{case['cache']}"
            )
        groups[name, case["gen_length"]].append(case)
    return groups


def opened_at_once(canvases: list[tuple[int, ...]], block: int, mask: int) -> int:
    """Blocks that their first forward finishes, and after which another block follows or not: where
    the reference forwards once more.
    """
    count = 0
    for before, after in pairwise(canvases):
        for start in range(0, len(before), block):
            part = slice(start, start + block)
            count += all(token == mask for token in before[part]) and mask not in after[part]
    return count


class TestLogits:
    """A forward of the loaded model against the reference program's."""

    @pytest.mark.parametrize(
        ("name", "key"), [("llada-tiny", "logits"), ("dream-tiny", "logits_unshifted")]
    )
    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_equal_the_reference(self, name: str, key: str, attention: str) -> None:
        """Every kept logit of a full-attention forward is within 1e-4 of the reference's."""
        data = load_file(bundled(name, "logits.safetensors"))
        loaded: Any = load_model(str(bundled(name)), attn_implementation=attention)
        rows, length = data["input_ids"].shape
        hidden = loaded.network.hidden(
            Columns(data["input_ids"], torch.arange(length).expand(rows, length))
        )
        assert (loaded.network.project(hidden)[..., KEPT] - data[key]).abs().max() < 1e-4

    def test_shifted_logits_come_from_the_column_before(self) -> None:
        """Dream's first canvas position is predicted at the last prompt token, the others one
        column before their own.
        """
        data = load_file(bundled("dream-tiny", "logits.safetensors"))
        dream = model("dream-tiny")
        prompt = data["input_ids"][:1, :8]
        canvas = data["input_ids"][:1, 8:]
        request = dream.encode(prompt[0].tolist(), canvas.shape[1], 0)
        query = Query(canvas, torch.ones_like(canvas, dtype=torch.bool), torch.zeros(1))
        logits = dream.prepare([request], cache=None, seed=0).logits(query)
        expected = data["logits_unshifted"][0, 7:-1]
        kept = logits > -torch.inf
        assert (logits[..., KEPT] - expected)[kept[..., KEPT]].abs().max() < 1e-4
        assert kept.sum(-1).eq(50).all()


class TestDecodings:
    """decode() against the reference programs' decodings."""

    @pytest.mark.parametrize("length", [32, pytest.param(64, marks=pytest.mark.slow)])
    def test_llada(self, length: int) -> None:
        """All cases without and with caches give the reference's tokens; forwards are the
        reference's without those it wastes.
        """
        groups = {
            name: cases
            for (name, asked), cases in grouped("decode_llada").items()
            if asked == length
        }
        assert len(groups) > 20
        for name, cases in groups.items():
            out = decode(
                model("llada-tiny"),
                [case["prompt"] for case in cases],
                name,
                max_new_tokens=length,
                record=True,
            )
            for case, generation in zip(cases, out, strict=True):
                assert list(generation.token_ids) == case["output"], name
                assert generation.trajectory is not None
                wasted = (
                    0
                    if case["cache"] == "none"
                    else opened_at_once(list(generation.trajectory), case["block_length"], 510)
                )
                assert generation.nfe == case["nfe"] - wasted, name
                if case.get("canvases"):
                    canvases = [canvas[-length:] for canvas in case["canvases"]]
                    assert [list(canvas) for canvas in generation.trajectory[:-1]] == canvases, name

    def test_dream(self) -> None:
        """All cases, driven by the recorded counts per step, pass through the reference's
        canvases.
        """
        for (name, length), cases in grouped("decode_dream").items():
            out = decode(
                model("dream-tiny"),
                [case["prompt"] for case in cases],
                name,
                max_new_tokens=length,
                record=True,
            )
            for case, generation in zip(cases, out, strict=True):
                assert list(generation.token_ids) == case["output"], name
                assert generation.nfe == case["nfe"], name
                assert generation.trajectory is not None
                after = [canvas[-length:] for canvas in case["canvases_after"]]
                assert [list(canvas) for canvas in generation.trajectory[1:]] == after, name
