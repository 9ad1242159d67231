"""DiffusionGemma on a tiny random configuration."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pbcore.decoding import decode
from pbcore.models import native
from pbcore.models.base import OwnDecoder
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.names import parse
from pbcore.tasks.base import Sample
from tests.models.checkpoints import word_tokenizer

pytestmark = pytest.mark.skipif(
    find_spec("transformers.models.diffusion_gemma") is None,
    reason="this transformers has no DiffusionGemma",
)

TEXT: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 1,
    "head_dim": 4,
    "global_head_dim": 4,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
    "num_experts": 4,
    "top_k_experts": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "eos_token_id": 0,
    "bos_token_id": 2,
}
VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "default_output_length": 280,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint with a canvas of 8, written by transformers."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

    path = tmp_path_factory.mktemp("gemma")
    words = word_tokenizer()
    torch.manual_seed(0)
    config = DiffusionGemmaConfig(
        text_config={"vocab_size": len(words), **TEXT}, vision_config=VISION, canvas_length=8
    )
    DiffusionGemmaForBlockDiffusion(config).save_pretrained(path)
    words.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> native.DiffusionGemma:
    return native.load_diffusion_gemma(
        ModelEntry("gemma", "diffusion_gemma", folder=folder), "cpu", None, LoadOptions()
    )


@pytest.mark.skipif(find_spec("optimum") is not None, reason="the library is installed")
def test_quantization_names_what_is_missing(folder: Path) -> None:
    """It is passed on, so that no record names one that was not used."""
    entry = ModelEntry("gemma", "diffusion_gemma", folder=folder)
    with pytest.raises(ModelError, match="quanto"):
        native.load_diffusion_gemma(entry, "cpu", None, LoadOptions(quantization="quanto-int8"))


PROMPTS = ["Bob Jones", [{"role": "user", "content": "Copy this list: "}]]


class TestGenerate:
    """DiffusionGemma.generate."""

    def test_is_its_own_decoder(self, model: native.DiffusionGemma) -> None:
        """The loop hands the prompts over to it."""
        assert isinstance(model, OwnDecoder)

    def test_forwards_and_rates(
        self, model: native.DiffusionGemma, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """NFE is at most the denoising steps of each canvas and agrees with the tokens per forward
        that transformers reports.
        """
        rates = []
        generate = model._module.generate

        def noted(*args: Any, **options: Any) -> Any:
            output = generate(*args, **options)
            rates.append(float(output.tokens_per_forward[0]))
            return output

        monkeypatch.setattr(model._module, "generate", noted)
        answers = model.generate(PROMPTS, parse("eb-0.1-steps5"), max_new_tokens=16, seed=0)
        for generation, rate in zip(answers, rates, strict=True):
            assert len(generation.token_ids) in (8, 16)
            assert 1 <= generation.nfe <= 5 * len(generation.token_ids) // 8
            counted = sum(token != 0 for token in generation.token_ids)
            assert rate == pytest.approx(counted / generation.nfe)

    def test_tokens_forwarded_are_those_of_the_network(
        self, model: native.DiffusionGemma, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Tokens, tokens attended to and logits of every call, as its layer with full attention and
        its head get them: the prompt, the denoising of each canvas, the storing of each but the
        last.
        """
        attended: list[tuple[int, int]] = []
        heads: list[int] = []  # after how many calls of the layers
        kernel = torch.nn.functional.scaled_dot_product_attention

        def attends(query: Any, key: Any, *rest: Any, **settings: Any) -> Any:
            attended.append((query.shape[2], key.shape[2]))
            return kernel(query, key, *rest, **settings)

        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attends)
        layers = len(TEXT["layer_types"])
        hook = model._module.lm_head.register_forward_pre_hook(
            lambda module, args: heads.append(len(attended) // layers - 1)
        )
        (run,) = model.generate(PROMPTS[:1], parse("eb-0.1-steps3"), max_new_tokens=24, seed=0)
        hook.remove()
        seen = Counter[tuple[int, int, int]]()
        for number, (tokens, keys) in enumerate(attended[1::layers]):
            seen[tokens, keys, tokens if number in heads else 0] += 1
        assert run.calls is not None
        counted = Counter[tuple[int, int, int]]()
        for shape, times in run.calls.items():
            assert shape.rows == 1
            counted[shape.tokens, shape.context + shape.tokens, shape.logits] += times
        assert counted == seen
        assert len(run.token_ids) == 24
        assert run.tokens_forwarded == sum(tokens for tokens, _ in attended[1::layers])

    def test_a_confident_stop_saves_forwards(self, model: native.DiffusionGemma) -> None:
        """A stopping rule that any canvas meets ends after its stable steps."""
        eager = model.generate(
            PROMPTS[:1], parse("eb-0.1-steps9-stable0-confident100"), max_new_tokens=8, seed=0
        )[0]
        assert eager.nfe == 1

    def test_repeats_by_seed_and_alone(self, model: native.DiffusionGemma) -> None:
        """The same seed gives the same answers, another seed others, and the global generator is
        left as it was.
        """
        state = torch.random.get_rng_state()
        first, again, other = (
            [
                g.token_ids
                for g in model.generate(
                    PROMPTS, parse("eb-0.1-steps4"), max_new_tokens=8, seed=seed
                )
            ]
            for seed in (0, 0, 1)
        )
        assert first == again != other
        assert torch.equal(state, torch.random.get_rng_state())
        assert (
            model.generate(PROMPTS[:1], parse("eb-0.1-steps4"), max_new_tokens=8, seed=0)[
                0
            ].token_ids
            == first[0]
        )

    def test_through_decode(self, model: native.DiffusionGemma) -> None:
        """decode() hands over and returns its generations."""
        assert decode(model, PROMPTS, "eb-0.1", max_new_tokens=8)[0].nfe >= 1

    def test_a_length_that_is_asked_for_is_of_whole_canvases(
        self, model: native.DiffusionGemma
    ) -> None:
        """A task's own length is rounded up, and the answer tells to what; one that a run asks for
        is refused.
        """
        sample = Sample("waiting_line/copy", 0, tuple(PROMPTS[1]), {}, "x", 12)  # type: ignore[arg-type]
        (answer,) = model.generate([sample], parse("eb-0.1-steps2"), max_new_tokens=None, seed=0)
        assert (answer.extra["max_new_tokens"], len(answer.token_ids) <= 16) == (16, True)
        with pytest.raises(
            ModelError, match=r"max_new_tokens 12.* canvases of 8 tokens.* such as 16"
        ):
            model.generate(
                [replace(sample, limited=True)], parse("eb-0.1"), max_new_tokens=None, seed=0
            )

    def test_infilling_is_refused(self, model: native.DiffusionGemma) -> None:
        """It starts from noise, so it can't keep a given canvas."""
        sample = Sample("list_ops/copy", 0, tuple(PROMPTS[1]), {}, "x", 8, canvas='["[MASK]"]')  # type: ignore[arg-type]
        with pytest.raises(ModelError, match="list_ops/copy"):
            model.generate([sample], parse("eb-0.1"), max_new_tokens=None, seed=0)


class TestCheck:
    """Samplers it can't run."""

    @pytest.mark.parametrize(
        "name",
        [
            "confidence-k2",
            "eb-0.1+b8",
            "eb-0.1+t1.0",
            "eb-0.1+dual",
            "eb-0.1-speed3",
            "eb-0.1-0.2",
            "eb-0.0",
            "ar",
        ],
    )
    def test_refused_with_what_it_can(self, name: str, model: Any) -> None:
        """Anything but eb with its own parameters is refused, naming them."""
        with pytest.raises(ValueError, match=r"eb-0\.1|above 0"):
            model.check(parse(name))

    @pytest.mark.parametrize(
        "name", ["eb-0.1", "eb-0.2-steps48-t_min0.4-t_max0.8-stable1-confident0.005", "eb"]
    )
    def test_accepted(self, name: str, model: Any) -> None:
        """Its own parameters pass."""
        model.check(parse(name))

    def test_not_a_checkpoint(self, tmp_path: Path) -> None:
        """A folder without one is a ModelError."""
        with pytest.raises(ModelError, match=re.escape(str(tmp_path))):
            native.load_diffusion_gemma(
                ModelEntry("gemma", "diffusion_gemma", folder=tmp_path), "cpu", None, LoadOptions()
            )


class TestParts:
    """Pieces of DiffusionGemma without its network."""

    def made(self, **config: Any) -> native.DiffusionGemma:
        generation = SimpleNamespace(**{"eos_token_id": None, "pad_token_id": 9, **config})
        text = SimpleNamespace(eos_token_id=7)
        module = SimpleNamespace(
            generation_config=generation, config=SimpleNamespace(get_text_config=lambda: text)
        )
        words: Any = SimpleNamespace(
            chat=lambda messages: [1, len(messages)],
            text=lambda text: [2],
            decode=lambda ids: f"{ids}",
        )
        return native.DiffusionGemma("g", module, words, {})

    def test_settings_of_a_sampler(self) -> None:
        """Steps and stable steps are whole numbers, the others shares."""
        settings = self.made()._settings(
            parse("eb-0.2-steps48-t_min0.4-t_max0.8-stable1-confident0.005")
        )
        assert settings == {
            "bound": 0.2,
            "max_denoising_steps": 48,
            "t_min": 0.4,
            "t_max": 0.8,
            "stability_threshold": 1,
            "confidence_threshold": 0.005,
        }
        assert type(settings["max_denoising_steps"]) is int
        assert self.made()._settings(parse("eb")) == {}

    @pytest.mark.parametrize(
        ("config", "ends"),
        [
            ({}, {7, 9}),
            ({"eos_token_id": [3, 4]}, {3, 4, 9}),
            ({"eos_token_id": 0}, {0, 9}),
            ({"pad_token_id": None}, {7}),
        ],
    )
    def test_what_ends_an_answer(self, config: dict[str, Any], ends: set[int]) -> None:
        """The checkpoint's ends, else its text model's, and padding."""
        assert self.made(**config)._stops() == ends

    def test_an_answer_stops_at_its_end(self) -> None:
        """All tokens are kept; one without an end is whole."""
        drafts = native._Drafts()
        drafts.put_draft(torch.tensor([[1, 2]]))
        answer = self.made()._generation([5, 6, 7, 9], drafts, 4)
        assert (answer.text, answer.token_ids, answer.answer_tokens, answer.nfe) == (
            "[5, 6]",
            (5, 6, 7, 9),
            2,
            1,
        )
        assert answer.extra == {"max_new_tokens": 4}
        assert (answer.text_after_eos, answer.official_text) == (False, None)
        late = self.made()._generation([5, 7, 6, 9], drafts, 4)
        assert (late.text, late.text_after_eos, late.official_text) == ("[5]", True, "[5, 6]")
        assert self.made()._generation([5, 6], drafts, 2).answer_tokens == 2

    def test_a_length_is_needed(self, model: native.DiffusionGemma) -> None:
        """Text has none of its own."""
        with pytest.raises(
            ModelError, match="this prompt has no answer length; pass max_new_tokens"
        ):
            model.generate(["Bob"], parse("eb-0.1"), max_new_tokens=None, seed=0)
