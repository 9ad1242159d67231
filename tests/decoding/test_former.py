"""Tokens that did not stay: with them a generation's steps tell its whole trajectory."""

from __future__ import annotations

import pytest

from pbcore.decoding import decode
from pbcore.models.base import Generation
from tests.decoding.toys import MASK, Toy

REMASKING = (
    "confidence-k2+rcr",
    "confidence-k2+rcr-max",
    "random-k2+remdm2",
    "random-k2+remdm2-early",
    "wino",
    "joint",
)


def retold(generation: Generation, step: int) -> tuple[int, ...]:
    """The canvas before a step, from `steps`, `token_ids` and `former` alone."""
    canvas = [
        token if at < step else MASK
        for token, at in zip(generation.token_ids, generation.steps, strict=True)
    ]
    for one in generation.former:
        if one.step < step <= one.until:
            canvas[one.position] = one.token
    return tuple(canvas)


class TestFormer:
    @pytest.mark.parametrize("sampler", [*REMASKING, "confidence-k3", "confidence-k2+b4+rcr"])
    def test_they_tell_the_trajectory(self, sampler: str) -> None:
        """Every canvas of the recorded trajectory follows from what a generation without a
        recording holds.
        """
        rows = [[5, i] for i in range(6)]
        recorded = decode(Toy(), rows, sampler, max_new_tokens=16, record=True)
        plain = decode(Toy(), rows, sampler, max_new_tokens=16)
        for told, generation in zip(recorded, plain, strict=True):
            assert told.trajectory is not None
            assert [retold(generation, step) for step in range(len(told.trajectory))] == list(
                told.trajectory
            )

    def test_remasking_leaves_some(self) -> None:
        """Rows of ReMDM have as many former tokens as rounds, with their confidence; plain samplers
        have none.
        """
        (remasked,) = decode(Toy(), [[5]], "random-k2+remdm2", max_new_tokens=16)
        assert len(remasked.former) == 2
        assert all(0 < one.confidence <= 1 and one.step < one.until for one in remasked.former)
        (plain,) = decode(Toy(), [[5]], "random-k2", max_new_tokens=16)
        assert plain.former == ()

    def test_a_row_keeps_its_own(self) -> None:
        """The batch decides nothing: each row has the former tokens that it has alone."""
        rows = [[5, i] for i in range(5)]
        together = decode(Toy(), rows, "wino", max_new_tokens=16, batch_size=5)
        alone = decode(Toy(), rows, "wino", max_new_tokens=16, batch_size=1)
        assert [one.former for one in together] == [one.former for one in alone]
        assert any(one.former for one in together)
