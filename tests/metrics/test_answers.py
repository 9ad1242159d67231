"""Parsers of answers: what is read, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.metrics.answers import csv_rows, digit_rows, lenient_list, lines, strict_list
from pbcore.tasks.lists import formatted

names = st.builds(" ".join, st.tuples(*[st.text("abcXYZ", min_size=1, max_size=4)] * 2))
around = st.text("abc .:\n", max_size=12)


class TestLists:
    @given(st.lists(names, min_size=1, max_size=8), around, around)
    def test_round_trip(self, items: list[str], before: str, after: str) -> None:
        """A formatted list is read back by both readers, whatever plain text stands around it."""
        text = before + formatted(items) + after
        assert lenient_list(text) == items
        assert strict_list(text) == items

    @pytest.mark.parametrize(
        ("text", "lenient", "strict"),
        [
            ('["A B", "C D"]', ["A B", "C D"], ["A B", "C D"]),
            ("[A B, C D]", ["A B", "C D"], None),
            ('["A B","C D"]', ["A B", "C D"], None),
            ('["A B",  "C D"]', ["A B", "C D"], None),
            ('["A B", "C D"', ["A B", "C D"], None),
            ('"A B", "C D"]', ["A B", "C D"], None),
            ("A B, C D", ["A B", "C D"], None),
            ('["X"]["A B", "C D"]', ["A B", "C D"], ["A B", "C D"]),
            ('["A B", "C D"]]', ["A B", "C D"], ["A B", "C D"]),
            ('] ["A B"]', ["A B"], ["A B"]),
            ('["A B", "C D",]', ["A B", "C D"], None),
            ('["A B", , "C D"]', ["A B", "C D"], None),
            ('["A B",\n"C D"]', ["A B", '\n"C D'], None),
            ('["A B", "", "C D"]', ["A B", "", "C D"], ["A B", "", "C D"]),
            ('["A B", \n, " "C D" "]', ["A B", "C D"], None),
            ('[\u00a0"A B", C D\t]', ['\u00a0"A B', "C D\t"], None),
            ('["A "B"", "C D"]', ['A "B', "C D"], None),
            ("['A B', 'C D']", ["'A B'", "'C D'"], None),
            ('["A  B"]', ["A  B"], ["A  B"]),
            ("[]", [], None),
            ("", [], None),
            ('[""]', [""], [""]),
            ('["]', [""], None),
        ],
    )
    def test_forms(self, text: str, lenient: list[str], strict: list[str] | None) -> None:
        """The rules one by one: brackets, quotes, separators, empty items, several lists."""
        assert lenient_list(text) == lenient
        assert strict_list(text) == strict

    @given(st.text('[]", AB\n', max_size=30))
    def test_strict_reads_no_more_than_lenient(self, text: str) -> None:
        """Any text: neither reader fails, and what is strictly a list is the same leniently, but
        for ordinary spaces at the edges.
        """
        strict = strict_list(text)
        if strict is not None and "," not in "".join(strict):
            assert [item.strip(" ") for item in strict] == lenient_list(text)


class TestRows:
    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            ("A,B\nB,A", [["A", "B"], ["B", "A"]]),
            ("Output:\n A, B\n\n```\nB,A", [["A", "B"], ["B", "A"]]),
            ("A,B,A\nB,A", [["A", "B", "A"], ["B", "A"]]),
            ("A,B,C\nA,\nA,A\nA;B", []),
            ("", []),
        ],
    )
    def test_csv(self, text: str, rows: list[list[str]]) -> None:
        """Lines that hold every symbol and nothing else; an extra cell may repeat one."""
        assert csv_rows(text, "AB") == rows

    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            ("1234\n4321", ["1234", "4321"]),
            ("Step 1: 12\n1 2 3 4\n4,3,2,1\n", ["1234", "4321"]),
            ("12345\n123", []),
            ("1234 4321", []),
        ],
    )
    def test_digits(self, text: str, rows: list[str]) -> None:
        """Lines with exactly four digits, whatever stands between them."""
        assert digit_rows(text) == rows

    def test_lines(self) -> None:
        """Blank lines and outer spaces don't count."""
        assert lines(" 12 \n\n34\r\n") == ["12", "34"]
