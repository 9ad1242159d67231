"""What the site's pages need beside their Markdown: links that lead out of docs/, to files of the
repository, lead to the project's address, or name the file where it has none; tables of samplers
have room for their rules.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
URLS = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"].get("urls", {})
ADDRESS = URLS.get("Homepage", "").rstrip("/")
OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((\.\./(?:pbcore|tests|benches|reports|\.github)/[^)]+"
    r"|\.\./[A-Z]+\.md[^)]*|examples)\)"
)


def leading_out(markdown: str, address: str) -> str:
    """A page of docs/ whose links to other files of the repository work on the site.

    Args:
        markdown: the page.
        address: the repository's, without a slash at its end; may be empty.
    """

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        path = target.removeprefix("../") if target.startswith("../") else f"docs/{target}"
        if address:
            return f"[{label}]({address}/blob/main/{path})"
        return label if label == path else f"{label} ({path})"

    return OUTSIDE.sub(link, markdown)


def on_config(config: Any, **_: Any) -> Any:
    """The menu ends with the repository."""
    if ADDRESS:
        config.nav.append({"Source": ADDRESS})
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links that lead out of docs/; the notebook is a page."""
    return leading_out(markdown.replace("](notebook.ipynb)", "](in-ten-cells.md)"), ADDRESS)


def on_page_content(html: str, **_: Any) -> str:
    """The columns of sentences in tables of samplers are as wide as these need."""
    for head, width in (("rule", 18), ("parameters", 9)):
        wide = f'<th style="min-width: {width}rem">{head}</th>'
        html = re.sub(rf"<th[^>]*>{head}</th>", wide, html)
    return html
