"""The rows that are decoded together by default: estimated bytes against those that torch really
allocates, and the rows that follow from free memory.

What is allocated is counted by torch's profiler, which notes each allocation and release of the
CPU's allocator while a batch is decoded (`pbcore.models.memory.allocated_memory`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pbcore.costs.shape import ModelShape
from pbcore.decoding import batch_size, decode, resolve, run
from pbcore.decoding.batch_size import batch_bytes, default_batch, reads_of, rows_within
from pbcore.decoding.policies import policies
from pbcore.decoding.protocol import traits
from pbcore.decoding.run import batch_for, batch_of
from pbcore.decoding.samplers import is_static, sampler_of
from pbcore.models import device, load_model
from pbcore.models.base import Request
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.loading import load_masked
from pbcore.models.masked import MaskedModel
from pbcore.models.memory import allocated_memory
from pbcore.models.sizes import held_shape
from tests.models.block_models import SHAPES

SIZES = {
    "vocab_size": 64,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
}
OF_BLOCKS = ("s2d2",)  # policies for block models alone
WITHOUT_TABLE = ("pc",)  # needs token frequencies


@cache
def model(kind: str, dtype: str, **sizes: int) -> MaskedModel:
    """A model with random weights: Llama's layers (`llama`), or a family of block_models.py."""
    shape = {"model_type": "llama", "max_position_embeddings": 1024, "rms_norm_eps": 1e-6}
    shape = {**SHAPES.get(kind, {**shape, "rope_theta": 10000.0}), **SIZES, **sizes}
    entry = ModelEntry(kind, "masked", shape=shape, dummy=True, mask_id=61, eos_id=60)
    with torch.backends.mkldnn.flags(enabled=False):
        loaded = load_masked(entry, "cpu", dtype, LoadOptions())
    return replace(loaded, stop_ids=frozenset())


def both(loaded: Any, sampler: str, *, rows: int, prompt: int, canvas: int) -> tuple[float, float]:
    """Bytes allocated while rows of unequal prompts are decoded together, and bytes estimated."""
    name = sampler_of(sampler)
    prompts = [[1 + row] * (prompt - row) for row in range(rows)]
    decode(loaded, prompts[:1], name, max_new_tokens=canvas)  # what is allocated once
    with allocated_memory("cpu") as peak:
        decode(loaded, prompts, name, max_new_tokens=canvas, batch_size=rows)
    requests = [loaded.encode(ids, canvas, key) for key, ids in enumerate(prompts)]
    shape = held_shape(loaded)
    assert shape is not None
    return peak.added, batch_bytes(rows, shape, reads_of(loaded, name, requests, shape))


class TestBytes:
    """The estimate against allocated bytes."""

    @pytest.fixture(autouse=True)
    def pieces_of_a_cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A CPU works on 2²² logits at once, a GPU on more."""
        monkeypatch.setattr(batch_size, "PIECE", 1 << 22)

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    @pytest.mark.parametrize(
        ("sizes", "sampler", "prompt", "most"),
        [
            ({}, "confidence-k4", 48, 1.6),
            ({}, "confidence-k4+b4+prefix", 48, 1.6),
            ({"intermediate_size": 1024}, "confidence-k4", 48, 1.3),
            ({"num_key_value_heads": 4, "intermediate_size": 64}, "confidence-k4", 48, 1.7),
            ({}, "wino", 48, 1.6),
            ({}, "lopa", 48, 1.7),
            ({}, "axon", 48, 4.0),
            ({"vocab_size": 60_000}, "entropy-k4", 16, 1.5),
            ({"vocab_size": 60_000}, "confidence-k4+t1.0", 16, 1.5),
            ({"vocab_size": 60_000}, "lopa", 16, 3.5),
        ],
    )
    def test_a_batch_takes_what_was_estimated(
        self, sizes: dict[str, int], sampler: str, prompt: int, most: float, dtype: str
    ) -> None:
        """Never more, and not much less: layers, caches, what-if rows, a review's columns, and
        logits of large vocabularies.
        """
        allocated, estimated = both(
            model("llama", dtype, **sizes), sampler, rows=4, prompt=prompt, canvas=8
        )
        assert allocated <= estimated <= most * allocated

    @pytest.mark.parametrize(
        ("kind", "sampler", "most"),
        [
            ("sdar", "threshold-0.9", 2.5),
            ("sdar", "s2d2", 3.0),
            ("fast_dllm_v2", "fast_dllm_v2-1.0", 2.5),
            ("llada2", "llada2-0.95", 4.0),
            ("llada_moe", "confidence-k4", 3.0),
        ],
    )
    def test_block_models_and_experts(self, kind: str, sampler: str, most: float) -> None:
        """Keys and values of all blocks are kept, and a column goes through several experts."""
        allocated, estimated = both(model(kind, "bfloat16"), sampler, rows=4, prompt=48, canvas=8)
        assert allocated <= estimated <= most * allocated

    @pytest.mark.parametrize(("name", "sampler"), [("tiny-ar", "ar"), ("tiny-sedd", "analytic-s3")])
    def test_models_with_their_own_loop(self, name: str, sampler: str) -> None:
        allocated, estimated = both(load_model(name), sampler, rows=4, prompt=48, canvas=8)
        assert allocated <= estimated <= 2.5 * allocated

    @pytest.mark.parametrize("name", sorted(set(policies()) - {*OF_BLOCKS, *WITHOUT_TABLE}))
    def test_no_policy_takes_more(self, name: str) -> None:
        """Also those that keep distributions, or ask about several what-if rows."""
        sampler = f"{name}-k2" if is_static(policies()[name]) else name
        loaded = model("llama", "float32", vocab_size=8_000, hidden_size=32, num_hidden_layers=1)
        allocated, estimated = both(loaded, sampler, rows=2, prompt=8, canvas=8)
        assert allocated <= estimated


SMALL = ModelShape(
    layers=2, width=64, heads=4, key_heads=2, head_width=16, inner=128, vocabulary=500
)


class TestRowsWithin:
    """rows_within."""

    @given(
        free=st.floats(0, 1e9),
        slots=st.integers(1, 64),
        what_if=st.integers(0, 8),
        cached=st.booleans(),
    )
    def test_the_most_rows_that_fit(
        self, free: float, slots: int, what_if: int, cached: bool
    ) -> None:
        """They fit, and one more wouldn't, unless it is the cap that holds, or a single row."""
        reads = batch_size.Reads(96, 96, slots, what_if, cached=cached)
        rows = rows_within(free, SMALL, reads)
        assert rows == 1 or batch_bytes(rows, SMALL, reads) <= free
        assert rows == batch_size.MOST or batch_bytes(rows + 1, SMALL, reads) > free

    def test_one_tensor_of_logits_stays_within_31_bits(self) -> None:
        """However much memory there is."""
        wide = replace(SMALL, vocabulary=126_464)
        rows = rows_within(1e15, wide, batch_size.Reads(300, 300, slots=128))
        assert rows * 128 * 126_464 < 2**31 <= (rows + 1) * 128 * 126_464
        tries = rows_within(1e15, wide, batch_size.Reads(300, 300, slots=128, what_if=4))
        assert tries == rows // 4

    def test_a_row_too_large_is_tried(self) -> None:
        """decode says what memory lacks; the estimate doesn't refuse."""
        assert rows_within(0, SMALL, batch_size.Reads(96, 96, 8)) == 1


REQUESTS = [Request((1,) * 40, (61,) * 32, 0), Request((1,) * 64, (61,) * 16, 1)]


def on_gpu(loaded: MaskedModel) -> MaskedModel:
    """The model as if its sampler worked on a GPU; nothing of it runs."""
    return replace(loaded, device=torch.device("cuda", 0))


class TestDefault:
    """default_batch."""

    @pytest.fixture(autouse=True)
    def free(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A GPU with 100 MB free."""
        monkeypatch.setattr(device, "free_memory", lambda place: 100_000_000)

    def test_a_cpu_has_eight(self) -> None:
        assert default_batch(model("llama", "float32"), resolve("threshold"), REQUESTS) == 8

    def test_the_models_own_number_counts(self) -> None:
        loaded = replace(on_gpu(model("llama", "float32")), batch_size=3)
        assert default_batch(loaded, resolve("threshold"), REQUESTS) == 3

    def test_a_model_of_unknown_shape(self) -> None:
        """As many as were the rule before."""
        unknown = SimpleNamespace(device=torch.device("cuda", 0), batch_size=None)
        assert default_batch(unknown, resolve("threshold"), REQUESTS) == 32

    def test_it_follows_from_memory_and_the_longest_row(self) -> None:
        """The rows that fit in 85 % of what is free, for prompts of 64 and canvases of 32."""
        loaded = on_gpu(model("llama", "bfloat16"))
        name = resolve("threshold")
        rows = default_batch(loaded, name, REQUESTS)
        shape = held_shape(loaded)
        assert shape is not None
        reads = reads_of(loaded, name, REQUESTS, shape)
        assert (reads.columns, reads.slots) == (96, 32)
        assert 8 < rows < batch_size.MOST
        assert batch_bytes(rows, shape, reads) <= 0.85e8 < batch_bytes(rows + 1, shape, reads)

    def test_processes_share_a_gpu(self) -> None:
        loaded = on_gpu(model("llama", "bfloat16"))
        alone = default_batch(loaded, resolve("threshold"), REQUESTS)
        shared = default_batch(loaded, resolve("threshold"), REQUESTS, workers=2)
        assert shared in (alone // 2, alone // 2 - 1)

    def test_what_a_sampler_reads_decides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With a large vocabulary blocks of 8 leave room for more rows; a review and what-if rows
        take it.
        """
        monkeypatch.setattr(device, "free_memory", lambda place: 2 * 10**9)
        loaded = on_gpu(model("llama", "bfloat16", vocab_size=60_000))
        rows = {
            sampler: default_batch(loaded, resolve(sampler), REQUESTS)
            for sampler in ("threshold", "threshold+b8", "wino", "lopa", "lopa-branches8")
        }
        assert rows["threshold+b8"] > 2 * rows["threshold"]
        assert rows["threshold"] > max(rows["wino"], rows["lopa"])
        assert rows["lopa"] > rows["lopa-branches8"] >= 1

    def test_policies_say_how_many_what_if_rows_they_ask_about(self) -> None:
        named = ("lopa-branches2", "freedave-drafts3", "spec-5", "recheck-4", "punt")
        loaded = model("llama", "float32")
        shape = held_shape(loaded)
        assert shape is not None
        asked = [reads_of(loaded, resolve(sampler), REQUESTS, shape).what_if for sampler in named]
        assert asked == [2, 3, 5, 5, 1]

    def test_what_if_rows_are_a_number(self) -> None:
        with pytest.raises(ValueError, match="what_if_rows is 0; it is a number of rows"):
            traits(SimpleNamespace(what_if_rows=0))

    def test_batch_of_encodes_as_decode_does(self) -> None:
        """From prompts, with the sampler's own +x4 first."""
        loaded = on_gpu(model("llama", "bfloat16"))
        prompts = [[1] * 40, [1] * 64]
        rows = batch_of(loaded, prompts, "threshold", max_new_tokens=32)
        assert rows == default_batch(loaded, resolve("threshold"), REQUESTS)
        assert batch_of(loaded, prompts, "threshold+x4", max_new_tokens=32) == 4

    def test_prompts_are_encoded_once_where_their_lengths_decide(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What `batch_for` encoded is what `decode` decodes, by every seed."""
        loaded = on_gpu(model("llama", "bfloat16"))
        encoded = []
        encode = type(loaded).encode

        def counted(self: Any, prompt: Any, *more: Any) -> Any:
            encoded.append(prompt)
            return encode(self, prompt, *more)

        monkeypatch.setattr(type(loaded), "encode", counted)
        monkeypatch.setattr(run, "denoise", lambda model, rows, *more, **how: rows)
        prompts = [[1] * 40, [1] * 64]
        batch = batch_for(loaded, prompts, "threshold", max_new_tokens=32)
        for seed in (0, 1):
            decoded = decode(
                loaded, prompts, "threshold", seed=seed, batch_size=2, requests=batch.requests
            )
            assert decoded == batch.requests
        assert encoded == prompts
