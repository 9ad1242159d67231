"""pbcore.base.text: pieces of text that several reports share."""

from __future__ import annotations

import io

import pytest

from pbcore.base.text import code, first_lines, folded, md, name, spell_signs, terminal_width


class TestFolded:
    def test_further_lines_hang(self) -> None:
        """Behind the sentence's own indent; a word that is too long stays whole."""
        assert folded("  one two three four", 20) == ["  one two three four"]
        assert folded("  one two three fours", 20) == ["  one two three", "    fours"]
        assert folded("a/path-that-is-longer-than-all", 20) == ["a/path-that-is-longer-than-all"]


class TestWidth:
    def test_columns_decide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without them an output that is no terminal has no width."""
        monkeypatch.setenv("COLUMNS", "77")
        assert terminal_width() == 77
        monkeypatch.delenv("COLUMNS")
        assert terminal_width(123) == 123


class TestListed:
    def test_the_rest_is_counted(self) -> None:
        """A list of just the limit is whole."""
        assert first_lines(["a", "b"], 2) == ["a", "b"]
        assert first_lines(["a", "b", "c"], 1, " of these") == ["a", "  … and 2 more of these"]
        assert len(first_lines(list("abcdefgh"))) == 8
        assert first_lines(list("abcdefghi"))[-1] == "  … and 1 more"


class TestMarkdown:
    def test_text_is_shown_as_it_is(self) -> None:
        """What Markdown or a table's cell would take for itself is escaped."""
        assert md("[x](http://e) $a$ ~~b~~ _c_ d_e &lt;") == (
            r"[x\](http://e) \$a\$ \~\~b\~\~ \_c\_ d_e &amp;lt;"
        )
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
