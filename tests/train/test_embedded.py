"""The shipped checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open

import pbcore.train.recipe
from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.families import family_of
from pbcore.tasks.registry import load_task, task_names
from pbcore.train.recipe import read_recipe

MOST_BYTES = 8_000_000


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
        recipe = read_recipe(Path(pbcore.train.recipe.__file__).with_name("recipe.yaml"))
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
        assert family_of(diffusion) == "masked"
        assert family_of(causal) == "causal"

    def test_the_card_has_a_line_per_task(self, embedded_ar: Path) -> None:
        card = (embedded_ar / "README.md").read_text(encoding="utf-8")
        assert [name for name in task_names() if f"| {name} |" not in card] == []

    @pytest.mark.parametrize(
        ("name", "least"),
        [
            ("copy", 36),
            ("replace_index", 36),
            ("insert_random", 36),
            ("shuffle", 30),
            ("replace_random", 30),
        ],
    )
    def test_answers_well(self, name: str, least: int, embedded_ar: Path) -> None:
        """Of 40 lists of the test split, n = 3 to 6, so many are right, each in one forward per
        token.
        """
        task = load_task(f"waiting_line/{name}", limit=40)
        outputs = decode(load_model("tiny-ar"), task.samples, "ar")
        scored = task.score_many([out.text for out in outputs], task.samples, ["accuracy"])
        assert sum(one.scores["accuracy"] for one in scored) >= least
        assert all(out.nfe == len(out.token_ids) == out.answer_tokens + 1 for out in outputs)
