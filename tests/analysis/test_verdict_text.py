"""The text of a verdict: on one screen, and all of it in Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.analysis.paired import detectable_drop, detectable_shift
from pbcore.analysis.verdict import Verdict
from pbcore.analysis.verdict_text import baseline_text, gate_markdown, gate_text, power_text
from pbcore.results.baseline import rows_by_id
from pbcore.results.rundir import StoredCell
from tests.analysis.test_verdict import OTHER, Entry, answers, gate
from tests.analysis.toys import rerun_command
from tests.markdown_tables import unpadded
from tests.results import factory

LOST = {
    ("shuffle", "threshold-0.9"): (1, 4, 6, 7),
    ("copy", "confidence-k2"): (3, 7),
    ("copy", "threshold-0.9"): (3, 7),
    ("shuffle", "confidence-k2"): (1,),
}


def grid(lost: dict[tuple[str, str], tuple[int, ...]], n: int = 8, **facts: object) -> list[Entry]:
    """Two tasks under two samplers, `n` answers each, those of `lost` wrong."""
    return [
        factory.cell(
            "tiny",
            f"waiting_line/{task}",
            sampler,
            [float(index not in lost.get((task, sampler), ())) for index in range(n)],
            **facts,  # type: ignore[arg-type]
        )
        for task, sampler in LOST
    ]


class TestOtherScores:
    """A gate is judged by the headline score alone; the others are named where they fell."""

    @pytest.mark.parametrize("facts", [{}, OTHER, {"dtype": "bfloat16"}], ids=str)
    def test_one_that_fell_in_all_answers(self, facts: dict[str, object]) -> None:
        """The judged score is named, the other one with its means and answers."""
        base = factory.with_score(factory.cell(right=1.0), "accuracy_strict", [1.0] * 20)
        run = factory.cell(right=1.0, **facts)  # type: ignore[arg-type]
        run = factory.with_score(run, "accuracy_strict", [0.0] * 20)
        first, second, *_ = gate_text(gate([run], [base]), "b").splitlines()
        assert first.startswith("gate PASSED: ")
        assert first.endswith(": accuracy unchanged in all 20 answers")
        assert second == "judged by accuracy; also lower: accuracy_strict 100.0 → 0.0 %"

    def test_beside_answers_that_broke(self) -> None:
        """Named, too, and once for several cells."""
        tasks = ("waiting_line/copy", "waiting_line/sort")
        base = [factory.cell(task=task, headline="grammar", right=1.0) for task in tasks]
        base = [factory.with_score(entry, "inclusion", [1.0] * 20) for entry in base]
        run = [
            factory.cell(task=task, headline="grammar", right=[0.5] + [1.0] * 19) for task in tasks
        ]
        run = [factory.with_score(entry, "inclusion", [0.0] * 5 + [1.0] * 15) for entry in run]
        first, second, *_ = gate_text(gate(run, base), "b").splitlines()
        assert "2 of 40 answers fell, none rose" in first
        assert second == "judged by grammar; also lower: inclusion 100.0 → 75.0 %"

    def test_one_that_rose_or_only_scatters(self) -> None:
        """It is no loss: with other weights the mean counts, where answers repeat each of them."""
        base = factory.with_score(factory.cell(right=1.0), "rouge_1", [0.5, 0.6] * 10)
        same = factory.with_score(factory.cell(right=1.0), "rouge_1", [0.6, 0.5] * 10)
        other = factory.with_score(factory.cell(right=1.0, **OTHER), "rouge_1", [0.6, 0.5] * 10)
        assert "rouge_1" not in gate_text(gate([other], [base]), "b")
        assert "also lower: rouge_1 in 10 of 20 answers" in gate_text(gate([same], [base]), "b")

    def test_in_markdown(self) -> None:
        """In a line, and in the row of the cell."""
        base = factory.with_score(factory.cell(right=1.0), "accuracy_strict", [1.0] * 20)
        run = factory.with_score(factory.cell(right=1.0, **OTHER), "accuracy_strict", [0.0] * 20)
        told = unpadded(gate_markdown(gate([run], [base]), rerun_command, "b"))
        assert "| passed | also lower: accuracy_strict 100.0 → 0.0 % |" in told
        assert "judged by accuracy; also lower: accuracy" in told.replace("\\", "")

    def test_one_that_is_no_longer_measured(self) -> None:
        """Named: nothing says that it did not fall."""
        base = factory.with_score(factory.cell(right=1.0), "grammar", [1.0] * 20)
        told = gate_text(gate([factory.cell(right=1.0)], [base]), "b")
        assert told.endswith(
            "all 20 answers repeat\njudged by accuracy; not measured any more: grammar"
        )


class TestBaselineText:
    """Which fall a gate against a baseline finds, said when it is made."""

    @pytest.mark.parametrize(
        ("tasks", "samplers", "n", "said"),
        [
            (1, 1, 20, "of 32 points in a cell; --limit 100: of 7 points in a cell"),
            (2, 2, 8, "of 98 points in a cell, of 45 over all; --limit 100: of 11 points in a"),
            (2, 2, 20, "of 47 points in a cell, of 20 over all; --limit 100: of 11 points in a"),
            (2, 2, 100, "of 11 points in a cell, of 4 over all"),
            (2, 2, 3, "of no size in a cell, of 97 over all; --limit 100: of 11"),
        ],
    )
    def test_by_the_numbers_of_questions(
        self, tasks: int, samplers: int, n: int, said: str
    ) -> None:
        """By the gate's own tests: such a fall in one cell, and in all of them, fails it."""
        names = ("waiting_line/copy", "waiting_line/sort")[:tasks]
        kinds = ("confidence-k2", "threshold-0.9")[:samplers]
        base = [factory.cell("tiny", task, kind, 1.0, n=n) for task in names for kind in kinds]
        cells = list(rows_by_id([StoredCell(cell, tuple(own)) for cell, own in base]).values())
        [line] = baseline_text(cells, 0.05)
        assert line.startswith(f"with other weights a gate against it sees a fall {said}")

    def test_such_a_fall_is_found(self) -> None:
        """20 points over all: 8 of 40 questions broke under both samplers, which no cell shows; 47
        points: 9 of 20 answers of one cell.
        """
        everywhere = dict.fromkeys(LOST, tuple(range(4)))
        verdict = gate(grid(everywhere, 20, **OTHER), grid({}, 20))
        assert [cell.status for cell in verdict.judgements] == ["lost"] * 4
        assert not verdict.ok
        alone = {("copy", "confidence-k2"): tuple(range(9))}
        verdict = gate(grid(alone, 20, **OTHER), grid({}, 20))
        assert [cell.id for cell in verdict.of("worse")] == ["tiny/copy/confidence-k2"]

    def test_data_that_end(self) -> None:
        """No more questions are proposed than there are."""
        base = StoredCell(*factory.cell(right=1.0, n_available=20))  # type: ignore[arg-type]
        [line] = baseline_text([*rows_by_id([base]).values()], 0.05)
        assert line.endswith("of 32 points in a cell")

    def test_graded_scores(self) -> None:
        """How they scatter decides, which isn't known yet."""
        base = StoredCell(*factory.cell(right=[0.5, 0.25] * 10))  # type: ignore[arg-type]
        assert baseline_text([*rows_by_id([base]).values()], 0.05) == []


class TestText:
    def test_a_loss_spread_over_cells(self) -> None:
        """The whole first, then the cells, worst first, what to do, and what a cell would show."""
        verdict = gate(grid(LOST, **OTHER), grid({}))
        told = gate_text(verdict, "baseline.json", Path("reports/regression")).splitlines()
        assert told == [
            (
                "gate FAILED: worse than baseline.json (other weights): 9 of 32 answers to 6"
                " questions broke, none mended (one-sided p = .016)"
            ),
            "  shuffle  threshold-0.9   4 of 8 broke: 1 4 6 7",
            "  copy     confidence-k2   2 of 8 broke: 3 7",
            "  copy     threshold-0.9   2 of 8 broke: 3 7",
            "  shuffle  confidence-k2   1 of 8 broke: 1",
            (
                "look: pbcore view reports/regression      accept: pytest … --update-baseline"
                " baseline.json"
            ),
            (
                "8 questions a cell: in a single cell only a drop of about 90 points would show;"
                " --limit 100 shows 9"
            ),
        ]

    def test_repeatable_cells(self) -> None:
        """Every answer counts: no p, and no word on what would show."""
        told = gate_text(gate(grid(LOST), grid({})), "b.json").splitlines()
        assert told[0] == (
            "gate FAILED: worse than b.json (same weights): 9 of 32 answers broke, none mended;"
            " of 4 cells 4 worse"
        )
        assert len(told) == 5

    @pytest.mark.parametrize("facts", [{}, OTHER, {"dtype": "bfloat16"}], ids=str)
    def test_a_mended_answer_pays_for_no_forwards(self, facts: dict[str, object]) -> None:
        """One answer is right that was wrong, all take six times the forwards: slower, and red."""
        base = factory.cell(right=answers(1, 20), nfe=16)
        run = factory.cell(right=answers(0, 20), nfe=99, **facts)  # type: ignore[arg-type]
        verdict = gate([run], [base])
        first, cell, *_ = gate_text(verdict, "b").splitlines()
        assert not verdict.ok
        assert first.startswith("gate FAILED: slower than b")
        assert "slower: forwards 16 → 99" in cell
        assert "1 of 20 mended: 0" in cell

    def test_lost_but_not_shown(self) -> None:
        """A cell with a loss is named, with the questions that would show it; the gate passes."""
        one = {("shuffle", "confidence-k2"): (1,)}
        verdict = gate(grid(one, **OTHER), grid({}))
        first, second, third = gate_text(verdict, "b.json").splitlines()
        assert first == (
            "gate PASSED: not shown to be worse than b.json (other weights): 1 of 32 answers to 1"
            " question broke, none mended (one-sided p = .5)"
        )
        assert second == (
            "  shuffle  confidence-k2   1 of 8 broke: 1 (lost, not shown: about 62 questions would"
            " show it)"
        )
        assert third.startswith("8 questions a cell: ")

    @pytest.mark.parametrize(
        ("available", "cell", "power"),
        [
            (None, "about 62 questions would show it)", "; --limit 100 shows 8"),
            (8, "62 questions would show it, and shuffle has only 8", "; copy has only 8, shuffle"),
            (60, "62 questions would show it, and shuffle has only 60", "; --limit 60 shows 13"),
        ],
    )
    def test_no_more_questions_than_there_are(
        self, available: int | None, cell: str, power: str
    ) -> None:
        """What is proposed can be had; else it is said how many questions the tasks have."""
        one = {("shuffle", "confidence-k2"): (1,)}
        verdict = gate(grid(one, **OTHER, n_available=available), grid({}))
        _, lost, shows = gate_text(verdict, "b.json").splitlines()
        assert cell in lost
        assert power in shows

    def test_what_was_not_judged(self) -> None:
        """Each reason once, with its cells; forwards by their means."""
        run = [
            factory.cell(nfe=[17] * 3 + [16] * 17),
            factory.cell(sampler="ar", seed=1),
            factory.cell(sampler="random-k2", seed=1),
            factory.cell(sampler="random-k1"),
            factory.cell(sampler="threshold-0.9", nfe=12),
        ]
        base = [
            factory.cell(sampler=name)
            for name in ("confidence-k2", "ar", "random-k2", "threshold-0.9", "eb-0.1")
        ]
        verdict = gate(run, base).with_floors([("a/*", "no cell matches")])
        assert gate_text(verdict, "b").splitlines() == [
            (
                "gate FAILED: slower than b (same weights): accuracy unchanged in all 40 answers;"
                " of 7 cells 1 slower, 1 faster, 2 refused, 1 missing, 1 floor, 1 new"
            ),
            "  shuffle  confidence-k2   slower: forwards 16 → 16.15 in 3 of 20 answers: 0 1 2",
            ("  shuffle  threshold-0.9   faster: forwards 16 → 12 in all 20 answers"),
            (
                "  refused tiny/shuffle/ar, tiny/shuffle/random-k2: seeds 1, the baseline has 0:"
                " add --seed 0"
            ),
            (
                "  missing tiny/shuffle/eb-0.1: in the baseline but not in the run: renamed,"
                " dropped or deselected?"
            ),
            "  floor a/*: no cell matches",
            "  new, not judged: tiny/shuffle/random-k1",
        ]

    def test_a_pass_is_short(self) -> None:
        """One line where every answer repeats."""
        entries = grid({})
        assert gate_text(gate(entries, entries), "b.json") == (
            "gate PASSED: no worse than b.json (same weights): all 32 answers repeat"
        )

    @pytest.mark.parametrize("facts", [{}, OTHER])
    def test_answers_that_were_mended(self, facts: dict[str, object]) -> None:
        """With the same weights each counts; with other weights they are tested together."""
        told = gate_text(gate(grid({}, **facts), grid(LOST)), "b.json")  # type: ignore[arg-type]
        assert told.startswith("gate PASSED: better than b.json (")

    @pytest.mark.parametrize(
        ("facts", "line"),
        [
            ({"dtype": "bfloat16"}, "judged by tests of the scores: dtype float32 → bfloat16"),
            (
                {"model_identity": {"digest": "w2", "weights": "w1", "config": "c"}},
                "of the model's files these differ: config",
            ),
        ],
    )
    def test_conditions_are_named(self, facts: dict[str, object], line: str) -> None:
        """Those because of which scores are tested, and what of the model differs."""
        run = [factory.cell(**facts)]  # type: ignore[arg-type]
        assert line in gate_text(gate(run, [factory.cell()])).splitlines()

    def test_another_machine_stands_beside_a_red_verdict(self) -> None:
        """Rounding may have done it; a pass has no use for it."""
        base = factory.cell(right=answers(0, 20), threads=1)
        for wrong in (0, 1):
            run = factory.cell(right=answers(wrong, 20), threads=2)
            told = gate_text(gate([run], [base]))
            assert ("also other than the baseline's: threads 1 → 2" in told) == (wrong == 1)

    def test_graded_scores_are_not_called_broken(self) -> None:
        """A graded score falls or rises."""
        base = factory.cell(right=[0.5] * 20, headline="rouge_l")
        run = factory.cell(right=[0.5] * 18 + [0.4, 0.6], headline="rouge_l")
        told = gate_text(gate([run], [base]))
        assert "changed: 1 of 20 fell: 18; 1 of 20 rose: 19" in told
        assert "broke" not in told

    def test_fits_a_screen(self) -> None:
        """A hundred failures take no more than thirty lines; Markdown has them all."""
        base = factory.grid()
        run = [
            factory.cell(record.model, record.task, record.sampler, right=0.0, nfe=record.nfe_max)
            for record, _ in base
        ]
        verdict = gate(run, base)
        assert len(gate_text(verdict).splitlines()) <= 30
        assert (
            unpadded(gate_markdown(verdict, rerun_command)).count("| worse |")
            == len(verdict.of("worse"))
            > 50
        )


class TestMarkdown:
    def test_a_row_for_each_cell_in_which_something_changed(self) -> None:
        """With its verdict; the commands of newly wrong samples follow, twelve a cell."""
        base = [factory.cell(right=answers(0, 20)), factory.cell(sampler="ar")]
        run = [factory.cell(right=answers(14, 20)), base[1]]
        told = gate_markdown(gate(run, base), lambda cell, sample: f"rerun {sample}", "main")
        assert unpadded(told).splitlines()[2:6] == [
            "| cell | verdict | why |",
            "|---|---|---|",
            (
                "| `tiny/shuffle/confidence-k2` | worse | 14 of 20 broke: 0 1 2 3 4 5 6 7 8 9 10 11"
                " … (14) |"
            ),
            "",
        ]
        assert [number for number in range(14) if f"rerun {number}\n" in told] == list(range(12))
        assert "Rerun" not in gate_markdown(gate(base, base), rerun_command)


class TestPower:
    def test_what_is_not_detectable_is_said(self) -> None:
        """No test, no claim; samples too few for any drop, no drop."""
        assert power_text(Verdict((), 0.05)) == ""
        few = gate([factory.cell(n=4, right=1.0, **OTHER)], [factory.cell(n=4, right=1.0)])
        assert power_text(few).startswith("4 questions a cell: in a single cell no drop would show")

    def test_the_fewest_samples_and_all_tests_count(self) -> None:
        """At the level of Holm's first test."""
        drop = detectable_drop(100)
        assert drop == 0.067
        same = gate([factory.cell(right=answers(0), **OTHER)], [factory.cell(right=answers(0))])
        assert power_text(same) == (
            "100 questions a cell: in a single cell only a drop of about 7 points would show"
        )

    def test_graded_scores_have_their_own_drop(self) -> None:
        """The largest that one of their cells needs."""
        facts = {"task": "text_writing/summarization", "headline": "rouge_l"}
        base = factory.cell(**facts, right=[0.5] * 60)  # type: ignore[arg-type]
        run = factory.cell(**facts, right=[0.3, 0.7] * 30, **OTHER)  # type: ignore[arg-type]
        shift = detectable_shift(60, 0.2)
        assert shift is not None
        assert f"a drop of up to {100 * shift:.1f} points" in power_text(gate([run], [base]))
