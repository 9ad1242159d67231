"""Tiny-A2D and Nemotron-Labs-Diffusion: logits and every reference decoding, in ragged batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import Generation
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from tests.reference import KEPT, bundled, reference_cases

MASK = 510
A2D = ("a2d-qwen3-tiny", "a2d-qwen2-tiny", "a2d-llama-tiny")


@cache
def model(name: str, **options: Any) -> MaskedModel:
    given = {"mask_id": MASK} if name.startswith("a2d") else {}
    loaded = load_model(str(bundled(name)), **given, **options)
    assert isinstance(loaded, MaskedModel)
    return loaded


def forward(name: str, data: dict[str, torch.Tensor], sees: torch.Tensor) -> torch.Tensor:
    """The kept logits (R, T, V') of a checkpoint, where column q sees those that `sees` says."""
    network = model(name).network
    rows, length = data["input_ids"].shape
    positions = torch.arange(length).expand(rows, length)
    run = Columns(data["input_ids"], positions, sees.expand(rows, length, length))
    return network.project(network.hidden(run))[..., KEPT]


def counts_by_block(case: dict[str, Any]) -> list[tuple[int, ...]]:
    """How many tokens each step of each block revealed."""
    before: list[int] = []
    found: dict[int, list[int]] = defaultdict(list)
    for canvas in case["canvases_after"]:
        masked = [*before, *[MASK] * (len(canvas) - len(before))]
        changed = [now != then for now, then in zip(canvas, masked, strict=True)]
        found[len(canvas)].append(sum(changed))
        before = canvas
    return [tuple(counts) for counts in found.values()]


def batches(
    cases: list[tuple[dict[str, Any], tuple[Any, ...]]],
) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
    """Cases by what is asked of them."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for case, asked in cases:
        groups[asked].append(case)
    yield from groups.items()


class TestLogits:
    """A forward of the loaded model against the reference program's."""

    @pytest.mark.parametrize("name", A2D)
    def test_a2d(self, name: str) -> None:
        """Full attention, and blocks of 8."""
        data = load_file(bundled(name, "logits.safetensors"))
        length = data["input_ids"].shape[1]
        grid = torch.arange(length) // 8
        full = torch.ones(length, length, dtype=torch.bool)
        assert (forward(name, data, full) - data["logits"]).abs().max() < 5e-5
        assert (
            forward(name, data, grid <= grid[:, None]) - data["logits_block8"]
        ).abs().max() < 5e-5

    def test_nemotron(self) -> None:
        """24 causal tokens and an open block of 8; queries are scaled by their positions."""
        data = load_file(bundled("nemotron-tiny", "logits.safetensors"))
        length = data["input_ids"].shape[1]
        sees = torch.ones(length, length, dtype=torch.bool).tril()
        sees[24:, 24:] = True
        logits = forward("nemotron-tiny", data, sees)
        assert (logits - data["logits_causal24_block8"]).abs().max() < 5e-5


class TestTinyA2D:
    """dllm's samplers. Their code leaves masks where it predicts them and its steps run out; here
    the block goes on, so those answers aren't compared.
    """

    def test_full_attention(self) -> None:
        """dllm's MDLM sampler, step by step."""
        cases = [
            (case, (case["model"], case["gen_length"], case["block_length"], case["steps"]))
            for case in reference_cases("decode_a2d_mdlm")
            if MASK not in case["output"]
        ]
        assert len(cases) == 102
        for (name, length, block, steps), group in batches(cases):
            sampler = f"confidence-k{length // steps}+b{block}"
            prompts = [case["prompt"] for case in group]
            runs = decode(model(name), prompts, sampler, max_new_tokens=length, record=True)
            for case, run in zip(group, runs, strict=True):
                assert run.trajectory is not None
                after = [list(canvas) for canvas in run.trajectory[1:]]
                assert (after, run.nfe) == (case["canvases_after"], case["nfe"])

    def test_blocks(self) -> None:
        """dllm's BD3LM sampler, step by step, with its forwards by kind."""
        cases = [
            (case, (case["model"], case["block_length"], *self.asked(case)))
            for case in reference_cases("decode_a2d_bd3lm")
            if MASK not in case["output"]
        ]
        assert len(cases) == 99
        for (name, block, *parts), group in batches(cases):
            loaded = model(name, eos_id=508, block=block)
            prompts = [case["prompt"] for case in group]
            after: list[list[list[int]]] = [[] for _ in group]
            forwards = [[0, 0] for _ in group]
            for sampler, length in parts:
                runs = decode(loaded, prompts, sampler, max_new_tokens=length, record=True)
                for number, (case, run) in enumerate(zip(group, runs, strict=True)):
                    done = prompts[number][len(case["prompt"]) :]
                    after[number] += self.grown(run, done, block)
                    forwards[number][0] += run.nfe or 0
                    forwards[number][1] += run.store or 0
                    assert run.prefill == 0
                prompts = [
                    [*prompt, *run.token_ids] for prompt, run in zip(prompts, runs, strict=True)
                ]
            for number, case in enumerate(group):
                expected = [case["denoise_forwards"], case["prefix_forwards"]]
                assert forwards[number] == expected
                assert after[number] == case["canvases_after"]

    @staticmethod
    def asked(case: dict[str, Any]) -> list[tuple[str, int]]:
        """Samplers and lengths, in one part; or in two where the last block is short, and so has a
        schedule of its own: then what is decoded first is the second part's prompt.
        """
        schedules = counts_by_block(case)
        names = ["confidence+s" + "_".join(map(str, counts)) for counts in schedules]
        length = case["gen_length"]
        if len(set(names)) == 1:
            return [(names[0], length)]
        block = case["block_length"]
        return [(name, min(block, length - i * block)) for i, name in enumerate(names)]

    @staticmethod
    def grown(run: Generation, done: list[int], block: int) -> list[list[int]]:
        """The answer after each step, up to the end of the block in hand, as dllm grows it."""
        assert run.trajectory is not None
        found = []
        for before, after in zip(run.trajectory, run.trajectory[1:], strict=False):
            end = before.index(MASK) // block * block + block
            found.append([*done, *after[:end]])
        return found

    def test_a_block_that_holds_the_end_is_the_last(self) -> None:
        """No block follows the one with EOS, which stays whole."""
        loaded = model("a2d-qwen3-tiny", eos_id=508, block=4)
        (whole,) = decode(loaded, [[5, 6, 7]], "confidence-k2", max_new_tokens=16)
        stop = whole.token_ids[5]
        ends = replace(loaded, eos_id=stop, stop_ids=frozenset({stop}))
        (run,) = decode(ends, [[5, 6, 7]], "confidence-k2", max_new_tokens=16)
        last = (whole.token_ids.index(stop) // 4 + 1) * 4
        assert run.token_ids == whole.token_ids[:last]
        assert (run.nfe, run.store) == (last // 2, last // 4)


class TestNemotron:
    """dllm's sampler for Nemotron-Labs-Diffusion."""

    def test_decodings(self) -> None:
        """Tokens, forwards by kind, and the block before each of them."""
        keys = ("gen_length", "block_length", "threshold", "eos_id")
        cases = [
            (case, tuple(case[key] for key in keys)) for case in reference_cases("decode_nemotron")
        ]
        assert len(cases) == 80
        for (length, block, threshold, stop), group in batches(cases):
            loaded = model("nemotron-tiny", block=block)
            loaded = replace(loaded, eos_id=stop, stop_ids=frozenset({stop}))
            sampler = "confidence-k1" if threshold is None else f"threshold-{threshold}"
            prompts = [case["prompt"] for case in group]
            runs = decode(loaded, prompts, sampler, max_new_tokens=length, record=True)
            for case, run in zip(group, runs, strict=True):
                assert list(run.token_ids) == case["output"]
                assert run.nfe == case["nfe"]
                assert (run.prefill, run.store) == (1, case["commit_forwards"] - 1)
                assert self.steps(run, len(case["prompt"]), block) == case["steps"]

    @staticmethod
    def steps(run: Generation, prompt: int, block: int) -> list[list[Any]]:
        """For each denoising forward what is stored before it, and the block."""
        assert run.trajectory is not None
        found: list[list[Any]] = []
        for canvas in run.trajectory[:-1]:
            start = canvas.index(100) // block * block
            found.append([prompt + start, list(canvas[start : start + block])])
        return found
