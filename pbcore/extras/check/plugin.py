"""The cases of `pbcore check engine` as pytest items: `pytest DIR/llada --check-engine FILE.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXPECTED = "expected.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pbcore-engine", "pbcore: checking an engine")
    group.addoption(
        "--check-engine",
        metavar="NAME",
        help="check an engine on made checkpoints: FILE.py, module:function, pbcore, or a row of"
        " --models",
    )
    group.addoption(
        "--engine-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="of a case of --check-engine (60)",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """The material of a made checkpoint, if an engine is to be checked."""
    if file_path.name != EXPECTED or parent.config.getoption("--check-engine") is None:
        return None
    return EngineFile.from_parent(parent, path=file_path)


class EngineFile(pytest.File):
    """An `expected.json`, whose engine runs in one process for all of its cases."""

    engine: Any = None

    def collect(self) -> Iterator[pytest.Item]:
        """An item per case, named like it: `engine/llada/threshold-0.9+b8/batch`."""
        from pbcore.extras.check.engine.material import read_material
        from pbcore.extras.check.engine.run import Checker
        from pbcore.extras.check.engine.source import engine_of
        from pbcore.plugin.state import settings

        options = self.config.option
        settings(self.config)  # those of --models
        material = read_material(self.path.parent)
        folder = self.path.parent
        self.engine = engine_of(options.check_engine, options.engine_timeout, material, folder)
        checker = Checker(self.path.parent, material, self.engine)
        for case in material.cases:
            yield EngineCase.from_parent(self, name=case.id, case=case, checker=checker)

    def teardown(self) -> None:
        """Ends the engine's process."""
        self.engine.close()


class EngineFault(Exception):
    """An engine's answers that aren't the expected ones, in a line."""


class EngineCase(pytest.Item):
    """A case: passed where all is equal, skipped where the engine doesn't have the setting."""

    def __init__(self, *, case: Any, checker: Any, **more: Any) -> None:
        super().__init__(**more)
        self._case = case
        self._checker = checker

    def runtest(self) -> None:
        from pbcore.extras.check.engine.report import line

        result = self._checker.result(self._case)
        self.user_properties.append(("diagnosis", ", ".join(result.diagnosis)))
        if result.verdict == "not tried":
            pytest.skip(result.text)
        if result.verdict != "equal":
            raise EngineFault(line(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, EngineFault):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name
