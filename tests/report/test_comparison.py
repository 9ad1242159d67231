"""pbcore.report.comparison: two runs side by side, on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pbcore.analysis.compare import CellComparison, Comparison, Flip, Overall, compare_runs
from pbcore.analysis.paired import Paired
from pbcore.analysis.pairs import Pair
from pbcore.analysis.verdict import Judgement, Verdict
from pbcore.report.comparison import (
    compared_line,
    comparison_markdown,
    comparison_text,
    named_text,
    p_note,
)
from pbcore.results.baseline import BaselineCell
from pbcore.results.rundir import StoredCell
from tests.analysis.test_verdict import OTHER
from tests.markdown_tables import unpadded
from tests.results import factory

TASK = "waiting_line/shuffle"
RATES = {"nfe": (16.0, 8.0), "tokens_per_step": (2.0, 4.0), "samples_per_second": (None, 3.25)}


def judged(status: str) -> Judgement:
    """The judgement of a cell by its tests."""
    paired = Paired(indices=tuple(range(20)), differences=(0.0,) * 20)
    return Judgement("", status, paired=paired, p={"score": 0.004, "gain": 0.004})


def paired(right: int, worse: int = 0, better: int = 0) -> Paired:
    """Twenty questions, so many of which B has right, and how many flip."""
    differences = (-1.0,) * worse + (1.0,) * better + (0.0,) * (20 - worse - better)
    head = (right - worse + better) / 20
    return Paired(right / 20, head, True, tuple(range(20)), differences)


def cell(
    sampler: str,
    status: str = "compared",
    model: str = "tiny",
    sides: Sequence[Mapping[str, Any]] = ({}, {}),
    **facts: Any,
) -> CellComparison:
    """A cell whose rows have the facts of `sides`, A's and B's."""
    known = {"paired": paired(18), "judgement": judged("passed")}
    if status != "compared":
        known = {}
    name = f"{model}/shuffle/{sampler}"
    row = BaselineCell(
        name, model, TASK, sampler, (0,), "", "", "", "accuracy", {}, (), {}, (), None
    )
    head, base = (replace(row, **side) for side in sides)
    pair = Pair(head, base, TASK, (model, model), (sampler, sampler))
    return CellComparison(pair, status, **{**known, "rates": RATES, **facts})


def worse(sampler: str = "confidence-k2", **facts: Any) -> CellComparison:
    flips = (Flip(3, 0, 1.0, 0.0), Flip(7, 2, 1.0, 0.0))
    changed = {"paired": paired(18, worse=9, better=1), "judgement": judged("worse")}
    return cell(sampler, **{**changed, "worse": flips, "better": (Flip(5, 0, 0.0, 1.0),), **facts})


class TestText:
    def test_the_table(self) -> None:
        """Worst first, what is unchanged is counted, what could not be compared says why."""
        refused = cell("threshold-0.9", "refused", reason="other questions")
        told = comparison_text(
            Comparison((cell("ar"), refused, worse()), 0.05), "new", "old", 140
        ).splitlines()
        assert (
            told[0]
            == "A = new, B = old: 2 cells compared, 1 worse, 0 better; 2 answers worse, 1 better, 1"
            " refused"
        )
        assert told[1] == "  refused (other questions): tiny/shuffle/threshold-0.9"
        header = "cell B A A − B 95 % interval p worse better NFE tok/step samples/s"
        assert told[2].split() == header.split()
        row = (
            "worse tiny/shuffle/confidence-k2 90.0 50.0 -40.0 -63.0 to -10.5 0.004 2 1 16 → 8 2 → 4"
            " – → 3.25"
        )
        assert told[4].split() == row.split()
        assert told[5] == "left out, without any change: 1 cell"

    def test_rows_beside_calls(self) -> None:
        """Of both runs, in text and Markdown, if rows and calls differ; with the sentence on
        time.
        """
        rates = {**RATES, "rows": (16.0, 64.0), "tokens_per_row": (2.0, 0.5)}
        comparison = Comparison((worse(rates=rates), worse("random-k2")), 0.05)
        told = comparison_text(comparison, "new", "old", 170).splitlines()
        assert told[1].split()[-5:] == ["NFE", "rows", "tok/step", "tok/row", "samples/s"]
        assert "16 → 8  16 → 64     2 → 4  2 → 0.5" in told[3]
        assert told[-1].endswith("add --price")
        page = unpadded(comparison_markdown(comparison, "new", "old"))
        assert "| 16 → 8 | 16 → 64 | 2 → 4 | 2 → 0.5 | – → 3.25 |" in page
        alike = {**RATES, "rows": RATES["nfe"], "tokens_per_row": RATES["tokens_per_step"]}
        for others in (RATES, alike):
            assert "row" not in comparison_text(
                Comparison((worse(rates=others),), 0.05), "new", "old", 170
            )

    def test_the_mean_over_cells(self) -> None:
        """A line of its own where there are two cells or more, in the terminal and in Markdown."""
        mean = Overall(2, 0.9, 0.5, -0.4, -0.55, -0.2)
        for cells in (1, 2):
            comparison = Comparison((worse(),), 0.05, overall=replace(mean, cells=cells))
            line = "mean of 2 cells: B 90.0, A 50.0, difference -40.0, 95 % interval -55.0 to -20.0"
            assert (line in comparison_text(comparison, "a", "b").splitlines()) == (cells == 2)
            assert (line in comparison_markdown(comparison, "a", "b")) == (cells == 2)

    def test_what_the_names_leave_out(self) -> None:
        """Cells under other names are counted; those that A never had are named."""
        lacking = tuple(
            f"tiny/{task}/b" for task in ("copy", "sort", "reverse", "shuffle", "insert_index")
        )
        told = comparison_text(
            Comparison((worse(),), 0.05, left_out=(2, 1), lacking=lacking), "a", "b"
        ).splitlines()
        assert "not compared, under other names: 2 cells of A, 1 of B" in told
        assert f"not compared, as A never had them: {', '.join(lacking[:4])} … (5)" in told

    def test_cells_of_one_reason_are_one_line(self) -> None:
        """Ten missing cells are named in a line, as far as it goes."""
        cells = tuple(cell(f"random-k{i}", "missing", reason="in B only") for i in range(10))
        told = comparison_text(Comparison(cells, 0.05), "a", "b").splitlines()
        assert told[0].startswith("A = a, B = b: 0 of 10 cells compared, ")
        assert told[1].startswith("  missing (in B only): tiny/shuffle/random-k0, ")
        assert told[2].endswith("(10)")
        assert len(told) == 3

    def test_it_fits_the_terminal(self) -> None:
        """Long names stand whole, on lines of their own."""
        names = [f"confidence-k2+{block}+no_early_eos" for block in ("b16", "b32", "b8")]
        cells = tuple(
            worse(name, model="an-organisation/a-model-with-a-long-name") for name in names
        )
        lines = comparison_text(Comparison(cells, 0.05), "a", "b", 80).splitlines()
        assert max(map(len, [one for one in lines if "organisation" not in one])) <= 80
        told = lines[1:8]
        assert told[0] == "      cell"
        assert all(line.startswith("worse an-organisation/") for line in told[2::2])
        assert [line.split("/")[-1] for line in told[2::2]] == names
        header = "B A A − B 95 % interval p worse better NFE tok/step"
        assert told[1].split() == header.split()
        row = "90.0 50.0 -40.0 -63.0 to -10.5 0.004 2 1 16 → 8 2 → 4"
        assert told[3].split() == row.split()
        assert max(map(len, told[1::2])) <= 80

    def test_significant_cells_are_marked(self) -> None:
        """With the words of the Markdown, in a column of their own; without any there is none."""
        gained = worse("random-k2", paired=paired(18, better=2), judgement=judged("better"))
        slower = replace(paired(18), costs={"calls": ([17.0] * 20, [16.0] * 20)})
        cells = (worse(), gained, cell("ar", paired=slower))
        told = comparison_text(Comparison(cells, 0.05), "a", "b", 140).splitlines()
        names = {line.split("tiny/")[1].split()[0]: line.split("tiny/")[0] for line in told[3:6]}
        assert names == {
            "shuffle/confidence-k2": "worse  ",
            "shuffle/random-k2": "better ",
            "shuffle/ar": "       ",
        }
        page = comparison_markdown(Comparison(cells, 0.05), "a", "b")
        assert page.count("**worse**") == page.count("**better**") == 1
        told = comparison_text(Comparison(cells[2:], 0.05), "a", "b", 140).splitlines()
        assert told[3].startswith("tiny/shuffle/ar ")

    def test_many_cells(self) -> None:
        """Forty rows, the rest is counted."""
        told = comparison_text(
            Comparison(tuple(worse(f"confidence-k{i}") for i in range(43)), 0.05), "a", "b"
        )
        assert "… and 3 more cells that changed" in told.splitlines()

    def test_what_differs_everywhere_is_told_once(self) -> None:
        """A condition of every cell stands under the table, one of a single cell under its row."""
        cells = (
            worse(sides=({"dtype": "b", "seeds": (1,)}, {"dtype": "a"})),
            cell("ar", sides=({"dtype": "b"}, {"dtype": "a"})),
        )
        told = comparison_text(Comparison(cells, 0.05), "new", "old", 140).splitlines()
        assert [line.strip() for line in told if "dtype" in line] == [
            "in every cell, B → A: dtype a → b"
        ]
        assert told[4].strip() == "seeds 0 → 1"

    def test_equal_runs(self) -> None:
        """No table without rows."""
        told = comparison_text(Comparison((cell("ar"),), 0.05), "a", "b").splitlines()
        assert told == [
            "A = a, B = b: 1 cell compared, 0 worse, 0 better; 0 answers worse, 0 better",
            "left out, without any change: 1 cell",
        ]


class TestMarkdown:
    def test_for_a_pull_request(self) -> None:
        """A table, reasons, and the flipped answers folded, with the seeds that aren't 0."""
        refused = cell("threshold-0.9", "refused", reason="other | questions")
        page = comparison_markdown(
            Comparison((refused, cell("ar"), worse(sides=({"dtype": "b"}, {"dtype": "a"}))), 0.05),
            "new",
            "old",
        )
        lines = unpadded(page).splitlines()
        assert lines[0].startswith("### comparison FAILED: nothing to compare with old")
        assert lines[2].startswith("A = new, B = old: 2 cells compared, 1 worse")
        assert lines[4] == "- refused (other \\| questions): `tiny/shuffle/threshold-0.9`"
        assert lines[8].startswith(
            "| **worse** `tiny/shuffle/confidence-k2` | 90.0 | 50.0 | -40.0 | -63.0 to -10.5 |"
        )
        assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
        assert "`tiny/shuffle/confidence-k2`: dtype a → b  " in lines
        assert "- `tiny/shuffle/confidence-k2`: worse 3, 7 (seed 2); better 5" in lines

    def test_the_verdict_is_first(self) -> None:
        """Whatever the table has: a gate that failed says so, and what would have shown."""
        refused = Judgement("m/t/b", "refused", "seeds differ")
        same = Judgement(
            "m/t/a", "passed", paired=Paired(indices=tuple(range(50)), differences=(0.0,) * 50)
        )
        verdict = Verdict((same, refused), 0.05, cells_level=0.025)
        lines = comparison_markdown(
            Comparison((worse(),), 0.05, verdict=verdict), "new", "old"
        ).splitlines()
        assert lines[0] == "### comparison FAILED: not comparable with old: of 2 cells 1 refused"
        assert lines[4].startswith("50 questions a cell: in a single cell only a drop")

    def test_it_fits_a_comment(self) -> None:
        """A thousand cells with many flips stay below GitHub's 65,536 characters."""
        flips = tuple(Flip(i, 0, 1.0, 0.0) for i in range(1000))
        cells = tuple(
            worse(f"confidence-k2+block{i}+prefix", worse=flips, model="org/name" * 3)
            for i in range(1000)
        )
        page = comparison_markdown(Comparison(cells, 0.05), "new", "old")
        assert len(page.encode()) < 65_536
        assert "… and 900 more cells that changed." in page

    def test_names_that_break_nothing(self) -> None:
        """Bars, line breaks and tags of names and causes stay text in their place."""
        odd = "x|y\n<b>`\x1b"
        cells = (
            worse(model=odd),
            cell("ar", "error", model="e", reason=f"could not be run in A: {odd}"),
        )
        page = comparison_markdown(Comparison(cells, 0.05), odd, odd)
        table = [line for line in page.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1
        assert "\x1b" not in page
        assert "\nA = x\\|y\\\\n&lt;b>" in page


@pytest.mark.parametrize(
    ("lost", "facts", "said"),
    [
        ((9, 4, 0), OTHER, "differs (2 of 3 tested; identical answers can't be worse)"),
        ((9, 4, 1), OTHER, "by Holm over all 3 tested cells"),
        ((0, 0, 0), OTHER, "empty, as no score differs"),
        ((9, 4, 0), {}, "empty, as every answer counts"),
    ],
    ids=str,
)
def test_for_which_cells_p_is_corrected(
    lost: tuple[int, ...], facts: dict[str, Any], said: str
) -> None:
    """Those in which something differs, and why that is allowed."""
    tasks = ("waiting_line/copy", "waiting_line/sort", "waiting_line/reverse")
    base = [factory.cell(task=task, right=[1.0] * 12) for task in tasks]
    head = []
    for task, wrong in zip(tasks, lost, strict=True):
        right = [0.0] * wrong + [1.0] * (12 - wrong)
        head.append(factory.cell(task=task, right=right, **facts))
    runs = [[StoredCell(cell, tuple(samples)) for cell, samples in run] for run in (head, base)]
    assert said in p_note(compare_runs(*runs))


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"nfe": 8}, "points [-16.1, +16.1] in 2.0× fewer forwards, 0 newly wrong"),
        ({"nfe": 32}, "in 2.0× more forwards, 0 newly wrong"),
        ({"nfe": 16}, "in as many forwards, 0 newly wrong"),
        ({"nfe": 8, "rows": 64}, "in 2.0× fewer forwards and 4.0× more rows, 0 newly wrong"),
        (None, "points [-16.1, +16.1], 0 newly wrong"),
    ],
    ids=str,
)
def test_forwards_stand_beside_the_points(counts: dict[str, int] | None, said: str) -> None:
    """What a sampler gains in forwards, of rows where these differ; nothing where not counted."""
    base = factory.cell(right=1.0)
    head, answers = factory.cell(sampler="eb-0.1", right=1.0, **(counts or {}))
    if counts is None:
        head = replace(head, nfe_mean=None, rows_mean=None)
        answers = [replace(answer, nfe=None, rows=None) for answer in answers]
    runs = [[StoredCell(head, tuple(answers))], [StoredCell(base[0], tuple(base[1]))]]
    [pair] = compare_runs(*runs, samplers={"eb-0.1": "confidence-k2"}).named
    assert said in named_text(pair)


def test_counts_both_ways() -> None:
    """A significant gain is counted as better."""
    gained = worse(paired=paired(10, better=8), judgement=judged("better"))
    assert "1 cell compared, 0 worse, 1 better" in compared_line(
        Comparison((gained,), 0.05), "a", "b"
    )
