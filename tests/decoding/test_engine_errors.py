"""What the decoding loop refuses, and what it does when memory runs out."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import torch

from pbcore.decoding import DecodingError, decode, register_policy
from pbcore.decoding.step import Move, Step
from pbcore.models.base import Generation, Request
from pbcore.models.errors import ModelError
from pbcore.models.info import ModelInfo
from tests.decoding.toys import MASK, Toy


class Own:
    """Decodes by itself: what it returns is given."""

    name = "own"
    info: ClassVar[ModelInfo] = {"source": "tests", "family": "own", "dummy": False}

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def check(self, sampler: Any) -> None:
        """Any sampler."""

    def generate(self, prompts: Any, sampler: Any, *, max_new_tokens: Any, seed: int) -> Any:
        return self.returned(prompts)


class OwnInBatches:
    """The same in batches that the loop forms."""

    name = "own"
    device = torch.device("cpu")
    info: ClassVar[ModelInfo] = {"source": "tests", "family": "own", "dummy": False}

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def check(self, sampler: Any) -> None:
        """Any sampler."""

    def encode(self, prompt: Any, max_new_tokens: int | None, key: int) -> Request:
        return Request(tuple(prompt), (0,), key)

    def answer(self, requests: Any, sampler: Any, *, seed: int) -> Any:
        return self.returned(requests)


class TestErrors:
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_bad_logits_name_the_row(self, bad: float) -> None:
        """NaN and +inf end the decoding with the row, the step and the model."""
        rule = lambda c, i, k: [0.0, bad if k == 1 and c.count(MASK) < 8 else 0.0] + [1.0] * 10
        with pytest.raises(DecodingError, match=r"toy .* prompt 1 at step 2"):
            decode(Toy(rule), [[5], [5]], "confidence-k1")

    def test_block_must_divide(self) -> None:
        """A block length that leaves a remainder is refused."""
        with pytest.raises(ValueError, match="block length 3 doesn't divide the 8 tokens"):
            decode(Toy(), [[5]], "confidence-k1+b3")

    def test_cache_must_exist(self) -> None:
        """A cache that the model lacks is refused with those it has."""
        with pytest.raises(ValueError, match=r"toy has no dual cache; it has \['prefix'\]"):
            decode(Toy(caches=frozenset({"prefix"})), [[5]], "confidence-k1+b4+dual")

    def test_idle_policy_is_caught(self, own_policies: None) -> None:
        """A policy that reveals nothing would never end."""
        from dataclasses import dataclass

        @register_policy("idle_for_a_test")
        @dataclass(frozen=True)
        class Idle:
            def select(self, step: Step) -> torch.Tensor | Move:
                return torch.zeros_like(step.masked)

        with pytest.raises(DecodingError, match="revealed nothing for row 0 at step 0"):
            decode(Toy(), [[5]], "idle_for_a_test")

    @pytest.mark.parametrize(
        ("returned", "came"),
        [
            (lambda prompts: [], "0 answers"),
            (lambda prompts: ["a", "b"], "'a' as answer 0"),
            (lambda prompts: "ab", "'ab'"),
            (lambda prompts: None, "None"),
            (lambda prompts: [Generation("a", (1,), 1, 1)] * 3, "3 answers"),
        ],
    )
    @pytest.mark.parametrize("method", ["generate", "answer"])
    def test_answers_of_an_own_model(self, method: str, returned: Any, came: str) -> None:
        """A model that decodes by itself gives one Generation for each prompt."""
        own = Own if method == "generate" else OwnInBatches
        with pytest.raises(ModelError, match=f"own.{method} returned {came}; .* list of 2 .*Gener"):
            decode(own(returned), [[5], [6]], "ar")

    def test_rows_of_an_own_model(self) -> None:
        """`encode` gives a Request."""
        toy: Any = Toy()
        toy.encode = lambda prompt, max_new_tokens, key: [5]
        with pytest.raises(ModelError, match=r"toy.encode returned \[5\]; expected a .*Request"):
            decode(toy, [[5]], "confidence-k1")

    def test_empty_prompt(self) -> None:
        """An empty prompt is refused by its place."""
        with pytest.raises(ValueError, match="prompt 1 is empty"):
            decode(Toy(), [[5], []], "confidence-k1")

    def test_batch_size(self) -> None:
        """A batch size below one is refused."""
        with pytest.raises(ValueError, match="at least 1, not 0"):
            decode(Toy(), [[5]], "confidence-k1", batch_size=0)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"model": "ideal"}, "load one with pbcore.load_model"),
            ({"prompts": "one text"}, "not one str"),
            ({"prompts": [torch.tensor([5, 6])]}, "prompt 0 is a Tensor"),
            ({"prompts": [5, 6]}, "prompt 0 is a int"),
            ({"sampler": None}, "sampler None"),
            ({"seed": "x"}, "seed is a whole number"),
            ({"batch_size": 2.0}, r"not 2\.0"),
        ],
    )
    def test_arguments_of_the_wrong_kind(self, changed: dict[str, Any], said: str) -> None:
        """Each is refused by name, with what is allowed."""
        arguments = {"model": Toy(), "prompts": [[5]], "sampler": "confidence-k1"} | changed
        with pytest.raises(ValueError, match=said):
            decode(**arguments)


class TestMemory:
    def test_halves_when_memory_runs_out(self) -> None:
        """Out of memory halves the batch and goes on; the answers are the same."""

        class Small(Toy):
            def prepare(self, requests, *, cache, seed):  # type: ignore[no-untyped-def]
                if len(requests) > 2:
                    raise torch.OutOfMemoryError("too many rows")
                return super().prepare(requests, cache=cache, seed=seed)

        assert decode(Small(), [[5]] * 7, "confidence-k2", batch_size=8) == decode(
            Toy(), [[5]] * 7, "confidence-k2"
        )

    def test_gives_up_at_one_row(self) -> None:
        """One row that doesn't fit is an error."""

        class Full(Toy):
            def prepare(self, requests, *, cache, seed):  # type: ignore[no-untyped-def]
                raise torch.OutOfMemoryError("no room")

        with pytest.raises(torch.OutOfMemoryError):
            decode(Full(), [[5]] * 3, "confidence-k2")
