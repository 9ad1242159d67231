"""The protocol of models: what a user's own may leave out."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import Context, Denoiser, Prompt, Query, Request, complete
from pbcore.models.info import ModelInfo

MASK = 0
EOS = 1


class Minimal:
    """The least that a denoiser of one's own has: it predicts position + 2."""

    name = "minimal"
    mask_id = MASK
    eos_id = EOS
    vocab_size = 12
    device = torch.device("cpu")
    info: ClassVar[ModelInfo] = {}

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        return Request((5,), (MASK,) * (max_new_tokens or 4), key)

    def text(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Any:
        return MinimalContext()


class MinimalContext:
    def logits(self, query: Query) -> Tensor:
        return torch.nn.functional.one_hot(query.want.nonzero()[:, 1] + 2, 12).float()

    def keep(self, rows: Tensor) -> None:
        pass


class TestComplete:
    def test_a_minimal_model_decodes(self) -> None:
        """No caches, no reviews, no frequencies, no stop ids, no whole text, and no
        `logits_and_review`.
        """
        (generation,) = decode(Minimal(), [[5]], "confidence-k2")  # type: ignore[arg-type]
        assert generation.token_ids == (2, 3, 4, 5)
        assert generation.official_text is None

    def test_defaults(self) -> None:
        """What is left out has the protocol's defaults; what is there stays."""
        model = complete(Minimal())
        assert isinstance(model, Denoiser)
        assert (model.caches, model.reviews, model.frequencies) == (frozenset(), frozenset(), None)
        assert model.stop_ids == {EOS}
        assert model.whole_text([2, EOS, 3]) is None
        assert (model.name, model.vocab_size, model.text([2])) == ("minimal", 12, "2")

    def test_what_a_model_has_is_kept(self) -> None:
        """Members of its own come first."""
        model: Any = Minimal()
        model.stop_ids = frozenset({EOS, 7})
        assert complete(model).stop_ids == {EOS, 7}
        assert complete(model).reviews == frozenset()

    @pytest.mark.parametrize("name", ["ideal", "tiny"])
    def test_complete_models_stay_themselves(self, name: str) -> None:
        """The package's own models lack nothing that every model has."""
        model = load_model(name)
        assert isinstance(model, Denoiser)
        assert complete(model) is model

    @pytest.mark.parametrize(
        ("sampler", "complaint"),
        [
            ("wino", "minimal offers no reviews"),
            ("joint", "minimal offers no reviews"),
            ("confidence-k1+b2+prefix", "minimal has no prefix cache; it has none"),
            ("pc-k1", "minimal has no table of them"),
        ],
    )
    def test_samplers_that_need_more(self, sampler: str, complaint: str) -> None:
        """They are refused before the first forward, with what is missing."""
        with pytest.raises(ValueError, match=complaint):
            decode(Minimal(), [[5]], sampler)  # type: ignore[arg-type]

    def test_what_every_model_has(self) -> None:
        """An object that is no model is refused with the members that it lacks."""
        with pytest.raises(
            ValueError,
            match="neither a Denoiser nor an OwnDecoder: it has no eos_id, vocab_size, device",
        ):
            complete(SimpleNamespace(name="x", mask_id=0))

    def test_contexts_of_the_package_can_review(self) -> None:
        """A query without review is refused by `logits_and_review`."""
        model = load_model("tiny")
        assert isinstance(model, Denoiser)
        context: Context = model.prepare([model.encode([5, 6], 2, 0)], cache=None, seed=0)
        query = Query(
            torch.full((1, 2), model.mask_id), torch.ones(1, 2, dtype=torch.bool), torch.zeros(1)
        )
        with pytest.raises(ValueError, match="needs a query with review"):
            context.logits_and_review(query)
