"""The reference checkpoints of block models and mixtures of experts: logits, and every reference
decoding with tokens, canvases and forwards by kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

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
IDS = {"mask_id": MASK, "eos_id": 509}


@cache
def model(name: str, **options: Any) -> MaskedModel:
    given = {} if name == "stable-diffcoder-tiny" else IDS
    loaded = load_model(str(bundled(name)), **given, **options)
    assert isinstance(loaded, MaskedModel)
    return loaded


def stopping_at(loaded: MaskedModel, *stops: int) -> MaskedModel:
    """The model with other stop tokens; without any, none ends an answer."""
    return replace(loaded, stop_ids=frozenset(stops), **({"eos_id": stops[0]} if stops else {}))


class Asked(NamedTuple):
    """What a case asks for: a checkpoint with its options and stop tokens, a sampler, a length."""

    name: str
    block: int | None
    stops: tuple[int, ...]
    sampler: str
    length: int


def decoded(
    file: str, asked: Callable[[dict[str, Any]], Asked | None]
) -> Iterator[tuple[dict[str, Any], Asked, Generation]]:
    """The cases of a file with their decodings, without those of which nothing is asked; cases that
    ask for the same are one batch of ragged prompts.
    """
    groups: dict[Asked, list[dict[str, Any]]] = defaultdict(list)
    for case in reference_cases(file):
        if one := asked(case):
            groups[one].append(case)
    for one, cases in groups.items():
        loaded = model(one.name, **({"block": one.block} if one.block else {}))
        loaded = stopping_at(loaded, *one.stops) if one.block else loaded
        prompts = [case["prompt"] for case in cases]
        runs = decode(loaded, prompts, one.sampler, max_new_tokens=one.length, record=True)
        for case, run in zip(cases, runs, strict=True):
            yield case, one, run


def blocks_before(
    generation: Generation, prompt: list[int], size: int, mask: int = MASK
) -> list[list[Any]]:
    """For each denoising forward the active block's first position and its tokens, from a recorded
    trajectory.
    """
    assert generation.trajectory is not None
    found: list[list[Any]] = []
    for canvas in generation.trajectory[:-1]:
        row = [*prompt, *canvas]
        first = (len(prompt) + canvas.index(mask)) // size * size
        found.append([first, row[first : first + size]])
    return found


class TestLogits:
    """A forward of the loaded model against the reference program's."""

    @pytest.mark.parametrize(
        ("name", "key", "block"),
        [
            ("sdar-tiny", "logits", 4),
            ("llada-moe-tiny", "logits", None),
            ("llada2-tiny", "logits", 32),
            ("llada2-tiny", "logits_block8_every4", 8),
            ("fast-dllm-v2-tiny", "logits_unshifted", 32),
            ("fast-dllm-v2-tiny", "logits_unshifted_block8_every4", 8),
            ("stable-diffcoder-tiny", "logits", 4),
        ],
    )
    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_equal_the_reference(
        self, name: str, key: str, block: int | None, attention: str
    ) -> None:
        """Every kept logit is within 5e-5 of the reference's, and the likeliest of them is the
        same.
        """
        data = load_file(bundled(name, "logits.safetensors"))
        network: Any = model(name, attn_implementation=attention).network
        rows, length = data["input_ids"].shape
        grid = torch.arange(length) // (block or length)
        sees = (grid <= grid[:, None]).expand(rows, length, length)  # (R, T, T)
        positions = torch.arange(length).expand(rows, length)
        logits = network.project(network.hidden(Columns(data["input_ids"], positions, sees)))[
            ..., KEPT
        ]
        logits = logits[:, ::4] if key.endswith("every4") else logits
        assert (logits - data[key]).abs().max() < 5e-5
        assert (logits.argmax(-1) == data[key].argmax(-1)).all()


class TestDecodings:
    """decode() against the reference programs' decodings, forward by forward."""

    def test_sdar(self) -> None:
        """SDAR's three strategies; the authors' code overwrote tokens in the cases left out."""

        def asked(case: dict[str, Any]) -> Asked | None:
            steps = case["denoising_steps"]
            name = {
                "low_confidence_static": f"sdar_static-{steps}",
                "low_confidence_dynamic": f"sdar_dynamic-{case['threshold']}-steps{steps}",
                "sequential": f"sdar_sequential-{steps}",
            }[case["strategy"]]
            stops = tuple(case["stop_ids"] or ())
            return (
                None
                if case["overwritten"]
                else Asked("sdar-tiny", case["block_length"], stops, name, case["gen_length"])
            )

        for case, one, out in decoded("decode_sdar", asked):
            left = len(case["output"]) - len(out.token_ids)
            assert [*out.token_ids, *[MASK] * left] == case["output"], (
                one
            )  # theirs has masks after a stop
            forwards = (out.prefill, out.nfe - (out.store or 0), out.store)
            assert forwards == (
                case["prefill_forwards"],
                case["denoise_forwards"],
                case["store_forwards"],
            ), one
            assert blocks_before(out, case["prompt"], case["block_length"]) == case["steps"], one

    def test_llada_moe(self) -> None:
        """LLaDA's loop and policies, blocks counted from the prompt's end."""

        def asked(case: dict[str, Any]) -> Asked:
            name = f"confidence-k{case['k']}" if case["k"] else f"threshold-{case['threshold']}"
            return Asked(
                "llada-moe-tiny", None, (), f"{name}+b{case['block_length']}", case["gen_length"]
            )

        for case, one, out in decoded("decode_llada_moe", asked):
            assert list(out.token_ids) == case["output"], one
            assert (out.nfe, out.prefill, out.store) == (case["nfe"], None, None), one
            canvases = [canvas[-case["gen_length"] :] for canvas in case["canvases"]]
            assert [list(canvas) for canvas in (out.trajectory or ())[:-1]] == canvases, one

    def test_llada2(self) -> None:
        """LLaDA2.0 and 2.1. Their code has no cache, so its forwards are our denoising forwards."""

        def asked(case: dict[str, Any]) -> Asked:
            early = "-early" * case["eos_early_stop"]
            if case["generate"] == "2.0":
                name = f"llada2-{case['threshold']}-steps{case['steps']}{early}"
            else:
                name = (
                    f"joint-{case['threshold']}-edit{case['editing_threshold']}-post{case['max_post_steps']}"
                    f"-least{case['num_to_transfer']}{early}"
                )
            return Asked(
                "llada2-tiny", case["block_length"], (case["eos_id"],), name, case["gen_length"]
            )

        for case, one, out in decoded("decode_llada2", asked):
            size = case["block_length"]
            assert list(out.token_ids) == case["output"], one
            assert out.nfe - (out.store or 0) == case["nfe"], one
            assert out.trajectory is not None
            rows = [[*case["prompt"], *canvas] for canvas in out.trajectory[:-1]]
            seen = [
                row[end - size : end] for row, end in zip(rows, case["window_ends"], strict=True)
            ]
            assert seen == case["canvases"], one

    def test_fast_dllm_v2(self) -> None:
        """Fast-dLLM v2 with and without its cache within a block. Its code never sees the prompts
        left out.
        """

        def asked(case: dict[str, Any]) -> Asked | None:
            name = (
                f"fast_dllm_v2-{case['threshold']}-part{case['small_block_size']}"
                + "+dual" * case["use_block_cache"]
            )
            stops = (case["stop_token"],)
            length = case["max_new_tokens"]
            return (
                None
                if case["prompt_ignored"]
                else Asked("fast-dllm-v2-tiny", case["block_size"], stops, name, length)
            )

        for case, one, out in decoded("decode_fast_dllm_v2", asked):
            assert list(out.token_ids) == case["output"], one
            denoise = case["block_forwards"] + case["sub_block_forwards"]
            assert (out.prefill, out.nfe - (out.store or 0), out.store) == (
                case["prefill_forwards"],
                denoise,
                case["store_forwards"],
            ), one
            ours = blocks_before(out, case["prompt"], case["block_size"])
            for (first, ids), (block, whole) in zip(case["steps"], ours, strict=True):
                assert whole[first - block : first - block + len(ids)] == ids, one

    def test_stable_diffcoder(self) -> None:
        """Stable-DiffCoder with its schedule and with a threshold."""

        def asked(case: dict[str, Any]) -> Asked:
            rule = "stable_diffcoder" + "_threshold" * (case["threshold"] is not None)
            name = f"{rule}-{case['threshold'] or case['steps']}"
            stops = (case["eos_id"],)
            return Asked(
                "stable-diffcoder-tiny", case["block_length"], stops, name, case["gen_length"]
            )

        for case, one, out in decoded("decode_stable_diffcoder", asked):
            assert list(out.token_ids) == case["output"], one
            forwards = (out.prefill, out.nfe - (out.store or 0), out.store, out.nfe)
            expected = [case[f"{kind}_forwards"] for kind in ("prefill", "denoise", "store")]
            assert forwards == (*expected, case["nfe"]), one
            assert blocks_before(out, case["prompt"], case["block_length"], 5) == case["denoise"], (
                one
            )
