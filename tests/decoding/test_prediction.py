"""pbcore.decoding.prediction: large batches are worked through in pieces, with the same results."""

from __future__ import annotations

import pytest
import torch

from pbcore.decoding import prediction
from pbcore.decoding.prediction import Law, pieces_of, predict, probability


class TestPieces:
    def test_they_are_as_large_as_the_budget_allows(self) -> None:
        """At least a row each; in all the rows once, in order; one empty piece where there are
        none.
        """
        logits = torch.arange(21.0).reshape(7, 3)
        assert [len(piece) for piece in pieces_of(logits, 9)] == [3, 3, 1]
        assert [len(piece) for piece in pieces_of(logits, 1)] == [1] * 7
        assert torch.equal(torch.cat(tuple(pieces_of(logits, 9))), logits)
        assert [piece.shape for piece in pieces_of(logits[:0], 9)] == [(0, 3)]

    def test_low_precision_becomes_float32(self) -> None:
        """float64 stays."""
        kinds = [
            next(pieces_of(torch.zeros(1, 2, dtype=kind))).dtype
            for kind in (torch.bfloat16, torch.float64)
        ]
        assert kinds == [torch.float32, torch.float64]

    @pytest.mark.parametrize("temperature", [0.0, 1.5])
    def test_pieces_change_no_prediction(
        self, monkeypatch: pytest.MonkeyPatch, temperature: float
    ) -> None:
        """Each row takes its own draw, whatever piece it is in."""
        generator = torch.Generator().manual_seed(5)
        logits = torch.randn(11, 5, generator=generator)
        draws = torch.rand(11, generator=generator, dtype=torch.float64) if temperature else None
        token, confidence = predict(logits, Law(temperature), draws)
        monkeypatch.setattr(prediction, "pieces_of", lambda logits: pieces_of(logits, 15))
        again, equally = predict(logits, Law(temperature), draws)
        assert torch.equal(again, token)
        torch.testing.assert_close(equally, confidence)
        torch.testing.assert_close(probability(logits, token), confidence)
