"""The mask token's id and those that end an answer."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import pbcore
from pbcore.models import load_model
from pbcore.models.architecture import architecture
from pbcore.models.checkpoints import random_weights
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.registry import resolve_model
from pbcore.models.token_ids import TokenIds, ids_of
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint
from tests.reference import bundled

LLADA = {"mask_token_id": 126336, "eos_token_id": 126081}


def ids(
    raw: dict[str, Any],
    kind: str = "dream",
    size: int = 100,
    folder: Path | None = None,
    **more: Any,
) -> TokenIds:
    entry = more.pop("entry", ModelEntry("x", "masked"))
    return TokenIds(entry, LoadOptions(**more), raw, kind, size, "x", folder)


class TestMask:
    def test_who_decides(self) -> None:
        """The option, the table, config.json, the authors' code; 0 is an id."""
        entry = ModelEntry("x", "masked", mask_id=7)
        raw = {"mask_token_id": 9}
        assert ids(raw, entry=entry, mask_id=0).mask_id() == 0
        assert ids(raw, entry=entry).mask_id() == 7
        assert ids(raw, "llada", 126464).mask_id() == 9
        assert ids({}, "llada", 126464).mask_id() == 126336

    @pytest.mark.parametrize("value", [True, False, "510", 5.0, [510], {"id": 510}])
    def test_what_is_no_id(self, value: Any) -> None:
        """JSON's `true` is not the token 1."""
        with pytest.raises(ModelError, match=r"x: mask_token_id .* is not a token id; .* 0\.\.99"):
            ids({"mask_token_id": value}).mask_id()

    @pytest.mark.parametrize("given", [{"mask_id": -1}, {"mask_id": 100}])
    def test_outside_the_vocabulary(self, given: dict[str, int]) -> None:
        """By its name, wherever it stands."""
        said = rf"{given['mask_id']} is outside its vocabulary 0\.\.99"
        with pytest.raises(ModelError, match=f"x: mask_id {said}"):
            ids({}, **given).mask_id()
        with pytest.raises(ModelError, match=f"x: mask_token_id {said}"):
            ids({"mask_token_id": given["mask_id"]}).mask_id()

    @pytest.mark.parametrize(
        ("raw", "kind", "said"),
        [
            ({}, "llama", r"pass mask_id=.* \(…ForCausalLM\), which are missing too$"),
            ({"architectures": ["LlamaForCausalLM"]}, "llama", r"masked diffusion model$"),
            ({"architectures": ["X"]}, "sdar", r"151669, that of sdar, is outside .* mask_id=…$"),
        ],
    )
    def test_nothing_names_it(self, raw: dict[str, Any], kind: str, said: str) -> None:
        """What else is missing is said only where it is."""
        with pytest.raises(ModelError, match=f"^x: config.json has no mask_token_id.*{said}"):
            ids(raw, kind).mask_id()


class TestStops:
    @pytest.mark.parametrize(
        ("raw", "stops"),
        [
            ({"eos_token_id": 7}, (7,)),
            ({"eos_token_id": [8, 7]}, (8, 7)),
            ({"pad_token_id": 5}, (5,)),
            ({"eos_token_id": None, "pad_token_id": 5}, (5,)),
            ({"eos_token_id": [], "pad_token_id": 5}, (5,)),
            ({"eos_token_id": 7, "pad_token_id": 5}, (7,)),
        ],
    )
    def test_config(self, raw: dict[str, Any], stops: tuple[int, ...]) -> None:
        """All of several, in their order; the padding where no EOS is named, or null."""
        assert ids(raw).stop_ids(99, None) == stops

    def test_the_other_files_add_theirs(self, tmp_path: Path) -> None:
        """generation_config.json and the tokenizer; a token without a row of the embedding ends
        nothing.
        """
        (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9, 7]}')
        of = ids({"eos_token_id": 7}, folder=tmp_path)
        assert of.stop_ids(99, 4) == (7, 9, 4)
        assert of.stop_ids(99, 100) == (7, 9)
        assert ids({"pad_token_id": 99}, folder=tmp_path).stop_ids(99, 4) == (9, 7, 4)

    def test_an_option_is_the_only_one(self, tmp_path: Path) -> None:
        (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9, 7]}')
        assert ids({"eos_token_id": 7}, folder=tmp_path, eos_id=0).stop_ids(99, 4) == (0,)

    def test_one_official_stop(self) -> None:
        """Fast-dLLM v2's code has one, whatever its files name."""
        raw = {"eos_token_id": [7, 8]}
        assert ids(raw, "fast_dllm_v2").stop_ids(99, 4) == (7,)
        assert ids({}, "fast_dllm_v2", 151936).stop_ids(151665, 151643) == (151645,)
        entry = resolve_model("fast-dllm-v2-1.5b")
        assert ids({}, "fast_dllm_v2", 151936, entry=entry).stop_ids(151665, None) == (151645,)

    @pytest.mark.parametrize("value", [True, -1, 100, [7, 100], "7", [7, False], 7.0])
    @pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
    def test_what_can_not_be_meant(self, value: Any, file: str, tmp_path: Path) -> None:
        """One line that names the key."""
        raw: dict[str, Any] = {"eos_token_id": value}
        if file != "config.json":
            (tmp_path / file).write_text(json.dumps(raw))
            raw = {"eos_token_id": 7}
        with pytest.raises(ModelError, match=r"^x: eos_token_id .*vocabulary 0\.\.99$"):
            ids(raw, folder=tmp_path).stop_ids(99, None)

    @pytest.mark.parametrize(
        ("raw", "eos", "named"),
        [
            ({"eos_token_id": [7, 99]}, None, "eos_token_id"),
            ({"eos_token_id": 7}, 99, "the tokenizer's EOS"),
        ],
    )
    def test_a_mask_that_is_an_eos(self, raw: dict[str, Any], eos: int | None, named: str) -> None:
        with pytest.raises(ModelError, match=rf"x: {named} 99 is also .* \(mask_token_id\)"):
            ids(raw).stop_ids(99, eos)

    def test_nothing_names_one(self) -> None:
        with pytest.raises(ModelError, match=r"^x: config.json has no eos_token_id.*eos_id=…$"):
            ids({}).stop_ids(99, None)


class TestTable:
    """A folder that holds a model of the table has its stop tokens."""

    def test_the_same_architecture_vocabulary_and_mask(self) -> None:
        """LLaDA's second one; any other size or mask is another model."""
        assert ids(LLADA, "llada", 126464).stop_ids(126336, None) == (126081, 126348)
        assert ids(LLADA, "llada", 126465).stop_ids(126336, None) == (126081,)
        assert ids(LLADA, "llada", 126464).stop_ids(126337, None) == (126081,)
        assert ids(LLADA, "llama", 126464).stop_ids(126336, None) == (126081,)

    def test_a_folder(self, tmp_path: Path) -> None:
        """Whatever its other sizes."""
        sizes = {"d_model": 8, "n_layers": 1, "n_heads": 2, "mlp_hidden_size": 8}
        raw = {**LLADA, **sizes, "model_type": "llada", "vocab_size": 126464}
        raw |= {"max_sequence_length": 64, "weight_tying": True}
        module = random_weights(architecture(raw, "x"), torch.device("cpu"), torch.float32)
        tensors = module.state_dict()
        del tensors["lm_head.weight"]
        save_file(tensors, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_text(json.dumps(raw))
        model: Any = load_model(str(tmp_path))
        assert (model.stop_ids, model.eos_id) == ({126081, 126348}, 126081)

    def test_two_that_stop_differently(self) -> None:
        """Dream's base and instruct models: the files decide, and a line says so."""
        dream = ids({"eos_token_id": 151643}, "dream", 152064)
        with pytest.warns(UserWarning, match=r"dream-7b-base or dream-7b or .* 151643 end an answ"):
            assert dream.stop_ids(151666, None) == (151643,)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dream.stop_ids(151666, 151645) == (151643, 151645)


class TestAnswers:
    @pytest.mark.parametrize("eos", [[509, 422], [422, 509]])
    def test_every_one_ends_an_answer(self, eos: list[int], tmp_path: Path) -> None:
        """Whatever their order: the same tokens up to the first, and the same forwards."""
        folder = Path(shutil.copytree(bundled("sdar-tiny"), tmp_path / "sdar"))
        prompt = [5, 6, 7, 8]
        free = pbcore.decode(
            load_model(str(folder), eos_id=509), [prompt], "sdar_static-4", max_new_tokens=32
        )[0]
        stop = free.token_ids[5]
        edit_config(folder, eos_token_id=[stop if token == 422 else token for token in eos])
        model: Any = load_model(str(folder))
        assert (model.stop_ids, model.info["stop_ids"][0]) == ({509, stop}, model.eos_id)
        (out,) = pbcore.decode(model, [prompt], "sdar_static-4", max_new_tokens=32)
        assert out.answer_tokens == free.token_ids.index(stop)
        assert out.nfe is not None
        assert free.nfe is not None
        assert out.nfe < free.nfe

    def test_text_ends_at_any(self, tmp_path: Path) -> None:
        """Here the tokenizer's EOS and one of generation_config.json."""
        folder = llama_checkpoint(tmp_path, eos_token_id=3)
        (folder / "generation_config.json").write_text('{"eos_token_id": [4]}')
        model: Any = load_model(str(folder))
        bob = model.tokenizer.words()[" Bob"]
        assert model.eos_id == 3
        for stop in (0, 3, 4):
            assert model.text([bob, stop, bob]) == " Bob"


def test_autoregressive_models_refuse_what_is_no_id(tmp_path: Path) -> None:
    """As masked ones do."""
    folder = causal_checkpoint(tmp_path)
    (folder / "generation_config.json").write_text('{"eos_token_id": true}')
    with pytest.raises(ModelError, match="eos_token_id True is not a token id"):
        load_model(str(folder))


def test_numbers_of_other_libraries_are_ids() -> None:
    """What counts as a whole number."""
    import numpy as np

    assert ids_of([np.int64(5), None], "eos_id", "x") == [5]
