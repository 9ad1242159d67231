"""The training forward against the model's own."""

from __future__ import annotations

import torch

from pbcore.train.network import masked_logits, network


class TestMaskedLogits:
    def test_equals_the_models_own_forward(self) -> None:
        """With padding and without, the asked positions' logits are those of `LlamaForCausalLM` under full
        attention.
        """
        model = network(50, width=32, layers=3, heads=4, inner=48, mask_id=0, eos_id=1, seed=3)
        ids = torch.randint(5, 50, (3, 14), generator=torch.Generator().manual_seed(0))
        where = torch.zeros(3, 14, dtype=torch.bool)
        where[0, 9], where[1, 12], where[2, 8:] = True, True, True
        for padding in (0, 4):
            attend = torch.ones(3, 14, dtype=torch.bool)
            attend[1, :padding] = False
            with torch.no_grad():
                positions = (attend.cumsum(1) - 1).clamp(min=0)
                expected = model(input_ids=ids, attention_mask=attend.long(), position_ids=positions).logits[where]
                found = masked_logits(model, ids, attend, where)
            torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)

    def test_equals_the_models_own_causal_forward(self) -> None:
        """Without a mask token the network is causal, with padding and without."""
        model = network(50, width=32, layers=3, heads=4, inner=48, mask_id=None, eos_id=1, seed=3)
        ids = torch.randint(5, 50, (3, 14), generator=torch.Generator().manual_seed(0))
        where = torch.zeros(3, 14, dtype=torch.bool)
        where[0, 9], where[1, 12], where[2, 8:] = True, True, True
        for padding in (0, 4):
            attend = torch.ones(3, 14, dtype=torch.bool)
            attend[1, :padding] = False
            with torch.no_grad():
                positions = (attend.cumsum(1) - 1).clamp(min=0)
                expected = model(input_ids=ids, attention_mask=attend.long(), position_ids=positions).logits[where]
                found = masked_logits(model, ids, attend, where)
            torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)

    def test_attention_is_full(self) -> None:
        """A later token changes an earlier position's logits."""
        model = network(50, width=32, layers=2, heads=4, inner=48, mask_id=0, eos_id=1, seed=3)
        ids = torch.arange(5, 15)[None]
        where = torch.zeros(1, 10, dtype=torch.bool)
        where[0, 2] = True
        attend = torch.ones_like(where)
        other = ids.clone()
        other[0, 9] = 40
        with torch.no_grad():
            assert not torch.equal(masked_logits(model, ids, attend, where), masked_logits(model, other, attend, where))
