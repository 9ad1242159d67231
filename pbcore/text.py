"""Small pieces of text that several reports share."""

import codecs
from collections.abc import Sequence
from io import TextIOWrapper

from pbcore.printable import printable

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


def md(text: str, limit: int = 300) -> str:
    """Text within Markdown: on one line, shown as it is, in a table's cell too."""
    line = printable(text, limit)
    for sign in "\\`|<*":
        line = line.replace(sign, "&lt;" if sign == "<" else f"\\{sign}")
    return line


def code(text: str, limit: int = 300, cell: bool = False) -> str:
    """Text as a code span in Markdown.

    Args:
        text: the text.
        limit: the most characters that are shown.
        cell: whether it stands in a table, where its `|` is escaped.
    """
    line = printable(text, limit)
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line.replace('|', chr(92) + '|') if cell else line}{pad}{fence}"


def listed(lines: Sequence[str], limit: int = 8, what: str = "") -> list[str]:
    """At most `limit` of the lines, then how many more there are.

    Args:
        lines: the lines.
        limit: how many are shown.
        what: what they are lines of.
    """
    more = len(lines) - limit
    return [*lines[:limit], *([f"  … and {more} more{what}"] if more > 0 else [])]
