"""Block models in the loop: the grid, the exact cache, what forwards are counted, and where a row
stops.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.decoding.samplers import of_name
from pbcore.models.base import Generation
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from pbcore.results.build import build_cell
from pbcore.results.record import CellRecord, Conditions, SampleRecord
from pbcore.tasks.scoring import Scored
from tests.decoding.toys import Toy
from tests.models.block_models import EOS, MASK, block_model

SAMPLERS = {
    "sdar": [
        "sdar_static-2",
        "sdar_dynamic-0.2-steps4",
        "threshold-0.3",
        "confidence-k2",
        "joint-0.2-edit0.3-post2",
    ],
    "fast_dllm_v2": [
        "fast_dllm_v2-0.2-part4",
        "fast_dllm_v2-0.2-part4+dual",
        "threshold-0.3",
        "sdar_sequential-8",
    ],
    "llada2": [
        "llada2-0.3-steps8-early",
        "joint-0.2-edit0.2-post4-early",
        "stable_diffcoder-16",
        "klass-0.3",
    ],
    "a2d-qwen3": ["confidence-k2", "threshold-0.3", "joint-0.2-edit0.3-post2"],
    "nemotron": ["confidence-k2", "threshold-0.3", "joint-0.3"],
}
BY_OPTION = ("llada2", "a2d-qwen3", "nemotron")  # their block is an option
PROMPTS = [
    [5, 6, 7],
    [8],
    [9, 10, 11, 12],
    [5] * 11,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
]
MODELS = {
    family: block_model(family, **({"block": 8} if family in BY_OPTION else {}))
    for family in SAMPLERS
}


class Watch:
    """Counts the forwards of a model and the columns of each."""

    def __init__(self, model: MaskedModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widths: list[int] = []
        network: Any = model.network
        forward = network.hidden

        def counted(run: Columns) -> torch.Tensor:
            self.widths.append(run.ids.shape[1])
            return forward(run)  # type: ignore[no-any-return]

        monkeypatch.setattr(network, "hidden", counted)


def plain_logits(model: MaskedModel, ids: list[int]) -> torch.Tensor:
    """Logits (T, V) of a whole row in one forward without a cache, under the block-causal mask."""
    grid = torch.arange(len(ids)) // (model.block or 1)
    sees = (grid <= grid[:, None])[None]
    hidden = model.network.hidden(Columns(torch.tensor([ids]), torch.arange(len(ids))[None], sees))
    return model.network.project(hidden)[0]


def without_a_cache(model: MaskedModel, prompt: list[int], length: int, k: int) -> list[int]:
    """A slow loop: the k surest masks of the first block with any, every forward on the whole
    row.
    """
    size = model.block or 1
    end = -(-(len(prompt) + length) // size) * size
    row = [*prompt, *[MASK] * (end - len(prompt))]
    while MASK in row:
        stop = (row.index(MASK) // size + 1) * size
        logits = plain_logits(model, row[:stop])
        logits[:, MASK] = -torch.inf
        sure, token = logits.softmax(-1).max(-1)
        masks = [i for i in range(stop) if row[i] == MASK]
        for i in sorted(masks, key=lambda i: (-float(sure[i]), i))[:k]:
            row[i] = int(token[i])
    return row[len(prompt) : len(prompt) + length]


class TestGrid:
    @pytest.mark.parametrize("prompt", PROMPTS)
    def test_equals_a_loop_without_a_cache(self, prompt: list[int]) -> None:
        """The cache changes nothing: blocks are counted from the prompt's start, and its tail
        shares the first.
        """
        (run,) = decode(MODELS["sdar"], [prompt], "confidence-k2", max_new_tokens=10)
        assert list(run.token_ids) == without_a_cache(MODELS["sdar"], prompt, 10, 2)

    @pytest.mark.parametrize(
        ("family", "sampler"), [(name, s) for name, known in SAMPLERS.items() for s in known]
    )
    def test_ragged_batches_equal_one_by_one(self, family: str, sampler: str) -> None:
        """Tokens, steps, forwards by kind and trajectories of rows with other prompts beside them
        are their own.
        """
        model = MODELS[family]
        prompts = PROMPTS[1:4]  # shorter and longer than a block
        together = decode(model, prompts, sampler, max_new_tokens=19, record=True)
        for prompt, run in zip(prompts, together, strict=True):
            (alone,) = decode(model, [prompt], sampler, max_new_tokens=19, record=True)
            kinds = ("token_ids", "steps", "nfe", "prefill", "store", "trajectory", "answer_tokens")
            assert [getattr(run, kind) for kind in kinds] == [
                getattr(alone, kind) for kind in kinds
            ]

    @settings(max_examples=8, derandomize=True, phases=[Phase.generate])
    @given(
        lengths=st.lists(st.integers(1, 14), min_size=2, max_size=5),
        seed=st.integers(0, 99),
        sampler=st.sampled_from(
            ["threshold-0.3+t0.7", "random-k2", "sdar_dynamic-0.3+t1.0", "joint-0.3-edit0.3+t0.5"]
        ),
    )
    def test_draws_belong_to_rows(self, lengths: list[int], seed: int, sampler: str) -> None:
        """With random draws a row's answer is the same in any batch."""
        prompts = [[(i * 7 + length) % 50 for i in range(length)] for length in lengths]
        runs = decode(MODELS["sdar"], prompts, sampler, max_new_tokens=9, seed=seed)
        alone = decode(MODELS["sdar"], prompts, sampler, max_new_tokens=9, seed=seed, batch_size=1)
        assert [(run.token_ids, run.steps, run.nfe) for run in runs] == [
            (run.token_ids, run.steps, run.nfe) for run in alone
        ]


class TestForwards:
    @pytest.mark.parametrize(
        ("family", "sampler"),
        [("sdar", "sdar_static-2"), ("sdar", "threshold-0.3"), ("fast_dllm_v2", "threshold-0.3")],
    )
    @pytest.mark.parametrize("prompt", PROMPTS)
    def test_every_forward_is_counted(
        self, family: str, sampler: str, prompt: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Denoising and storing forwards make up the NFE; the prefill stands beside them."""
        watch = Watch(MODELS[family], monkeypatch)
        (run,) = decode(MODELS[family], [prompt], sampler, max_new_tokens=19, record=True)
        assert run.trajectory is not None
        assert run.prefill == (len(prompt) >= (MODELS[family].block or 0))
        assert len(watch.widths) == run.nfe + run.prefill
        assert run.nfe == len(run.trajectory) - 1 + (run.store or 0)

    @pytest.mark.parametrize(
        ("family", "sampler"),
        [("sdar", "threshold-0.2"), ("fast_dllm_v2", "fast_dllm_v2-0.1-part4")],
    )
    def test_steps_are_those_of_the_trajectory(self, family: str, sampler: str) -> None:
        """A token's step is the one after which the canvas has it, also for a block's first token,
        which a storing forward predicts.
        """
        (run,) = decode(MODELS[family], [[5] * 11], sampler, max_new_tokens=17, record=True)
        assert run.trajectory is not None
        for i, (step, token) in enumerate(zip(run.steps, run.token_ids, strict=True)):
            assert run.trajectory[step + 1][i] == token
            assert run.trajectory[step][i] == MASK

    def test_a_part_runs_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With +dual a forward after the part's first token runs the part's columns only."""
        watch = Watch(MODELS["fast_dllm_v2"], monkeypatch)
        decode(MODELS["fast_dllm_v2"], [[5, 6, 7]], "fast_dllm_v2-1.0-part4+dual", max_new_tokens=8)
        assert set(watch.widths) == {4, 8}
        assert watch.widths[0] == 8

    def test_the_last_block_is_stored_by_sdar_only(self) -> None:
        """Nothing follows the last block, so a sampler of ours doesn't store it; SDAR's
        authors do.
        """
        plain, sdar = (
            decode(MODELS["sdar"], [[5] * 4], name, max_new_tokens=8)[0]
            for name in ("threshold-0.0", "sdar_static-1")
        )
        assert (plain.nfe, plain.store) == (3, 1)
        assert (sdar.nfe, sdar.store) == (4, 2)

    def test_prompts_of_one_block_are_seen(self) -> None:
        """Fast-dLLM v2's code never sees a prompt of exactly one block; here other prompts have
        other answers.
        """
        prompts = [[i] * 8 for i in range(6)]
        runs = decode(MODELS["fast_dllm_v2"], prompts, "fast_dllm_v2-0.5-part4", max_new_tokens=16)
        assert len({run.token_ids for run in runs}) > 1
        assert {run.prefill for run in runs} == {1}


def first(run: Generation, stop: int) -> int:
    return run.token_ids.index(stop)


class TestEnds:
    def test_goes_on_until_eos(self) -> None:
        """A row ends with the block of its first stop token; what was not decoded is not part of
        the answer.
        """
        (whole,) = decode(MODELS["sdar"], [[5, 6]], "threshold-0.3", max_new_tokens=40)
        stop = whole.token_ids[9]
        model = block_model("sdar", stops=(stop,))
        (run,) = decode(model, [[5, 6]], "threshold-0.3", max_new_tokens=40)
        end = (first(whole, stop) + 2) // 4 * 4 + 4 - 2
        assert run.token_ids == whole.token_ids[:end]
        assert run.answer_tokens == first(whole, stop)
        assert run.nfe < whole.nfe
        assert min(run.steps) >= 0

    @pytest.mark.parametrize(
        ("sampler", "length"),
        [("threshold-0.3", 9), ("sdar_static-2", 10), ("stable_diffcoder-9", 9), ("llada2-0.3", 9)],
    )
    def test_lengths(self, sampler: str, length: int) -> None:
        """SDAR's answer fills its last block; the others have the length asked for."""
        (run,) = decode(MODELS["sdar"], [[5, 6]], sampler, max_new_tokens=9)
        assert len(run.token_ids) == len(run.steps) == length

    def test_infilling(self) -> None:
        """Given tokens stay, in whatever block they are, and a stop token among them ends
        nothing.
        """
        from pbcore.decoding.engine import denoise
        from pbcore.models.base import Request
        from pbcore.names import parse

        model = block_model("sdar", stops=(EOS,))
        canvas = (7, MASK, EOS, 8, 9, 10, 11, 12, 13, 14, MASK, 15)
        name = parse("threshold-0.3")
        (run,) = denoise(model, [Request((5, 6), canvas, 0)], of_name(name).policy, name)
        assert [t for t, c in zip(run.token_ids, canvas, strict=True) if c != MASK] == [
            c for c in canvas if c != MASK
        ]
        assert MASK not in run.token_ids
        assert [step >= 0 for step in run.steps] == [token == MASK for token in canvas]

    def test_too_short_for_whole_blocks(self) -> None:
        """Fast-dLLM v2's sampler decodes whole blocks only, and says so."""
        with pytest.raises(ValueError, match="whole blocks of 8 tokens, so it can't decode 7"):
            decode(MODELS["fast_dllm_v2"], [[5]], "fast_dllm_v2", max_new_tokens=7)


class TestRefusals:
    @pytest.mark.parametrize(
        ("family", "sampler", "why"),
        [
            (
                "sdar",
                "threshold-0.9+b8",
                r"its blocks have 4 tokens; leave \+b8 out, or load it with block=8",
            ),
            ("sdar", "threshold-0.9+prefix", r"exact and always on; leave \+prefix out"),
            ("sdar", "threshold-0.9+dual", r"for samplers that go through a block in parts"),
            ("sdar", "confidence-k1+rcr", r"may mask tokens of earlier blocks"),
            ("sdar", "wino-0.6", r"wino needs predictions for hidden tokens"),
            ("fast_dllm_v2", "joint-0.5", r"offers no reviews"),
        ],
    )
    def test_what_does_not_fit(self, family: str, sampler: str, why: str) -> None:
        """A block length, cache or sampler that a block model can't have is refused with the
        reason.
        """
        with pytest.raises(ValueError, match=why):
            decode(MODELS[family], [[5]], sampler, max_new_tokens=8)

    def test_its_own_block_length(self) -> None:
        """+b4 on blocks of 4 changes nothing."""
        one, two = (
            decode(MODELS["sdar"], [[5]], name, max_new_tokens=8)
            for name in ("threshold-0.3", "threshold-0.3+b4")
        )
        assert one == two


class TestPredictedMasks:
    """A model that would rather predict the mask itself: the authors' code loops, fails or leaves
    masks.
    """

    @pytest.mark.parametrize(
        "sampler",
        [
            "sdar_static-2",
            "sdar_dynamic-0.5-steps2",
            "sdar_sequential-2",
            "llada2-0.5-steps2",
            "fast_dllm_v2-0.5-part2",
            "stable_diffcoder-2",
            "stable_diffcoder_threshold-0.5",
            "joint-0.5-edit0.5-post2",
        ],
    )
    def test_every_sampler_ends(self, sampler: str) -> None:
        """Each step reveals a token all the same, so a block of n ends within n steps (joint: its
        cap).
        """
        rule = lambda canvas, position, key: [9.0, 0.0, 1.0, 2.0]
        (run,) = decode(Toy(rule, vocab_size=4), [[5]], f"{sampler}+b4", max_new_tokens=8)
        assert set(run.token_ids) == {3}
        assert run.nfe is not None
        assert run.nfe <= 2 * (4 + 2)

    def test_such_a_slot_waits_a_step(self) -> None:
        """A slot whose likeliest token is the mask stays masked while others are revealed."""
        rule = lambda canvas, i, key: [30.0 * (i == 0 and canvas[1] == 0), 0.0, 8.0]
        (run,) = decode(Toy(rule, vocab_size=3), [[5]], "sdar_static-2+b4", max_new_tokens=4)
        assert run.steps == (1, 0, 1, 2)
        assert run.nfe == 3


class TestRecords:
    def test_forwards_by_kind(self) -> None:
        """A cell's record has them beside the NFE; records of other models have none."""
        runs = decode(MODELS["sdar"], [[5] * 4, [6] * 9], "sdar_static-4", max_new_tokens=8)
        facts = CellRecord("m/t/s", "m", "t", "s", Conditions.unknown(), headline="accuracy")
        cell, samples = build_cell(facts, runs, [Scored({"accuracy": 1.0}, {})] * 2, rounds=[1.0])
        assert [(one.nfe, one.prefill, one.store) for one in samples] == [
            (8 + 2, 1, 2),
            (11 + 3, 1, 3),
        ]
        assert (cell.prefill_mean, cell.store_mean, cell.nfe_mean) == (1, 2.5, 12)
        assert SampleRecord.from_json(asdict(samples[0])) == samples[0]
        plain = {
            name: value
            for name, value in asdict(samples[0]).items()
            if name not in ("prefill", "store")
        }
        assert SampleRecord.from_json(plain).store is None
