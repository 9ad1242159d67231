"""What integrations declare, and what the core reads of them, with or without their folder."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import pytest

from pbcore.base import extensions
from pbcore.base.extensions import HOME, Integration, integrations, named, provided
from pbcore.cli.commands import GROUPS
from pbcore.grid.option import OptionGroup
from pbcore.grid.settings import OPTIONS, Settings

FOLDER = Path(extensions.__file__).parents[1] / "extras"
OBJECTS = [name for name, kind in get_type_hints(Integration).items() if kind == str | None]


def test_every_folder_is_an_integration() -> None:
    """Those that are here; none where the folder was left out."""
    here = {path.name for path in FOLDER.glob("*/") if (path / "__init__.py").is_file()}
    assert set(integrations()) == here
    assert bool(find_spec(HOME)) or not here


def test_there_are_objects() -> None:
    """Else the next test would have no case."""
    assert "options" in OBJECTS


@pytest.mark.parametrize("what", OBJECTS)
def test_what_is_declared_is_there(what: str) -> None:
    """Every object that a declaration names can be imported."""
    assert len(provided(what)) == sum(
        getattr(one, what) is not None for one in integrations().values()
    )


def test_options_have_names_of_their_own() -> None:
    """No two options are called alike, and those of an integration are read by their class."""
    names = [option.field for option in OPTIONS]
    assert len(names) == len(set(names))
    for group in Settings().parts:
        assert isinstance(group, OptionGroup)
        assert Settings().part(type(group)) == group


def test_an_unknown_option_is_refused() -> None:
    """As a misspelt argument is."""
    with pytest.raises(TypeError, match="no_such_option"):
        Settings.of(no_such_option=1)


def test_commands_and_plugins_are_there() -> None:
    """Their modules, and what the command line calls in them."""
    for one in integrations().values():
        for group, module, line in one.commands.values():
            assert group in GROUPS
            assert callable(named(f"{module}:run"))
            assert line
        assert all(find_spec(plugin) for plugin in one.plugins)


def test_reading_the_declarations_imports_nothing_else() -> None:
    """Neither torch nor pandas, nor the packages that integrations are for."""
    code = (
        "import sys; from pbcore.base.extensions import integrations; integrations();"
        "print(sorted({m.partition('.')[0] for m in sys.modules}"
        " & {'torch', 'pandas', 'ray', 'lm_eval', 'openai', 'anthropic', 'yaml', 'pytest'}))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "[]"
