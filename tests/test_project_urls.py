"""What is read outside the repository (the README on a package index, messages of a wheel) links to
the web.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pbcore import links
from pbcore.links import docs, project

ROOT = Path(__file__).resolve().parents[1]
FILES = [file for file in (ROOT / "pbcore").rglob("*.py") if file.name != "links.py"]
PAGE = re.compile(r"(?<![\w/])docs/[\w-]+\.md")
# Words about the repository itself, for those who work in it.
TABLES = {"print the table of docs/samplers.md", "print the table of families in docs/models.md"}


def urls() -> dict[str, str]:
    """The addresses in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["urls"]


def test_one_address() -> None:
    """The package's address is the metadata's, and a page's address leads to its file."""
    address = urls()["Homepage"]
    assert project() == address
    assert all(url == address or url.startswith(f"{address}/") for url in urls().values())
    assert docs("servers.md") == f"{address}/blob/main/docs/servers.md"


def test_the_site_takes_the_address_from_there() -> None:
    """Pages of the site that lead out of docs/ follow the project when it moves; no file of the
    documentation names an address of its own.
    """
    path = ROOT / ".ci" / "site" / "links.py"
    spec = importlib.util.spec_from_file_location("site_links", path)
    assert spec is not None
    assert spec.loader is not None
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    assert f"{urls()['Homepage']}/blob/main" == site.HOME
    named = [*(ROOT / ".ci").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    without_scheme = urls()["Homepage"].removeprefix("https://")
    assert [file.name for file in named if without_scheme in file.read_text("utf-8")] == []


CITED = (
    "CITATION.cff",
    ".github/ISSUE_TEMPLATE/config.yml",
    "mkdocs.yml",
    "pbcore/models/tiny/README.md",
)


@pytest.mark.parametrize("name", CITED)
def test_a_citation_names_the_same_address(name: str) -> None:
    """Files whose addresses can't be relative are compared."""
    address = urls()["Homepage"]
    linked = re.findall(r"https://github\.com/[\w./-]+", (ROOT / name).read_text("utf-8"))
    assert [url for url in linked if not f"{url}/".startswith(f"{address}/")] == []


def test_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that isn't installed names pages of its own folder."""

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(links, "metadata", missing)
    links.project.cache_clear()
    try:
        assert docs("servers.md") == "docs/servers.md"
    finally:
        links.project.cache_clear()


class TestReadme:
    def test_links_are_relative(self) -> None:
        """A code host shows pictures and pages of the repository, wherever it is published."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        assert urls()["Homepage"] not in text
        assert "githubusercontent" not in text

    def test_the_package_has_absolute_links(self) -> None:
        """A package index shows the README without the files beside it."""
        path = ROOT / ".ci" / "readme.py"
        spec = importlib.util.spec_from_file_location("readme_hook", path)
        assert spec is not None
        assert spec.loader is not None
        hook = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(hook)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        targets = re.findall(r"\]\(([^)]+)\)", hook.absolute(readme, urls()["Homepage"]))
        assert len(targets) > 5
        assert [target for target in targets if not target.startswith("https://")] == []
        text = hook.absolute("![a](docs/a.png) [b](docs/b.md#c) [d](https://e.org)", "https://x/y")
        assert text == (
            "![a](https://x/y/raw/main/docs/a.png) [b](https://x/y/blob/main/docs/b.md#c)"
            " [d](https://e.org)"
        )


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
