"""The shipped checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from pbcore.decoding import decode
from pbcore.extras.train.command import HERE
from pbcore.extras.train.recipe import read_recipe
from pbcore.models import load_model, resolve_model
from pbcore.models.families import block_of, loaded_as
from pbcore.models.network import Columns
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import load_task, task_names

MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def tiny_block(embedded_block: Path) -> Any:
    return load_model("tiny-block")


@pytest.fixture(scope="module")
def tiny_ar(embedded_ar: Path) -> Any:
    return load_model("tiny-ar")


class TestFolder:
    def test_is_small_and_holds_no_code(self, embedded: Path) -> None:
        """At most 8 MB, and nothing but data."""
        files = [path for path in embedded.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= MOST_BYTES
        assert {path.suffix for path in files} <= {".json", ".safetensors", ".md", ".csv", ".png"}

    def test_has_the_recipes_shape(self, embedded: Path) -> None:
        """Width, layers, heads and tokens are those of the recipe and of the tokenizer beside
        it.
        """
        recipe = read_recipe(HERE / "recipe.yaml")
        config = json.loads((embedded / "config.json").read_text(encoding="utf-8"))
        shape = (
            config["hidden_size"],
            config["num_hidden_layers"],
            config["num_attention_heads"],
            config["intermediate_size"],
        )
        assert shape == (recipe.width, recipe.layers, recipe.heads, recipe.inner)
        tokens = json.loads((embedded / "tokenizer.json").read_text(encoding="utf-8"))["model"][
            "vocab"
        ]
        with safe_open(embedded / "model.safetensors", "pt") as weights:
            assert weights.get_slice("model.embed_tokens.weight").get_shape() == [
                len(tokens),
                recipe.width,
            ]

    def test_the_card_has_a_line_per_task(self, embedded: Path) -> None:
        card = (embedded / "README.md").read_text(encoding="utf-8")
        assert [name for name in task_names() if f"| {name} |" not in card] == []


class TestAnswers:
    def test_copies_lists_one_token_at_a_time(self, embedded: Path) -> None:
        """Four lists of the test split, n = 3 to 6, come back as they were."""
        task = load_task("waiting_line/copy", limit=4)
        texts = [
            out.text for out in decode(load_model(str(embedded)), task.samples, "confidence-k1")
        ]
        assert [
            one.scores["accuracy_strict"]
            for one in task.score_many(texts, task.samples, ["accuracy_strict"])
        ] == [1.0] * 4


class TestBlock:
    """`tiny-block`."""

    def test_is_small_and_holds_no_code(self, embedded_block: Path) -> None:
        """At most 4 MB, and nothing but data."""
        files = [path for path in embedded_block.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= 4_000_000
        assert {path.suffix for path in files} <= {".json", ".safetensors", ".md", ".csv", ".png"}

    def test_is_the_network_of_tiny_in_the_layout_of_a_block_family(
        self, embedded: Path, embedded_block: Path
    ) -> None:
        """The same sizes, tokens and token frequencies; what differs are the weights and the class
        that config.json names, by which the attention is block-causal.
        """
        full, blocks = (
            json.loads((one / "config.json").read_text()) for one in (embedded, embedded_block)
        )
        assert blocks.pop("architectures") == ["StableDiffcoderForCausalLM"]
        assert full.pop("architectures") == ["LlamaForCausalLM"]
        assert blocks == full
        for name in ("tokenizer.json", "frequencies.json"):
            assert (embedded_block / name).read_bytes() == (embedded / name).read_bytes()
        assert load_model("tiny-block").block == block_of(resolve_model("tiny-block")) == 4

    def test_the_card_has_a_line_per_task(self, embedded_block: Path) -> None:
        card = (embedded_block / "README.md").read_text(encoding="utf-8")
        assert [name for name in task_names() if f"| {name} |" not in card] == []

    def test_the_recipe_is_the_one_that_was_run(self, embedded_block: Path) -> None:
        """The loss table ends with the recipe's last step, within an hour."""
        recipe = read_recipe(HERE / "recipe-block.yaml")
        last = (embedded_block / "loss.csv").read_text().splitlines()[-1].split(",")
        assert int(last[0]) == recipe.steps
        assert float(last[1]) <= 3600

    @pytest.mark.parametrize(
        ("name", "least"),
        [("copy", 15), ("reverse", 15), ("replace_index", 15), ("shuffle", 12)],
    )
    def test_answers_well_one_token_at_a_time(self, name: str, least: int, tiny_block: Any) -> None:
        """Of 16 lists of the test split, n = 3 to 6, so many are right."""
        task = load_task(f"waiting_line/{name}", limit=16)
        outputs = decode(tiny_block, task.samples, "confidence-k1")
        scored = task.score_many([out.text for out in outputs], task.samples, ["accuracy"])
        assert sum(one.scores["accuracy"] for one in scored) >= least

    def test_answers_as_without_a_cache(self, tiny_block: Any) -> None:
        """Token for token those of a loop that runs the whole row at every step, under a mask that
        lets each block see itself and what is before it.
        """
        task = load_task("waiting_line/shuffle", limit=4)
        outputs = decode(tiny_block, task.samples, "confidence-k1")
        for sample, output in zip(task.samples, outputs, strict=True):
            assert output.token_ids == without_a_cache(tiny_block, sample)[: len(output.token_ids)]

    @pytest.mark.parametrize(
        "sampler",
        [
            "threshold-0.9",
            "eb-0.1",
            "spec-8",
            "s2d2",
            "pc-k2",
            "sdar_static-2",
            "sdar_dynamic-0.9",
            "sdar_sequential-2",
            "stable_diffcoder_threshold-0.95",
            "llada2-0.95",
            "joint-0.5",
            "fast_dllm_v2-0.9-part2+dual",
            "confidence-k2+t1.0",
            "confidence-k1+eos_stop",
        ],
    )
    def test_runs_the_samplers_of_block_models(self, sampler: str, tiny_block: Any) -> None:
        """Each copies at least one list of two."""
        task = load_task("waiting_line/copy", limit=2)
        outputs = decode(tiny_block, task.samples, sampler)
        scored = task.score_many([out.text for out in outputs], task.samples, ["accuracy"])
        assert sum(one.scores["accuracy"] for one in scored) >= 1
        assert all(out.store and out.prefill == 1 for out in outputs)

    @pytest.mark.parametrize("sampler", ["confidence-k2+b8", "confidence-k2+prefix", "wino"])
    def test_refuses_what_no_block_model_runs(self, sampler: str, tiny_block: Any) -> None:
        with pytest.raises(ValueError, match="block"):
            decode(tiny_block, load_task("waiting_line/copy", limit=1).samples, sampler)


def without_a_cache(model: Any, sample: Sample) -> tuple[int, ...]:
    """The canvas that greedy decoding, one token at a time and block by block, ends with."""
    request = model.encode(sample, None, 0)
    ids = torch.tensor([[*request.prompt_ids, *request.canvas]])
    place = torch.arange(ids.shape[1])
    sees = (place // model.block <= (place // model.block)[:, None])[None]
    while bool((ids == model.mask_id).any()):
        masked = ids[0] == model.mask_id
        block = int(masked.nonzero()[0]) // model.block
        active = masked & (place // model.block == block)
        hidden = model.network.hidden(Columns(ids, place[None], sees))
        logits = model.network.project(hidden[0, active])
        logits[:, model.mask_id] = -torch.inf
        best = logits.softmax(-1).max(-1)
        slot = int(best.values.argmax())
        ids[0, active.nonzero()[slot]] = best.indices[slot]
    return tuple(ids[0, len(request.prompt_ids) :].tolist())


class TestAutoregressive:
    """`tiny-ar`."""

    def test_is_small_and_holds_no_code(self, embedded_ar: Path) -> None:
        """At most 3 MB, and nothing but data."""
        files = [path for path in embedded_ar.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= 3_000_000
        assert {path.suffix for path in files} <= {".json", ".safetensors", ".md", ".csv", ".png"}

    def test_is_the_network_of_tiny_without_its_mask(
        self, embedded: Path, embedded_ar: Path
    ) -> None:
        """The same sizes; what differs is the attention, the mask token and the cache that goes
        with them.
        """
        diffusion, causal = (
            json.loads((one / "config.json").read_text()) for one in (embedded, embedded_ar)
        )
        shape = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        assert [causal[key] for key in shape] == [diffusion[key] for key in shape]
        assert loaded_as(diffusion) == "masked"
        assert loaded_as(causal) == "causal"

    def test_the_card_has_a_line_per_task(self, embedded_ar: Path) -> None:
        card = (embedded_ar / "README.md").read_text(encoding="utf-8")
        assert [name for name in task_names() if f"| {name} |" not in card] == []

    @pytest.mark.parametrize(
        ("name", "least"),
        [
            ("copy", 15),
            ("replace_index", 15),
            ("insert_random", 15),
            ("shuffle", 12),
            ("replace_random", 12),
        ],
    )
    def test_answers_well(self, name: str, least: int, tiny_ar: Any) -> None:
        """Of 16 lists of the test split, n = 3 to 6, so many are right, each in one forward per
        token.
        """
        task = load_task(f"waiting_line/{name}", limit=16)
        outputs = decode(tiny_ar, task.samples, "ar")
        scored = task.score_many([out.text for out in outputs], task.samples, ["accuracy"])
        assert sum(one.scores["accuracy"] for one in scored) >= least
        assert all(out.nfe == len(out.token_ids) == out.answer_tokens + 1 for out in outputs)
