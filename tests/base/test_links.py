"""Links into the repository lead to a file and a heading: in docs, README, CHANGELOG, CONTRIBUTING,
docstrings.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / "docs").rglob("*.md"),
]
CODE = [
    file
    for folder in ("pbcore", "benches", "fixtures", "tests")
    for file in (ROOT / folder).rglob("*.py")
]
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
# What docstrings cite without a link: pages of docs/, and files with a name in capitals.
CITED = re.compile(r"\b(docs/[\w./-]+\.\w+|[A-Z][A-Z0-9_]+\.md)\b")
LINKED = re.compile(r"\]\(([\w./-]+\.\w+(?:#[\w-]+)?|#[\w-]+)\)")  # no formulas
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]+`")


def repository_urls(project: dict[str, dict[str, str]]) -> list[str]:
    """Where the files of the repository are on the web, if pyproject.toml says so."""
    urls = [url.rstrip("/").removesuffix(".git") for url in project.get("urls", {}).values()]
    hubs = [url for url in urls if re.fullmatch(r"https://[^/]+/[^/]+/[^/]+", url)]
    return hubs + [
        url.replace("https://github.com/", "https://raw.githubusercontent.com/") for url in hubs
    ]


URLS = repository_urls(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """All anchors of a page; a heading that comes again has a number."""
    found: list[str] = []
    for heading in re.findall(
        r"^#+ +(.+?)\s*#*$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    ):
        name = slug(heading)
        times = sum(
            one == name or re.fullmatch(re.escape(name) + r"-\d+", one) is not None for one in found
        )
        found.append(f"{name}-{times}" if times else name)
    return set(found)


def broken(target: str, page: Path, urls: list[str] = URLS) -> str | None:
    """Why a link on a page leads nowhere; None if it leads to a file, or out of the repository."""
    path, _, anchor = target.partition("#")
    own = next((url for url in urls if path.startswith(f"{url}/")), None)
    if own is not None:
        rest = path.removeprefix(f"{own}/").split("/")
        if rest[0] in ("blob", "tree", "raw"):
            rest = rest[1:]
        elif "raw.githubusercontent" not in own:
            return None  # issues, releases …
        file = ROOT.joinpath(*rest[1:])  # after the branch
    elif re.match(r"[a-z][a-z+.-]*:", path):
        return None
    else:
        file = page.parent / path if path else page
    if not file.exists():
        return f"{target}: no file {file}"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"{target}: no heading #{anchor} in {file}"
    return None


def docstrings(file: Path) -> Iterator[str]:
    """Those of a file that cites or links anything at all; the others take long to parse."""
    source = file.read_text(encoding="utf-8")
    if not CITED.search(source) and not LINKED.search(source):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page(page: Path) -> None:
    """Relative ones, and absolute ones into the project's own repository."""
    text = CODE_SPAN.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    assert [why for target in LINK.findall(text) if (why := broken(target, page))] == []


def test_docstrings() -> None:
    """A page or document that a docstring cites, or links to, is in the repository."""
    lost = []
    for file in CODE:
        for text in docstrings(file):
            cited = [name for name in CITED.findall(text) if not (ROOT / name).exists()]
            targets = LINKED.findall(CODE_SPAN.sub("", text))
            linked = [why for target in targets if (why := broken(target, ROOT / "x"))]
            lost += [f"{file.relative_to(ROOT)}: {one}" for one in cited + linked]
    assert lost == []


def test_messages_cite_pages_that_exist() -> None:
    """Any mention of docs/… in the package's source."""
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "pbcore").rglob("*.py")}
    lost = [
        f"{file.relative_to(ROOT)}: {name}"
        for file, text in texts.items()
        for name in re.findall(r"\bdocs/[\w-]+\.md", text)
        if not (ROOT / name).exists()
    ]
    assert lost == []


class TestBroken:
    def test_relative(self) -> None:
        """A file or a heading that isn't there is told, others pass."""
        page = ROOT / "docs" / "options.md"
        assert broken("theory.md#bits", page) is None
        assert broken("#resuming", page) is None
        assert broken("https://example.org/x.md", page) is None
        assert "no file" in (broken("../pbcore/plugin/data/profiles.yaml", page) or "")
        assert "no heading #nowhere" in (broken("theory.md#nowhere", page) or "")

    def test_absolute_into_the_repository(self) -> None:
        """As package indexes need them: the file must be there."""
        urls = repository_urls({"urls": {"Repository": "https://github.com/someone/pbcore.git"}})
        start = "https://github.com/someone/pbcore"
        assert broken(f"{start}/blob/main/docs/theory.md#bits", ROOT / "README.md", urls) is None
        assert "no file" in (
            broken(f"{start}/blob/main/docs/gone.md", ROOT / "README.md", urls) or ""
        )
        assert broken(f"{start}/issues/3", ROOT / "README.md", urls) is None
        raw = "https://raw.githubusercontent.com/someone/pbcore/main/docs"
        assert broken(f"{raw}/frontier.png", ROOT / "README.md", urls) is None
        assert "no file" in (broken(f"{raw}/gone.png", ROOT / "README.md", urls) or "")
