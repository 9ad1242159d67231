"""The engine of docs/examples in this process, right or wrong."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from pbcore.extras.check.engine.setting import Setting

FILE = Path(__file__).parents[4] / "docs" / "examples" / "engine" / "engine.py"


def example(file: Path = FILE, name: str = "plain_engine") -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = example()


def example_server() -> Any:
    """The module of the example's server, which decodes with the engine of this process."""
    before = sys.modules.get("engine")
    sys.modules["engine"] = MODULE
    try:
        return example(FILE.with_name("server.py"), "plain_server")
    finally:
        del sys.modules["engine"]
        if before is not None:
            sys.modules["engine"] = before


def wrong(name: str) -> AbstractContextManager[None]:
    """The engine with a deviation."""
    return _engine_with("WRONG", name)


def dtype(kind: Any) -> AbstractContextManager[None]:
    """The engine in another dtype."""
    return _engine_with("DTYPE", kind)


@contextmanager
def _engine_with(constant: str, value: Any) -> Iterator[None]:
    """The engine with another value of one of its constants, by which it loads."""
    before = getattr(MODULE, constant)
    setattr(MODULE, constant, value)
    MODULE.load.cache_clear()
    try:
        yield
    finally:
        setattr(MODULE, constant, before)
        MODULE.load.cache_clear()


class Plain:
    """In the place of an engine in a process of its own."""

    def answer(self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: Setting) -> Any:
        """The example's answers."""
        return MODULE.generate(str(checkpoint), [list(ids) for ids in prompts], setting)

    def close(self) -> None:
        """Nothing was begun."""
