"""Every command that README and docs show is read by the program that it calls, and the cheap ones
are run.
"""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.cli.commands import add_command, path_of
from pbcore.decoding import resolve
from pbcore.tasks.naming import short
from pbcore.tasks.registry import all_task_names

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:\S*/)?(pytest|pbcore|python3? -m pbcore\.train)(?: (.*))?$"
)
# of a mention such as `pbcore report --ceilings`, which is not a whole command
REQUIRED = "arguments are required"
OWN = ("mine-", "apart-")  # samplers that a page shows how to write


def lines(text: str) -> Iterator[str]:
    """The command lines of a page: of fenced and indented blocks, and what stands in backticks."""
    for block in FENCE.finditer(text):
        if block[2] not in ("", "bash", "sh"):
            continue
        for line in re.sub(r"\s*\\\n\s*", " ", block[3]).splitlines():
            told = re.split(r"  +(?=[^ ])", line.strip().removeprefix("$ "))[
                0
            ]  # what follows explains it
            yield from re.split(r" (?:&&|\||;) ", told)
    rest = FENCE.sub("", text)
    yield from (
        line.strip().removeprefix("$ ") for line in rest.splitlines() if line.startswith("    $ ")
    )
    yield from re.findall(r"`([^`\n]+)`", rest)


def words(arguments: str) -> list[str]:
    """A command's arguments; optional ones in brackets are there, and what is left out is a
    word.
    """
    optional = re.sub(r" \[([^\]]+)\]", r" \1", f" {arguments}")
    plain = re.sub(
        r"\$\w+", "8", re.sub(r"\$\([^)]*\)", "", optional)
    )  # a variable of a loop; a file's content
    return ["X" if word == "…" else word for word in shlex.split(plain, comments=True)]


def commands() -> dict[str, tuple[str, list[str]]]:
    """Command → its program and arguments."""
    found = {}
    for page in PAGES:
        for line in lines(page.read_text(encoding="utf-8")):
            match = PROGRAM.match(line)
            if match is not None:
                found[line] = match[1].replace("python3", "python"), words(match[2] or "")
    return found


SHOWN = commands()


def of(program: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "command", [line for line, (name, _) in SHOWN.items() if name == program]
    )


def values(arguments: list[str], option: str) -> list[str]:
    return [after for before, after in pairwise(arguments) if before == option]


def test_there_are_many() -> None:
    """The pages were read: as many commands as a reader finds there, of all three programs."""
    counts = [
        sum(name == program for name, _ in SHOWN.values()) for program in ("pytest", "pbcore")
    ]
    assert min(counts) > 40
    assert sum(name == "python -m pbcore.train" for name, _ in SHOWN.values()) > 8


@of("pytest")
def test_pytest_reads_it(
    command: str, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    """No option is unknown, every value has its type, and files of the repository are there."""
    arguments = [word for word in SHOWN[command][1] if word != "--help"]
    try:
        known, unknown = pytestconfig._parser.parse_known_and_unknown_args(arguments)
    except (SystemExit, pytest.UsageError) as error:
        pytest.fail(f"{error}: {capsys.readouterr().err}")
    assert unknown == []
    files = [word.partition("::")[0] for word in known.file_or_dir]
    assert [
        word
        for word in files
        if word.startswith(("tests", "benches")) and not (ROOT / word).exists()
    ] == []


@pytest.mark.parametrize("option", ["--sampler", "--task"])
def test_names_are_known(option: str) -> None:
    """Samplers can be built and tasks are there; of names joined by `=` both."""
    given = {
        name
        for _, arguments in SHOWN.values()
        for value in values(arguments, option)
        for name in value.split("=")
    }
    assert len(given) >= 5
    tasks = {*all_task_names(), *map(short, all_task_names())}
    for name in sorted(given):
        if option == "--sampler" and not name.startswith(OWN):
            resolve(name)
        elif option == "--task" and not name.startswith(("lm_eval/", "line/")) and "*" not in name:
            assert name in tasks


@of("pbcore")
def test_pbcore_reads_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the parser of the subcommand. A mention in the text may leave out what it is about."""
    arguments = SHOWN[command][1]
    if not arguments:
        return
    parser = ArgumentParser("pbcore")
    path = path_of(arguments)
    assert path, f"pbcore {arguments[0]}: no such command"
    add_command(parser.add_subparsers(), path)
    with suppress(SystemExit):
        parsed, more = parser.parse_known_args(arguments)
        if more and "more" not in parsed:
            parser.error(f"unrecognized arguments: {more}")
    said = capsys.readouterr().err
    assert not said or REQUIRED in said


@of("python -m pbcore.train")
def test_training_reads_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --adapt by the adapters' parser."""
    arguments = SHOWN[command][1]
    part = "lora.command" if "--adapt" in arguments else "command"
    with suppress(SystemExit):
        import_module(f"pbcore.extras.train.{part}")._parser().parse_args(arguments)
    said = capsys.readouterr().err
    assert not said or REQUIRED in said or command.endswith("--adapt")


CHEAP = [
    line
    for line, (name, words) in SHOWN.items()
    if name == "pbcore" and words[:2] in (["list", "samplers"], ["list", "models"])
]


@pytest.mark.parametrize(
    "command", [line for line in CHEAP if not re.search("check|CORPUS|models.yaml", line)]
)
def test_cheap_ones_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SHOWN[command][1]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 5
