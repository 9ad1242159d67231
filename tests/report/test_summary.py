"""pbcore.report.summary: the tables at the end of a run, the answer, and the lines under it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pbcore.report.summary import answer, summary
from pbcore.results import CellRecord, Conditions, error_cell
from tests.results import factory


def cell(**facts: Any) -> CellRecord:
    """A cell of 20 samples with two wrong answers."""
    return factory.cell(**facts)[0]


def under_conditions(record: CellRecord, **conditions: Any) -> CellRecord:
    return replace(record, conditions=replace(record.conditions, **conditions))


def failed(sampler: str, cause: str) -> CellRecord:
    name = f"tiny/shuffle/{sampler}"
    return error_cell(
        CellRecord(name, "tiny", "waiting_line/shuffle", sampler, Conditions.unknown()), cause
    )


def lines(*records: CellRecord) -> list[str]:
    """What stands under the scores."""
    return summary(factory.report(records), 4000).split("\n\n")[-1].splitlines()


class TestFacts:
    def test_the_first_line_counts(self) -> None:
        """All cells, the samples and seconds of those that ran, and where the questions come
        from.
        """
        assert lines(cell(), cell(sampler="random-k1"), failed("ar", "boom")) == [
            "3 cells, 40 samples, 3.0 s of decoding; data: own, unknown",
            "wrong answers by kind: item missing 4",
            "1 cell could not be run:",
            "  tiny/shuffle/ar: boom",
        ]

    def test_a_clean_run_says_no_more(self) -> None:
        """No wrong answers, no errors, nothing special: one line."""
        assert lines(cell(right=1.0)) == ["1 cell, 20 samples, 1.5 s of decoding; data: own"]

    def test_cells_without_a_time_are_counted(self) -> None:
        """Their seconds are not taken as none."""
        first, *_ = lines(cell(), replace(cell(sampler="random-k1"), seconds=None))
        assert "1.5 s of decoding (1 without a time of their own); data" in first

    def test_what_a_reader_must_know_has_a_line(self) -> None:
        """Random weights, foreign code and shared devices, each with the models that it
        concerns.
        """
        told = lines(
            under_conditions(cell(model="a"), dummy=True),
            under_conditions(cell(model="b"), model_info={"remote_code": True}),
            under_conditions(cell(model="c"), shared_device=True, model_info=None),
        )
        assert told[1:4] == [
            "left out of the tables (random weights, for timing only): a",
            "code that came with the checkpoint was run: b",
            "timings are inexact: workers shared a device",
        ]
        assert told[4] == "wrong answers by kind: item missing 4"  # random weights answer nothing

    def test_text_after_the_end(self) -> None:
        """How many answers have some, and whether it was scored."""
        late = replace(cell(), text_after_eos=7)
        end = "answers with text after the first EOS,"
        assert lines(late)[1] == f"7 {end} not scored (--official-text scores it)"
        assert (
            lines(under_conditions(late, options={"official_text": True}))[1]
            == f"7 {end} scored (--official-text)"
        )

    def test_thinking_that_does_not_end(self) -> None:
        """How many answers have some."""
        told = lines(replace(cell(), unclosed_think=2), replace(cell(model="b"), unclosed_think=1))
        assert told[1] == (
            "3 answers with a <think> that isn't closed, whose text is scored (as the official code"
            " does)"
        )

    def test_shared_forwards(self) -> None:
        """Sums over the cells that shared; cells that did not count as none."""
        shared = replace(
            cell(), forwards_shared=1000, forwards_computed=200, seconds_estimated=1500.0
        )
        assert (
            lines(
                shared, replace(shared, id="x", task="waiting_line/copy"), cell(sampler="random-k1")
            )[1]
            == "forwards shared between cells: 2,400 asked for, 400 computed; without sharing about"
            " 3,000 s (estimated: forwards × seconds per forward)"
        )
        computed = replace(cell(), forwards_shared=0, forwards_computed=5)
        assert lines(computed)[1].startswith(
            "forwards shared between cells: 5 asked for, 5 computed; without"
        )


class TestFailures:
    def test_the_eight_most_frequent_kinds(self) -> None:
        """The most frequent first."""
        failures = {f"kind {number}": number for number in range(1, 11)}
        (line,) = (
            line for line in lines(replace(cell(), failures=failures)) if line.startswith("wrong")
        )
        assert line == "wrong answers by kind: " + ", ".join(
            f"kind {n} {n}" for n in range(10, 2, -1)
        )

    def test_ten_errors_are_listed(self) -> None:
        """With their cell and the first line of their cause; the rest is counted."""
        told = lines(
            *(failed(f"random-k{k}", f"cause {k}\nand more" if k else "") for k in range(12))
        )
        assert told[1:4] == [
            "12 cells could not be run:",
            "  tiny/shuffle/random-k0: no cause recorded",
            "  tiny/shuffle/random-k1: cause 1",
        ]
        assert told[-2:] == ["  tiny/shuffle/random-k9: cause 9", "  … and 2 more"]

    def test_cells_that_failed_alike_share_a_line(self) -> None:
        """The first of them is named; another cause has a line of its own."""
        told = lines(
            *(failed(f"random-k{k}", "no such model") for k in range(3)),
            failed("ar", "out of memory"),
        )
        assert told[1:] == [
            "4 cells could not be run:",
            "  tiny/shuffle/random-k0 and 2 more: no such model",
            "  tiny/shuffle/ar: out of memory",
        ]

    def test_twenty_models_are_named(self) -> None:
        """In alphabetical order, each once."""
        named = [
            under_conditions(cell(model=f"m{i:02}", task=t), dummy=True)
            for i in range(22)
            for t in ("a/b", "a/c")
        ]
        line = lines(*named)[1]
        assert line.endswith("m18, m19,   … and 2 more")
        assert line.count("m00") == 1


def test_the_verdict_comes_before_what_went_wrong() -> None:
    """Scores, the verdict, then counts, kinds of wrong answers and errors; a gate's alike."""
    cells = [cell(sampler="confidence-k1", nfe=32), cell(), failed("ar", "boom")]
    report = factory.report(cells)
    for detailed in (False, True):
        for verdict in (answer(report, 400), "gate FAILED: worse\n  shuffle  random-k1"):
            parts = summary(report, 400, detailed, verdict).split("\n\n")
            assert parts[1:-1] == [verdict]
            assert parts[-1].startswith("3 cells, ")
            assert "\nwrong answers by kind: item missing 4\n" in parts[-1]


def test_tables_come_first_and_fit() -> None:
    """In detail: an empty line between each two parts; the width is the reader's."""
    records = [record for record, _ in factory.grid(ks=(1,))] + [cell(task="puzzle/sudoku")]
    parts = summary(factory.report(records), width=60, detailed=True).split("\n\n")
    titles = ("waiting_line: score", "puzzle: score", f"{len(records)} cells, ")
    assert [part.startswith(title) for part, title in zip(parts, titles, strict=True)] == [True] * 3
    assert max(len(line) for line in parts[0].splitlines()[1:]) <= 60


def test_what_was_measured() -> None:
    """Models, tasks, samplers, samples, device and date in words, in detail."""
    report = factory.report([cell(), failed("ar", "boom")], started="2026-03-04T05:06:07+00:00")
    text = summary(report, 200, detailed=True)
    assert (
        text.splitlines()[-1]
        == "measured: tiny on 1 task (waiting_line 1) with 2 samplers, 20 samples a cell; cpu,"
        " float32; 4 March 2026"
    )


class TestAnswer:
    """The sentence of each model, and the means."""

    def test_the_sentences_come_first(self) -> None:
        """They compare answers; without them they say so. A single task has its score in its table
        alone.
        """
        cells = [cell(sampler="confidence-k1", nfe=32), cell()]
        assert answer(factory.report(cells), 400) == (
            "tiny   no verdict: the verdict compares answers question by question, and none are"
            " here; give the run directory"
        )
        assert answer(factory.report([])) == ""

    def test_means(self) -> None:
        """In detail: a line per model and sampler, with what is missing as a dash."""
        cells = [
            cell(model=f"m{i}", task=task)
            for i in range(5)
            for task in ("waiting_line/copy", "puzzle/sudoku")
        ]
        cells.append(cell(model="m0", task="puzzle/sudoku", sampler="random-k2"))
        first, means = answer(factory.report(cells), 100, detailed=True).split("\n\n")
        assert first.startswith("m0   no verdict: the verdict compares")
        title, *rows = means.splitlines()
        assert title.startswith("means over each model's own tasks: ")
        assert rows[0].split() == ["m0", "confidence-k2", "90.0", "[76–95]", "2.0", "1.1"]
        assert rows[1].split() == ["m0", "random-k2", "–", "–", "–"]
