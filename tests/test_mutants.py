"""benches/mutants.py, without the package that changes the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches import mutants
from benches.mutants import Mutant, may_notice, runs_otherwise, tried


@pytest.mark.parametrize(
    ("changed", "otherwise"),
    [
        ("def f(x: int | None) -> int:\n    return x + 2\n", True),
        ("def f(x: int & None) -> int:\n    return x + 1\n", False),
        ("def f(x: int) -> int | str:\n    return x + 1\n", False),
        ("def f(x: int) -> int:\n    return x + \n", False),
    ],
    ids=["a number", "an argument's annotation", "the result's annotation", "no Python"],
)
def test_what_runs_otherwise(changed: str, otherwise: bool) -> None:
    """A mutant is a change that Python runs."""
    code = "def f(x: int | None) -> int:\n    return x + 1\n"
    assert runs_otherwise(code, changed) is otherwise


def test_the_may_notice_a_mutant() -> None:
    """Its own file's come first, then its room's, then those of rooms that import the module, by
    themselves or through its room; others don't.
    """
    own, first, *others = may_notice(Mutant("pbcore/theory/frontier.py", 1, "", 0))
    assert (own, first) == ("tests/theory/test_frontier.py", "tests/theory")
    assert "tests/analysis" in others
    assert "tests/tasks" not in others  # theory imports it


def test_a_mutant_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that notices it is named; one that none notices survives; the code is put back."""
    (tmp_path / "pbcore" / "a").mkdir(parents=True)
    code = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    (tmp_path / "pbcore/a/code.py").write_text(code)
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "pbcore/__init__.py").touch()
    test = "from pbcore.a.code import one\n\n\ndef test_one():\n    assert one() == 1\n"
    (tmp_path / "tests/a/test_code.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:pbcore\n")
    monkeypatch.setattr(mutants, "may_notice", lambda mutant: ["tests/a"])
    killed, survived = (
        tried(tmp_path, (Mutant("pbcore/a/code.py", 2, "", 0), code, changed), whole=False)
        for changed in (code.replace("return 1", "return 3"), code.replace("return 2", "return 3"))
    )
    assert (killed.was, killed.became) == ("return 1", "return 3")
    assert (killed.by, survived.by) == ("tests/a/test_code.py::test_one", "")
    assert (tmp_path / "pbcore/a/code.py").read_text() == code
