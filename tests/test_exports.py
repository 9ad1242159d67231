"""What a module says it exports is there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import pbcore

PACKAGE = Path(pbcore.__file__).parent
EXPORTING = [
    file.relative_to(PACKAGE.parent)
    for file in PACKAGE.rglob("*.py")
    if "\n__all__ = " in file.read_text()
]


@pytest.mark.parametrize("name", sorted(".".join(file.with_suffix("").parts) for file in EXPORTING))
def test_all_names_exist(name: str) -> None:
    """`from pbcore import *` finds every name of `__all__`."""
    module = import_module(name.removesuffix(".__init__"))
    assert module.__all__
    assert [export for export in module.__all__ if not hasattr(module, export)] == []
