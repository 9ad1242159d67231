"""oneDNN's matrix products in place of PyTorch's: the same numbers up to rounding, and only where
they belong.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from pbcore.models import load_model, onednn
from tests.models.checkpoints import llama_checkpoint

KINDS = [
    (LlamaConfig, LlamaForCausalLM),
    (Qwen2Config, Qwen2ForCausalLM),
    (Qwen3Config, Qwen3ForCausalLM),
]

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN"
)


def shrunk(config: type, **more: object) -> object:
    return config(
        vocab_size=50,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=12,
        **more,
    )


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor that profits, whatever this one is."""
    monkeypatch.setattr(onednn, "onednn_is_faster", lambda: True)


@needs_onednn
@pytest.mark.usefixtures("anywhere")
class TestProducts:
    @pytest.mark.parametrize(("config", "kind"), KINDS)
    @torch.inference_mode()
    def test_same_logits(self, config: type, kind: type) -> None:
        """Llama, Qwen2 (with biases) and Qwen3 give the same logits up to rounding, with and
        without padding.
        """
        torch.manual_seed(0)
        model = kind(shrunk(config)).eval()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
        ids = torch.randint(50, (3, 7))
        for mask in (None, torch.ones(3, 7).bool()):
            before = model(ids, attention_mask=mask).logits
            after = onednn.with_onednn(model)(ids, attention_mask=mask).logits
            torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)
        assert not any(type(part) is nn.Linear for part in model.modules())

    def test_parameters_keep_their_names_and_places(self) -> None:
        """Weights are the same tensors under the same names, a tied output projection included: no
        copies.
        """
        model = LlamaForCausalLM(shrunk(LlamaConfig, tie_word_embeddings=True))
        before = dict(model.named_parameters())
        after = dict(onednn.with_onednn(model).named_parameters())
        assert list(before) == list(after)
        assert all(before[name] is after[name] for name in before)
        assert model.lm_head.weight is model.model.embed_tokens.weight

    @torch.inference_mode()
    def test_no_rows(self) -> None:
        """No wanted position, no logits."""
        assert onednn.OneDnnLinear(nn.Linear(4, 6))(torch.zeros(0, 4)).shape == (0, 6)

    def test_other_activations_stay(self) -> None:
        """An MLP with another activation keeps its own forward."""
        model = onednn.with_onednn(LlamaForCausalLM(shrunk(LlamaConfig, hidden_act="gelu")))
        assert not any(isinstance(part, onednn.Gated) for part in model.modules())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    def test_float32_alone(self, dtype: torch.dtype) -> None:
        """Other dtypes keep PyTorch's products."""
        model = onednn.with_onednn(LlamaForCausalLM(shrunk(LlamaConfig)).to(dtype))
        assert any(type(part) is nn.Linear for part in model.modules())

    def test_can_be_switched_off(self, tmp_path: Path) -> None:
        """torch's own switch leaves a loaded model as transformers made it; without it the model
        has the products.
        """
        folder = str(llama_checkpoint(tmp_path))
        with torch.backends.mkldnn.flags(enabled=False):
            plain = load_model(folder)
        loaded = load_model(folder)
        kinds = [
            {type(part) for part in model.network.module.modules()}  # type: ignore[union-attr]
            for model in (plain, loaded)
        ]
        assert (onednn.OneDnnLinear in kinds[0], onednn.OneDnnLinear in kinds[1]) == (False, True)


class TestProcessors:
    @pytest.mark.parametrize(
        ("vendor", "faster"), [("GenuineIntel", False), ("AuthenticAMD", True)]
    )
    @needs_onednn
    def test_by_maker(self, monkeypatch: pytest.MonkeyPatch, vendor: str, faster: bool) -> None:
        """MKL is fast on Intel's processors, so they keep it."""
        monkeypatch.setattr(onednn.Path, "is_file", lambda path: True)
        monkeypatch.setattr(
            onednn.Path, "read_text", lambda path, **options: f"vendor_id : {vendor}"
        )
        monkeypatch.setattr(onednn.platform, "machine", lambda: "x86_64")
        assert onednn.onednn_is_faster.__wrapped__() is faster

    def test_other_architectures_keep_theirs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """PyTorch's products on Arm are not MKL's."""
        monkeypatch.setattr(onednn.platform, "machine", lambda: "aarch64")
        assert not onednn.onednn_is_faster.__wrapped__()
