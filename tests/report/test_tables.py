"""pbcore.report: tables and summary, as a reader sees them."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import pytest

from pbcore.base.text import ascii_text
from pbcore.report.page.tables import html_table
from pbcore.report.scopes import overview, scopes
from pbcore.report.summary import summary
from pbcore.report.tables import (
    category_table,
    trade_off_notes,
    trade_off_section,
    trade_off_terminal,
    trade_off_terminals,
)
from pbcore.results import CellRecord, SampleRecord, error_cell
from pbcore.results.measures import ROWS_NOTE as NOTE
from tests.markdown_tables import unpadded
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]
TWO = ("waiting_line/copy", "waiting_line/shuffle")


def tables(*entries: Entry) -> list[object]:
    return list(scopes(factory.rows(record for record, _ in entries))[1])


def ungraded() -> Entry:
    record, samples = factory.cell(
        "tiny", "text_writing/w2s_easy", "threshold-0.9", headline="inclusion"
    )
    return replace(record, headline="grammar", absent={"grammar": "no Java found"}), samples


class TestTradeOffTables:
    def test_numbers(self) -> None:
        """Score, bounds of the interval and tokens per step stand in the cell; the mean is over the
        row's tasks.
        """
        (scope,) = scopes(
            factory.rows(
                record
                for record, _ in (
                    factory.cell(task="waiting_line/copy", right=0.9, n=100),
                    factory.cell(right=0.5, n=100, nfe=8),
                )
            )
        )[1]
        (line,) = overview(scope)
        copy, shuffle = line["cells"].values()
        assert (copy["score"], shuffle["tokens_per_step"]) == (90, 4)
        assert (copy["low"], copy["high"]) == pytest.approx((82.56, 94.48), abs=0.01)
        assert (line["score"], line["tokens_per_step"]) == (70, 3)

    def test_a_missing_task_has_no_mean(self) -> None:
        """A row that lacks a task shows so and gets no mean, for it could not be compared."""
        (scope,) = scopes(
            factory.rows(
                record
                for record, _ in (
                    factory.cell(task="waiting_line/copy"),
                    factory.cell(),
                    factory.cell(sampler="random-k1"),
                )
            )
        )[1]
        assert isnan(overview(scope)[1]["score"])
        assert "not run" in trade_off_section(scope).markdown()

    def test_a_model_with_fewer_tasks_has_the_mean_of_its_own(self) -> None:
        """In the terminal, in report.md and on the page."""
        report = factory.report(
            record
            for record, _ in (
                factory.cell(task="waiting_line/copy"),
                factory.cell(),
                factory.cell("ideal", right=0.75),
            )
        )
        (scope,) = report.categories
        assert [line["score"] for line in overview(scope) if line["model"] == "ideal"] == [75]
        assert "| 75.0 |" in unpadded(trade_off_section(scope).markdown())
        assert "75.0" in trade_off_terminal(scope)
        assert "75.0" in str(html_table(category_table(scope)))

    def test_dummies_stay_out(self) -> None:
        """A model of random weights never stands in a quality table."""
        assert tables(factory.cell(dummy=True)) == []
        assert "left out of the tables" in summary(
            factory.report([factory.cell(model="toy", dummy=True)[0]])
        )

    def test_unmeasured_and_failed(self) -> None:
        """A score that wasn't measured is a dash with its reason, a failed cell an error with its
        cause.
        """
        failed = error_cell(
            factory.cell("tiny", "text_writing/summarization", "threshold-0.9")[0],
            "RuntimeError: out of memory",
        )
        text = summary(factory.report([ungraded()[0], failed]), detailed=True)
        row = next(line for line in text.splitlines() if "threshold-0.9" in line)
        assert row.split() == ["threshold-0.9", "error", "–", "–", "2.0", "1.1"]
        assert "grammar (no Java found)" in text
        assert "tiny/summarization/threshold-0.9: RuntimeError: out of memory" in text

    def test_order(self) -> None:
        """Samplers are sorted as people count, tasks as in the paper."""
        (scope,) = scopes(
            factory.rows(
                record
                for record, _ in factory.grid(models=("tiny",), ks=(16, 2, 4), policies=("random",))
            )
        )[1]
        assert [line["sampler"] for line in overview(scope)] == [
            "random-k2",
            "random-k4",
            "random-k16",
        ]
        assert scope.tasks[:2] == ["waiting_line/copy", "waiting_line/sort"]


class TestIntervals:
    def both(self) -> list[CellRecord]:
        return [
            factory.cell(task=task, right=right, n=40, nfe=8)[0]
            for task, right in (("waiting_line/copy", 1.0), ("waiting_line/shuffle", 0.3))
        ]

    def test_bounds_as_they_are(self) -> None:
        """Wilson's interval is not symmetric: both bounds are shown, on the terminal, in ASCII and
        in Markdown.
        """
        (scope,) = scopes(factory.rows(self.both()))[1]
        assert "100 [91–100] 30 [18–45] 65.0" in trade_off_terminal(scope)
        assert "100 [91-100] 30 [18-45] 65.0" in ascii_text(trade_off_terminal(scope))
        assert "| 100 | 30 | 65.0 | 4.0 |" in unpadded(trade_off_section(scope).markdown())
        assert (
            "| [91–100] | [18–45] |"
            in unpadded(trade_off_section(scope).markdown()).partition("<details>")[2]
        )

    def test_scores_line_up(self) -> None:
        """Scores of a column end in the same place, whatever their interval, and so do marks
        without one.
        """
        records = [*self.both(), factory.cell(sampler="random-k1", right=0.0, n=40, nfe=8)[0]]
        (scope,) = scopes(factory.rows(records))[1]
        lines = trade_off_terminal(scope).splitlines()
        first = lines[1].index("copy")
        assert [line[first : first + 3] for line in lines[3:5]] == ["100", "  ·"]
        second = lines[1].index("shuffle")
        assert [line[second : second + 8] for line in lines[3:5]] == ["30 [18–4", " 0 [0–9]"]


class TestTerminal:
    def test_fits_and_aligns(self) -> None:
        """Ten tasks stay within the width, and each part's lines end in the same column."""
        entries = factory.grid(ks=(1, 2))
        for width in (60, 80, 100, 120):
            (scope,) = scopes(factory.rows(record for record, _ in entries))[1]
            lines = trade_off_terminal(scope, width).splitlines()
            assert max(map(len, lines[1:])) <= width
            assert "mean" in "".join(lines)
            assert sum("ins_idx" in line for line in lines) == 1

    def test_unlike_rates_get_a_line(self) -> None:
        """Where tokens per step differ between tasks they are shown for each."""
        cells = (factory.cell(task="waiting_line/copy", nfe=8), factory.cell(nfe=16))
        text = summary(factory.report(record for record, _ in cells), detailed=True)
        assert "tokens per step" in text
        assert [
            line.split()[-2:] for line in text.splitlines() if line.startswith("    tokens")
        ] == [["4.0", "2.0"]]

    def test_nothing_to_say(self) -> None:
        """No cells, no text."""
        assert summary(factory.report([])) == ""


class TestRows:
    """Samplers that ask about what-if rows: tokens per row beside tokens per step, and only with
    such samplers.
    """

    def test_a_column_where_rates_are_alike(self) -> None:
        """16 calls of 64 rows for 32 tokens: 2 per step and .5 per row; a sampler that asks nothing
        has both alike.
        """
        (scope,) = scopes(
            factory.rows([factory.cell(sampler="spec-8", rows=64)[0], factory.cell()[0]])
        )[1]
        told = trade_off_terminal(scope).splitlines()
        assert (
            told[0]
            == "waiting_line: score in % [95 % interval], then tokens per step / per row (20"
            " samples a cell)"
        )
        assert told[1].split() == [
            "shuffle",
            "tok/step",
            "TPF",
            "tok/row",
        ]  # its mean would be the same
        rates = {line.split()[0]: line.split()[-3:] for line in told if line.startswith("  ")}
        assert rates["confidence-k2"] == ["2.0", "1.1", "2.0"]
        assert rates["spec-8"] == ["2.0", "1.1", "0.5"]
        assert " ".join(told[-2:]).split() == NOTE.split()
        assert "neither is seconds, which depend on the machine" in NOTE
        assert "| `spec-8` | 90 | 2.0 | 1.1 | 0.5 |" in unpadded(
            trade_off_section(scope).markdown()
        )
        assert NOTE in trade_off_section(scope).markdown()

    def test_its_note_is_folded_and_stands_once(self) -> None:
        """Under the last of the tables that it concerns, within the terminal's width."""
        tasks = ("waiting_line/copy", "puzzle/sudoku", "list_ops/copy")
        cells = [factory.cell(task=task, sampler="spec-8", rows=64)[0] for task in tasks[:2]]
        tables = scopes(factory.rows([*cells, factory.cell(task=tasks[2])[0]]))[1]
        texts = trade_off_terminals(tables, 60)
        assert [" ".join(text.split()).count(NOTE) for text in texts] == [0, 1, 0]
        (notes,) = (text.splitlines()[-3:] for text in texts if "canvases" in text)
        assert all(line.startswith("  ") and len(line) <= 60 for line in notes)

    def test_a_line_where_rates_differ_between_tasks(self) -> None:
        """Calls alike and rows not: each has its line, with its mean in its column."""
        cells = [
            factory.cell(task=task, sampler="spec-8", rows=rows)
            for task, rows in zip(TWO, (32, 64), strict=True)
        ]
        plain = [factory.cell(task=task, nfe=nfe) for task, nfe in zip(TWO, (8, 16), strict=True)]
        (scope,) = scopes(factory.rows(record for record, _ in (*cells, *plain)))[1]
        lines = [line.split() for line in trade_off_terminal(scope, width=120).splitlines()]
        assert ["spec-8", "90", "[70–97]", "90", "[70–97]", "90.0", "2.0", "1.1", "0.8"] in lines
        assert ["tokens", "per", "step", "2.0", "2.0"] in lines
        assert [line for line in lines if line[:3] == ["tokens", "per", "row"]] == [
            ["tokens", "per", "row", "1.0", "0.5"]
        ]
        page = unpadded(trade_off_section(scope).markdown())
        assert "| `spec-8` | 90 at 2.0 / 1.0 | 90 at 2.0 / 0.5 | 90.0 | 2.0 | 1.1 | 0.8 |" in page
        assert "| `confidence-k2` | 90 at 4.0 | 90 at 2.0 | 90.0 | 3.0 | 1.7 | 3.0 |" in page
        asking = next(line for line in overview(scope) if line["sampler"] == "spec-8")
        assert [cell["tokens_per_row"] for cell in (*asking["cells"].values(), asking)] == [
            1,
            0.5,
            0.75,
        ]

    def test_other_runs_look_as_before(self) -> None:
        """Equal rows and calls, and records from before rows were counted, say nothing of rows."""
        before = replace(factory.cell()[0], rows_mean=None, tokens_per_row=None)
        for record in (factory.cell()[0], factory.cell(rows=16)[0], before):
            (scope,) = scopes(factory.rows([record]))[1]
            assert "row" not in trade_off_terminal(scope)
            assert "row" not in trade_off_section(scope).markdown()
            heads = trade_off_section(scope).table().heads
            assert heads[-2:] == ["tok/step", "TPF"]


class TestWhole:
    """Tables as they are read, down to the last sign."""

    def test_on_the_terminal(self) -> None:
        """Models stand above their samplers, marks under scores, rates in a line of their own where
        they differ.
        """
        ran = [
            factory.cell("b", "waiting_line/copy", "random-k1", n=40, right=1.0, nfe=8),
            factory.cell("b", "waiting_line/shuffle", "random-k1", n=20, right=0.5),
            factory.cell("b", "waiting_line/copy", "ar", right=0.0),
            factory.cell("a", "waiting_line/copy", "ar"),
        ]
        failed = replace(factory.cell("a", "waiting_line/shuffle", "ar")[0], status="error")
        (scope,) = scopes(factory.rows([*(record for record, _ in ran), failed]))[1]
        assert trade_off_terminal(scope).splitlines() == [
            "waiting_line: score in % [95 % interval], then tokens per step (20–40 samples a cell)",
            "                    copy         shuffle    mean tok/step TPF",
            "b",
            "  ar                  0 [0–16]    ·            –      2.0 1.1",
            "  random-k1         100 [91–100] 50 [30–70] 75.0      3.0 1.7",
            "    tokens per step 4.0          2.0",
            "a",
            "  ar                 90 [70–97]  error         –      2.0 1.1",
            "  error: the cell could not be run; its cause is listed under the tables",
            "  · not run; means are over a model's own tasks, if all have a score",
        ]

    def test_in_markdown(self) -> None:
        """Where rates differ between a row's tasks each entry has its own."""
        records = [
            factory.cell(task="waiting_line/copy", nfe=8)[0],
            factory.cell()[0],
            ungraded()[0],
        ]
        first, second = scopes(factory.rows(records))[1]
        lines = unpadded(trade_off_section(first).markdown()).splitlines()[1:]
        assert [line for line in lines if line] == [
            "| model | sampler | copy | shuffle | mean | tok/step | TPF |",
            "|---|---|---:|---:|---:|---:|---:|",
            "| tiny | `confidence-k2` | 90 at 4.0 | 90 at 2.0 | 90.0 | 3.0 | 1.7 |",
            "<details><summary>95 % intervals</summary>",
            "| model | sampler | copy | shuffle |",
            "|---|---|---:|---:|",
            "| tiny | `confidence-k2` | [70–97] | [70–97] |",
            "</details>",
        ]
        assert unpadded(trade_off_section(second).markdown()).splitlines()[4:7] == [
            "| tiny | `threshold-0.9` | – | 2.0 | 1.1 |",
            "",
            "– not measured: grammar (no Java found)  ",
        ]

    def test_a_score_without_a_reason(self) -> None:
        """It says that none is recorded, once for several cells."""
        lost = [
            replace(ungraded()[0], absent={}),
            replace(ungraded()[0], id="x", sampler="random-k1", absent={}),
        ]
        (scope,) = scopes(factory.rows(lost))[1]
        assert trade_off_notes(scope, overview(scope)) == [
            "– not measured: grammar (no reason recorded)"
        ]

    def test_samples_are_those_of_cells_that_ran(self) -> None:
        """One number where all have as many; none where none ran."""
        failed = replace(factory.cell(n=7)[0], status="error")
        (scope,) = scopes(factory.rows([factory.cell(task="waiting_line/copy")[0], failed]))[1]
        assert trade_off_section(scope).title.endswith("tokens per step (20 samples a cell)")
        (scope,) = scopes(factory.rows([failed]))[1]
        assert trade_off_section(scope).title.endswith("tokens per step")

    def test_long_notes_and_names_are_cut(self) -> None:
        """Names at 60 characters, notes at 400."""
        record = replace(ungraded()[0], model="m" * 61, absent={"grammar": "x" * 400})
        (scope,) = scopes(factory.rows([record]))[1]
        assert "(61 characters)" in trade_off_terminal(scope).splitlines()[2]
        assert "(426 characters)" in trade_off_terminal(scope)
        assert "(426 characters)" in trade_off_section(scope).markdown()

    def test_prompts_of_the_rewrite(self) -> None:
        """A table of them alone says so; one with others names the models that answered them."""
        theirs = factory.cell("b", data_source="rewrite-2026")[0]
        (scope,) = scopes(factory.rows([theirs]))[1]
        assert trade_off_notes(scope, overview(scope))[-1].startswith(
            "prompts: those of the benchmark's 2026 rewrite"
        )
        (scope,) = scopes(factory.rows([factory.cell("a")[0], theirs]))[1]
        assert trade_off_notes(scope, overview(scope))[-1].startswith(
            "prompts differ: b answered those of the 2026 rewrite"
        )
        (scope,) = scopes(factory.rows([factory.cell("a")[0]]))[1]
        assert trade_off_notes(scope, overview(scope)) == []
