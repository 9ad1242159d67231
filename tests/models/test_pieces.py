"""Single tokens as text."""

from __future__ import annotations

from types import SimpleNamespace

from pbcore.models import load_model
from pbcore.models.tokenizer import pieces
from pbcore.tasks import load_task


class TestPieces:
    def test_they_join_to_the_answer(self) -> None:
        """The pieces of an answer of `tiny`, joined, are its text: none loses its spaces."""
        model = load_model("tiny")
        text = load_task("waiting_line/copy", limit=1).samples[0].answer
        piece = pieces(model)
        assert piece is not None
        ids = model.encode(text, 8, 0).prompt_ids
        assert "".join(map(piece, ids)) == model.text(ids) == text

    def test_ends_and_tokens_without_text(self) -> None:
        """Tokens that end an answer are `<eos>`, others without a text show their id."""
        model = SimpleNamespace(
            text=lambda ids: "a" if ids == [5] else "", eos_id=1, stop_ids={1, 2}
        )
        piece = pieces(model)
        assert piece is not None
        assert [piece(token) for token in (5, 1, 2, 7)] == ["a", "<eos>", "<eos>", "<7>"]

    def test_ideal(self) -> None:
        """`ideal` has pieces too, though its text joins to nothing for masks."""
        model = load_model("ideal")
        sample = load_task("waiting_line/copy", limit=1).samples[0]
        canvas = model.encode(sample, None, 0).canvas
        piece = pieces(model)
        assert piece is not None
        assert piece(canvas[0]) == f"<{canvas[0]}>"

    def test_a_model_without_tokens(self) -> None:
        """A model behind a server tells none."""
        assert pieces(SimpleNamespace(name="server")) is None
