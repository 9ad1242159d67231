"""Digests of source code."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pbcore.base.source import source_digest, source_of
from pbcore.decoding.policies import policies
from pbcore.metrics.lists import ListScorer, permutation

HELPER = "def rule(items):\n    return sorted(items)\n"
MODULE = """
from dataclasses import dataclass
from functools import partial
from {package}helper import rule

LIMIT = 3

@dataclass(frozen=True)
class Mine:
    k: int = 2

    def select(self, step):
        return rule(step)[:LIMIT]

class Sub(Mine):
    pass

def make(size):
    def factory(**options):
        return size
    return factory
"""


def digests(folder: Path, *expressions: str, module: str = "mine") -> list[str]:
    """`source_of` of expressions over the module, in a process of their own, as a resumed run would
    compute it.
    """
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); from {module} import *; import {module}"
        " as module\n"
    )
    code += "from pbcore.base.source import source_of\n"
    code += "\n".join(f"print(source_of({expression}))" for expression in expressions)
    run = subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    return run.stdout.splitlines()


def digest(folder: Path, expression: str, module: str = "mine") -> str:
    """That of one expression."""
    [found] = digests(folder, expression, module=module)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "mine.py").write_text(MODULE.format(package=""))
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


class TestUserCode:
    """Code outside pbcore."""

    def test_changes_with_its_module(self, folder: Path) -> None:
        """A constant beside a class or function changes the digest; running again doesn't."""
        expressions = ["Mine", "Sub", "Mine(4)", "make", "make(3)", "partial(make, 3)"]
        expressions.append("Mine(1).select")
        before = digests(folder, *expressions)
        assert [len(one) for one in before] == [16] * 7
        assert digests(folder, *expressions) == before
        edit(folder / "mine.py", "LIMIT = 3", "LIMIT = 4")
        after = digests(folder, *expressions)
        pairs = zip(expressions, before, after, strict=True)
        assert [expression for expression, old, new in pairs if old == new] == []

    def test_values_count(self, folder: Path) -> None:
        """Fields of a dataclass instance and values bound to a function are part of the digest."""
        pairs = [
            ("Mine(1)", "Mine(2)"),
            ("make(3)", "make(4)"),
            ("partial(make, 3)", "partial(make, 4)"),
            ("Mine", "make(3)"),
        ]
        found = iter(digests(folder, *(expression for pair in pairs for expression in pair)))
        assert [pair for pair in pairs if next(found) == next(found)] == []

    def test_the_whole_package_counts(self, tmp_path: Path) -> None:
        """Within a package, a change of another module changes the digest."""
        package = tmp_path / "pack"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "helper.py").write_text(HELPER)
        (package / "mine.py").write_text(MODULE.format(package="pack."))
        before = digest(tmp_path, "Mine", "pack.mine")
        edit(package / "helper.py", "sorted(items)", "sorted(items)[::-1]")
        assert digest(tmp_path, "Mine", "pack.mine") != before

    def test_line_endings_do_not_count(self, folder: Path) -> None:
        """A checkout with other line endings has the same digest."""
        before = digest(folder, "Mine")
        file = folder / "mine.py"
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        assert digest(folder, "Mine") == before

    def test_a_declared_version_replaces_the_source(self, folder: Path) -> None:
        """With `version`, edits don't change the digest; a new version does. A subclass declares
        its own.
        """
        edit(folder / "mine.py", "    k: int = 2\n", "    k: int = 2\n    version = 1\n")
        before, sub = digests(folder, "Mine(4)", "Sub(4)")
        edit(folder / "mine.py", "LIMIT = 3", "LIMIT = 4")
        after, sub_after = digests(folder, "Mine(4)", "Sub(4)")
        assert after == before
        assert sub_after != sub
        edit(folder / "mine.py", "version = 1", "version = 2")
        assert digest(folder, "Mine(4)") != before

    def test_an_entry_point(self, folder: Path) -> None:
        """The code behind an entry point counts, without importing it."""
        point = "__import__('importlib.metadata').metadata.EntryPoint('a', 'helper:rule', 'g')"
        before = digest(folder, point)
        edit(folder / "helper.py", "sorted(items)", "sorted(items)[::-1]")
        assert digest(folder, point) not in ("", before)

    def test_code_without_a_file(self) -> None:
        """A class of an interactive session has the digest of its code."""
        one, same, other = ({"__name__": "console"} for _ in range(3))
        text = "class Mine:\n    def select(self, step):\n        return step.masked & {}\n"
        for namespace, value in ((one, "step.a"), (same, "step.a"), (other, "step.b")):
            exec(text.format(value), namespace)
        assert source_of(one["Mine"]) == source_of(same["Mine"])
        assert source_of(one["Mine"]) != source_of(other["Mine"])

    def test_a_function_that_refers_to_itself(self) -> None:
        """Recursion through a closure ends."""

        def outer() -> object:
            def inner(n: int) -> int:
                return inner(n - 1) if n else 0

            return inner

        assert len(source_of(outer())) == 16


class TestOwnCode:
    """pbcore's own code, which `code_version` covers."""

    def test_is_empty(self) -> None:
        """Built-in policies, functions and plain values have no digest."""
        own = [cls for cls in policies().values() if cls.__module__.startswith("pbcore.")]
        assert {
            source_of(value) for value in (*own, permutation, partial(permutation), None, "text")
        } == {""}

    def test_with_a_users_function(self) -> None:
        """A pbcore scorer with a user's function counts as the user's."""
        users = source_of(ListScorer(lambda sample: permutation(sample)))
        assert users not in ("", source_of(ListScorer(permutation)))

    def test_installed_packages(self) -> None:
        """An installed package counts by its version."""
        point = EntryPoint("a", "yaml:safe_load", "g")
        assert len(source_of(point)) == 16


class TestSourceDigest:
    """source_digest."""

    def test_of_files(self, tmp_path: Path) -> None:
        """An edit of a source file or its place changes the digest; line endings, other files and
        the root's place don't.
        """
        digests = []
        for number, (name, text) in enumerate(
            [
                ("a.py", b"a = 1\n"),
                ("a.py", b"a = 1\r\n"),
                ("a.py", b"a = 2\n"),
                ("b.py", b"a = 1\n"),
            ]
        ):
            root = tmp_path / str(number)
            root.mkdir()
            (root / name).write_bytes(text)
            (root / f"{number}.pyc").write_bytes(b"other")
            digests.append(source_digest({"pbcore.decoding": root}))
        assert digests[0] == digests[1]
        assert len(set(digests)) == 3
