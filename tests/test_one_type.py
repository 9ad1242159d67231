"""A type's name means one thing in the whole package."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "pbcore"


def _types(file: Path) -> Iterator[str]:
    """The public names of a module that stand for types: classes, and aliases, which are written
    like them. A type variable stands for any.
    """
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                continue
            case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                if name[0].isupper() and not name.isupper():
                    yield name


def test_one_word_names_one_type() -> None:
    """No two modules define a public type of the same name."""
    files: dict[str, list[str]] = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        for name in _types(file):
            files[name].append(str(file.relative_to(PACKAGE)))
    assert len(files) > 500
    assert {name: places for name, places in files.items() if len(places) > 1} == {}
