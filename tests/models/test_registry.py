"""Names of models: the table, close matches, dummies, folders, users' own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pbcore.models import load_model, model_names, register_model, resolve_model
from pbcore.models import registry as registry_module
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.families import KINDS
from tests.models.checkpoints import llama_checkpoint

UNPINNED = {
    *(f"sdar-{size}" for size in ("1.7b", "4b", "8b", "30b-a3b")),
    "trado-4b",
    "trado-8b",
    "fast-dllm-v2-1.5b",
    "fast-dllm-v2-7b",
    "stable-diffcoder-8b",
    "llada-moe-7b",
    *(f"qwen3-0.6b-diffusion-{kind}" for kind in ("mdlm", "bd3lm")),
    *(f"qwen2.5-coder-0.5b-diffusion-{kind}" for kind in ("mdlm", "bd3lm")),
    *(f"nemotron-labs-diffusion-{size}" for size in ("3b", "8b", "14b")),
    *(f"llada2.{minor}-{size}" for minor in (0, 1) for size in ("mini", "flash")),
}


class TestResolve:
    """resolve_model."""

    def test_every_published_name_is_pinned(self) -> None:
        """Each hub entry has a full commit hash, and masked ones have their ids and shift. The
        commits of the paper's autoregressive models, of block models and LLaDA-MoE are unknown:
        their records have the commit that was loaded.
        """
        published = []
        for entry in map(resolve_model, model_names()):
            if entry.source and entry.loaded_as not in KINDS:
                published.append(entry)
        assert len(published) == 35
        for entry in published:
            if entry.loaded_as == "causal":
                assert (entry.revision, entry.settings) == (
                    None,
                    {"sampler": "ar", "max_new_tokens": 1024},
                )
                continue
            if entry.loaded_as == "masked":
                assert None not in (entry.mask_id, entry.eos_id, entry.shift, entry.chat)
            if entry.name in UNPINNED:
                assert entry.revision is None
                continue
            assert entry.revision is not None
            assert len(entry.revision) == 40
            assert int(entry.revision, 16)

    @pytest.mark.parametrize(
        ("name", "mask_id", "eos_id", "shift"),
        [
            ("llada-8b", 126336, 126081, False),
            ("llada-1.5", 126336, 126081, False),
            ("dream-7b", 151666, 151643, True),
        ],
    )
    def test_families_have_their_ids(
        self, name: str, mask_id: int, eos_id: int, shift: bool
    ) -> None:
        """LLaDA and Dream entries carry the published mask and EOS ids and the logit shift."""
        entry = resolve_model(name)
        assert (entry.mask_id, entry.eos_id, entry.shift) == (mask_id, eos_id, shift)

    def test_close_matches(self) -> None:
        """A misspelt name is refused with those it may have meant."""
        with pytest.raises(ModelError, match=r"llada-8c.*llada-8b"):
            resolve_model("llada-8c")

    def test_needs_no_torch(self) -> None:
        """Resolving a name leaves torch and transformers unimported."""
        code = (
            "import sys; from pbcore.models import resolve_model;"
            " resolve_model('llada-8b:dummy-l2'); print({'torch', 'transformers'} &"
            " set(sys.modules))"
        )
        assert (
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout.strip()
            == "set()"
        )

    def test_dummies(self) -> None:
        """`:dummy` keeps the shape, `:dummy-l2` cuts it to two layers, and neither has a source."""
        entry = resolve_model("dream-7b:dummy-l2")
        assert (entry.dummy, entry.layers, entry.source) == (True, 2, None)
        assert resolve_model("dream-7b:dummy").layers is None

    @pytest.mark.parametrize("name", ["llada-8b:random", "llada-8b:dummy-l0", "ideal:dummy"])
    def test_wrong_dummies(self, name: str) -> None:
        """Another suffix, no layers, or a model without a published shape are refused with what
        there is.
        """
        with pytest.raises(ModelError, match="llada-8b:dummy"):
            resolve_model(name)

    @pytest.mark.parametrize("name", ["", None, 5])
    def test_no_name(self, name: Any) -> None:
        """What is no name at all is refused with what there is, not taken for the current
        folder.
        """
        with pytest.raises(ModelError, match="known: ideal"):
            resolve_model(name)

    def test_folder_and_hub_id(self, tmp_path: Path) -> None:
        """A folder's path and owner/name are names too."""
        (tmp_path / "config.json").write_text("{}")
        assert resolve_model(str(tmp_path)).folder == tmp_path.resolve()
        assert resolve_model("someone/some-model").source == "someone/some-model"

    @pytest.mark.parametrize(
        "name", ["./my-llada", "../my-llada", "~/no/such/folder", "/no/such/folder"]
    )
    def test_a_path_without_a_folder(self, name: str) -> None:
        """What can only be a path is not looked for among the names."""
        with pytest.raises(
            ModelError, match=r"does not exist; give the checkpoint's folder"
        ) as refused:
            resolve_model(name)
        assert "known:" not in str(refused.value)

    def test_a_folder_that_is_not_a_checkpoint(self, tmp_path: Path) -> None:
        """It is refused before there are cells; an adapter's folder with the form of name that
        takes it.
        """
        with pytest.raises(ModelError, match=r"is not a checkpoint: it has no config\.json"):
            resolve_model(str(tmp_path))
        (tmp_path / "adapter_config.json").write_text("{}")
        with pytest.raises(ModelError, match=r"is a LoRA adapter.*MODEL\+"):
            resolve_model(str(tmp_path))

    def test_an_embedded_model_that_is_not_here(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """It is left out of model_names and refused with what to do."""
        monkeypatch.setattr(registry_module, "__file__", str(tmp_path / "registry.py"))
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "models.yaml").write_text(
            "models: {tiny: {family: masked, folder: tiny}}\nshapes: {}\n"
        )
        registry_module._table.cache_clear()
        try:
            assert "tiny" not in model_names()
            with pytest.raises(ModelError, match="Install pbcore again"):
                resolve_model("tiny")
        finally:
            monkeypatch.undo()
            registry_module._table.cache_clear()


class TestRegister:
    """register_model."""

    def test_a_factory_gets_device_dtype_and_options(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """load_model of a registered name calls its factory."""
        monkeypatch.setattr(registry_module.FACTORIES, "_registered", {})
        asked: dict[str, Any] = {}
        ideal = load_model("ideal")
        register_model("mine", lambda **options: asked.update(options) or ideal)
        assert load_model("mine", device="cpu", dtype="float32", size=3) is ideal
        assert asked == {"device": "cpu", "dtype": "float32", "size": 3}
        assert "mine" in model_names()

    def test_a_factory_without_a_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a factory returns must have a model's members; a forgotten `return` is named."""
        monkeypatch.setattr(registry_module.FACTORIES, "_registered", {})
        register_model("mine", lambda **_: None)
        with pytest.raises(
            ModelError,
            match=(
                "model 'mine': its factory returned None, not a Denoiser or OwnDecoder: it has no"
                " name"
            ),
        ):
            load_model("mine")

    @pytest.mark.parametrize("name", ["ideal", "with space", "a/b", "", None])
    def test_taken_or_unusable_names(self, name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name of the table, or one that can't stand in a node id, is refused."""
        monkeypatch.setattr(registry_module.FACTORIES, "_registered", {})
        with pytest.raises(ValueError, match="model name"):
            register_model(name, lambda **_: None)

    def test_a_factory_is_a_function(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What can't be called is refused when it is registered, not when it is asked for."""
        monkeypatch.setattr(registry_module.FACTORIES, "_registered", {})
        with pytest.raises(ValueError, match="not callable"):
            register_model("mine", None)  # type: ignore[arg-type]


class TestOptions:
    """LoadOptions."""

    def test_unknown(self, tmp_path: Path) -> None:
        """An option that doesn't exist is refused with those that do, before anything is loaded."""
        with pytest.raises(ModelError, match=r"quantisation.*known: .*quantization"):
            load_model(str(llama_checkpoint(tmp_path)), quantisation="int4")

    def test_unknown_quantization(self) -> None:
        """A quantization that doesn't exist is refused with those that do."""
        with pytest.raises(ModelError, match="bitsandbytes-4bit"):
            LoadOptions(quantization="int2")

    @pytest.mark.parametrize("option", [{"device_map": "auto"}, {"quantization": "torchao-int8"}])
    def test_what_needs_accelerate(
        self, monkeypatch: pytest.MonkeyPatch, option: dict[str, str]
    ) -> None:
        """Without it the extra that brings it is named, before anything is loaded."""
        monkeypatch.setattr("pbcore.models.entry.find_spec", lambda name: None)
        with pytest.raises(
            ModelError, match=rf"{next(iter(option))} needs accelerate.*'\.\[large\]'"
        ):
            LoadOptions(**option)  # type: ignore[arg-type]
