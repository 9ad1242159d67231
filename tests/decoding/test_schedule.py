"""Schedules: tokens per step."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from tests.decoding.toys import Toy


def revealed(sampler: str, tokens: int) -> list[int]:
    """Tokens that each step of a decoding revealed."""
    (generation,) = decode(Toy(), [[5]], sampler, max_new_tokens=tokens)
    return [generation.steps.count(step) for step in range(generation.nfe)]


class TestQuota:
    @settings(derandomize=True)
    @given(st.integers(1, 20), st.integers(1, 24))
    def test_linear(self, tokens: int, steps: int) -> None:
        """`linear` over S steps reveals ⌊m/S⌋ + [i < m mod S] at step i."""
        expected = [tokens // steps + (i < tokens % steps) for i in range(steps)]
        assert revealed(f"confidence+linear{steps}", tokens) == [
            count for count in expected if count
        ]

    @settings(derandomize=True)
    @given(st.integers(1, 20), st.integers(1, 12))
    def test_cosine(self, tokens: int, steps: int) -> None:
        """`cosine` leaves ⌊m·cos(π/2·(i+1)/S)⌋ masks after step i and nothing after the last."""
        left = [
            math.floor(tokens * math.cos(math.pi / 2 * (i + 1) / steps) + 1e-9)
            for i in range(steps - 1)
        ] + [0]
        expected = [a - b for a, b in zip([tokens, *left], left, strict=False)]
        while expected[-1] == 0:
            expected.pop()
        assert revealed(f"margin+cosine{steps}", tokens) == expected

    @pytest.mark.parametrize(
        ("counts", "expected"), [("2_0_3_3", [2, 0, 3, 3]), ("1_1", [1, 7]), ("9_9", [8])]
    )
    def test_counts(self, counts: str, expected: list[int]) -> None:
        """Explicit counts are followed, zeros included; the last step takes what is left."""
        assert revealed(f"confidence+s{counts}", 8) == expected

    def test_per_block(self) -> None:
        """A schedule starts anew in each block."""
        assert revealed("confidence+s1_3+b4", 8) == [1, 3, 1, 3]
