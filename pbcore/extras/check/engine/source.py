"""What answers cases: an engine of Python, or what a neighbour adds, such as a server."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from pbcore.base.registry import Registry
from pbcore.extras.check.engine.material import Material
from pbcore.extras.check.engine.process import Engine
from pbcore.extras.check.engine.setting import Setting


class AnyEngine(Protocol):
    """Decodes the prompts of a case."""

    def answer(self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: Setting) -> Any:
        """The answers of the folder's model to prompts, given as ids, decoded with a setting: what
        `judge.read_answers` takes. Raises NotImplementedError for a setting that it doesn't have;
        ModelError or TimeoutError where no answers came.
        """

    def close(self) -> None:
        """Ends what was begun for it."""


class EngineSource(Protocol):
    """Engines of another kind (group `pbcore.engines`)."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds options of `pbcore check engine`."""

    def instead(self, args: argparse.Namespace, made: Callable[[], Material]) -> int | None:
        """What these options ask for in the place of cases, done, and its exit status; None where
        they ask for cases. `made` reads the material of the folder. Raises InputError.
        """

    def asked(self, args: argparse.Namespace, material: Material, folder: Path) -> AnyEngine | None:
        """The engine that these options describe; None where they describe none. Raises
        InputError.
        """

    def named(
        self, name: str, timeout: float, material: Material, folder: Path
    ) -> AnyEngine | None:
        """The engine of a name; None for a name that isn't one of them. Raises InputError."""


SOURCES: Registry[EngineSource] = Registry("source of engines", "pbcore.engines")


def engine_of(name: str, timeout: float, material: Material, folder: Path) -> AnyEngine:
    """The engine of a name.

    Args:
        name: `FILE.py`, `module:function`, `pbcore`, or a name that a neighbour knows.
        timeout: seconds of a case.
        material: what it is checked with.
        folder: of the made checkpoint.

    Raises:
        InputError: for a name that is none.
    """
    for source in SOURCES.all().values():
        found = source.named(name, timeout, material, folder)
        if found is not None:
            return found
    return Engine(name, timeout)
