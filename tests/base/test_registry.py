"""The registry of policies, models and scorers."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from pbcore.base import extensions
from pbcore.base.registry import Registry, hint


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Entry points of the group `test.things`, name → object reference; a test adds its own."""
    points: dict[str, str] = {}

    def found() -> EntryPoints:
        return EntryPoints(EntryPoint(name, value, "test.things") for name, value in points.items())

    monkeypatch.setattr(extensions, "installed", found)
    return points


@pytest.fixture
def things(installed: dict[str, str]) -> Registry[Any]:
    return Registry("thing", "test.things")


class TestRegister:
    """register."""

    def test_the_same_object_twice(self, things: Registry[Any]) -> None:
        """Registering an object again changes nothing."""
        value = object()
        things.register("a", value)
        things.register("a", value)
        assert things["a"] is value

    def test_another_object(self, things: Registry[Any]) -> None:
        """A taken name is refused, with the place of the object that has it."""
        things.register("a", int)
        with pytest.raises(
            ValueError,
            match=r"thing name 'a' is already taken by builtins.int; choose another name",
        ):
            things.register("a", str)
        assert things["a"] is int

    def test_a_class_defined_again(self, things: Registry[Any]) -> None:
        """A module that is imported a second time replaces its class; the registry then has the new
        one.
        """

        def define() -> type:
            class Mine:
                pass

            return Mine

        first = define()
        second = define()
        things.register("mine", first)
        things.register("mine", second)
        assert things["mine"] is second

    def test_check(self, installed: dict[str, str]) -> None:
        """What the check refuses is not registered."""

        def check(name: str, value: Any) -> None:
            if not callable(value):
                raise TypeError(f"{name} must be callable")

        things: Registry[Any] = Registry("thing", "test.things", check=check)
        with pytest.raises(TypeError, match="a must be callable"):
            things.register("a", 1)
        assert "a" not in things


class TestLookUp:
    """Look-ups by name."""

    def test_unknown_with_close_matches(self, things: Registry[Any]) -> None:
        """An unknown name is an error with the closest known names."""
        things.register("threshold", 1)
        things.register("random", 2)
        with pytest.raises(KeyError, match=r"unknown thing 'treshold'; did you mean threshold\?"):
            things["treshold"]

    def test_unknown_without_close_matches(self, things: Registry[Any]) -> None:
        """Without close matches the error lists all names."""
        things.register("b", 1)
        things.register("a", 2)
        with pytest.raises(KeyError, match=r"unknown thing 'xyz'; known: a, b\."):
            things["xyz"]

    def test_hint_of_other_types(self) -> None:
        """A name that is not a text has a hint as well."""
        assert hint(None, ["a"]) == "known: a."

    def test_builtins_are_loaded_at_the_first_look_up(self) -> None:
        """Importing tasks doesn't import the scorers; looking one up does."""
        code = (
            "import sys; from pbcore.tasks.scoring import scorer; first = 'pbcore.metrics' in"
            " sys.modules; print(first, type(scorer('sudoku')).__name__)"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == ["False", "JudgedScorer"]


class TestRestored:
    def test_additions_are_gone_afterwards(
        self, things: Registry[Any], installed: dict[str, str]
    ) -> None:
        """What was there stays, what came meanwhile goes."""
        things.register("before", int)
        with things.restored():
            things.register("meanwhile", float)
            assert set(things.all()) == {"before", "meanwhile"}
        assert dict(things.all()) == {"before": int}
        things.register("meanwhile", str)


class TestEntryPoints:
    """Objects of installed packages."""

    def test_found_by_the_name_of_the_entry_point(
        self, things: Registry[Any], installed: dict[str, str]
    ) -> None:
        """An entry point's object is found beside registered ones."""
        installed["decimal"] = "decimal:Decimal"
        things.register("own", int)
        assert [value.__name__ for value in things.all().values()] == ["Decimal", "int"]

    def test_registered_objects_come_first(
        self, things: Registry[Any], installed: dict[str, str]
    ) -> None:
        """A registered object has priority over an entry point of the same name, before and after a
        look-up.
        """
        installed["a"] = "decimal:Decimal"
        assert things["a"].__name__ == "Decimal"
        things.register("a", int)
        assert things["a"] is int

    def test_load(self, installed: dict[str, str]) -> None:
        """`load` replaces the import of an entry point, so that listing names imports nothing."""
        installed["missing"] = "no_such_module:thing"
        things: Registry[Any] = Registry("thing", "test.things", load=lambda point: point.value)
        assert things["missing"] == "no_such_module:thing"

    def test_check(self, installed: dict[str, str]) -> None:
        """An entry point's object is checked like a registered one."""
        installed["pi"] = "math:pi"

        def check(name: str, value: Any) -> None:
            if not callable(value):
                raise TypeError(f"{name} must be callable")

        with pytest.raises(TypeError, match="pi must be callable"):
            Registry("thing", "test.things", check=check).all()
