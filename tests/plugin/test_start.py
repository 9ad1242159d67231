"""What is imported, and when: a start loads what it uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("hypothesis", "torch", "transformers", "tokenizers", "pandas", "scipy", "matplotlib")


def imported(code: str) -> list[str]:
    """Which of the heavy packages a fresh process has imported after some code, from the
    repository's folder.
    """
    code = f"import sys\n{code}\nprint('\\n', *[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("from pbcore.cli import main; main(['list', 'samplers'])", []),
        (
            (
                "import pbcore.report; from pbcore.analysis import oracle, order; import"
                " pbcore.analysis.floors"
            ),
            [],
        ),
        ("import pbcore; pbcore.analysis.pbx([(1, 90)], 80)", []),
        ("import pbcore.analysis.run_verdict, pbcore.report.rerun", ["scipy"]),
    ],
)
def test_an_import_takes_what_it_uses(code: str, heavy: list[str]) -> None:
    """Samplers are listed without torch, and a curve's number is worked out without pandas; a
    verdict takes scipy alone.
    """
    assert imported(code) == heavy


def test_cells_are_collected_without_torch() -> None:
    """Listing the cells imports no library for models, tables or plots, nor the engine's
    benchmarks, nor hypothesis, which tests alone use.
    """
    code = "import pytest; assert pytest.main(['benches', '--co', '-q', '-n', '0']) == 0"
    assert imported(code) == []


@pytest.mark.parametrize(
    ("arguments", "gone"), [(["benches"], True), (["benches/test_x.py::test_cell", "tests"], False)]
)
def test_hypothesis_sums_up_its_own_tests(
    arguments: list[str], gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside tests of other folders, which workers may run, its plugin stays."""
    from benches.conftest import pytest_sessionfinish

    manager = pytest.PytestPluginManager()
    manager.register(object(), "hypothesispytest")
    config = SimpleNamespace(
        args=arguments, invocation_params=SimpleNamespace(dir=ROOT), pluginmanager=manager
    )
    monkeypatch.delitem(sys.modules, "hypothesis", raising=False)
    pytest_sessionfinish(SimpleNamespace(config=config))  # type: ignore[arg-type]
    assert manager.hasplugin("hypothesispytest") is not gone


def test_the_engines_benchmarks_can_be_named() -> None:
    """A mark expression that selects them, or a file of theirs, finds them."""
    from benches.conftest import pytest_ignore_collect

    class Config:
        def __init__(self, markexpr: str) -> None:
            self.option = self
            self.markexpr = markexpr

    file = ROOT / "benches" / "test_engine_speed.py"
    assert pytest_ignore_collect(file, Config("not speed and not nightly"))  # type: ignore[arg-type]
    assert not pytest_ignore_collect(file, Config("speed"))  # type: ignore[arg-type]
    stock = ROOT / "benches" / "test_waiting_line.py"
    assert not pytest_ignore_collect(stock, Config("not speed and not nightly"))  # type: ignore[arg-type]
