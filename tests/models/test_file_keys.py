"""What a config.json says is honoured, refused or named."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.train.sedd.network import read_sedd
from pbcore.models import load_model, resolve_model
from pbcore.models.architecture import Architecture, architecture
from pbcore.models.causal import CausalModel
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.families import BODIES, FAMILIES, PLAIN, read_config
from pbcore.models.file_keys import Keys, judge, judge_rope
from pbcore.models.loading import load_masked
from pbcore.models.registry import all_entries
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint, with_own_code

REFERENCE = Path(__file__).parents[1] / "reference"
EMBEDDED = Path(__file__).parents[2] / "pbcore" / "models"
SMALL = {
    name: read_config(REFERENCE / f"{name.replace('_', '-')}-tiny")
    for name in FAMILIES
    if name not in ("sdar_moe", "sedd")
}
LLAMA = read_config(EMBEDDED / "tiny")
QWEN3 = {
    **{key: value for key, value in SMALL["sdar"].items() if key in ("vocab_size", "head_dim")},
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "mask_token_id": 510,
}


def read(raw: Mapping[str, Any], given: str | None = None, **changes: Any) -> Architecture:
    return architecture({**raw, **changes}, "here", given=given)


def copied(folder: Path, name: str, **changes: Any) -> Path:
    """A copy of a small checkpoint with other keys."""
    shutil.copytree(REFERENCE / name, folder)
    raw = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


def words(arch: Architecture) -> tuple[Any, ...]:
    return arch.problems, arch.refused, arch.notes


class TestKnownOnes:
    """Checkpoints as they are published load without a line."""

    @pytest.mark.parametrize("raw", [*SMALL.values(), LLAMA], ids=[*SMALL, "tiny"])
    def test_small_ones(self, raw: dict[str, Any]) -> None:
        assert words(read(raw)) == ((), (), ())

    def test_published_shapes(self) -> None:
        shapes = [entry.shape for entry in all_entries() if entry.loaded_as == "masked"]
        assert len([shape for shape in shapes if shape]) > 15
        assert all(words(read(shape)) == ((), (), ()) for shape in shapes if shape)

    @pytest.mark.parametrize(
        ("family", "more"),
        [
            (
                "llada",
                {
                    "alibi_bias_max": 8.0,
                    "auto_map": {
                        "AutoConfig": "configuration_llada.LLaDAConfig",
                        "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
                        "AutoModel": "GSAI-ML/LLaDA-1.5--modeling_llada.LLaDAModelLM",
                        "AutoTokenizer": ["tokenization.Own", None],
                    },
                    "init_cutoff_factor": None,
                    "multi_query_attention": None,
                    "_name_or_path": "/somewhere",
                    "torch_dtype": "bfloat16",
                },
            ),
            (
                "dream",
                {
                    "auto_map": {
                        "AutoConfig": "configuration_dream.DreamConfig",
                        "AutoModel": "modeling_dream.DreamModel",
                    },
                    "bos_token_id": 508,
                    "rope_scaling": None,
                    "sliding_window": None,
                    "use_mrope": False,
                },
            ),
            ("sdar", {"auto_map": {"AutoModel": "modeling_sdar.SDARModel"}}),
            ("llada_moe", {"model_type": "lladamoe"}),
            ("llada2", {"block_size": 32, "num_nextn_predict_layers": 0}),
            ("stable_diffcoder", {"block_length": 4}),
        ],
    )
    def test_what_published_ones_add(self, family: str, more: dict[str, Any]) -> None:
        assert words(read(SMALL[family], **more)) == ((), (), ())

    def test_what_older_libraries_write(self) -> None:
        """transformers 4 wrote the defaults of every generation into config.json."""
        legacy = {
            "is_decoder": False,
            "pruned_heads": {},
            "do_sample": False,
            "top_k": 50,
            "id2label": {"0": "LABEL_0"},
            "forced_eos_token_id": None,
            "decoder_start_token_id": 3,
            "gradient_checkpointing": True,
        }
        assert all(words(read(raw, **legacy)) == ((), (), ()) for raw in SMALL.values())

    @pytest.mark.parametrize(
        ("family", "key", "value"),
        [("sdar", "layer_types", ["full_attention"] * 3), ("llada2", "num_mtp_layers", 0)],
    )
    def test_a_value_that_the_network_has_anyway(self, family: str, key: str, value: Any) -> None:
        assert words(read(SMALL[family], **{key: value})) == ((), (), ())


class TestOtherModels:
    """A config.json that makes a checkpoint another model than the one that it resembles."""

    @pytest.mark.parametrize(
        ("raw", "changes", "said"),
        [
            (SMALL["llada2"], {"expert_capacity": 48}, "expert_capacity 48 (experts are chosen"),
            (SMALL["llada2"], {"delete_token_id": 7}, "delete_token_id 7 (tokens edit"),
            (SMALL["llada2"], {"split_token_id": 8}, "split_token_id 8 (tokens edit"),
            (LLAMA, {"architectures": ["EfficientDLM"]}, "architectures 'EfficientDLM'"),
            (LLAMA, {"block_size": 32}, "block_size 32 (attention in blocks)"),
            (LLAMA, {"is_causal": True}, "is_causal True (known: False"),
            (LLAMA, {"auto_map": {"AutoModel": "modeling_x.LlamaForCausalLM"}}, "auto_map"),
            (SMALL["llada"], {"architectures": ["LLaDAModelLM", "DiBOModelLM"]}, "'DiBOModelLM'"),
            (
                SMALL["llada"],
                {"auto_map": {"AutoModel": "modeling_dibo.LLaDAModelLM"}},
                "AutoModel 'modeling_dibo.LLaDAModelLM' (its own code)",
            ),
            (
                SMALL["llada"],
                {"auto_map": {"AutoConfig": "configuration_dibo.LLaDAConfig"}},
                "AutoConfig 'configuration_dibo.LLaDAConfig'",
            ),
            (
                SMALL["dream"],
                {"auto_map": {"AutoModel": "modeling_dream.DreamForCausalLM"}},
                "modeling_dream.DreamForCausalLM' (another class)",
            ),
            (SMALL["llada"], {"num_experts": 8}, "num_experts 8"),
            (SMALL["llada"], {"sliding_window": 64}, "sliding_window 64"),
            (SMALL["dream"], {"text_config": {"hidden_size": 8}}, "text_config"),
            (SMALL["dream"], {"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
            (SMALL["sdar"], {"rope_ratio": 2}, "rope_ratio 2"),
            (SMALL["sdar"], {"layer_types": ["sliding_attention"] * 3}, "layer_types"),
            (SMALL["sdar"], {"rope_scaling": {"type": "mrope"}}, "rope_scaling.rope_type 'mrope'"),
            (
                SMALL["sdar"],
                {"rope_scaling": {"type": "default", "mrope_section": [2, 2]}},
                "rope_scaling.mrope_section",
            ),
        ],
    )
    def test_is_refused_by_its_key(
        self, raw: dict[str, Any], changes: dict[str, Any], said: str
    ) -> None:
        arch = read(raw, **changes)
        assert said in "; ".join((*arch.refused, *arch.problems))

    @pytest.mark.parametrize("key", ["frobnication", "use_new_thing"])
    def test_an_unknown_key_is_named(self, key: str) -> None:
        for family in SMALL:
            arch = read(SMALL[family], **{key: 3})
            assert (arch.refused, len(arch.notes)) == ((), 1)
            assert f"{key} 3" in arch.notes[0]

    def test_keys_of_files_known_from_excerpts_are_named(self) -> None:
        """Whether one like `rope_new` changes a network is known where the whole file is."""
        for family, raw in SMALL.items():
            arch = read(raw, rope_new=3)
            assert bool(arch.refused) is not FAMILIES[family].in_part
            assert bool(arch.notes) is FAMILIES[family].in_part

    @pytest.mark.parametrize("value", [None, [], {}, ""])
    def test_an_empty_key_says_nothing(self, value: Any) -> None:
        assert words(read(SMALL["llada2"], expert_capacity=value)) == ((), (), ())

    def test_the_error_is_one_line_that_says_the_way_out(self, tmp_path: Path) -> None:
        folder = copied(tmp_path / "m", "llada2-tiny", mask_token_id=510, expert_capacity=48)
        with pytest.raises(ModelError) as error:
            load_model(str(folder), mask_id=510)
        text = str(error.value)
        assert text.startswith(f"{folder}: config.json describes another model than llada2:")
        assert 'architecture="llada2"' in text
        assert "--architecture llada2" in text
        assert "\n" not in text


class TestByTheUsersWord:
    """`architecture` says what a checkpoint is."""

    def test_it_loads_with_a_line_and_is_recorded(self, tmp_path: Path) -> None:
        folder = copied(tmp_path / "m", "llada2-tiny", mask_token_id=510, expert_capacity=48)
        with pytest.warns(UserWarning, match=r"loaded as llada2.*not honoured are expert_capacity"):
            model = load_model(str(folder), architecture="llada2")
        assert (model.info["family"], model.info["architecture"]) == ("llada2", "llada2")

    def test_it_outweighs_what_the_file_names(self) -> None:
        raw = {**SMALL["sdar"], "model_type": "other", "architectures": ["OtherModel"]}
        with pytest.raises(ModelError, match=r"'other' can't be loaded.*architecture="):
            read(raw, auto_map=None)
        assert read(raw, given="sdar", auto_map=None).kind == "sdar"

    def test_the_table_of_models_declares_its_own(self, tmp_path: Path) -> None:
        """A published model whose files name code that pbcore has not seen loads, with a line."""
        auto = {"AutoModel": "modeling_renamed.SDARForCausalLM"}
        folder = copied(tmp_path / "m", "sdar-tiny", auto_map=auto)
        entry = replace(resolve_model("sdar-4b"), folder=folder, source=None, stop_ids=())
        entry = replace(entry, mask_id=510, eos_id=509)
        with pytest.warns(UserWarning, match=r"loaded as sdar, as declared; .*modeling_renamed"):
            load_masked(entry, "cpu", None, LoadOptions())

    def test_known_options_with_unknown_values_stay_problems(self) -> None:
        """Nobody's word makes the network compute them."""
        assert read(SMALL["llada2"], given="llada2", score_function="softmax").problems

    def test_an_autoregressive_one(self, tmp_path: Path) -> None:
        """With a mask token it would be taken for a masked one, and the other way round."""
        folder = str(causal_checkpoint(tmp_path))
        edit_config(tmp_path, mask_token_id=1)
        assert isinstance(load_model(folder, architecture="causal"), CausalModel)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = load_model(folder, architecture="llama")
        assert model.info["family"] == "llama"

    def test_unknown_ones_are_refused(self) -> None:
        with pytest.raises(ModelError, match=r"'lada' is not known; choose from llada, dream"):
            load_model("tiny", architecture="lada")
        with pytest.raises(ModelError, match="no checkpoint"):
            load_model("ideal", architecture="llada")


class TestAutoregressive:
    """transformers' own class decides what is read."""

    def test_another_class_is_refused(self, tmp_path: Path) -> None:
        """It would be loaded as the one that its model_type stands for."""
        folder = causal_checkpoint(tmp_path)
        edit_config(folder, architectures=["LlamaForCausalLMEagle", "OtherForCausalLM"])
        with pytest.raises(ModelError, match=r"'LlamaForCausalLMEagle', .*architecture=.causal"):
            load_model(str(folder))
        with pytest.warns(UserWarning, match="which is loaded, as architecture says"):
            model = load_model(str(folder), architecture="causal")
        assert model.info["architecture"] == "causal"

    def test_what_it_does_not_read_is_named(self, tmp_path: Path) -> None:
        folder = causal_checkpoint(tmp_path)
        edit_config(folder, expert_capacity=3, auto_map={"AutoModel": "modeling_own.Own"})
        unread = "doesn't read these keys: expert_capacity 3"
        with pytest.warns(UserWarning, match=unread) as caught:
            load_model(str(folder))
        said = "\n".join(str(warning.message) for warning in caught)
        assert "the code that auto_map names ('modeling_own.Own' …) doesn't run" in said

    @pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
    def test_usual_ones_say_nothing(self, kind: str, tmp_path: Path) -> None:
        folder = causal_checkpoint(tmp_path, kind)
        edit_config(folder, torch_dtype="bfloat16", rope_theta=1e4, use_cache=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            load_model(str(folder))
            load_model("tiny-ar")


class TestPlainOnes:
    """transformers' own networks with a mask token."""

    def test_a_line_says_as_what(self) -> None:
        """Unless config.json says how it attends."""
        plain = {key: value for key, value in LLAMA.items() if key != "is_causal"}
        (note,) = read(plain).notes
        assert note.startswith("loaded as llama with full attention")
        assert words(read(plain, is_causal=False)) == ((), (), ())

    def test_a_mask_id_of_the_users_waives_nothing_else(self, tmp_path: Path) -> None:
        folder = causal_checkpoint(tmp_path)
        edit_config(folder, block_size=32)
        with pytest.raises(ModelError, match="block_size 32"):
            load_model(str(folder), mask_id=1)

    def test_own_code_runs_where_it_is_trusted(self, tmp_path: Path) -> None:
        """A checkpoint that pbcore would refuse is its own code's business then."""
        folder = with_own_code(tmp_path, "")
        edit_config(folder, model_type="llama")
        with pytest.raises(ModelError, match=r"auto_map AutoConfig 'own\.OwnConfig'"):
            load_model(str(folder))
        model = load_model(str(folder), trust_remote_code=True)
        assert model.info["remote_code"]

    def test_the_usual_fixture_says_nothing(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_model(str(llama_checkpoint(tmp_path)))


class Recording(dict[str, Any]):
    """A config.json that notes which keys are looked at."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)


class TestLists:
    """The lists are what the code does."""

    @pytest.mark.parametrize("name", [name for name in BODIES if name not in PLAIN])
    def test_what_a_family_reads_is_read(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each key of its list is looked at; others never reach its mapping."""
        from pbcore.models import architecture as module

        family = BODIES[name]
        if family.reads is None:
            return
        raw = SMALL.get(name) or next(
            entry.shape for entry in all_entries() if entry.architecture == name
        )
        seen: set[str] = set()
        make = module._VALUES[name]

        def watched(keys: Any) -> Any:
            keys.raw = Recording(keys.raw)
            # Optional ones stand in for others where these are missing.
            values = make(keys)
            seen.update(keys.raw.seen)
            return values

        monkeypatch.setattr(module, "_VALUES", {**module._VALUES, name: watched})
        for less in ((), ("embedding_size", "mlp_hidden_size", "n_kv_heads")):
            read({key: value for key, value in raw.items() if key not in less})
        if name == "llada_moe":
            read(raw, moe_layer_freq=[0, 1, 1])
        if name == "llada2":
            read({key: value for key, value in raw.items() if key != "partial_rotary_factor"})
        assert {*family.reads} <= seen

    def test_no_list_contradicts_another(self) -> None:
        for family in BODIES.values():
            keys = family.config_keys()
            assert not keys.reads & keys.only.keys()
            assert not keys.reads & keys.meanings.keys()

    def test_flags_are_no_numbers(self) -> None:
        keys = Keys(only={"a": (True,), "b": (1, 1.0)})
        assert judge({"a": True, "b": 1.0}, keys).problems == ()
        assert len(judge({"a": 1, "b": True}, keys).problems) == 2


class TestPositions:
    """rope_parameters, by its kind."""

    def kinds(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "default", {}
        yield "linear", {"factor": 2.0}
        yield "yarn", {"factor": 2.0, "original_max_position_embeddings": 64, "beta_fast": 32}
        yield "llama3", {"factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

    def test_its_own_keys(self) -> None:
        for kind, keys in self.kinds():
            judged = judge_rope({"rope_type": kind, "rope_theta": 1e4, **keys}, "rope_scaling")
            assert (judged.problems, judged.refused, judged.named) == ((), (), ())

    def test_those_of_another_kind_are_named(self) -> None:
        judged = judge_rope({"rope_type": "linear", "factor": 2, "beta_fast": 1}, "rope_scaling")
        assert judged.named == ("rope_scaling.beta_fast 1 (not a key of linear)",)

    def test_part_of_a_head_needs_a_family_that_turns_parts(self) -> None:
        part = {"rope_type": "default", "partial_rotary_factor": 0.5}
        assert judge_rope(part, "rope_parameters").problems
        judged = judge_rope(part, "rope_parameters", ("partial_rotary_factor",))
        assert judged.problems == ()


class TestSedd:
    """SEDD's nested keys."""

    def test_unknown_ones_are_refused(self) -> None:
        raw = read_config(REFERENCE / "sedd-tiny")
        read_sedd(raw, "here")
        with pytest.raises(ModelError, match=r"model\.n_experts 4 is not a key of its authors"):
            read_sedd({**raw, "model": {**raw["model"], "n_experts": 4}}, "here")
