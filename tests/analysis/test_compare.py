"""pbcore.analysis.compare: one run beside another, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from pbcore.analysis.compare import CellComparison, compare_runs
from pbcore.analysis.paired import mcnemar, tango
from pbcore.results import error_cell
from pbcore.results.baseline import read_baseline, write_baseline
from pbcore.results.rundir import StoredCell
from tests.results import factory

OTHER = {"model_identity": {"digest": "w2", "weights": "w2"}}


def stored(right: Sequence[float], **facts: Any) -> StoredCell:
    record, samples = factory.cell(right=right, n=len(right), **facts)
    return StoredCell(record, tuple(samples))


def only(head: StoredCell, base: StoredCell) -> CellComparison:
    [cell] = compare_runs([head], [base]).cells
    return cell


class TestCompared:
    def test_difference_interval_test_and_flips(self) -> None:
        """Head minus base, with its interval and both ways' flips by sample and seed."""
        base = [1, 1, 1, 0, 1, 0, 1, 1]
        head = [1, 0, 1, 1, 0, 0, 0, 1]
        cell = only(stored(head), stored(base))
        assert (cell.status, cell.n, cell.base, cell.head, cell.change) == (
            "compared",
            8,
            0.75,
            0.5,
            -0.25,
        )
        assert (cell.low, cell.high) == tango(3, 1, 8)
        assert [(flip.index, flip.seed, flip.base, flip.head) for flip in cell.worse] == [
            (1, 0, 1, 0),
            (4, 0, 1, 0),
            (6, 0, 1, 0),
        ]
        assert [(flip.index, flip.head) for flip in cell.better] == [(3, 1)]
        assert cell.p is None  # every answer counts
        tested = only(stored(head, **OTHER), stored(base))
        assert tested.p == mcnemar(3, 1)

    def test_holm_over_all_cells(self) -> None:
        """p-values are adjusted over the cells in which something differs; a cell that can't be
        compared is not counted.
        """
        names = ("waiting_line/copy", "waiting_line/sort", "waiting_line/reverse")
        base = [stored([1] * 12, task=name) for name in names]
        head = [
            stored([0] * lost + [1] * (12 - lost), task=name, **OTHER)
            for name, lost in zip(names, (9, 4, 0), strict=True)
        ]
        new = stored([0] * 12, task="waiting_line/shuffle")
        comparison = compare_runs([*head, new], base)
        cells = {cell.pair.task: cell for cell in comparison.cells}
        assert [comparison.word(cells[name]) for name in names] == [
            "worse",
            "lost, not shown",
            "the same",
        ]
        assert [cells[name].p for name in names[:2]] == [2 * 0.5**9, 0.5**4]
        assert cells["waiting_line/reverse"].p is None  # nothing differs
        assert cells["waiting_line/shuffle"].p is None

    def test_seeds_are_one_sample(self) -> None:
        """Two seeds of four samples are four paired means; flips name the seed."""
        base = [1, 1, 1, 1, 1, 1, 1, 0]
        head = [1, 0, 1, 1, 1, 0, 1, 1]
        cell = only(stored(head, seeds=2), stored(base, seeds=2))
        assert (cell.n, cell.change) == (4, -0.125)
        assert [(flip.index, flip.seed) for flip in cell.worse] == [(1, 0), (1, 1)]
        assert [(flip.index, flip.seed) for flip in cell.better] == [(3, 1)]

    def test_other_seeds_are_paired_by_sample(self) -> None:
        """The questions are the same, so the pair stands; that the seeds differ is told, and flips
        have none.
        """
        cell = only(stored([1, 0, 1], seed=5), stored([1, 1, 1], seed=0))
        assert cell.status == "compared"
        assert cell.differs == ["seeds 0 → 5"]
        assert [(flip.index, flip.seed) for flip in cell.worse] == [(1, None)]

    def test_conditions_that_differ_are_told(self) -> None:
        """Another dtype is what one wants to compare, so it is named and not refused."""
        cell = only(stored([1, 1], dtype="bfloat16"), stored([1, 1]))
        assert cell.status == "compared"
        assert cell.differs == ["dtype float32 → bfloat16"]

    def test_rows(self) -> None:
        """Rows and tokens per row of both runs; a cell with other rows has changed, whatever its
        calls.
        """
        cell = only(stored([1, 1], rows=[64, 32]), stored([1, 1]))
        assert cell.rates["rows"] == (16, 48)
        assert cell.rates["tokens_per_row"] == (2, 0.75)
        assert (cell.nfe_differs, cell.unchanged) == (2, False)
        assert only(stored([1, 1], rows=64), stored([1, 1], rows=64)).unchanged

    def test_rates(self) -> None:
        """NFE and rates of both runs, and in how many samples the NFE differs."""
        cell = only(stored([1, 1, 1], nfe=[16, 8, 8]), stored([1, 1, 1], nfe=16))
        assert cell.rates["nfe"] == (16, pytest.approx(32 / 3))
        assert cell.rates["tokens_per_step"] == (2, pytest.approx((2 + 4 + 4) / 3))
        assert cell.rates["samples_per_second"] == (2, 2)
        assert cell.nfe_differs == 2
        assert not cell.unchanged
        assert only(stored([1, 0]), stored([1, 0])).unchanged

    def test_graded_scores(self) -> None:
        """Any change of a graded score is a flip; the interval is around the mean change."""
        cell = only(
            stored([0.5, 0.25, 0.75, 0.5], task="text_writing/summarization", headline="rouge_l"),
            stored([0.5, 0.5, 0.5, 0.5], task="text_writing/summarization", headline="rouge_l"),
        )
        assert cell.change == 0
        assert -0.4 <= cell.low < 0 < cell.high <= 0.4
        assert [flip.index for flip in (*cell.worse, *cell.better)] == [1, 2]


class TestOtherNames:
    def test_as_cells_of_one_name(self) -> None:
        """Another name changes no figure: difference, interval, test, flips and rates are those of
        equal names.
        """
        base = [1, 1, 1, 0, 1, 0, 1, 1]
        head = [1, 0, 1, 1, 0, 0, 0, 1]
        plain = only(stored(head, nfe=8), stored(base))
        sampler = stored(head, nfe=8, sampler="random-k2")
        model = stored(head, nfe=8, model="v2")
        for entry, names in (
            (sampler, {"samplers": {"random-k2": "confidence-k2"}}),
            (model, {"models": {"v2": "tiny"}}),
        ):
            [cell] = compare_runs([entry], [stored(base)], **names).cells
            assert (cell.pair.ids, cell.pair.renamed) == ((entry.cell.id, plain.id), True)
            same = replace(cell, pair=plain.pair, judgement=plain.judgement)
            assert same == plain
            assert cell.judgement is not None
            assert (cell.judgement.status, cell.judgement.exact) == ("lost", False)

    def test_both_names_are_kept(self) -> None:
        """A's before B's in `model` and `sampler`, both in `name`."""
        names = {"models": {"v2": "tiny"}, "samplers": {"random-k2": "confidence-k2"}}
        [cell] = compare_runs(
            [stored([1], model="v2", sampler="random-k2")], [stored([1])], **names
        ).cells
        assert (cell.pair.model, cell.pair.sampler) == (
            ("v2", "tiny"),
            ("random-k2", "confidence-k2"),
        )
        assert cell.pair.name == "tiny→v2/shuffle/confidence-k2→random-k2"

    def test_holm_over_the_named_cells_only(self) -> None:
        """In one run, the cells that are not named don't weaken the test of those that are."""
        tasks = ("waiting_line/copy", "waiting_line/sort")
        run = [
            stored([float(i >= wrong) for i in range(12)], task=task, sampler=sampler)
            for task in tasks
            for sampler, wrong in (("a", 7), ("b", 0), ("c", 0))
        ]
        comparison = compare_runs(run, run, samplers={"a": "b"})
        assert [cell.p for cell in comparison.cells] == [2 * 0.5**7] * 2
        assert comparison.left_out == (4, 4)

    def test_other_questions_are_refused(self) -> None:
        """Names join cells; the questions still have to be the same."""
        [cell] = compare_runs(
            [stored([1, 0], model="v2", data_hash="d2")], [stored([1, 1])], models={"v2": "tiny"}
        ).cells
        assert (cell.status, cell.pair.name) == ("refused", "tiny→v2/shuffle/confidence-k2")

    def test_a_baseline_file(self, tmp_path: Path) -> None:
        """B may be a file here, too."""
        rows = read_baseline(write_baseline(tmp_path / "b.json", [stored([1, 1, 0])]))
        [cell] = compare_runs([stored([0, 1, 0], model="v2")], rows, models={"v2": "tiny"}).cells
        assert [flip.index for flip in cell.worse] == [0]


class TestNamedPairs:
    def test_pooled_over_tasks(self) -> None:
        """One verdict for each pair of names, of its own cells alone; none without names."""
        cells = [
            stored([right] * 30, sampler=sampler, task=f"waiting_line/{task}")
            for task in ("copy", "sort")
            for sampler, right in (("a", 0), ("b", 1), ("c", 1))
        ]
        pairs = compare_runs(cells, cells, samplers={"a": "b", "c": "b"}).named
        assert [(pair.sampler, pair.model, pair.verdict) for pair in pairs] == [
            (("a", "b"), None, "worse"),
            (("c", "b"), None, "no clear difference"),
        ]
        assert [(pair.mean.cells, pair.mean.change) for pair in pairs] == [(2, -1), (2, 0)]
        assert [(pair.worse, pair.better) for pair in pairs] == [(60, 0), (0, 0)]
        assert compare_runs(cells, cells).named == ()
        assert compare_runs(cells, cells, samplers={"a": "a"}).named == ()

    def test_both_names(self) -> None:
        """With models and samplers a pair has both."""
        head = [stored([1, 1, 0], model="new", sampler="a")]
        base = [stored([1, 1, 1], model="old", sampler="b")]
        [pair] = compare_runs(head, base, models={"new": "old"}, samplers={"a": "b"}).named
        assert (pair.model, pair.sampler) == (("new", "old"), ("a", "b"))

    def test_graded_scores_and_refused_cells(self) -> None:
        """Half points make a pair graded; without a compared cell it has no verdict."""
        head = [stored([0.5, 1], sampler="a"), stored([1, 1], sampler="b")]
        [pair] = compare_runs(head, head, samplers={"a": "b"}).named
        assert not pair.binary
        other = [head[0], stored([1, 1], sampler="b", data_hash="d2")]
        [pair] = compare_runs(other, other, samplers={"a": "b"}).named
        assert (pair.verdict, pair.mean.cells) == ("not compared", 0)


class TestNotCompared:
    def test_other_questions(self) -> None:
        """Refused with both sides' data; the means are still there, an interval is not."""
        cell = only(stored([1, 0, 1, 1]), stored([1, 1], data_hash="d2"))
        assert (cell.status, cell.base, cell.head, cell.p) == ("refused", 1, 0.75, None)
        assert isnan(cell.change)
        assert cell.reason.startswith(
            "other questions: A has 4 samples of digest d1, B 2 samples of digest d2"
        )

    def test_no_common_score(self) -> None:
        """A score that one run could not measure leaves nothing to compare."""
        cell = only(stored([1, 1], headline="grammar"), stored([1, 1]))
        assert (cell.status, cell.reason) == ("refused", "no score was measured in both runs")

    def test_forwards_on_one_side_are_a_difference(self) -> None:
        """Equal scores don't make a cell unchanged where only one side tells its forwards."""
        known = stored([1, 0, 1])
        silent = replace(
            known, samples=tuple(replace(one, nfe=None, rows=None) for one in known.samples)
        )
        for head, base in ((known, silent), (silent, known)):
            cell = only(head, base)
            assert (cell.status, cell.nfe_differs, cell.unchanged) == ("compared", 3, False)
        assert only(silent, silent).unchanged

    def test_one_sided_cells_and_errors(self) -> None:
        """Missing, new and failed cells are named as such; a failed one with its cause and side."""
        copy, sort = (stored([1], task=f"waiting_line/{name}") for name in ("copy", "sort"))
        failed = StoredCell(error_cell(replace(stored([1]).cell), "boom"), ())
        cells = {
            cell.pair.task: cell for cell in compare_runs([copy, failed], [sort, stored([1])]).cells
        }
        assert (cells["waiting_line/copy"].status, cells["waiting_line/copy"].head) == ("new", 1)
        assert (cells["waiting_line/sort"].status, cells["waiting_line/sort"].base) == (
            "missing",
            1,
        )
        assert cells["waiting_line/shuffle"].reason == "could not be run in A: boom"

    def test_a_run_without_answers(self) -> None:
        """results.json alone has scores but no samples to pair."""
        cell = only(stored([1, 1]), replace(stored([1, 1]), samples=()))
        assert (cell.status, cell.reason.partition(":")[0]) == ("refused", "no answers in B")


class TestBaselineFile:
    def test_as_the_run_that_it_was_made_of(self, tmp_path: Path) -> None:
        """Same differences and flips; rates that the file lacks are None."""
        base = stored([1, 1, 0, 1])
        head = stored([1, 0, 0, 1], nfe=[16, 16, 8, 16])
        rows = read_baseline(write_baseline(tmp_path / "b.json", [base]))
        [cell] = compare_runs([head], rows).cells
        other = only(head, base)
        assert replace(cell, rates={}) == replace(other, rates={})
        assert cell.rates["nfe"] == other.rates["nfe"] == (16, 14)
        assert cell.rates["samples_per_second"] == (None, other.rates["samples_per_second"][1])

    def test_several_seeds(self, tmp_path: Path) -> None:
        """The file has means over seeds, so its flips have no seed and NFE is an answer's."""
        base = stored([1, 1, 1, 0], seeds=2)
        head = stored([1, 0, 1, 0], seeds=2)
        [cell] = compare_runs(
            [head], read_baseline(write_baseline(tmp_path / "b.json", [base]))
        ).cells
        assert [(flip.index, flip.seed, flip.base, flip.head) for flip in cell.worse] == [
            (1, None, 0.5, 0)
        ]
        assert cell.rates["nfe"] == (16, 16)


def test_worst_first() -> None:
    """Worse, then what could not be compared, then by change; new cells last."""
    names = ("worse", "missing", "slightly", "same", "better", "new")
    cells = {name: stored([1] * 10 + [0] * 10, sampler=name) for name in names}
    head = {name: cells[name] for name in names if name != "missing"}
    head["worse"] = stored([0] * 20, sampler="worse")
    head["slightly"] = stored([1] * 9 + [0] * 11, sampler="slightly", **OTHER)
    head["better"] = stored([1] * 20, sampler="better")
    base = [cells[name] for name in names if name != "new"]
    assert [
        cell.pair.sampler[0] for cell in compare_runs(list(head.values()), base).worst_first()
    ] == list(names)
