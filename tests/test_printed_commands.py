"""Commands that screens print work where they are printed: the same cell, question and number of
questions.

The canonical run is made in three places: in the layout of this repository, in another repository
with an ini file of its own and the wheel, and in a folder below one. There every command that a
screen prints is collected, and given again.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pbcore.results.rundir import RunDir, StoredCell
from tests import canonical, screens
from tests.outputs.entries import readable
from tests.plugin.test_wheel import python as wheel  # noqa: F401 (a fixture)
from tests.warm_python import warm_python

pytestmark = [pytest.mark.slow, pytest.mark.posix]  # each place is a process or two
RUNS = ("weak", canonical.OUT, "base")  # whose records tell what a command is of
PAGES = ("weak", canonical.OUT, "base", "merged")
COMMAND = re.compile(r"(?<![\w./-])((?:pytest (?=[^\W\d]|[./'-])|(?:\S+/)?pbcore (?=[a-z]))[^`]*)")
PROSE = re.compile(r"pytest (?:session|tests)|pbcore (?:=|·)|^pytest: ")
TEMPLATE = "…"  # in place of a run's own options


@dataclass(frozen=True, slots=True)
class Place:
    """Where the canonical run is made: the folder of its commands, the Python that runs them, and
    how its commands differ.
    """

    folder: Path
    python: Path
    given: Mapping[str, str]


def repository(folder: Path, ini: bool = True) -> Path:
    """A project with the canonical run's files; without its ini file, the layout of this one."""
    folder.mkdir(parents=True)
    for name, text in canonical.FILES.items():
        if ini or name != "pytest.ini":
            (folder / name).write_text(text, encoding="utf-8")
    shutil.copytree(canonical.tiny(), folder / canonical.MODEL)
    if not ini:
        shutil.copytree(canonical.ROOT / "fixtures", folder / "fixtures")
        shutil.copy(canonical.ROOT / "pyproject.toml", folder)
        (folder / "benches").mkdir()
        for file in (canonical.ROOT / "benches").glob("test_*.py"):
            if "import test_cell" in file.read_text(encoding="utf-8"):
                shutil.copy(file, folder / "benches")
        own = (folder / "conftest.py").read_text(encoding="utf-8")
        wired = (canonical.ROOT / "conftest.py").read_text(encoding="utf-8")
        (folder / "conftest.py").write_text(f"{wired}\n{own}", encoding="utf-8")
    return folder


# Each takes over a minute.
AT_NIGHT = [
    pytest.param(place, marks=pytest.mark.nightly)
    for place in ("another repository", "a folder below")
]


@pytest.fixture(scope="module", params=["clone", *AT_NIGHT])
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    wheel: Path,  # noqa: F811
) -> Place:
    root = tmp_path_factory.mktemp("place") / "mü [1]"
    own = Path(sys.executable)
    if request.param == "clone":
        options = "--n 4 --max-new-tokens 20 --tasks own.yaml"
        given = canonical.commands(stock="benches", options=options)
        del given["no such folder"]
        return Place(repository(root, ini=False), own, given)
    if request.param == "another repository":
        return Place(repository(root), wheel, canonical.commands())
    below = repository(root) / "below"
    below.mkdir()
    return Place(below, own, canonical.commands(model=f"../{canonical.MODEL}"))


@pytest.fixture(scope="module")
def printed(place: Place) -> Path:
    """The folder with what each command of the canonical run printed in a place."""
    return give(place, place.given, "screens")


def give(place: Place, given: Mapping[str, str], name: str) -> Path:
    """Gives commands in a place, in one process, and returns the folder of what they print."""
    driver = place.folder.parent / f"driver-{name}"
    driver.mkdir()
    shutil.copy(canonical.__file__, driver / "canonical.py")  # the wheel has no tests
    (driver / "given.json").write_text(json.dumps(given), encoding="utf-8")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST_"))
    }
    environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "160", "PYTHONUTF8": "1"}
    environment["PYTEST_ADDOPTS"] = "-p no:hypothesispytest"
    environment["PBCORE_CACHE"] = str(driver / "cache")
    environment["PATH"] = f"{place.python.parent}{os.pathsep}{environment['PATH']}"
    words = [str(driver / "canonical.py"), str(driver / "given.json"), str(place.folder)]
    done = subprocess.run(
        [warm_python(str(place.python)), *words, str(driver / "screens")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return driver / "screens"


def collected(place: Place, printed: Path) -> list[str]:
    """Every command on a screen, but those that only say how a run was made."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(printed.iterdir())]
    for file in sorted(place.folder.rglob("*.md")):
        texts.append(file.read_text(encoding="utf-8"))
    for file in sorted(place.folder.rglob("junit.xml")):
        texts.append(file.read_text(encoding="utf-8"))
    for name in PAGES:
        page = (place.folder / name / "report.html").read_text(encoding="utf-8")
        texts.append(readable(page))
        texts += screens.page_fact(page, "run it again").values()
    texts.append(readable((place.folder / "compare.html").read_text(encoding="utf-8")))
    made = [shlex.split(command) for command in place.given.values()]
    found: dict[str, None] = {}
    for text in texts:
        for command in commands_in(text):
            if shlex.split(command) not in made:
                found[command] = None
    return list(found)


def commands_in(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if PROSE.search(line):
            continue
        for part in re.split(r" {6}accept: ", line):
            match = COMMAND.search(part)
            if match is not None and TEMPLATE not in match[1]:
                yield match[1].rstrip() if match[1].count("(") else match[1].rstrip(" )")


@pytest.fixture(scope="module")
def again(place: Place, printed: Path) -> dict[str, str]:
    """Each command → what it prints now."""
    (place.folder / "stop").unlink()
    found = collected(place, printed)
    numbered = {}
    for number, command in enumerate(found):
        words = shlex.split(command)
        program = Path(words[0]).name
        options = ["-p", "no:cacheprovider"] if program == "pytest" else ["--no-open"]
        numbered[str(number)] = shlex.join([program, *words[1:], *options])
    said = give(place, numbered, "again")
    texts = {}
    for number, command in enumerate(found):
        texts[command] = (said / str(number)).read_text(encoding="utf-8")
    return texts


def of_cells(texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Command, the cell or sample that it names, and what it prints."""
    for command, text in texts.items():
        words = shlex.split(command)
        if words[0] == "pytest" and not words[1].startswith("-") and "/" in words[1]:
            yield command, words[1], text


def records(place: Place) -> dict[str, StoredCell]:
    """Cell → its record in the run that is judged, or in one beside it."""
    found: dict[str, StoredCell] = {}
    for run in RUNS:
        for entry in RunDir(place.folder / run).read_cells():
            found.setdefault(entry.cell.id, entry)
    return found


def test_all_screens_print_commands(place: Place, again: dict[str, str]) -> None:
    """What is given again: samples and cells of every kind of name, a resumed run, pages, and a run
    of the stock cells where their folder is missing.
    """
    named = {name for _, name, _ in of_cells(again)}
    assert "ideal/shuffle/mine-k2/0" in named
    for cell in (f"{canonical.MODEL}/shuffle/mine-k2", f"{canonical.MODEL}/küche/tausch/mine-k2"):
        assert any(name.endswith(cell) for name in named)
    assert any(re.search(r"/küche/nie/confidence-k2/\d$", name) for name in named)
    assert any("--resume" in command for command in again)
    assert any("pbcore view" in command for command in again)


def test_a_sample_is_the_same(place: Place, again: dict[str, str]) -> None:
    """Its question is asked, and it has the answer that is kept."""
    kept = records(place)
    judged = 0
    for command, name, text in of_cells(again):
        cell, _, number = name.rpartition("/")
        if not number.isdecimal():
            continue
        (sample,) = (each for each in kept[cell].samples if each.index == int(number))
        assert f"sample {number} of {kept[cell].cell.task} is wrong" in text, (command, text)
        assert f"answer  {sample.text}" in text, (command, text)
        judged += 1
    assert judged > 5


def test_a_cell_is_the_same(place: Place, again: dict[str, str]) -> None:
    """It has as many questions, and their answers; a cell that failed fails again."""
    kept = records(place)
    for command, name, text in of_cells(again):
        if name.rpartition("/")[2].isdecimal():
            continue
        page = re.search(r"^page: (.*)/report.html$", text, re.MULTILINE)
        assert page is not None, (command, text)
        (entry,) = RunDir(place.folder / page[1]).read_cells()
        assert entry.cell.id == kept[name].cell.id
        assert entry.cell.status == kept[name].cell.status
        assert [sample.text for sample in entry.samples] == [
            sample.text for sample in kept[name].samples
        ]


def test_other_commands_do_what_they_say(place: Place, again: dict[str, str]) -> None:
    """A stopped run is resumed to its end, pages open, and stock cells run."""
    cells = {command for command, *_ in of_cells(again)}
    for command, text in again.items():
        if command in cells:
            continue
        words = shlex.split(command)
        if "--resume" in words:
            assert re.search(r"^resumed: [1-3] cells? kept, [1-3] measured$", text, re.MULTILINE)
            assert " 4 passed" in text, (command, text)
        elif Path(words[0]).name == "pbcore" and words[1] == "view":
            assert text.endswith("/report.html\n"), (command, text)
        else:
            assert words[:3] == ["pytest", "--pyargs", "pbcore.benches"], command
            assert " passed" in text, (command, text)
