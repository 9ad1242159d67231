"""Small pieces of text that several reports share."""

import codecs
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from io import TextIOWrapper

from pbcore.base.printable import printable

NAME = 60  # characters of a model's or sampler's name in tables
# a sign of our tables, then how ASCII spells it
_SPELLINGS = "±+- –- ·. …... →-> ≥>= ≤<= ×x ’' ⇒=> γgamma ≈~"
_ASCII = str.maketrans({word[0]: word[1:] for word in _SPELLINGS.split()})


def ascii_text(text: str) -> str:
    """`text` in ASCII: the signs of our tables as their usual spellings, others as escapes."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def spell_signs(stream: object) -> None:
    """Makes a stream write in ASCII what its encoding lacks, `->` for →, where it would raise."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="pbcore.spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_text(error.object[error.start : error.end]), error.end


codecs.register_error("pbcore.spelled", _spelled)


def name(text: str) -> str:
    """A model's, task's or sampler's name for a table."""
    return printable(text, NAME)


_MARKUP = re.compile(r"[\\`|*~$]|\](?=[(\[:])|(?<![^\W_])_|_(?![^\W_])")


def md(text: str, limit: int = 300) -> str:
    """Text within Markdown: on one line, shown as it is, in a table's cell too. Underscores within
    a word mean nothing there and stay.
    """
    line = printable(text, limit).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKUP.sub(r"\\\g<0>", line)


def code(text: str, limit: int = 300, cell: bool = False) -> str:
    """Text as a code span in Markdown.

    Args:
        limit: the most characters that are shown.
        cell: whether it stands in a table, where its `|` is escaped.
    """
    line = printable(text, limit)
    if cell and "\\|" in line:
        return md(line, len(line))  # no code span of a table holds a backslash before a pipe
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    if cell:
        line = line.replace("|", "\\|")
    return f"{fence}{pad}{line}{pad}{fence}"


def first_lines(lines: Sequence[str], limit: int = 8, what: str = "") -> list[str]:
    """At most `limit` of the lines, then how many more there are.

    Args:
        limit: how many are shown.
        what: what they are lines of.
    """
    first = list(lines[:limit])
    more = len(lines) - limit
    if more > 0:
        first.append(f"  … and {more} more{what}")
    return first


def terminal_width(default: int = 1_000_000) -> int:
    """Columns of the terminal, or `$COLUMNS`; `default` where the output goes elsewhere."""
    if "COLUMNS" not in os.environ and not sys.stdout.isatty():
        return default
    return shutil.get_terminal_size((default, 24)).columns


def folded(text: str, width: int, hanging: int = 2) -> list[str]:
    """A sentence in lines of at most `width` columns, as far as its words go.

    Args:
        text: the sentence; spaces in front of it indent all lines.
        width: columns of a line, taken as 20 at least.
        hanging: by how many columns more the further lines are indented.
    """
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.strip(),
        max(20, width),
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
