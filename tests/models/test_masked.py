"""Prompts to rows, ragged batches, infilling, caches: one batch equals one by one."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import Denoiser, Query
from pbcore.models.errors import ModelError
from pbcore.models.masked import MaskedContext, MaskedModel
from pbcore.tasks.base import Sample
from tests.models.checkpoints import llama_checkpoint

CHAT = ({"role": "user", "content": "Copy this list: "},)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Any]:
    """The same small checkpoint with logits as they are (False) and shifted (True)."""
    folder = str(llama_checkpoint(tmp_path_factory.mktemp("llama")))
    return {shift: load_model(folder, shift=shift) for shift in (False, True)}


@pytest.fixture(scope="module")
def model(models: dict[bool, Any]) -> Any:
    return models[False]


def sample(**changes: Any) -> Sample:
    return Sample(
        **(
            {
                "task": "t/copy",
                "index": 7,
                "messages": CHAT,
                "input": {},
                "label": "x",
                "max_new_tokens": 6,
            }
            | changes
        )
    )


def context(
    model: MaskedModel, prompts: list[list[int]], length: int, cache: str | None = None
) -> MaskedContext:
    made = model.prepare(
        [model.encode(prompt, length, i) for i, prompt in enumerate(prompts)], cache=cache, seed=0
    )
    assert isinstance(made, MaskedContext)
    return made


class TestEncode:
    """MaskedModel.encode."""

    def test_a_chat_is_templated_once(self, model: Any) -> None:
        """The chat template's BOS is the only one and the assistant's turn is opened last."""
        ids = list(model.encode(CHAT, 4, 0).prompt_ids)
        assert ids == list(model.encode(sample(), None, 0).prompt_ids)
        assert ids.count(2) == 1
        assert (ids[0], ids[1], ids[-1]) == (2, 4, 5)

    def test_a_templated_text_gets_no_second_bos(self, model: Any, tmp_path: Path) -> None:
        """A text that begins with BOS keeps it single, also where the tokenizer adds one itself."""
        from tokenizers.processors import TemplateProcessing

        adding = load_model(str(llama_checkpoint(tmp_path)))
        assert isinstance(adding, MaskedModel)
        inner: Any = adding.tokenizer
        inner._tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single="[BOS] $A", special_tokens=[("[BOS]", 2)]
        )
        assert adding.encode("Bob", 4, 0).prompt_ids[0] == 2
        assert adding.encode("[BOS]Bob", 4, 0).prompt_ids == adding.encode("Bob", 4, 0).prompt_ids
        assert adding.encode(CHAT, 4, 0).prompt_ids.count(2) == 1

    def test_lengths(self, model: Any) -> None:
        """A Sample brings its length, an explicit one overrides it, and without either the error
        asks for it.
        """
        assert model.encode(sample(), None, 0).canvas == (model.mask_id,) * 6
        assert model.encode(sample(), 3, 0).canvas == (model.mask_id,) * 3
        with pytest.raises(ModelError, match="max_new_tokens"):
            model.encode("Bob", None, 0)

    def test_a_single_token(self, model: Any) -> None:
        """Is the shortest answer."""
        assert model.encode("Bob", 1, 0).canvas == (model.mask_id,)

    @pytest.mark.parametrize("length", [0, -1, "8", 2.0])
    def test_wrong_lengths(self, model: Any, length: Any) -> None:
        """A length is a whole number of at least 1."""
        with pytest.raises(ModelError, match="whole number of at least 1"):
            model.encode("Bob", length, 0)

    @pytest.mark.parametrize("prompt", [[{"role": "user"}], ["Bob"], [1.0, 2.0], [[1, 2]]])
    def test_unreadable_prompts(self, model: Any, prompt: Any) -> None:
        """What is no chat and no token ids is refused with what is."""
        with pytest.raises(ModelError, match="messages with role and content"):
            model.encode(prompt, 4, 0)

    def test_infilling(self, model: Any) -> None:
        """Each [MASK] of a canvas is one mask token, and what stands around it is given."""
        canvas = model.encode(sample(canvas='["[MASK]", "[MASK]"]'), None, 0).canvas
        assert sum(token == model.mask_id for token in canvas) == 2
        given = [token for token in canvas if token != model.mask_id]
        assert model.tokenizer.decode(given) == '["", ""]'
        generation = decode(model, [sample(canvas='["[MASK]", "[MASK]"]')], "confidence-k1")[0]
        assert [
            a for a, b in zip(generation.token_ids, canvas, strict=True) if b != model.mask_id
        ] == given
        assert generation.nfe == 2

    def test_words_outside_the_vocabulary(self, model: Any) -> None:
        """They are named, and nothing is scored as unknown."""
        with pytest.raises(ModelError, match="not in its vocabulary: 'Zoltan', 'Quux'"):
            model.encode([{"role": "user", "content": "Zoltan Quux Bob"}], 4, 0)

    def test_ids_outside_the_vocabulary(self, model: Any) -> None:
        """Token ids that the model hasn't are named."""
        with pytest.raises(ModelError, match=r"\[100000\]"):
            model.encode([1, 100_000], 4, 0)

    def test_too_long(self, model: Any) -> None:
        """More positions than the model knows are refused with both lengths."""
        with pytest.raises(ModelError, match=r"256 positions, and prompt 250 \+ answer 10"):
            model.encode([6] * 250, 10, 0)

    def test_empty_prompt(self, models: dict[bool, Any]) -> None:
        """Without a prompt a shifted model has nothing to predict from; the other one decodes."""
        with pytest.raises(ModelError, match="can't be empty"):
            models[True].encode([], 4, 0)
        request = models[False].encode([], 4, 0)
        query = Query(
            torch.full((1, 4), models[False].mask_id),
            torch.ones(1, 4, dtype=torch.bool),
            torch.zeros(1),
        )
        assert models[False].prepare([request], cache=None, seed=0).logits(query).shape == (
            4,
            models[False].vocab_size,
        )

    def test_text_ends_at_eos(self, model: Any) -> None:
        """Text stops at the first EOS; masks and special tokens are left out."""
        bob = model.tokenizer.piece(" Bob")[0]
        assert model.text([bob, model.mask_id, bob, model.eos_id, bob]) == " Bob Bob"

    def test_is_a_denoiser(self, model: Any) -> None:
        """It has everything the loop asks for."""
        assert isinstance(model, Denoiser)


@given(
    lengths=st.lists(st.integers(1, 20), min_size=2, max_size=5),
    sampler=st.sampled_from(
        [
            "confidence-k2+b4",
            "threshold-0.2",
            "margin-k3",
            "confidence-k1+b4+prefix",
            "threshold-0.1+b4+dual",
        ]
    ),
    shift=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=12)
def test_a_ragged_batch_equals_one_by_one(
    models: dict[bool, Any], lengths: list[int], sampler: str, shift: bool, seed: int
) -> None:
    """Tokens, forwards and trajectories of rows of different prompt lengths don't depend on their
    batch.
    """
    draw = torch.Generator().manual_seed(seed)
    prompts = [
        torch.randint(6, models[shift].vocab_size, (length,), generator=draw).tolist()
        for length in lengths
    ]
    together = decode(
        models[shift], prompts, sampler, max_new_tokens=8, record=True, batch_size=len(prompts)
    )
    alone = decode(models[shift], prompts, sampler, max_new_tokens=8, record=True, batch_size=1)
    for one, many in zip(alone, together, strict=True):
        assert (one.token_ids, one.nfe, one.trajectory) == (
            many.token_ids,
            many.nfe,
            many.trajectory,
        )


class TestContext:
    """MaskedContext."""

    @pytest.mark.parametrize("shift", [False, True])
    @pytest.mark.parametrize("cache", ["prefix", "dual"])
    def test_a_cached_forward_of_an_unchanged_canvas_changes_nothing(
        self, models: dict[bool, Any], shift: bool, cache: str
    ) -> None:
        """Right after a refresh, with the same canvas, the cached forward gives the full forward's
        logits, and so again.
        """
        model = models[shift]
        prompts = [[6, 7, 8], [9, 10, 11, 12, 13, 14]]
        canvas = torch.full((2, 8), model.mask_id)
        canvas[:, :4] = torch.arange(6, 10)
        want = torch.zeros(2, 8, dtype=torch.bool)
        want[:, 4:6] = True
        full = context(model, prompts, 8).logits(Query(canvas, want, torch.zeros(2)))
        cached = context(model, prompts, 8, cache)
        for refresh in (True, False, False):
            logits = cached.logits(Query(canvas, want, torch.zeros(2), (4, 6), refresh))
            assert torch.allclose(logits, full, atol=1e-5)

    @pytest.mark.parametrize(("cache", "sees_suffix"), [("prefix", True), ("dual", False)])
    def test_what_a_cache_looks_at(self, model: Any, cache: str, sees_suffix: bool) -> None:
        """Prefix notices a changed suffix, dual doesn't; neither notices a changed prefix before
        the next refresh.
        """
        canvas = torch.full((1, 8), model.mask_id)
        want = torch.zeros(1, 8, dtype=torch.bool)
        canvas[:, :2], want[:, 2:4] = 6, True
        made = context(model, [[7, 8]], 8, cache)
        first = made.logits(Query(canvas, want, torch.zeros(1), (2, 4), True)).clone()
        prefix = canvas.clone()
        suffix = canvas.clone()
        prefix[:, 0], suffix[:, 6] = 9, 9
        assert torch.allclose(
            made.logits(Query(prefix, want, torch.zeros(1), (2, 4))), first, atol=1e-5
        )
        assert (
            torch.allclose(
                made.logits(Query(suffix, want, torch.zeros(1), (2, 4))), first, atol=1e-5
            )
            is not sees_suffix
        )
        assert not torch.allclose(
            made.logits(Query(prefix, want, torch.zeros(1), (2, 4), True)), first, atol=1e-5
        )

    @pytest.mark.parametrize("cache", [None, "prefix", "dual"])
    def test_keep(self, model: Any, cache: str | None) -> None:
        """Rows that stay have the logits they would have alone; a copy made before is untouched."""
        prompts = [[6] * 9, [7, 8], [9, 10, 11]]
        canvas = torch.full((3, 4), model.mask_id)
        want = torch.ones(3, 4, dtype=torch.bool)
        window = (0, 4) if cache else None
        made = context(model, prompts, 4, cache)
        whole = made.logits(Query(canvas, want, torch.zeros(3), window, True)).clone()
        other = context(model, prompts, 4, cache)
        narrow = copy.copy(other)
        narrow.logits(Query(canvas, want, torch.zeros(3), window, True))
        narrow.keep(torch.tensor([1, 2]))
        assert torch.allclose(
            narrow.logits(Query(canvas[1:], want[1:], torch.zeros(2), window)), whole[4:], atol=1e-5
        )
        assert torch.allclose(
            other.logits(Query(canvas, want, torch.zeros(3), window, True)), whole, atol=1e-5
        )

    def test_padding_goes_with_its_row(self, model: Any) -> None:
        """Without a cache, columns that only the longest row needed are dropped with it."""
        made = context(model, [[6] * 9, [7, 8]], 4)
        made.keep(torch.tensor([1]))
        assert made._prompt.tolist() == [[7, 8]]
        assert made._mask is None

    def test_canvases_of_different_length(self, model: Any) -> None:
        """The right padding of a shorter canvas is invisible to its row."""
        rows = [model.encode([6, 7, 8], 8, 0), model.encode([6, 7, 8], 4, 1)]
        canvas = torch.full((2, 8), model.mask_id)
        want = torch.zeros(2, 8, dtype=torch.bool)
        canvas[1, 4:], want[1, :4] = model.eos_id, True
        together = model.prepare(rows, cache=None, seed=0).logits(
            Query(canvas, want, torch.zeros(2))
        )
        alone = model.prepare(rows[1:], cache=None, seed=0).logits(
            Query(canvas[1:, :4], want[1:, :4], torch.zeros(1))
        )
        assert torch.allclose(together, alone, atol=1e-5)

    def test_only_wanted_positions_are_projected(
        self, model: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The output projection sees as many rows as positions are wanted, in row-major order."""
        seen: list[int] = []
        network = model.network
        project = network.project
        monkeypatch.setattr(
            network, "project", lambda hidden: (seen.append(len(hidden)), project(hidden))[1]
        )
        want = torch.zeros(2, 4, dtype=torch.bool)
        want[0, 3] = want[1, 0] = True
        canvas = torch.full((2, 4), model.mask_id)
        some = context(model, [[6, 7], [8, 9]], 4).logits(Query(canvas, want, torch.zeros(2)))
        everything = context(model, [[6, 7], [8, 9]], 4).logits(
            Query(canvas, torch.ones_like(want), torch.zeros(2))
        )
        assert seen == [2, 8]
        assert torch.allclose(some, everything[[3, 4]], atol=1e-6)

    def test_unknown_cache(self, model: Any) -> None:
        """A cache that doesn't exist is refused with those that do."""
        with pytest.raises(ValueError, match="dual, prefix"):
            model.prepare([model.encode([6], 4, 0)], cache="suffix", seed=0)


class TestTopK:
    """MaskedModel.candidates."""

    def test_only_the_best_stay(self, model: Any) -> None:
        """All but the top k and the mask token's logit become −∞."""
        from dataclasses import replace

        logits = torch.arange(model.vocab_size, dtype=torch.float32).repeat(2, 1)
        logits[:, model.mask_id] = 1e6
        kept = replace(model, top_k=3).candidates(logits.clone())
        assert (kept > -torch.inf).nonzero()[:, 1].tolist() == [
            model.vocab_size - i for i in (3, 2, 1)
        ] * 2
        assert torch.equal(model.candidates(logits), logits)
