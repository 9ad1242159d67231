"""pbcore.base.printable: text from outside on one safe line."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.base.printable import first_line, fixed, printable, program, shown, signed

TEXT = st.text(st.characters(), max_size=300)


@given(TEXT, st.integers(1, 200))
def test_one_short_line(text: str, limit: int) -> None:
    """No control character, line separator or lone surrogate is left, and the length is bounded
    whatever the text.
    """
    line = printable(text, limit)
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in line)
    line.encode()
    assert len(printable(text * 10_000, limit)) <= 6 * limit + 60


def test_text_that_is_fine_stays() -> None:
    """Ordinary text is itself; what is hidden becomes an escape; the middle of a long one is
    counted.
    """
    assert printable("Grüße, 世界 |`$") == "Grüße, 世界 |`$"
    assert printable("\x1b[31mred\x00\u2028\ud800\n") == r"\x1b[31mred\x00\u2028\ud800\n"
    assert printable("a" * 10**6, 30) == f"{'a' * 20} … {'a' * 10} (1,000,000 characters)"
    assert first_line("\nCUDA out of memory\x1b\nmore") == r"CUDA out of memory\x1b"
    assert shown({"a": ["x" * 10**6]}).startswith("{'a': ['xxx")
    assert len(shown(["x" * 10**6] * 1000)) < 200


def test_halves_go_up() -> None:
    """Whatever the last bit is; a difference has its sign, also where it is none."""
    assert [fixed(value) for value in (90.25, 90.24999999999999, -0.35, 1234.5)] == [
        "90.3",
        "90.3",
        "-0.4",
        "1,234.5",
    ]
    assert [signed(value) for value in (6.25, -6.25, 0.0)] == ["+6.3", "-6.3", "+0.0"]
    assert (fixed(2.5, 0), signed(0.125, 2)) == ("3", "+0.13")


@pytest.mark.posix
def test_a_program_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name where its environment is active, else by its path, from here and quoted."""
    folder = tmp_path / "my env" / "bin"
    folder.mkdir(parents=True)
    for name in ("python3", "pbcore"):
        (folder / name).touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", str(folder / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program("pbcore") == "'my env/bin/pbcore'"
    assert program("pbmissing") == "pbmissing"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{tmp_path}")
    assert program("pbcore") == "pbcore"
