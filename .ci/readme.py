"""The README of the package, which is read without the files beside it: its relative links lead to
the project's address, or name their file where the project has none.

A build hook of hatchling (`tool.hatch.metadata.hooks` in pyproject.toml). The address is
`project.urls.Homepage`, the one place that turns links on.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def absolute(text: str, address: str) -> str:
    """The text with absolute links; without an address, with the files' names in their place.

    Args:
        text: Markdown with links relative to the repository's root.
        address: the repository's, without a slash at its end; may be empty.
    """

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        kind = "raw" if picture else "blob"
        if address:
            return f"{picture}[{label}]({address}/{kind}/main/{target})"
        return label if label.strip("`") == target else f"{label} ({target})"

    return LINK.sub(link, text)


class Readme(MetadataHookInterface):
    """Gives the package its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Homepage", "").rstrip("/")
        text = absolute(readme, address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
