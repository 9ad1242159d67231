"""Text from outside (answers, errors, names, paths) as one line that is safe to show."""

import os
import re
import reprlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# Control characters, line and paragraph separators, signs that change the direction of text, lone
# surrogates.
_SIGNS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_HIDDEN = re.compile(f"[{_SIGNS}]")
_ESCAPE = r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4})"
_TO_ESCAPE = re.compile(rf"[{_SIGNS}]|(?={_ESCAPE})\\")
_ESCAPED = re.compile(_ESCAPE)
_REPR = reprlib.Repr()
_REPR.maxstring = 60
_REPR.maxother = 60
_REPR.maxlong = 60


def printable(text: str, limit: int = 160) -> str:
    """`text` on one line of about `limit` characters: control characters become escapes such as
    `\\x1b`, and the middle of a longer text is left out, with its length given.
    """
    if len(text) <= limit:
        return _HIDDEN.sub(_escape, text)
    tail = limit // 3
    head = _HIDDEN.sub(_escape, text[: limit - tail])
    end = _HIDDEN.sub(_escape, text[len(text) - tail :])
    return f"{head} … {end} ({len(text):,} characters)"


def escaped(text: str) -> str:
    """`text` on one line, whole: control characters as `\\x0a`, `\\u2028`. `unescaped` reads it
    back.
    """
    return _TO_ESCAPE.sub(_by_number, text)


def unescaped(text: str) -> str:
    """The text of which `escaped` made this."""
    return _ESCAPED.sub(lambda match: chr(int(match[0][2:], 16)), text)


def command_line(words: Iterable[str]) -> str:
    """A command as the system's shell reads it."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def program(name: str) -> str:
    """A program of this environment as the shell finds it: by its name, or by its path where the
    environment isn't active.
    """
    beside = str(Path(sys.executable).parent)
    ours = shutil.which(name, path=beside)
    if ours is None or shutil.which(name) == ours:
        return name
    return command_line([str(from_here(Path(ours)))])


def from_here(path: Path) -> Path:
    """The path from the folder where the command was given, if it lies there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def step_number(index: int) -> int:
    """A step of a decoding as readers count it, from 1; records and Python count from 0."""
    return index + 1


def first_line(text: str, limit: int = 160) -> str:
    """The first line of an error's text, printable."""
    return printable(text.strip().partition("\n")[0].rstrip(), limit)


def some(names: Sequence[object], most: int) -> str:
    """The first `most` names, and how many there are if these aren't all."""
    text = ", ".join(map(str, names[:most]))
    return f"{text} … ({len(names)})" if len(names) > most else text


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 cell`, `2,823 cells`.

    Args:
        number: how many.
        noun: the singular.
        plural: by default the singular with an s.
    """
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {plural or f'{noun}s'}"


def fixed(value: float, places: int = 1) -> str:
    """A number with so many decimals, the same wherever it is shown: halves go up, whatever the
    last bit is (90.25 → 90.3, and also as 90.24999999999999).
    """
    nudged = value + 1e-9 if value >= 0 else value - 1e-9
    return f"{nudged:,.{places}f}"


def signed(value: float, places: int = 1) -> str:
    """A difference as `fixed` rounds it, with its sign."""
    sign = "" if value < 0 else "+"
    return f"{sign}{fixed(value, places)}"


def shown(value: Any) -> str:
    """A value from a file, as an error names it: its shortened `repr`."""
    return printable(_REPR.repr(value), 80)


def _escape(match: re.Match[str]) -> str:
    usual = {"\t": " ", "\n": "\\n", "\r": "\\r"}
    if match[0] in usual:
        return usual[match[0]]
    return _by_number(match)


def _by_number(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def duration(seconds: float) -> str:
    """`42 s`, `12 min` or `3.4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
