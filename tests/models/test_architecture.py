"""pbcore.models.architecture: what config.json says, in transformers' words."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pbcore.models.architecture import Architecture, architecture
from pbcore.models.errors import ModelError
from pbcore.models.registry import resolve_model

LLADA: dict[str, Any] = {
    "model_type": "llada",
    "d_model": 32,
    "n_layers": 3,
    "n_heads": 4,
    "mlp_hidden_size": 48,
    "vocab_size": 100,
    "max_sequence_length": 64,
    "mask_token_id": 99,
    "eos_token_id": 98,
}
QWEN: dict[str, Any] = {
    "model_type": "Dream",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 100,
    "mask_token_id": 99,
}


def read(raw: dict[str, Any], layers: int | None = None, **changes: Any) -> Architecture:
    return architecture(raw | changes, "here", layers)


class TestLlada:
    def test_its_sizes_are_llamas(self) -> None:
        """Width, layers, heads, table and length under the names of transformers; attention sees
        the whole canvas.
        """
        config = read(LLADA, embedding_size=128, rope_theta=5e5, weight_tying=True).config
        assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (
            32,
            3,
            4,
        )
        assert (config.vocab_size, config.intermediate_size, config.max_position_embeddings) == (
            128,
            48,
            64,
        )
        assert (config.rms_norm_eps, config.rope_parameters["rope_theta"]) == (1e-5, 5e5)
        assert (config.is_causal, config.use_cache, config.tie_word_embeddings) == (
            False,
            False,
            True,
        )
        assert read(LLADA).config.vocab_size == 100
        assert not read(LLADA).config.tie_word_embeddings

    @pytest.mark.parametrize(
        ("changes", "heads"),
        [
            ({}, 4),
            ({"n_kv_heads": 2}, 2),
            ({"multi_query_attention": True}, 1),
            ({"n_kv_heads": None}, 4),
        ],
    )
    def test_key_heads(self, changes: dict[str, Any], heads: int) -> None:
        """As said, one for multi-query attention, else as many as heads."""
        assert read(LLADA, **changes).config.num_key_value_heads == heads

    def test_the_feed_forward_layer_may_be_given_by_its_ratio(self) -> None:
        """Times the width."""
        assert read(LLADA, mlp_hidden_size=None, mlp_ratio=3).config.intermediate_size == 96

    def test_options_that_llama_lacks_are_refused(self) -> None:
        """With the value that it would need."""
        assert read(LLADA, alibi=True).problems == ("alibi True (known: False)",)

    @pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
    def test_scaled_positions_are_honoured(self, key: str) -> None:
        """As Llama computes them; the base may stand inside or beside."""
        scaled = {"type": "linear", "factor": 8.0}
        rope = read(LLADA, **{key: scaled}).config.rope_parameters
        assert (rope["rope_type"], rope["factor"]) == ("linear", 8.0)
        assert rope["rope_theta"] == LLADA.get("rope_theta", 10000.0)
        inside = read(LLADA, **{key: {**scaled, "rope_theta": 7.0}})
        assert inside.config.rope_parameters["rope_theta"] == 7.0

    def test_every_missing_size_is_named_at_once(self) -> None:
        """In one error, as for the other families."""
        with pytest.raises(ModelError, match=r"config.json has no n_heads, d_model, n_layers"):
            read(LLADA, n_heads=None, d_model=None, n_layers=None)


def shape_of(model: str) -> dict[str, Any]:
    shape = resolve_model(model).shape
    assert shape is not None
    return dict(shape)


SHAPES = (
    "llada-8b",
    "dream-7b",
    "sdar-4b",
    "sdar-30b-a3b",
    "fast-dllm-v2-1.5b",
    "stable-diffcoder-8b",
    "llada2.0-mini",
)
DROPPED = object()


class TestDamagedConfigs:
    @pytest.mark.parametrize("model", SHAPES)
    @pytest.mark.parametrize("value", [DROPPED, "x", [1], {}, -1, 0, 1.5, None, True])
    def test_any_key(self, model: str, value: Any) -> None:
        """Without any one key, or with an odd value for it, a config is read or refused in one
        line.
        """
        for key in shape_of(model):
            raw = {**shape_of(model), key: value}
            if value is DROPPED:
                del raw[key]
            with suppress(ModelError):
                architecture(raw, "here")

    @pytest.mark.parametrize(
        ("model", "key", "said"),
        [
            ("llada-8b", "mlp_hidden_size", r"has no mlp_ratio or mlp_hidden_size\. Complete"),
            ("llada-8b", "n_heads", "has no n_heads"),
            ("sdar-4b", "rms_norm_eps", "config.json has no rms_norm_eps"),
        ],
    )
    def test_a_missing_key_is_named(self, model: str, key: str, said: str) -> None:
        raw = {name: value for name, value in shape_of(model).items() if name != key}
        with pytest.raises(ModelError, match=said):
            architecture(raw, "here")

    @pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads"])
    def test_text_for_a_size_is_named(self, key: str) -> None:
        """Also where the width of a head follows from it."""
        with pytest.raises(ModelError, match=rf"{key} is 'x'; it should be a whole number"):
            architecture({**shape_of("fast-dllm-v2-1.5b"), key: "x"}, "here")


class TestOddValues:
    @pytest.mark.parametrize(
        ("key", "value", "wanted"),
        [
            ("rope_theta", "500000.0", "a number above 0"),
            ("rope_theta", True, "a number above 0"),
            ("rope_theta", float("nan"), "a number above 0"),
            ("rms_norm_eps", float("inf"), "a number above 0"),
            ("rope_theta", -1, "a number above 0"),
            ("vocab_size", True, "a whole number"),
            ("num_hidden_layers", "2", "a whole number"),
            ("hidden_size", 32.5, "a whole number"),
            ("tie_word_embeddings", "false", "true or false"),
            ("rope_parameters", "x", "a mapping"),
        ],
    )
    @pytest.mark.parametrize("model", ["dream-7b", "sdar-4b"])
    def test_each_is_named(self, model: str, key: str, value: Any, wanted: str) -> None:
        """What no writer can have meant, in one line."""
        with pytest.raises(ModelError, match=rf"^here: {key} is .*; it should be {wanted}\. Mend"):
            architecture({**shape_of(model), key: value}, "here")

    def test_inside_of_the_positions(self) -> None:
        scaling = {"rope_type": "linear", "factor": "4"}
        with pytest.raises(ModelError, match=r"^here: rope_scaling\.factor is '4'"):
            read(QWEN, rope_scaling=scaling)

    def test_a_whole_number_for_a_fraction(self) -> None:
        """JSON writes both alike."""
        assert read(LLADA, rope_theta=10000).config.rope_parameters["rope_theta"] == 10000


class TestShift:
    def test_only_dream_predicts_one_position_ahead(self) -> None:
        """Unless config.json says otherwise."""
        assert (read(QWEN).shift, read(LLADA).shift, read(QWEN, shift_logits=False).shift) == (
            True,
            False,
            False,
        )
        assert read(QWEN).kind == "dream"


class TestLayers:
    @pytest.mark.parametrize("raw", [LLADA, QWEN], ids=["llada", "dream"])
    def test_fewer_layers_on_demand(self, raw: dict[str, Any]) -> None:
        """Dummies have as many as wanted, and so do their kinds of layers."""
        config = read(raw, layers=2).config
        assert config.num_hidden_layers == 2
        assert len(getattr(config, "layer_types", None) or "ab") == 2

    def test_other_architectures_are_named(self) -> None:
        """With those that load."""
        with pytest.raises(
            ModelError, match=r"here: model_type 'gpt2' can't be loaded natively; llada"
        ):
            architecture({"model_type": "gpt2"}, "here")


def test_scaled_positions_are_kept() -> None:
    """A `rope_scaling` of null, as published checkpoints have it, says nothing; one with values is
    taken.
    """
    shape = {
        "model_type": "qwen2",
        "vocab_size": 10,
        "hidden_size": 8,
        "num_attention_heads": 2,
        "eos_token_id": 0,
    }
    scaled = {**shape, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    assert architecture(scaled, "x").config.rope_parameters["factor"] == 4.0
    assert "factor" not in architecture({**shape, "rope_scaling": None}, "x").config.rope_parameters
