"""Autoregressive models on small random checkpoints: batches, stops, drafts, counts."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import BatchDecoder, Generation
from pbcore.models.causal import CausalModel
from pbcore.models.errors import ModelError
from pbcore.names import SamplerNameError, parse
from pbcore.tasks.base import Sample
from tests.models.causal import KINDS, POSITIONS, causal_checkpoint
from tests.models.checkpoints import edit_config

CHAT = ({"role": "user", "content": "Copy this list: "},)
PROMPTS: list[Any] = [
    "Bob Jones",
    CHAT,
    [5, 6, 7, 8, 9, 10, 11, 5, 6, 7],
    "Alice Smith, Bob Jones, Carol Brown",
]
LENGTH = 20


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CausalModel:
    folder = causal_checkpoint(tmp_path_factory.mktemp("causal"), request.param)
    loaded = load_model(str(folder), dtype="float32", draft=str(folder))
    assert isinstance(loaded, CausalModel)
    return loaded


@pytest.fixture(scope="module")
def greedy(model: CausalModel) -> list[Generation]:
    """The greedy answers to PROMPTS in one batch."""
    return decode(model, PROMPTS, "ar", LENGTH)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> CausalModel:
    loaded = load_model(str(causal_checkpoint(tmp_path_factory.mktemp("llama"))), dtype="float32")
    assert isinstance(loaded, CausalModel)
    return loaded


def by_hand(model: CausalModel, ids: list[int], length: int) -> tuple[list[int], list[float]]:
    """Greedy tokens and their probabilities: one whole forward per token, without padding, cache or
    `generate`.
    """
    answer: list[int] = []
    probabilities: list[float] = []
    while len(answer) < length and not (answer and answer[-1] in model.stop_ids):
        with torch.no_grad():
            logits = model.module(torch.tensor([[*ids, *answer]])).logits[0, -1]  # (V,)
        answer.append(int(logits.argmax()))
        probabilities.append(float(logits.softmax(-1).max()))
    return answer, probabilities


def tokens(generations: list[Generation]) -> list[tuple[int, ...]]:
    return [generation.token_ids for generation in generations]


class TestAnswers:
    def test_equal_one_forward_per_token_by_hand(
        self, model: CausalModel, greedy: list[Generation]
    ) -> None:
        """In a padded batch of ragged prompts, tokens and confidences are those of the model
        alone.
        """
        assert isinstance(model, BatchDecoder)
        for prompt, out in zip(PROMPTS, greedy, strict=True):
            ids = list(model.encode(prompt, LENGTH, 0).prompt_ids)
            expected, probabilities = by_hand(model, ids, LENGTH)
            assert list(out.token_ids) == expected
            assert out.confidences == pytest.approx(probabilities, abs=1e-5)

    @pytest.mark.parametrize("sampler", ["ar", "ar+t1.0"])
    def test_do_not_depend_on_the_batch(self, model: CausalModel, sampler: str) -> None:
        alone = decode(model, PROMPTS, sampler, LENGTH, batch_size=1, seed=3)
        assert tokens(decode(model, PROMPTS, sampler, LENGTH, batch_size=3, seed=3)) == tokens(
            alone
        )

    @given(
        rows=st.lists(
            st.lists(st.integers(4, 30), min_size=1, max_size=12), min_size=1, max_size=5
        ),
        size=st.integers(1, 5),
        seed=st.integers(0, 9),
    )
    @settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_of_any_ragged_rows_do_not_depend_on_the_batch(
        self, llama: CausalModel, rows: list[list[int]], size: int, seed: int
    ) -> None:
        expected = tokens(decode(llama, rows, "ar+t0.8", 6, seed=seed, batch_size=1))
        assert tokens(decode(llama, rows, "ar+t0.8", 6, seed=seed, batch_size=size)) == expected

    def test_differ_by_seed_and_row_with_a_temperature(self, llama: CausalModel) -> None:
        rows = [[5, 6, 7]] * 3
        drawn = tokens(decode(llama, rows, "ar+t1.0", LENGTH, seed=0))
        assert len(set(drawn)) == 3
        assert drawn != tokens(decode(llama, rows, "ar+t1.0", LENGTH, seed=1))

    def test_are_drawn_from_the_softmax(self, llama: CausalModel) -> None:
        """First tokens of 400 rows are as frequent as they are probable at that temperature, within
        5 deviations.
        """
        with torch.no_grad():
            expected = (llama.module(torch.tensor([[5, 6, 7]])).logits[0, -1] / 2.0).softmax(
                -1
            )  # (V,)
        drawn = decode(llama, [[5, 6, 7]] * 400, "ar+t2.0", 1, batch_size=100)
        counts = torch.bincount(
            torch.tensor([out.token_ids[0] for out in drawn]), minlength=len(expected)
        )
        spread = (400 * expected * (1 - expected)).sqrt()
        assert ((counts - 400 * expected).abs() <= 5 * spread + 1).all()

    def test_end_with_the_stop_token_or_at_their_length(
        self, model: CausalModel, greedy: list[Generation]
    ) -> None:
        for out in greedy:
            ended = out.token_ids[-1] in model.stop_ids
            assert out.extra["finish_reason"] == ("stop" if ended else "length")
            assert len(out.token_ids) == LENGTH or ended
            assert out.answer_tokens == len(out.token_ids) - ended
            assert not set(out.token_ids[: out.answer_tokens]) & set(model.stop_ids)

    def test_rows_of_one_batch_may_have_different_lengths(self, llama: CausalModel) -> None:
        requests = [llama.encode([5, 6, 7], length, 0) for length in (3, 9)]
        short, long = llama.answer(requests, parse("ar"), seed=0)
        assert (len(short.token_ids), short.nfe) == (3, 3)
        assert long.token_ids[:3] == short.token_ids


class TestCounts:
    def test_one_forward_per_token(self, greedy: list[Generation]) -> None:
        """NFE is the forwards up to the row's own end, though others in the batch go on."""
        for out in greedy:
            assert out.nfe == len(out.token_ids)
            assert out.steps == tuple(range(len(out.token_ids)))

    @pytest.mark.parametrize(
        ("model", "temperature"),
        [*((kind, "") for kind in KINDS), (KINDS[0], "+t1.0")],
        indirect=["model"],
    )
    def test_drafts_change_forwards_but_no_answer(
        self, model: CausalModel, temperature: str
    ) -> None:
        """A model that drafts for itself is always right: six tokens a forward. Forwards are those
        that were run.
        """
        plain = decode(model, PROMPTS, "ar" + temperature, LENGTH)
        for sampler in ("ar-lookup4", "ar-draft5"):
            run: list[int] = []
            hook = model.module.register_forward_hook(lambda *_, run=run: run.append(1))
            drafted = decode(model, PROMPTS, sampler + temperature, LENGTH)
            hook.remove()
            assert tokens(drafted) == tokens(plain)
            assert sum(out.nfe or 0 for out in drafted) == len(run)
            for out, one in zip(drafted, plain, strict=True):
                assert len(set(out.steps)) == out.nfe == out.steps[-1] + 1
                assert out.confidences == pytest.approx(one.confidences, abs=1e-5)
        for out in drafted:
            assert out.nfe == -(-len(out.token_ids) // 6)
            assert out.extra["draft_forwards"] >= len(out.token_ids) - (out.nfe or 0)

    @pytest.mark.parametrize("unused", [3, 40])
    def test_a_draft_may_have_another_number_of_unused_embeddings(
        self, unused: int, tmp_path: Path
    ) -> None:
        """As Qwen2.5's sizes have: the same tokenizer, embeddings rounded up differently."""
        small = causal_checkpoint(tmp_path / "small", layers=1, seed=5, unused=unused)
        folder = str(causal_checkpoint(tmp_path / "main", unused=20))
        model = load_model(folder, dtype="float32", draft=str(small))
        plain = load_model(folder, dtype="float32")
        assert tokens(decode(model, PROMPTS, "ar-draft3", 8)) == tokens(
            decode(plain, PROMPTS, "ar", 8)
        )
        assert model.info["draft"]["parameters"] < plain.info["parameters"]

    def test_lookup_saves_forwards_where_the_answer_repeats(self, llama: CausalModel) -> None:
        """A model made to repeat its prompt's last token takes fewer forwards than tokens."""
        with torch.no_grad():
            (out,) = decode(replace(llama, module=_echo(llama)), [[5] * 12], "ar-lookup10", 24)
        assert out.token_ids == (5,) * 24
        assert out.nfe <= 6


def _echo(model: CausalModel) -> Any:
    """A network whose next token is always token 5."""
    module = copy.deepcopy(model.module)
    for layer in module.model.layers:
        for parameter in (*layer.self_attn.o_proj.parameters(), *layer.mlp.down_proj.parameters()):
            parameter.data.zero_()  # the hidden state is the token's own embedding
    module.lm_head.weight = torch.nn.Parameter(module.lm_head.weight.detach().clone())
    module.lm_head.weight.data.zero_()
    module.lm_head.weight.data[5] = module.model.embed_tokens.weight[5]
    return module


class TestGenerationConfig:
    def test_greedy_is_greedy_whatever_the_checkpoint_says(self, tmp_path: Path) -> None:
        """Sampling and penalties of generation_config.json are dropped, and recorded."""
        own = {"do_sample": True, "temperature": 5.0, "repetition_penalty": 3.0, "top_p": 0.3}
        plain = load_model(str(causal_checkpoint(tmp_path / "plain")), dtype="float32")
        model = load_model(str(causal_checkpoint(tmp_path / "own", **own)), dtype="float32")
        assert tokens(decode(model, PROMPTS, "ar", LENGTH)) == tokens(
            decode(plain, PROMPTS, "ar", LENGTH)
        )
        assert model.info["generation_config_overridden"] == own
        assert plain.info["generation_config_overridden"] == {}

    def test_every_stop_token_ends_an_answer(self, tmp_path: Path) -> None:
        """Those of generation_config.json, beside the tokenizer's own."""
        free = decode(
            load_model(str(causal_checkpoint(tmp_path / "free")), dtype="float32"),
            [[5, 6, 7]],
            "ar",
            8,
        )[0]
        stop = free.token_ids[2]
        model = load_model(
            str(causal_checkpoint(tmp_path / "stopped", eos_token_id=[0, stop])), dtype="float32"
        )
        (out,) = decode(model, [[5, 6, 7]], "ar", 8)
        assert out.token_ids == free.token_ids[: free.token_ids.index(stop) + 1]
        assert out.extra["finish_reason"] == "stop"
        assert set(model.info["stop_ids"]) == {0, stop}


class TestLength:
    def test_a_sample_gets_the_papers_limit_as_far_as_the_positions_reach(
        self, llama: CausalModel
    ) -> None:
        """1,024 tokens for a checkpoint of the user's; an explicit length holds."""
        sample = Sample("waiting_line/copy", 0, CHAT, {}, "x", 8)
        prompt = len(llama.encode(sample, None, 0).prompt_ids)
        assert llama.info["max_new_tokens"] == 1024
        assert len(llama.encode(sample, None, 0).canvas) == POSITIONS - prompt
        assert len(llama.encode(sample, 5, 0).canvas) == 5

    @pytest.mark.parametrize("sampler", ["ar", "ar-lookup2", "ar+t1.0"])
    def test_a_length_that_a_run_asks_for_holds(self, llama: CausalModel, sampler: str) -> None:
        """Not the paper's limit; the answer tells the limit that it had."""
        sample = Sample("waiting_line/copy", 0, CHAT, {}, "x", 4, limited=True)
        (out,) = decode(llama, [sample], sampler)
        assert len(out.token_ids) <= 4
        assert out.extra["max_new_tokens"] == 4

    def test_what_does_not_fit_is_refused(self, llama: CausalModel) -> None:
        with pytest.raises(ModelError, match=f"has {POSITIONS} positions"):
            decode(llama, ["Bob Jones"], "ar", POSITIONS)


class TestRefused:
    def test_infilling(self, llama: CausalModel) -> None:
        sample = Sample("list_ops/copy", 0, CHAT, {}, "x", 8, canvas='["[MASK]"]')
        with pytest.raises(ModelError, match=r"infilling.*list_ops/copy"):
            decode(llama, [sample], "ar")

    def test_other_samplers_and_drafts_without_a_model(self, llama: CausalModel) -> None:
        with pytest.raises(SamplerNameError, match=r"autoregressive.*ar-lookup10"):
            decode(llama, PROMPTS, "confidence-k2", LENGTH)
        with pytest.raises(SamplerNameError, match="--draft MODEL"):
            decode(llama, PROMPTS, "ar-draft5", LENGTH)

    def test_ids_outside_the_vocabulary_and_empty_prompts(self, llama: CausalModel) -> None:
        with pytest.raises(ModelError, match="9999"):
            decode(llama, [[9999]], "ar", 4)
        with pytest.raises(ModelError, match="empty"):
            llama.encode([], 4, 0)

    def test_logits_without_a_largest(self, llama: CausalModel) -> None:
        """NaN in the weights ends the decoding with an error."""
        module = _echo(llama)
        module.lm_head.weight.data.fill_(torch.nan)
        with pytest.raises(ModelError, match="NaN"):
            decode(replace(llama, module=module), [[5, 6]], "ar", 4)

    def test_a_draft_of_another_vocabulary(self, tmp_path: Path) -> None:
        folder = causal_checkpoint(tmp_path / "main")
        other = causal_checkpoint(tmp_path / "other")
        text = (other / "tokenizer.json").read_text()
        (other / "tokenizer.json").write_text(text.replace('"Alice"', '"Alicia"'))
        with pytest.raises(ModelError, match=r"other.*another vocabulary"):
            load_model(str(folder), draft=str(other))
        with pytest.raises(ModelError, match="not an autoregressive model"):
            load_model(str(folder), draft="ideal")


class TestMemory:
    def test_batches_are_halved_when_memory_runs_out(
        self, llama: CausalModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Batches of four don't fit: the answers are those of smaller ones."""
        expected = tokens(decode(llama, PROMPTS, "ar", LENGTH))
        whole = CausalModel.answer
        sizes = []

        def cramped(
            self: CausalModel, requests: Any, *args: Any, **kwargs: Any
        ) -> list[Generation]:
            sizes.append(len(requests))
            if len(requests) > 2:
                raise torch.OutOfMemoryError("too many rows")
            return whole(self, requests, *args, **kwargs)

        monkeypatch.setattr(CausalModel, "answer", cramped)
        assert tokens(decode(llama, PROMPTS, "ar", LENGTH)) == expected
        assert sizes == [4, 2, 2]


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_lengths_of_other_rows_change_no_frequencies(kind: str, tmp_path: Path) -> None:
    """Rotary frequencies that depend on the length are each row's own, whatever stands beside it or
    was answered before.
    """
    folder = causal_checkpoint(tmp_path)
    rules: dict[str, Any] = {
        "dynamic": {"rope_type": "dynamic", "factor": 8.0},
        "longrope": {
            "rope_type": "longrope",
            "factor": 8.0,
            "original_max_position_embeddings": 16,
            "short_factor": [1.0, 1.5, 2.0, 2.5],
            "long_factor": [2.0, 5.0, 8.0, 11.0],
        },
    }
    rule = {"rope_parameters": rules[kind] | {"rope_theta": 10000.0}}
    edit_config(folder, **rule, max_position_embeddings=16 if kind == "dynamic" else POSITIONS)
    loaded: Any = load_model(str(folder), dtype="float32")
    model = replace(loaded, limit=None)
    prompts = [
        [5, 6, 7],
        [8, 9, 10],
        [5 + i % 7 for i in range(14)],
        [6 + i % 9 for i in range(40)],
    ]
    fresh: Any = [replace(load_model(str(folder), dtype="float32"), limit=None) for _ in prompts]
    alone = [decode(own, [ids], "ar", 8)[0] for own, ids in zip(fresh, prompts, strict=True)]
    for _ in range(2):
        batch = decode(model, prompts, "ar", 8, batch_size=4)
        assert [answer.token_ids for answer in batch] == [answer.token_ids for answer in alone]
        for answer, own in zip(batch, alone, strict=True):
            assert answer.confidences == pytest.approx(own.confidences, abs=1e-5)
