"""Muon against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter

from pbcore.extras.train.network import new_network
from pbcore.extras.train.optimizers import Muon, optimizers, orthogonalised
from pbcore.extras.train.recipe import Recipe
from pbcore.extras.train.vocabulary import SPECIAL, build_tokenizer


class TestOrthogonalised:
    @pytest.mark.parametrize("shape", [(2, 8, 20), (3, 20, 8), (1, 12, 12)])
    def test_singular_values_come_near_one(self, shape: tuple[int, int, int]) -> None:
        """Muon's coefficients bring them into [0.6, 1.3], whatever the scale of the matrix."""
        matrices = 1e-3 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
        values = torch.linalg.svdvals(orthogonalised(matrices))
        assert 0.6 < float(values.min()) <= float(values.max()) < 1.3


class TestMuon:
    def test_steps_as_torchs_does(self) -> None:
        """Five steps with momentum and decay stay within what bfloat16 iterations differ by."""
        draws = torch.Generator().manual_seed(1)
        starts = [
            torch.randn(shape, generator=draws)
            for shape in ((16, 16), (16, 40), (40, 16), (16, 16))
        ]
        mine = [Parameter(start.clone()) for start in starts]
        theirs = [Parameter(start.clone()) for start in starts]
        ours = Muon(mine, lr=0.01)
        reference = torch.optim.Muon(theirs, lr=0.01, adjust_lr_fn="match_rms_adamw")
        for _ in range(5):
            for a, b in zip(mine, theirs, strict=True):
                a.grad = torch.randn(a.shape, generator=draws)
                b.grad = a.grad.clone()
            ours.step()
            reference.step()
        for a, b, start in zip(mine, theirs, starts, strict=True):
            moved = float((b - start).detach().norm())
            assert float((a - b).detach().norm()) < 0.03 * moved

    def test_a_parameter_without_gradient_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no gradient"):
            Muon([Parameter(torch.ones(2, 2))], lr=0.1).step()


class TestOptimizers:
    def test_every_parameter_has_one_optimizer(self) -> None:
        """Muon has the layers' matrices, AdamW the tied embeddings and the norms."""
        model = new_network(Recipe(16, 2, 2, 24, 0, 1, 0, ()), build_tokenizer(SPECIAL))
        muon, adam = (
            [param for group in one.param_groups for param in group["params"]]
            for one in optimizers(model, 0.1)
        )
        assert len(muon) == 14
        assert {id(param) for param in [*muon, *adam]} == {
            id(param) for param in model.parameters()
        }
        assert len(muon) + len(adam) == len(list(model.parameters()))
        assert any(param is model.model.embed_tokens.weight for param in adam)
