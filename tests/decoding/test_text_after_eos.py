"""What follows an answer's first EOS is kept beside the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.ideal import Ideal
from pbcore.models.masked import MaskedModel
from tests.decoding.toys import EOS, Toy


def writing(*answer: int) -> Toy:
    """A model that writes these tokens, whatever it sees."""
    return Toy(
        rule=lambda canvas, position, key: [float(token == answer[position]) for token in range(12)]
    )


@dataclass
class Speaking(Toy):
    """A toy that tells answers and whole canvases apart."""

    def text(self, token_ids: Sequence[int]) -> str:
        ids = list(token_ids)
        return self.whole_text(ids[: ids.index(EOS)] if EOS in ids else ids)

    def whole_text(self, token_ids: Sequence[int]) -> str:
        return " ".join(str(token) for token in token_ids if token != EOS)


class TestOfficialText:
    @pytest.mark.parametrize(
        ("answer", "text", "official"),
        [
            ((5, 6, 7, 8), "5 6 7 8", None),
            ((5, 6, EOS, EOS), "5 6", None),
            ((5, EOS, 7, EOS), "5", "5 7"),
            ((EOS, EOS, 7, 8), "", "7 8"),
            ((EOS, EOS, EOS, EOS), "", None),
        ],
    )
    def test_it_is_there_where_text_follows_the_first_eos(
        self, answer: tuple[int, ...], text: str, official: str | None
    ) -> None:
        """The answer ends at the first EOS; the official text skips EOS tokens and goes on."""
        (out,) = decode(Speaking(writing(*answer).rule), [[3]], "confidence-k2", max_new_tokens=4)
        assert (out.text, out.official_text) == (text, official)
        assert out.answer_tokens == (answer.index(EOS) if EOS in answer else 4)

    def test_a_model_that_cannot_say_gives_none(self) -> None:
        """`whole_text` is optional."""
        (out,) = decode(writing(5, EOS, 7, EOS), [[3]], "confidence-k2", max_new_tokens=4)
        assert out.official_text is None

    def test_the_models_of_the_package_can(self) -> None:
        """`ideal` and `tiny` join what stands on both sides of an EOS."""
        ideal = load_model("ideal")
        tiny = load_model("tiny")
        assert isinstance(ideal, Ideal)
        assert isinstance(tiny, MaskedModel)
        a, b = (ideal._ids[letter] for letter in "ab")
        c, d = (tiny.tokenizer.piece(digit)[-1] for digit in "12")
        for model, left, right in ((ideal, a, b), (tiny, c, d)):
            ids = [left, model.eos_id, right]
            assert model.whole_text(ids) == model.whole_text([left, right])
            assert model.text(ids) == model.text([left]) != model.whole_text(ids)
