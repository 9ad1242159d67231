"""pbcore.base.tabular: one table, a renderer each for terminal and Markdown."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pbcore.base.tabular import (
    Code,
    MarkdownText,
    Table,
    Value,
    markdown,
    parts_within,
    terminal,
    with_intervals,
)

TEXTS = st.text(max_size=30) | st.text("|\\`*_[]()<>&~$\n\r\t\x1b ab", max_size=12)
FRACTIONS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | TEXTS | TEXTS.map(Code) | st.integers() | FRACTIONS
SCORES = Table(
    ("task", "sampler", "score", "p"), [("copy", "random-k2", 9.5, None), ("copy", "ar", 10.0, 0.5)]
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables of any texts and numbers; each has a row."""
    columns = draw(st.integers(1, 5))
    heads = draw(st.lists(TEXTS, min_size=columns, max_size=columns))
    row = st.lists(VALUES, min_size=columns, max_size=columns)
    sides = draw(st.just("") | st.text("lr", min_size=columns, max_size=columns))
    return Table(heads, draw(st.lists(row, min_size=1, max_size=4)), sides)


def read(text: str) -> list[list[str]]:
    """The cells of a Markdown table, row by row, as a reader of GitHub's Markdown finds them, each
    as the text that it shows.
    """
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = [token.type for token in tokens]
    assert kinds.count("table_open") == 1
    assert (kinds[0], kinds[-1]) == ("table_open", "table_close")
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline":
            parts = token.children or []
            assert {part.type for part in parts} <= {"text", "code_inline", "text_special"}
            rows[-1].append("".join(part.content for part in parts))
    return rows


def squeezed(text: str) -> str:
    """A text as Markdown shows it: spaces at its ends and between words don't count."""
    return " ".join(text.split())


class TestTable:
    def test_rows_are_as_wide_as_heads(self) -> None:
        """A row that lacks an entry is refused."""
        with pytest.raises(ValueError, match="1 entries under 2 heads"):
            Table(["a", "b"], [["x"]])

    @pytest.mark.parametrize("sides", ["l", "lx", "lrr"])
    def test_sides_are_letters(self, sides: str) -> None:
        """One for each column, l or r."""
        with pytest.raises(ValueError, match="give l or r for each of 2"):
            Table(["a", "b"], [["x", "y"]], sides)

    def test_numbers_are_on_the_right(self) -> None:
        """As far as a column has no texts; a column without entries is one of texts."""
        table = Table(["a", "b", "c", "d"], [[1, "1", None, None], [None, 2, None, 0.5]])
        assert [table.side(column) for column in range(4)] == ["right", "left", "left", "right"]


class TestTerminal:
    def test_it_is_aligned(self) -> None:
        """Texts begin in the same place; numbers have their points under each other."""
        assert terminal(SCORES).split("\n") == [
            "task  sampler    score    p",
            "----  ---------  -----  ---",
            "copy  random-k2    9.5    –",
            "copy  ar          10    0.5",
        ]

    def test_without_heads(self) -> None:
        """No line of heads, and no dashes."""
        assert terminal(Table(["", ""], [["a", "b"], ["long", "c"]])) == "a     b\nlong  c"

    def test_formats_of_columns(self) -> None:
        """Floats alone are formatted; each column may have its own format."""
        rows: list[list[Value]] = [[1, 1.0, 2.0], [10, 0.25, -3.0]]
        lines = terminal(Table(["n", "x", "y"], rows, forms=("", ".1f", "+.2f"))).split("\n")
        assert [line.split() for line in lines[2:]] == [
            ["1", "1.0", "+2.00"],
            ["10", "0.2", "-3.00"],
        ]

    def test_first_columns_stand_apart(self) -> None:
        """As many columns of texts as needed; a label that repeats stands once."""
        assert terminal(SCORES, 25).split("\n") == [
            "task",
            "  sampler   score   p",
            "copy",
            "  random-k2   9.5   –",
            "  ar         10   0.5",
        ]
        assert terminal(SCORES, 12).split("\n")[2:4] == ["copy, random-k2", "    9.5   –"]

    def test_other_columns_continue(self) -> None:
        """In another part; of columns that don't stand apart the first text is there again."""
        assert terminal(SCORES, 18, stacked=1).split("\n") == [
            "task",
            "  sampler   score",
            "copy",
            "  random-k2   9.5",
            "  ar         10",
            "task",
            "  sampler     p",
            "copy",
            "  random-k2   –",
            "  ar        0.5",
        ]

    def test_remarks_follow_their_row(self) -> None:
        """Folded, under the row that they are of, in the last part."""
        notes = [[], ["a remark of more words than fit a line"]]
        lines = terminal(SCORES, 30, notes=notes).split("\n")
        assert lines[3].startswith("copy  ar")
        assert lines[4:] == ["    a remark of more words", "    than fit a line"]
        parts = terminal(SCORES, 18, stacked=1, notes=notes).split("\n")
        assert parts[-4:-2] == ["  ar        0.5", "    a remark of more"]

    @given(tables())
    def test_a_line_for_each_row(self, table: Table) -> None:
        """Whatever a text holds, columns begin where the dashes do, and nothing hidden is left."""
        lines = terminal(table).split("\n")
        if any(table.heads):
            assert len(lines) == len(table.rows) + 2
            assert re.fullmatch(r"-*(  -*)*", lines[1])
        else:
            assert len(lines) == len(table.rows)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u202e]", "".join(lines))

    @given(st.integers(1, 4), st.integers(1, 4), st.integers(20, 60))
    def test_it_fits(self, names: int, numbers: int, width: int) -> None:
        """No line is wider than the terminal, but those of names."""
        heads = [f"name{i}" for i in range(names)] + [f"n{i}" for i in range(numbers)]
        row = ["x" * (5 + 4 * i) for i in range(names)] + [10.0**i for i in range(numbers)]
        lines = terminal(Table(heads, [row, row]), width).split("\n")
        assert all(
            len(line) <= width for line in lines if "xx, x" not in line and "name0, " not in line
        )

    def test_wide_characters(self) -> None:
        """Signs that take two columns of a terminal are counted as two."""
        pytest.importorskip("wcwidth")
        lines = terminal(Table(["name", "n"], [["日本語", 1], ["ab", 2]])).split("\n")
        assert lines[1:] == ["------  -", "日本語  1", "ab      2"]

    @pytest.mark.parametrize(
        ("widths", "room", "parts"),
        [
            ([10, 10, 10], 33, [[0, 1, 2]]),
            ([10, 10, 10], 32, [[0, 1], [2]]),
            ([5, 5, 5, 5], 18, [[0, 1], [2, 3]]),
            ([30, 5, 5], 12, [[0], [1, 2]]),
            ([40], 10, [[0]]),
        ],
    )
    def test_columns_are_shared_out_evenly(
        self, widths: list[int], room: int, parts: list[list[int]]
    ) -> None:
        """Each takes its width and a space; where equal parts don't fit, each takes as many as
        do.
        """
        assert parts_within(widths, room) == parts

    def test_scores_end_in_the_same_place(self) -> None:
        """With an interval or without one; texts without any stay as they are."""
        assert with_intervals(["100 [91–100]", "0 [0–16]", "–"]) == [
            "100 [91–100]",
            "  0 [0–16]",
            "  –",
        ]
        assert with_intervals(["2.0", "–"]) == ["2.0", "–"]


class TestMarkdown:
    def test_it_is_aligned(self) -> None:
        """Colons say on which side entries end; the source is aligned, too."""
        assert markdown(SCORES).split("\n") == [
            "| task   | sampler   |   score |   p |",
            "|:-------|:----------|--------:|----:|",
            "| copy   | random-k2 |     9.5 |   – |",
            "| copy   | ar        |      10 | 0.5 |",
        ]

    def test_a_long_column_is_not_padded(self) -> None:
        """A table with one long text stays small."""
        lines = markdown(Table(["why"], [["x" * 500], *[["y"]] * 20])).split("\n")
        assert lines[3] == "| y |"

    @given(tables())
    def test_any_text_survives(self, table: Table) -> None:
        """A reader finds as many rows and columns, and each text as it was but for hidden signs,
        which are escapes.
        """
        heads, *rows = read(markdown(table))
        assert len(heads) == len(table.heads)
        assert len(rows) == len(table.rows)
        for shown, row in zip(rows, table.rows, strict=True):
            plain = [terminal(Table([""], [[value]])) for value in row]
            assert list(map(squeezed, shown)) == list(map(squeezed, plain))

    def test_markdown_stays(self) -> None:
        """Of a text that is Markdown, bare pipes are escaped and nothing else."""
        table = Table(["a"], [[MarkdownText("**b** `c|d` \\|")]])
        assert markdown(table).split("\n")[2] == "| **b** `c\\|d` \\| |"

    def test_names_that_people_type_are_code(self) -> None:
        """With their pipes; a backslash before a pipe has no code span that shows it."""
        table = Table(["a"], [[Code("k1|b")], [Code("k1\\|b")]])
        assert [line.split() for line in markdown(table).split("\n")[2:]] == [
            ["|", "`k1\\|b`", "|"],
            ["|", "k1\\\\\\|b", "|"],
        ]
        assert [row for (row,) in read(markdown(table))[1:]] == ["k1|b", "k1\\|b"]


def test_benchmarks_write_tables_with_it() -> None:
    """They don't call tabulate, as `lint-imports` checks for the package."""
    files = sorted((Path(__file__).parents[2] / "benches").glob("*.py"))
    assert len(files) > 10
    trees = {file.name: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    imported = {
        (name, alias)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (getattr(node, "module", None), *(alias.name for alias in node.names))
    }
    assert ("tune.py", "pbcore.base.tabular") in imported
    assert [name for name, module in sorted(imported, key=str) if module == "tabulate"] == []
