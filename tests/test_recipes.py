"""The recipes of docs/, each as its reader follows it: files are written, commands run, and what a
page shows under them is what they print. That of docs/ci.md runs from the wheel, in test_wheel.py.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.environment import own_environment
from tests.warm_python import warm_python

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*?) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)\n```", re.DOTALL
)
# A reader has an environment; here the package goes to a folder of the test's own.
INSTALL = "python -m pip install -q --no-deps --no-build-isolation --target site ."


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the comment above it."""

    kind: str
    text: str
    mark: str


def blocks(page: Path) -> Iterator[Block]:
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(match["kind"], match["text"], match["mark"] or "")


def run(command: str, folder: Path) -> tuple[int, str]:
    """A line of a page: exit code and what it printed."""
    words = INSTALL if command == "python -m pip install ." else command
    for program in ("pytest", "pbcore", "python"):
        if words.split()[0] == program:
            module = "" if program == "python" else f"-m {program}"
            words = f"{shlex.quote(warm_python())} {module} {words.removeprefix(program)}"
    places = [folder / "site", ROOT]
    environment = own_environment() | {
        "PYTHONPATH": ":".join(map(str, places)),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
    }
    result = subprocess.run(
        words, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout + result.stderr


def follow(
    page: Path,
    folder: Path,
    run: Callable[[str, Path], tuple[int, str]] = run,
    runner: Callable[[], Path] | None = None,
) -> str:
    """Does what a page says in a folder, and compares what it shows; returns all that was
    printed. A line of a page may leave parts open with `*`.

    Args:
        page: the page; the comment above a block says `file: NAME` of what it holds, or of
            commands that they `fail`, or are typed `on the runner`.
        folder: where its reader begins.
        run: runs a line in a folder.
        runner: brings a second folder up to date, and says where it is.
    """
    printed = ""
    last = ""
    for block in blocks(page):
        marks = block.mark.split(", ")
        if block.mark.startswith("file: "):
            (folder / block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.kind == "bash":
            last = ""
            place = runner() if runner is not None and "on the runner" in marks else folder
            for command in block.text.splitlines():
                code, text = run(command, place)
                assert (code != 0) == ("fails" in marks), f"{command}\n{text}"
                last += text
            printed += last
        elif block.kind == "text":
            lines = [line.strip() for line in last.splitlines()]
            for shown in block.text.splitlines():
                pattern = shown.strip().replace("[", "[[]")
                assert any(fnmatchcase(line, pattern) for line in lines), f"{shown}\n{last}"
    return printed


@pytest.mark.slow
@pytest.mark.posix
class TestRecipes:
    def test_a_sampler_of_ones_own(self, tmp_path: Path) -> None:
        """Installed by its entry point, measured, compared and drawn."""
        follow(ROOT / "docs" / "own.md", tmp_path)
        assert (tmp_path / "reports" / "apart" / "curves.png").is_file()
        assert list((tmp_path / "figures").glob("*.png"))

    @pytest.mark.nightly
    def test_figures(self, tmp_path: Path) -> None:
        """A picture and a table of each panel."""
        follow(ROOT / "docs" / "figures.md", tmp_path)
        for kind in ("png", "csv"):
            assert len(list((tmp_path / "figures").glob(f"*.{kind}"))) >= 6


def test_what_a_page_shows_is_compared(tmp_path: Path) -> None:
    """A line that the command above it did not print fails, and so does a command that should."""
    page = tmp_path / "page.md"
    page.write_text("```bash\necho a [1] b\n```\n\n```text\na [1] *\n```\n", encoding="utf-8")
    assert follow(page, tmp_path) == "a [1] b\n"
    page.write_text("```bash\necho a\n```\n\n```text\nb\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="b"):
        follow(page, tmp_path)
    page.write_text("<!-- fails -->\n```bash\ntrue\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="true"):
        follow(page, tmp_path)
