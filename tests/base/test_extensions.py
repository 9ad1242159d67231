"""What neighbours declare, and what the core reads of them, with or without their folder."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec
from pathlib import Path

import pytest

from pbcore.base import extensions
from pbcore.base.command import Command
from pbcore.base.extensions import HOME, neighbours, points
from pbcore.base.registry import Registry
from pbcore.cli.commands import ADDED, GROUPS
from pbcore.grid.option import OPTION_GROUPS, OptionGroup, options_of
from pbcore.grid.settings import OPTIONS, Settings

FOLDER = Path(extensions.__file__).parents[1] / "extras"
NAMED = re.compile(r"pbcore[./]extras[./]\w")
ADDITIONS = [
    (group, name)
    for table in neighbours().values()
    for group, entries in table.items()
    for name in entries
]


def test_every_folder_is_a_neighbour() -> None:
    """Those that are here; none where the folder was left out."""
    here = {path.name for path in FOLDER.glob("*/") if (path / "__init__.py").is_file()}
    assert set(neighbours()) == here
    assert bool(find_spec(HOME)) or not here


def test_no_two_add_the_same_name() -> None:
    """Else one of them would be lost."""
    assert len(ADDITIONS) == len(set(ADDITIONS))


@pytest.mark.parametrize(("group", "name"), ADDITIONS)
def test_what_is_added_is_there(group: str, name: str) -> None:
    """Every object that a table names can be imported."""
    [point] = [point for point in points(group) if point.name == name]
    assert point.load() is not None


def test_a_registry_holds_installed_packages_and_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By name, whichever of the two added it."""
    table = {"mine": {"shapes.mine": {"b": "math:pi"}}}
    monkeypatch.setattr(extensions, "neighbours", lambda: table)
    installed = EntryPoints([EntryPoint("a", "math:e", "shapes.mine")])
    monkeypatch.setattr(extensions, "installed", lambda: installed)
    assert Registry[float]("shape", "shapes.mine").all() == {"a": math.e, "b": math.pi}


def test_the_core_names_no_neighbour() -> None:
    """Neither in an import nor in a text: none but the scan knows the folder, and the module that
    stands for the command `python -m pbcore.train`.
    """
    home = FOLDER.parent
    others = [file for file in home.rglob("*.py") if FOLDER not in file.parents]
    naming = {
        file.relative_to(home).as_posix()
        for file in others
        if NAMED.search(file.read_text(encoding="utf-8"))
    }
    assert naming == {"train.py"}


def test_the_core_names_no_command_or_option_of_a_neighbour() -> None:
    """`--models`, which also takes checkpoints, is read by the core."""
    words = [f"pbcore {name}" for name in ADDED.all()] + ["pbcore.train"]
    words += [
        f"--{option.name}"
        for group in OPTION_GROUPS.all().values()
        for option in options_of(group)
        if option.name != "models"
    ]
    named = re.compile(rf"(?<!from )({'|'.join(map(re.escape, words))})(?![\w-])")
    home = FOLDER.parent
    naming = {
        file.relative_to(home).as_posix(): found[0]
        for file in home.rglob("*.py")
        if FOLDER not in file.parents and (found := named.search(file.read_text(encoding="utf-8")))
    }
    assert naming.keys() == {"train.py"}, naming


def test_options_have_names_of_their_own() -> None:
    """No two options are called alike, and those of a neighbour are read by their class."""
    names = [option.field for option in OPTIONS]
    assert len(names) == len(set(names))
    for group in Settings().parts:
        assert isinstance(group, OptionGroup)
        assert Settings().part(type(group)) == group


def test_an_unknown_option_is_refused() -> None:
    """As a misspelt argument is."""
    with pytest.raises(TypeError, match="no_such_option"):
        Settings.of(no_such_option=1)


def test_commands_are_there() -> None:
    """In a group of `pbcore --help`, with a line of help and a module that can be run."""
    for command in ADDED.all().values():
        assert isinstance(command, Command)
        assert command.group in GROUPS
        assert command.line
        parts = [f"{command.module}_{part}" for part in command.parts]
        for module in parts or [command.module]:
            assert callable(import_module(module).run)


def test_reading_the_declarations_imports_nothing_else() -> None:
    """Neither torch nor pandas, nor the packages that neighbours are for."""
    code = (
        "import sys; from pbcore.base.extensions import neighbours; neighbours();"
        "print(sorted({m.partition('.')[0] for m in sys.modules}"
        " & {'torch', 'pandas', 'ray', 'lm_eval', 'openai', 'anthropic', 'yaml', 'pytest'}))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "[]"
