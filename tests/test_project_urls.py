"""The project's address: one entry of the package's metadata turns links on, and without it nothing
names one.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import tomllib
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest

from pbcore.base import links
from pbcore.base.links import docs
from pbcore.report.page.write import write_page
from pbcore.results.rundir import create
from tests.results import factory

ROOT = Path(__file__).resolve().parents[1]
FILES = [file for file in (ROOT / "pbcore").rglob("*.py") if file.name != "links.py"]
PAGE = re.compile(r"(?<![\w/])docs/[\w-]+\.md")
# Words about the repository itself, for those who work in it.
TABLES = {"print the table of docs/samplers.md", "print the table of families in docs/models.md"}
RAW = "raw.githubusercontent"
ADDRESS = "https://code.example.org/group/pbcore"
# A code host's page of a project named pbcore, or an address below it.
HOSTED = re.compile(r"https?://[\w.-]+/[\w.-]+/pbcore(?![\w-])")
EXAMPLES = {
    ADDRESS,
    *(f"https://{host}.com/someone/pbcore" for host in ("github", RAW)),
}  # of tests


def homepage() -> str:
    """The address in pyproject.toml, if it names one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Homepage", "")).rstrip("/")


def script(path: str) -> ModuleType:
    """A script of .ci/ as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / ".ci" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(monkeypatch: pytest.MonkeyPatch, urls: dict[str, str]) -> None:
    """The package's metadata has these addresses."""
    message = Message()
    for label, url in urls.items():
        message["Project-URL"] = f"{label}, {url}"
    monkeypatch.setattr(links, "metadata", lambda name: message)


@pytest.fixture(autouse=True)
def _read_again() -> Iterator[None]:
    """Each test reads the metadata itself."""
    links.project.cache_clear()
    yield
    links.project.cache_clear()


class TestDocs:
    def test_the_address_turns_links_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        named(monkeypatch, {"Issues": f"{ADDRESS}/issues", "Homepage": f"{ADDRESS}/"})
        assert docs("servers.md") == f"{ADDRESS}/blob/main/docs/servers.md"

    @pytest.mark.parametrize("urls", [{}, {"Issues": f"{ADDRESS}/issues"}])
    def test_without_it_a_page_has_its_name(
        self, monkeypatch: pytest.MonkeyPatch, urls: dict[str, str]
    ) -> None:
        named(monkeypatch, urls)
        assert docs("servers.md") == "docs/servers.md"

    def test_without_metadata(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A copy that isn't installed names pages of its own folder."""

        def missing(name: str) -> None:
            raise PackageNotFoundError(name)

        monkeypatch.setattr(links, "metadata", missing)
        assert docs("servers.md") == "docs/servers.md"

    def test_the_page_of_a_run(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """It links to its documentation where there is an address, and names it elsewhere."""
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        named(monkeypatch, {"Homepage": ADDRESS})
        link = f'<a href="{ADDRESS}/blob/main/docs/results.md"'
        assert link in write_page(run.path).read_text("utf-8")
        links.project.cache_clear()
        named(monkeypatch, {})
        page = write_page(run.path).read_text("utf-8")
        assert "<code>docs/results.md</code>" in page
        assert ADDRESS not in page


class TestAddresses:
    def test_no_other_stands_anywhere(self) -> None:
        """An address that is nobody's could be registered by anyone."""
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if listed.returncode:
            pytest.skip("not a clone: git lists no files")
        known = {homepage(), *EXAMPLES}
        wrong = []
        for name in listed.stdout.split("\0"):
            if not (ROOT / name).is_file():
                continue  # deleted in the working tree
            text = (ROOT / name).read_bytes().decode("utf-8", "replace")
            wrong += [f"{name}: {url}" for url in HOSTED.findall(text) if url not in known]
        assert wrong == []

    def test_links_of_the_readme_are_relative(self) -> None:
        """A code host shows pictures and pages of the repository, wherever it is published."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        assert len(re.findall(r"\]\(docs/", text)) > 5
        assert "githubusercontent" not in text


class TestElsewhere:
    """Where a text is read without the files beside it."""

    TEXT = "![a](docs/a.png) [b](docs/b.md#c) [`docs/d.md`](docs/d.md) [e](https://e.org) [f](#f)"

    @pytest.mark.parametrize(
        ("address", "read"),
        [
            (
                "https://x/y",
                "![a](https://x/y/raw/main/docs/a.png) [b](https://x/y/blob/main/docs/b.md#c)"
                " [`docs/d.md`](https://x/y/blob/main/docs/d.md) [e](https://e.org) [f](#f)",
            ),
            ("", "a (docs/a.png) b (docs/b.md#c) `docs/d.md` [e](https://e.org) [f](#f)"),
        ],
    )
    def test_the_packages_readme(self, address: str, read: str) -> None:
        assert script("readme.py").absolute(self.TEXT, address) == read

    @pytest.mark.parametrize(
        ("address", "read"),
        [
            (
                "https://x/y",
                "[jars](https://x/y/blob/main/pbcore/j.txt)"
                " [.github](https://x/y/blob/main/.github/w)"
                " [ready](https://x/y/blob/main/docs/examples) [gate.sh](examples/gate.sh)"
                " [b](b.md)",
            ),
            (
                "",
                "jars (pbcore/j.txt) .github (.github/w) ready (docs/examples)"
                " [gate.sh](examples/gate.sh) [b](b.md)",
            ),
        ],
    )
    def test_the_site(self, address: str, read: str) -> None:
        """Links out of docs/ follow the address; those within docs/ stay."""
        text = (
            "[jars](../pbcore/j.txt) [.github](../.github/w) [ready](examples)"
            " [gate.sh](examples/gate.sh) [b](b.md)"
        )
        assert script("site/links.py").leading_out(text, address) == read


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
