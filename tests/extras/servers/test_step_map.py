"""Steps that a server reports, as decoding order and forwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.extras.servers.model import ServerModel
from pbcore.extras.servers.reply import Ask, Reply
from pbcore.extras.servers.spec import ServerSpec
from pbcore.extras.servers.steps import (
    contradiction,
    decoding_order,
    most_forwards,
    most_tokens,
)
from pbcore.models.errors import ModelError
from pbcore.names import parse

ASK = Ask(({"role": "user", "content": "a"},), 8, 0.0, 0, 0)


class TestOrder:
    @pytest.mark.parametrize(
        ("reported", "block", "steps", "forwards"),
        [
            ([1, 2, 1, 3], None, (0, 1, 0, 2), 3),
            ([1, 2, 2, 1], 2, (0, 1, 3, 2), 4),
            ([1, 1, 1, 1, 1], 2, (0, 0, 1, 1, 2), 3),
            ([2, 1, 3], 2, (1, 0, 4), 5),  # the last block is cut
            ([1, 2, 3, 4, 5, 5], 2, (0, 1, 2, 3, 4, 4), 5),  # counted over the answer
            ([], 4, (), 0),
        ],
    )
    def test_forwards_are_the_largest_steps(
        self, reported: list[int], block: int | None, steps: tuple[int, ...], forwards: int
    ) -> None:
        assert decoding_order(reported, block, 256) == (steps, forwards)

    def test_what_cannot_be_meant(self) -> None:
        with pytest.raises(ValueError, match="in each block of 2"):
            decoding_order([1, 1, 2, 2, 1, 1], 2, 256)

    @pytest.mark.parametrize("reported", [[10**8], [1, 10**8], [1, 2, 4097]])
    def test_more_steps_than_the_request_can_take(self, reported: list[int]) -> None:
        """16 for each token are the most, so that nobody loops over a number that a server
        names.
        """
        with pytest.raises(ValueError, match="an answer of 256 tokens takes at most 4,096"):
            decoding_order(reported, None, most_tokens(32, None))
        assert decoding_order([1, 2, 4096], None, 256)[1] == 4096

    def test_more_forwards_in_all_blocks_together(self) -> None:
        """Although each block has few enough."""
        with pytest.raises(ValueError, match=r"has 8,194 forwards, .* at most 4,096"):
            decoding_order([1, 4096, 1, 4096, 1, 2], 2, 256)

    def test_longer_than_the_request(self) -> None:
        """A map of more tokens than its whole blocks."""
        with pytest.raises(ValueError, match="has 257 tokens, and the request takes at most 256"):
            decoding_order([1] * 257, 4, most_tokens(30, 4))
        assert most_tokens(1000, 32) == 1024
        assert [most_forwards(tokens) for tokens in (256, 10_000, 1_000_000)] == [
            4096,
            100_000,
            1_000_000,
        ]

    @given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=5))
    def test_every_step_of_whole_blocks_is_kept(self, drawn: list[list[int]]) -> None:
        """Steps without gaps in each block come back in order, block by block, and each forward
        reveals something.
        """
        blocks = [[sorted(set(one)).index(step) + 1 for step in one] for one in drawn]
        steps, forwards = decoding_order([step for one in blocks for step in one], 4, 256)
        assert sorted(set(steps)) == list(range(forwards))
        assert forwards == sum(map(max, blocks))


class TestTokens:
    def answer(self, reply: dict[str, Any], **keys: Any) -> Any:
        spec = ServerSpec("mine", "m", "http://h/v1", sampler="threshold-0.9+b2", **keys)
        known = ServerModel(spec)
        given = Reply("aba", 1.0, "now", outcomes=(), **reply)
        answer, faults = known.generations.of(given, False, ASK, "a", parse(spec.sampler))
        assert not faults
        return answer, known

    def test_texts(self) -> None:
        """Equal texts are one token."""
        made, known = self.answer({"step_map": (1, 2, 1), "tokens": ("a", "b", "a")})
        assert (made.nfe, made.steps, made.answer_tokens) == (3, (0, 1, 2), 3)
        assert known.text(made.token_ids) == "aba"
        assert len(set(made.token_ids)) == 2

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("a b", ["a", " b"]),
            ("a b", [" a", " b", "<|im_end|>", "<eos>"]),
            ("", ["<eos>"]),
            ("a b", ["\u2581a", "\u2581b", "</s>"]),
            ("a\nb", ["a", "\u010a", "b"]),
            ("h\u00e9!", ["h", "\ufffd", "\ufffd", "!"]),
            ("\u4f60\u597d", ["\u4f60", "\u597d"]),
        ],
    )
    def test_tokens_of_the_text(self, text: str, tokens: list[str]) -> None:
        """White space, EOS, raw pieces and parts of characters aside."""
        assert contradiction(text, "".join(tokens)) is None

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("a b", ["a", " c"]),
            ("a b", ["a"]),
            ("", ["a"]),
            ("ab", ["\u2581b", "\u2581a"]),
            ("\u4f60\u597d", ["\u597d", "\u4f60"]),
        ],
    )
    def test_tokens_of_another_text(self, text: str, tokens: list[str]) -> None:
        assert "its tokens read" in str(contradiction(text, "".join(tokens)))

    @pytest.mark.parametrize(
        ("reply", "keys", "said"),
        [
            ({"step_map": (1, 2), "tokens": ("a",)}, {}, "an answer of 1 tokens has steps of 2"),
            ({"step_map": (1,), "tokens": (3,)}, {}, "tokens_field holds ids; declare tokenizer"),
            (
                {"step_map": (1,), "tokens": (3,)},
                {"tokenizer": "{folder}"},
                "is no folder with tokenizer.json",
            ),
        ],
    )
    def test_what_does_not_fit(
        self, tmp_path: Path, reply: dict[str, Any], keys: dict[str, str], said: str
    ) -> None:
        with pytest.raises(ModelError, match=said):
            self.answer(
                reply, **{key: value.format(folder=tmp_path) for key, value in keys.items()}
            )
