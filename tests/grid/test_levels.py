"""Levels of factors: read, applied to settings, and kept apart by a cell's name."""

from __future__ import annotations

import pytest

from pbcore.base.errors import InputError
from pbcore.grid.cellid import CellName, parse_cell_name
from pbcore.grid.levels import at, factor_levels, factors_of
from pbcore.grid.settings import Settings
from pbcore.tasks import all_task_names

FACTORS = ["threads=1,8", "dtype=float32,bfloat16"]


def test_levels_are_all_combinations_of_the_factors() -> None:
    """The first factor is the outermost; without factors there is one level, which no id shows."""
    assert factor_levels(FACTORS) == [
        f"threads:{b}+dtype:{d}" for b in (1, 8) for d in ("float32", "bfloat16")
    ]
    assert factor_levels([]) == [""]


@pytest.mark.parametrize(
    "text", ["threads", "threads=0", "colour=red", "seed=0,1", "threads=1,x", "batch-size=1,2"]
)
def test_a_factor_that_cannot_be_meant_is_refused(text: str) -> None:
    """Unknown factors and values that their options don't have raise."""
    with pytest.raises(InputError, match="--factor"):
        factor_levels([text])
    with pytest.raises(InputError, match="once"):
        factor_levels([*FACTORS, FACTORS[0]])


def test_a_level_sets_the_options_that_it_names() -> None:
    """Other settings stay, and without a level all of them do."""
    settings = Settings(limit=3, dtype="float64")
    changed = at(settings, "threads:8+dtype:bfloat16")
    assert (changed.dtype, changed.threads, changed.limit) == ("bfloat16", 8, 3)
    assert at(settings, "") is settings
    assert factors_of("threads:8+dtype:bfloat16") == {"threads": 8, "dtype": "bfloat16"}


def test_forwards_are_not_shared_between_levels() -> None:
    """A forward that one level computed would hide another's difference."""
    assert Settings(profile="paper").sharing
    assert not Settings(profile="paper", factor=("threads=1,8",)).sharing


@pytest.mark.parametrize("sample", [None, 17])
@pytest.mark.parametrize("model", ["tiny", "dream:dummy-l2", "a/b:c"])
def test_a_name_with_its_level_is_read_back(model: str, sample: int | None) -> None:
    """The level is the id's last part, before a sample's number; ids of cells without one have no
    such part.
    """
    name = CellName(
        model, "waiting_line/shuffle", "confidence-k2", sample, "threads:8+dtype:bfloat16"
    )
    assert parse_cell_name(name.item_id, all_task_names()) == name
    assert (
        CellName("tiny", "waiting_line/shuffle", "confidence-k2").cell_id
        == "tiny/shuffle/confidence-k2"
    )
