"""The grids of the profiles."""

from __future__ import annotations

import re

import pytest

from pbcore.decoding import resolve
from pbcore.grid.profiles import powers_of_two, profiles
from pbcore.tasks import load_task, task_names


class TestPaper:
    def test_it_has_the_official_2823_configurations_per_model(self) -> None:
        """150 for each of the ten list operations (32 new tokens), 189 for each other task (64)."""
        counts = {
            task: len(
                profiles()["paper"].sampler_names(
                    load_task(task, limit=1).samples[0].max_new_tokens
                )
            )
            for task in task_names()
        }
        assert {counts[task] for task in counts if task.startswith("waiting_line/")} == {150}
        assert {counts[task] for task in counts if not task.startswith("waiting_line/")} == {189}
        assert sum(counts.values()) == 2823

    def test_every_block_has_every_power_of_two_up_to_it(self) -> None:
        """With 32 tokens random has 21 pairs of block and k, thresholds 6 × 6, factors 5 × 6; one
        block goes without +b.
        """
        names = profiles()["paper"].sampler_names(32)
        assert sum(name.startswith("random-") for name in names) == 21
        assert sum(name.startswith("threshold-") for name in names) == 36
        assert sum(name.startswith("factor-") for name in names) == 30
        assert all(
            re.fullmatch(r"factor-[\d.]+-ref(\+b\d+)?", name)
            for name in names
            if name.startswith("factor")
        )
        assert "confidence-k2" in names
        assert "confidence-k4+b8" in names
        assert not {"confidence-k16+b8", "confidence-k2+b32"} & set(names)


class TestProfiles:
    @pytest.mark.parametrize("name", ["quick", "ci", "paper", "full"])
    def test_every_sampler_exists_under_its_one_spelling(self, name: str) -> None:
        """A profile names no sampler that can't be resolved, and none twice in two spellings."""
        for sampler in profiles()[name].sampler_names(4):
            assert str(resolve(sampler)) == sampler


class TestPowersOfTwo:
    @pytest.mark.parametrize(
        ("last", "expected"),
        [(1, [1]), (2, [1, 2]), (31, [1, 2, 4, 8, 16]), (32, [1, 2, 4, 8, 16, 32])],
    )
    def test_they_end_at_the_last(self, last: int, expected: list[int]) -> None:
        """The last power is the largest that does not exceed the number."""
        assert powers_of_two(last) == expected
