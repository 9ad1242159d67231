"""What is read outside the repository (the README on a package index, messages of a wheel) links to
the web.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from pbcore.links import PROJECT, docs

ROOT = Path(__file__).resolve().parents[1]
FILES = [file for file in (ROOT / "pbcore").rglob("*.py") if file.name != "links.py"]
PAGE = re.compile(r"(?<![\w/])docs/[\w-]+\.md")
# Words about the repository itself, for those who work in it.
TABLES = {"print the table of docs/samplers.md", "print the table of families in docs/models.md"}


def test_one_address() -> None:
    """The constant of the code is the metadata's, and a page's address leads to its file."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Homepage"] == PROJECT
    assert all(url == PROJECT or url.startswith(f"{PROJECT}/") for url in urls.values())
    assert docs("servers.md") == f"{PROJECT}/blob/main/docs/servers.md"


def test_the_readme_has_no_relative_link() -> None:
    """A package index shows it without the files beside it."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []


def texts(file: Path) -> list[str]:
    """A module's texts, pieces of f-strings included, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in docstrings
    )
    return [node.value for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_messages_name_the_web(file: Path) -> None:
    """The wheel has no docs folder, so no message sends its reader there."""
    assert [text for text in texts(file) if PAGE.search(text) and text not in TABLES] == []


def test_pages_that_code_names_exist() -> None:
    named = {
        page
        for file in FILES
        for page in re.findall(r"docs\(['\"]([^'\"]+)['\"]\)", file.read_text())
    }
    assert len(named) >= 5
    assert [page for page in sorted(named) if not (ROOT / "docs" / page).is_file()] == []
