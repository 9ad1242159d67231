"""What changes with a factor, from made-up answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pbcore.analysis.factors import FactorChange, factor_changes
from pbcore.results.rundir import StoredCell
from tests.results import factory


def stored(scores: Sequence[float], seeds: int = 1, **level: Any) -> StoredCell:
    """A cell at a level; answers with equal scores have equal texts."""
    cell, samples = factory.cell(right=scores, seeds=seeds)
    rows = level.pop("at_once", None)
    cell = replace(cell, conditions=replace(cell.conditions, level=level or None, at_once=rows))
    cell = replace(cell, sampler=cell.sampler + (f"+x{rows}" if rows else ""))
    return StoredCell(
        cell, tuple(replace(one, text=str(one.scores["accuracy"])) for one in samples)
    )


def by_factor(*cells: StoredCell) -> dict[tuple[str, str], FactorChange]:
    return {(one.factor, one.head): one for one in factor_changes(cells)}


def test_flips_are_seen_where_the_means_are_equal() -> None:
    """One answer falls and one rises: half of four answers change, and the mean does not."""
    found = by_factor(stored([1, 0, 1, 0], dtype="float32"), stored([0, 1, 1, 0], dtype="bfloat16"))
    one = found["dtype", "bfloat16"]
    assert (one.base, one.answers.mean, one.scores.mean) == ("float32", 0.5, 0.5)
    assert one.paired.base == one.paired.head == 0.5
    low, high = one.paired.limits
    assert low < 0 < high


def test_a_text_can_change_without_its_score() -> None:
    """Two wrong answers may differ."""
    first = stored([1, 0], threads=1)
    second = stored([1, 0], threads=2)
    other = replace(second, samples=(second.samples[0], replace(second.samples[1], text="another")))
    one = by_factor(first, other)["threads", "2"]
    assert (one.answers.mean, one.scores.mean) == (0.5, 0)


def test_a_factor_is_paired_at_equal_levels_of_the_others_and_by_dtype() -> None:
    """The batch size changes nothing in float32 and one of two answers in bfloat16; dtype is paired
    at both sizes.
    """
    found = by_factor(
        stored([1, 1], at_once=1, dtype="float32"),
        stored([1, 1], at_once=8, dtype="float32"),
        stored([1, 1], at_once=1, dtype="bfloat16"),
        stored([1, 0], at_once=8, dtype="bfloat16"),
    )
    assert found["batch-size in float32", "8"].answers.mean == 0
    assert found["batch-size in bfloat16", "8"].answers.mean == 0.5
    assert found["dtype", "bfloat16"].scores.mean == 0.25  # of sample 1 at one of two sizes
    assert found["dtype", "bfloat16"].paired.head == pytest.approx(0.75)


def test_seeds_are_a_factor_of_one_record() -> None:
    """The first seed against each of the others; a cell without levels and with one seed has no
    row.
    """
    one = by_factor(stored([1, 0, 1, 1, 1, 0], seeds=3))["seed", "1,2"]
    assert (one.base, one.answers.n) == ("0", 2)
    assert one.answers.mean == pytest.approx((0 + 0.5) / 2)
    assert not factor_changes([stored([1, 0])])


def test_a_level_without_a_partner_has_no_row() -> None:
    """What ran at one level only can't be compared."""
    assert not factor_changes([stored([1, 0], threads=1)])


def test_runs_side_by_side_are_no_seeds_of_one_cell() -> None:
    """Runs that differ in more than the seed aren't paired by it: the last one counts, by
    itself.
    """
    first = stored([1, 0])
    other = stored([0, 1])
    seeded = replace(other, samples=tuple(replace(one, seed=1) for one in other.samples))
    assert not factor_changes([first, seeded])
    (one,) = factor_changes([stored([1, 1, 0, 0], seeds=2), stored([1, 0, 1, 0], seeds=2)])
    assert (one.answers.n, one.answers.mean) == (2, 0)
