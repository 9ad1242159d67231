"""The loss of masked and next tokens against the model's own forward."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from pbcore.extras.train.network import AnswerLoss, new_network
from pbcore.extras.train.recipe import Objective, Recipe
from pbcore.extras.train.vocabulary import SPECIAL, build_tokenizer
from pbcore.models.network import NativeNetwork

WORDS = [*SPECIAL, *"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"]


def loss_of(objective: Objective) -> AnswerLoss:
    model = new_network(
        Recipe(32, 3, 4, 48, 3, 1, 0, (), objective=objective), build_tokenizer(WORDS)
    )
    return AnswerLoss(NativeNetwork(model), model, causal=objective == "causal")


class TestAnswerLoss:
    @pytest.mark.parametrize("objective", ["diffusion", "causal"])
    @pytest.mark.parametrize("padding", [0, 4])
    def test_equals_the_models_own_forward(self, objective: Objective, padding: int) -> None:
        """The logits are those of `LlamaForCausalLM` at the asked positions, with the attention
        that decoding has.
        """
        loss = loss_of(objective)
        ids = torch.randint(5, 50, (3, 14), generator=torch.Generator().manual_seed(0))
        where = torch.zeros(3, 14, dtype=torch.bool)
        where[0, 9], where[1, 12], where[2, 8:] = True, True, True
        attend = torch.ones(3, 14, dtype=torch.bool)
        attend[1, :padding] = False
        with torch.no_grad():
            positions = (attend.cumsum(1) - 1).clamp(min=0)
            model = loss.adapted
            expected = model(
                input_ids=ids, attention_mask=attend.long(), position_ids=positions
            ).logits[where]
            found = loss.logits(ids, attend, where)
            torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(
                loss(ids, attend, where, ids[where]),
                cross_entropy(expected, ids[where], reduction="none"),
            )

    @pytest.mark.parametrize("objective", ["diffusion", "causal"])
    def test_attention_is_full_or_causal(self, objective: Objective) -> None:
        """A later token changes an earlier position's logits under full attention alone."""
        loss = loss_of(objective)
        ids = torch.arange(5, 15)[None]
        where = torch.zeros(1, 10, dtype=torch.bool)
        where[0, 2] = True
        attend = torch.ones_like(where)
        other = ids.clone()
        other[0, 9] = 40
        with torch.no_grad():
            equal = torch.equal(loss.logits(ids, attend, where), loss.logits(other, attend, where))
        assert equal is (objective == "causal")
