"""pbcore.text: pieces of text that several reports share."""

from __future__ import annotations

import io

import pytest

from pbcore.text import code, listed, md, name, spell_signs


class TestListed:
    def test_the_rest_is_counted(self) -> None:
        """A list of just the limit is whole."""
        assert listed(["a", "b"], 2) == ["a", "b"]
        assert listed(["a", "b", "c"], 1, " of these") == ["a", "  … and 2 more of these"]
        assert len(listed(list("abcdefgh"))) == 8
        assert listed(list("abcdefghi"))[-1] == "  … and 1 more"


class TestMarkdown:
    def test_text_is_shown_as_it_is(self) -> None:
        """What Markdown or a table's cell would take for itself is escaped."""
        assert md("a|b `c` *d* <e> \\f") == r"a\|b \`c\` \*d\* &lt;e> \\f"

    @pytest.mark.parametrize(
        ("text", "span"),
        [
            ("a", "`a`"),
            ("a`b", "``a`b``"),
            ("`a", "`` `a ``"),
            ("a``", "``` a`` ```"),
            ("a|b", "`a|b`"),
        ],
    )
    def test_a_code_span_has_a_longer_fence_than_its_text(self, text: str, span: str) -> None:
        """And a space inside where the text begins or ends with a fence."""
        assert code(text) == span

    def test_a_bar_in_a_cell(self) -> None:
        """It would end the cell."""
        assert code("a|b", cell=True) == r"`a\|b`"

    def test_long_texts_are_cut(self) -> None:
        """Names at 60 characters, others at 300."""
        assert name("x" * 60) == "x" * 60
        assert name("x" * 61) == f"{'x' * 40} … {'x' * 20} (61 characters)"
        assert md("x" * 300) == "x" * 300
        assert "(301 characters)" in md("x" * 301)
        assert code("x" * 300) == f"`{'x' * 300}`"
        assert "(301 characters)" in code("x" * 301)


class TestShow:
    @pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "5 – 6\n"), ("ascii", "5 - 6\n")])
    def test_a_terminal_gets_what_it_can_show(self, encoding: str, shown: str) -> None:
        """The signs of our tables in ASCII only where they are lacking."""
        stream = io.TextIOWrapper(io.BytesIO(), encoding)
        spell_signs(stream)
        stream.write("5 – 6\n")
        stream.seek(0)
        assert stream.read() == shown
