"""pbcore.models.loading: in which numbers a model computes, its block length, ids and filters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pbcore.models.architecture import Architecture
from pbcore.models.checkpoints import quantization, refuse_kinds
from pbcore.models.device import find_device, find_dtype
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.info import ModelInfo
from pbcore.models.loading import plain_info, read_top_k, with_block
from pbcore.models.shards import shards


class TestFindDtype:
    @pytest.mark.parametrize(
        ("name", "device", "dtype"),
        [
            (None, "cpu", torch.float32),
            (None, "cuda", torch.bfloat16),
            ("float32", "cuda", torch.float32),
            ("bfloat16", "cpu", torch.bfloat16),
        ],
    )
    def test_the_devices_own_unless_named(
        self, name: str | None, device: str, dtype: torch.dtype
    ) -> None:
        """float32 on the CPU, bfloat16 on a GPU."""
        assert find_dtype(name, torch.device(device)) == dtype

    def test_an_unknown_name(self) -> None:
        """The message lists those that are known."""
        with pytest.raises(ModelError, match=r"dtype 'float3' is not known; choose from .*float32"):
            find_dtype("float3", torch.device("cpu"))


class TestFindDevice:
    def test_what_torch_does_not_know(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And a GPU that is not there; one that is there is taken."""
        assert find_device("cpu").type == "cpu"
        with pytest.raises(
            ModelError, match="device 'gpu' is not known to torch; try cpu, cuda or cuda:1"
        ):
            find_device("gpu")
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        with pytest.raises(ModelError, match=r"device 'cuda:1': torch .* sees no GPU"):
            find_device("cuda:1")
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        assert find_device("cuda:1").index == 1


class TestTopK:
    @pytest.mark.parametrize(
        ("kind", "text", "top_k"),
        [
            ("llada", '{"top_k": 7}', None),
            ("dream", None, 50),
            ("dream", '{"top_k": 7}', 7),
            ("dream", '{"top_k": 0}', None),
            ("dream", "{}", None),
        ],
    )
    def test_dreams_own_filter(
        self, tmp_path: Path, kind: str, text: str | None, top_k: int | None
    ) -> None:
        """Of Dream alone; transformers' default without its file."""
        if text is not None:
            (tmp_path / "generation_config.json").write_text(text)
        assert read_top_k(kind, tmp_path) == top_k

    def test_a_broken_file(self, tmp_path: Path) -> None:
        """Is to be downloaded again."""
        (tmp_path / "generation_config.json").write_text("{")
        with pytest.raises(ModelError, match="download the checkpoint again"):
            read_top_k("dream", tmp_path)


class TestBlockLength:
    def settled(
        self, *, blocks: bool = True, own: Any = 4, entry: int | None = None, **options: Any
    ) -> Architecture:
        config: Any = SimpleNamespace(max_position_embeddings=64)
        arch = Architecture("x", None, config, {}, False, blocks, own, problems=("first",))
        return with_block(arch, ModelEntry("x", "masked", block=entry), LoadOptions(**options))

    def test_given_then_the_entrys_then_the_checkpoints(self) -> None:
        """The first that there is; nothing is wrong with it."""
        assert self.settled(entry=8, block=16).block == 16
        assert self.settled(entry=8).block == 8
        assert self.settled().block == 4
        assert self.settled().problems == ("first",)

    @pytest.mark.parametrize("block", [1, 64])
    def test_any_length_up_to_the_positions(self, block: int) -> None:
        """A single token, or all."""
        assert (self.settled(block=block).block, self.settled(block=block).problems) == (
            block,
            ("first",),
        )

    @pytest.mark.parametrize("block", [0, 65, True, 4.0])
    def test_others_do_not_fit(self, block: Any) -> None:
        """The length is dropped and named."""
        found = self.settled(own=block)
        assert found.block is None
        assert (
            found.problems[1]
            == f"block length {block!r} (known: whole numbers from 1 to its 64 positions)"
        )

    def test_none_is_a_problem_of_block_models_alone(self) -> None:
        """One with full attention has no length, and can't be given one."""
        assert self.settled(own=None).problems[1].startswith("no block length (pass block=")
        full = self.settled(blocks=False, entry=8)
        assert (full.block, full.problems) == (None, ("first",))
        assert (
            self.settled(blocks=False, block=8).problems[1]
            == "block=8 for a model with full attention"
        )

    @pytest.mark.parametrize(
        ("attention", "problems"), [("sdpa", 1), ("eager", 1), ("flash_attention_2", 2)]
    )
    def test_attention_needs_a_mask_for_blocks(self, attention: str, problems: int) -> None:
        """Kernels without one serve models with full attention alone."""
        assert len(self.settled(attn_implementation=attention).problems) == problems
        assert self.settled(blocks=False, attn_implementation=attention).problems == ("first",)


class TestInfo:
    def info(self, entry: ModelEntry, **options: Any) -> ModelInfo:
        module: Any = torch.nn.Linear(3, 2)
        module.config = SimpleNamespace(
            get_text_config=lambda: SimpleNamespace(num_hidden_layers=5)
        )
        return plain_info(entry, LoadOptions(**options), "llada", module, torch.bfloat16)

    def test_what_a_record_says_of_a_model(self) -> None:
        """Plain values."""
        entry = ModelEntry("x", "masked", source="o/x", revision="r")
        assert self.info(entry, quantization="torchao-int8") == {
            "source": "o/x",
            "revision": "r",
            "family": "llada",
            "parameters": 8,
            "dtype": "bfloat16",
            "attention": "sdpa",
            "quantization": "torchao-int8",
            "embedded": False,
            "dummy": False,
            "layers": 5,
            "remote_code": False,
        }
        assert self.info(entry, revision="s")["revision"] == "s"

    @pytest.mark.parametrize(
        ("facts", "source"), [({"dummy": True}, "x"), ({"embedded": True}, "x"), ({}, "/folder")]
    )
    def test_where_it_is_from(self, facts: dict[str, bool], source: str) -> None:
        """A hub id, else the folder; dummies and embedded models by name."""
        assert (
            self.info(ModelEntry("x", "masked", folder=Path("/folder"), **facts))["source"]
            == source
        )  # type: ignore[arg-type]


class TestShards:
    def test_one_file_is_enough(self, tmp_path: Path) -> None:
        """Beside others, such as an adapter's."""
        for name in ("b.safetensors", "a.safetensors"):
            (tmp_path / name).touch()
        assert [path.name for path in shards(tmp_path)] == ["a.safetensors", "b.safetensors"]
        (tmp_path / "model.safetensors").touch()
        assert [path.name for path in shards(tmp_path)] == ["model.safetensors"]

    def test_other_formats_are_named(self, tmp_path: Path) -> None:
        """With what to do."""
        with pytest.raises(
            ModelError, match=r"has no \*\.safetensors; download the checkpoint again"
        ):
            shards(tmp_path)
        (tmp_path / "pytorch_model.bin").touch()
        with pytest.raises(ModelError, match=r"it has pytorch_model\.bin; convert them"):
            shards(tmp_path)


class TestRefusal:
    def test_each_kind_is_counted_and_named(self) -> None:
        """What is right has no part; long lists are cut at eight."""
        refuse_kinds("x")
        with pytest.raises(ModelError) as raised:
            refuse_kinds(
                "x", missing=["a"], unexpected=[], shapes=["c is 1", "d is 2"], options=["o"]
            )
        assert (
            "x doesn't match its config.json. unknown options in config.json (1): o; missing keys"
            " (1): a; " in str(raised.value)
        )
        assert "wrong shapes (2): c is 1, d is 2. Check" in str(raised.value)
        for keys, said in (
            ("abcdefgh", "a, b, c, d, e, f, g, h."),
            ("abcdefghi", "a, b, c, d, e, f, g, h and 1 more."),
        ):
            with pytest.raises(ModelError, match=rf"missing keys \({len(keys)}\): {said}"):
                refuse_kinds("x", missing=keys)


class TestQuantization:
    def test_each_name_is_a_configuration(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of the library before the dash, with the kind after it."""
        made: list[Any] = []
        for name in ("BitsAndBytesConfig", "TorchAoConfig", "QuantoConfig"):
            monkeypatch.setattr(
                f"transformers.{name}", lambda *a, _name=name, **k: made.append((_name, a, k))
            )
        assert quantization(None, torch.float16) is None
        for name in ("bitsandbytes-4bit", "bitsandbytes-8bit", "torchao-int4", "quanto-int8"):
            quantization(name, torch.float16)
        both = {"bnb_4bit_compute_dtype": torch.float16, "bnb_4bit_quant_type": "nf4"}
        assert made == [
            ("BitsAndBytesConfig", (), {"load_in_4bit": True, "load_in_8bit": False, **both}),
            ("BitsAndBytesConfig", (), {"load_in_4bit": False, "load_in_8bit": True, **both}),
            ("TorchAoConfig", ("int4_weight_only",), {}),
            ("QuantoConfig", (), {"weights": "int8"}),
        ]
