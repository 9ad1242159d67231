"""Cells beside the best accuracy of any sampler in as many steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore import decode, load_model
from pbcore.analysis.frontier_gap import Room, frontier_room
from pbcore.results import CellRecord, Conditions, SampleRecord, build_cell
from pbcore.tasks import load_task
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]


def decoded(task: str, sampler: str, n: list[int], count: int = 60) -> Room:
    """A cell of `ideal`, beside the frontier."""
    loaded = load_task(task, n=n, limit=count)
    answers = decode(load_model("ideal"), loaded.samples, sampler, seed=1, batch_size=32)
    scored = loaded.score_many([one.text for one in answers], list(loaded.samples), ["accuracy"])
    cell = CellRecord("i", "ideal", task, sampler, Conditions.unknown(), headline="accuracy")
    cell, samples = build_cell(cell, answers, scored, rounds=[1.0])
    found = frontier_room(cell, samples, {sample.index: sample.length for sample in loaded.samples})
    assert found is not None
    return found


def entry(
    task: str = "list_ops/shuffle",
    sampler: str = "random-k2",
    items: tuple[int, ...] = (4, 4, 2, 2),
    nfe: tuple[int, ...] = (2, 2, 1, 1),
    right: tuple[float, ...] = (1.0, 0.0, 1.0, 0.0),
) -> Entry:
    """Answers with one token per item."""
    cell, samples = factory.cell("tiny", task, sampler, right=right, nfe=nfe)
    return cell, [replace(one, canvas_tokens=n) for one, n in zip(samples, items, strict=True)]


def lengths(*of: int | None) -> dict[int, int | None]:
    return dict(enumerate(of))


class TestBest:
    def test_each_n_has_its_own_steps(self) -> None:
        """Two items in one step are right half of the time. Of four items in two steps 15/32: 4 of
        7 answers take 2.75 steps (a pair, right with 3/4, then one by one; after a mistake the rest
        at once), 3 of 7 one (4!/4⁴).
        """
        found = frontier_room(*entry(), lengths(4, 4, 2, 2))
        assert found is not None
        four = 4 / 7 * 3 / 4 + 3 / 7 * 24 / 256
        assert four == pytest.approx(15 / 32)
        assert found.best == pytest.approx((four + 1 / 2) / 2)
        assert (found.score, found.steps) == (0.5, 1.5)
        assert found.gap == pytest.approx(100 * (31 / 64 - 1 / 2))

    def test_unequal_steps_of_one_n_are_averaged(self) -> None:
        """Two items: half of the answers in two steps, half in one, are right with (1 + 1/2) /
        2.
        """
        found = frontier_room(*entry(items=(2, 2, 2, 2), nfe=(2, 1, 2, 1)), lengths(2, 2, 2, 2))
        assert found is not None
        assert found.best == pytest.approx(0.75)

    def test_sight_of_the_tokens_helps(self) -> None:
        """Greedily on shuffle, too: of tokens drawn twice one is kept."""
        found = [
            frontier_room(*entry(sampler=name), lengths(4, 4, 2, 2))
            for name in ("random-k2", "confidence-k2")
        ]
        assert [one.kind for one in found if one] == ["order", "seen"]
        blind, sighted = (one.best or 0.0 for one in found if one)
        assert blind < sighted

    def test_remasking_is_not_bound(self) -> None:
        """The cell is there, without a best accuracy and without a gap."""
        found = frontier_room(*entry(sampler="confidence-k2+rcr-max"), lengths(4, 4, 2, 2))
        assert found is not None
        assert (found.kind, found.best, found.gap) == ("back", None, None)

    @pytest.mark.parametrize(
        "sampler", ["random-k1", "random-k2", "confidence-k2", "threshold-0.9", "random-k2+t1.0"]
    )
    @pytest.mark.parametrize("task", ["list_ops/shuffle", "list_ops/replace_random"])
    def test_ideal_is_not_above(self, task: str, sampler: str) -> None:
        """Its interval reaches down to the frontier; one by one it is on it."""
        found = decoded(task, sampler, [2, 3, 4, 5])
        assert found.best is not None
        assert found.low <= found.best + 1e-9
        if sampler == "random-k1":
            assert (found.score, found.best) == (1.0, pytest.approx(1.0))


class TestAbsent:
    def test_other_tasks_and_samplers(self) -> None:
        """One answer, canvases of more tokens than items, other temperatures and decoders of other
        models.
        """
        known = lengths(4, 4, 2, 2)
        for task in ("list_ops/copy", "waiting_line/shuffle", "puzzle/latin_square"):
            assert frontier_room(*entry(task), known) is None
        for sampler in ("random-k2+t0.5", "ar", "analytic-s32", "not a name"):
            assert frontier_room(*entry(sampler=sampler), known) is None

    def test_what_is_unknown(self) -> None:
        """The n of a sample, its forwards or tokens, or a model without weights."""
        cell, samples = entry()
        known = lengths(4, 4, 2, 2)
        assert frontier_room(cell, samples, lengths(4, 4, 2)) is None
        assert (
            frontier_room(cell, samples, lengths(4, 4, 2, 3)) is None
        )  # two tokens can't be three items
        assert frontier_room(cell, [replace(samples[0], nfe=None), *samples[1:]], known) is None
        assert frontier_room(cell, [replace(samples[0], prefill=1), *samples[1:]], known) is None
        assert (
            frontier_room(
                replace(cell, conditions=replace(cell.conditions, dummy=True)), samples, known
            )
            is None
        )
        assert frontier_room(cell, [], {}) is None

    def test_lists_too_long(self) -> None:
        """The frontier is computed up to 40 items."""
        found = [
            frontier_room(*entry(items=(n,) * 4, nfe=(n,) * 4), lengths(*[n] * 4)) for n in (40, 41)
        ]
        assert [one is None for one in found] == [False, True]
