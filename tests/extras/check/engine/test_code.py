"""A made checkpoint's own code: what transformers loads computes what this package computes."""

from __future__ import annotations

import ast
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from torch import Tensor

from pbcore.extras.check.engine.code import write_code
from pbcore.extras.check.engine.make import write_checkpoint
from pbcore.extras.check.engine.material import Material
from pbcore.extras.check.engine.own import generate
from pbcore.extras.check.engine.published import PUBLISHED
from pbcore.extras.check.engine.search import candidates, decoded, ordinary, up_to_eos
from pbcore.extras.check.engine.setting import Setting, setting_of
from pbcore.models import load_model
from pbcore.models.network import Columns

CLOSE = {"rtol": 0.0, "atol": 2e-4}  # logits have a deviation near 9


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of checkpoints is copied into the test's folder and imported from there."""
    name = "transformers.dynamic_module_utils.HF_MODULES_CACHE"
    monkeypatch.setattr(name, str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    for module in [*sys.modules]:
        if module.startswith("transformers_modules"):
            monkeypatch.delitem(sys.modules, module)


def loaded(folder: Path, kind: str) -> Any:
    """What transformers makes of a folder by its code."""
    auto = getattr(transformers, kind)
    module = auto.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32)
    return module.eval().requires_grad_(False)


def kinds(folder: Path) -> dict[str, str]:
    """Its models: transformers' kinds and the names of their classes."""
    auto = json.loads((folder / "config.json").read_text())["auto_map"]
    return {kind: name.split(".")[1] for kind, name in auto.items() if kind != "AutoConfig"}


def with_heads(folder: Path) -> list[str]:
    """The kinds that give logits."""
    every = kinds(folder)
    heads = {name for kind, name in every.items() if kind.startswith("AutoModelFor")}
    return [kind for kind, name in every.items() if not heads or name in heads]


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A family's checkpoint with its code."""
    folder = tmp_path_factory.mktemp("coded") / request.param
    write_checkpoint(folder, request.param, code=True)
    return folder


@pytest.mark.parametrize("coded", PUBLISHED, indirect=True)
class TestLogits:
    """Three rows, the second and third padded on the left."""

    def test_padding(self, coded: Path) -> None:
        """A mask of columns, or none: blocks are then counted from each row's first token."""
        network, ids = self.ours(coded)
        real = torch.ones_like(ids)
        real[1, :3] = 0
        real[2, :7] = 0
        for kind in with_heads(coded):
            theirs = loaded(coded, kind)
            self.equal(theirs(ids).logits, network, ids, torch.ones_like(ids), self.block(coded))
            padded = theirs(ids, attention_mask=real).logits
            self.equal(padded, network, ids, real, self.block(coded))

    def test_pairs(self, coded: Path) -> None:
        """A mask of pairs says all, in booleans or in numbers that are added."""
        network, ids = self.ours(coded)
        pairs = torch.rand(3, 24, 24) < 0.6
        pairs |= torch.eye(24, dtype=torch.bool)
        added = torch.zeros(3, 1, 24, 24).masked_fill(~pairs[:, None], -torch.inf)
        theirs = loaded(coded, with_heads(coded)[0])
        positions = torch.arange(24).expand(3, 24)
        expected = self.logits(network, ids, positions, pairs)
        torch.testing.assert_close(theirs(ids, pairs).logits, expected, **CLOSE)
        torch.testing.assert_close(theirs(ids, attention_mask=added).logits, expected, **CLOSE)

    def test_without_its_head(self, coded: Path) -> None:
        """The base class, where the family has one, gives the states that the head reads."""
        _, ids = self.ours(coded)
        base = [kind for kind in kinds(coded) if kind not in with_heads(coded)]
        whole = loaded(coded, with_heads(coded)[0])
        assert type(whole).__name__ == kinds(coded)[with_heads(coded)[0]]
        for kind in base:
            states = loaded(coded, kind)(ids).last_hidden_state
            last = getattr(whole, whole.base_model_prefix)(ids).last_hidden_state
            assert torch.equal(states, last)
        with_base = ("llada2", "sdar", "fast_dllm_v2", "a2d-qwen3")
        assert len(base) == (PUBLISHED[coded.name].kind in with_base)

    def ours(self, folder: Path) -> tuple[Any, Tensor]:
        """This package's network of a folder, and ids (R, T), half of them masks."""
        block = PUBLISHED[folder.name].block
        model: Any = load_model(str(folder), **({} if block is None else {"block": block}))
        torch.manual_seed(0)
        ids = torch.randint(10, 300, (3, 24))
        ids[:, 10::2] = model.mask_id
        return model.network, ids

    def block(self, folder: Path) -> int | None:
        """The length of blocks that are counted from the first token."""
        from_prompt = folder.name in ("a2d_bd3lm", "nemotron")
        return None if from_prompt else PUBLISHED[folder.name].block

    def equal(
        self, theirs: Tensor, network: Any, ids: Tensor, real: Tensor, block: int | None
    ) -> None:
        """Logits of all places but padding are this package's."""
        positions = (real.cumsum(-1) - 1).clamp(min=0)
        pairs = real.bool()[:, None].expand(3, 24, 24)
        if block is not None:
            pairs = pairs & (positions[:, None] // block <= positions[..., None] // block)
        pairs = pairs | torch.eye(24, dtype=torch.bool)
        expected = self.logits(network, ids, positions, pairs)
        seen = real.bool()
        torch.testing.assert_close(theirs[seen], expected[seen], **CLOSE)

    @torch.inference_mode()
    def logits(self, network: Any, ids: Tensor, positions: Tensor, pairs: Tensor) -> Tensor:
        """This package's logits (R, T, V)."""
        states = network.hidden(Columns(ids, positions, pairs))
        logits: Tensor = network.project(states.flatten(0, 1)).unflatten(0, ids.shape)
        return logits


@torch.inference_mode()
def plain_loop(
    theirs: Any, mask: int, prompts: list[list[int]], setting: Setting, shift: int = 0
) -> list[list[int]]:
    """Decodes prompts of several lengths at once, block by block, with nothing but the model."""
    width = max(map(len, prompts))
    length = setting.gen_length
    block = setting.block_length or length
    ids = torch.full((len(prompts), width + length), mask)
    real = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) : width] = torch.tensor(prompt)
        real[row, width - len(prompt) :] = 1
    for start in range(width, width + length, block):
        places = slice(start, start + block)
        while (ids[:, places] == mask).any():
            logits = theirs(ids, attention_mask=real).logits
            logits[..., mask] = -torch.inf
            chance, token = logits.softmax(-1)[:, start - shift : start + block - shift].max(-1)
            for row in range(len(ids)):
                hidden = (ids[row, places] == mask).nonzero()[:, 0]
                sure = hidden[chance[row, hidden].argsort(descending=True)]
                count = setting.k or max(1, int((chance[row, sure] >= setting.threshold).sum()))
                for place in sure[:count]:
                    ids[row, start + place] = token[row, place]
    return ids[:, width:].tolist()


def test_llada_decodes_what_is_expected(tmp_path: Path, folder: Path, material: Material) -> None:
    """By a plain loop over the loaded code, and by this package in the same folder."""
    copy = tmp_path / "llada"
    shutil.copytree(folder, copy)
    with safe_open(copy / "model.safetensors", "pt") as weights:
        names = list(weights.keys())
    write_code(copy, "llada", json.loads((copy / "config.json").read_text()), names)
    theirs = loaded(copy, "AutoModel")
    cases = [case for case in material.cases if case.property == "batch"]
    cases = [case for case in cases if case.setting.cache is None]
    assert len({case.setting.policy for case in cases}) == 2
    for case in cases:
        prompts = [row.prompt for row in case.rows]
        answers = [row.answer for row in case.rows]
        plain = plain_loop(theirs, material.mask_id, prompts, case.setting)
        own = [answer["ids"] for answer in generate(str(copy), prompts, case.setting)]
        for both in (plain, own):
            assert [list(up_to_eos(row, material.eos_ids)) for row in both] == answers


def test_dream_decodes_the_same(tmp_path: Path) -> None:
    """Its logits are those of the next place, as the authors' loop reads them."""
    folder = tmp_path / "dream"
    write_checkpoint(folder, "dream", code=True)
    model: Any = load_model(str(folder))
    drawn = candidates(random.Random(0), ordinary(model), 12)
    rows = [
        row
        for row in decoded(model, drawn, "confidence-k2+b8")
        if all(row.decisions.outside) and row.decisions.smallest > 0.01
    ]
    assert len({row.answer for row in rows}) > 3
    stops = tuple(sorted(model.stop_ids))
    setting = setting_of("confidence-k2+b8", 16, stops, len(rows))
    theirs = loaded(folder, "AutoModel")
    answers = plain_loop(theirs, model.mask_id, [list(row.prompt) for row in rows], setting, 1)
    assert [up_to_eos(answer, stops) for answer in answers] == [row.answer for row in rows]


def test_what_it_lacks_is_refused(tmp_path: Path) -> None:
    """A cache that an engine hands it is no silent loss; what is switched off is."""
    folder = tmp_path / "sdar"
    write_checkpoint(folder, "sdar", code=True)
    theirs = loaded(folder, "AutoModelForCausalLM")
    ids = torch.tensor([[5, 6]])
    assert theirs(ids, use_cache=False, past_key_values=None, return_dict=True).logits is not None
    with pytest.raises(NotImplementedError, match="use_cache=True"):
        theirs(ids, use_cache=True)


@pytest.mark.parametrize("family", PUBLISHED)
def test_it_imports_nothing_of_this_package(tmp_path: Path, family: str) -> None:
    """An engine's environment needs PyTorch and transformers alone. config.json names each file."""
    write_checkpoint(tmp_path, family, code=True)
    imported = set()
    for path in tmp_path.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).split(".")[0])
    assert imported == {"math", "typing", "torch", "transformers"}
    auto = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert {f"{name.split('.')[0]}.py" for name in auto.values()} <= {
        path.name for path in tmp_path.iterdir()
    }
