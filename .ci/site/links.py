"""What the site's pages need beside their Markdown: links that lead out of docs/, to files of the
repository, lead to GitHub; tables of samplers have room for their rules.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
URLS = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["urls"]
HOME = f"{URLS['Homepage'].rstrip('/')}/blob/main"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Absolute links to pages of docs/ become links within the site; relative ones out of it become
    absolute.
    """
    depth = page.file.src_uri.count("/")
    inside = re.sub(
        rf"\]\({HOME}/docs/([\w./-]+\.md(#[\w-]+)?)\)", "](" + "../" * depth + r"\1)", markdown
    )
    inside = inside.replace("](examples)", f"]({HOME.replace('blob', 'tree')}/docs/examples)")
    outside = r"\]\(\.\./((?:pbcore|tests|benches|reports|\.github)/[^)]+|[A-Z]+\.md[^)]*)\)"
    return re.sub(outside, rf"]({HOME}/\1)", inside)


def on_page_content(html: str, **_: Any) -> str:
    """The columns of sentences in tables of samplers are as wide as these need."""
    for head, width in (("rule", 18), ("state", 10), ("parameters", 9)):
        wide = f'<th style="min-width: {width}rem">{head}</th>'
        html = re.sub(rf"<th[^>]*>{head}</th>", wide, html)
    return html
