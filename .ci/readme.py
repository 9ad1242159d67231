"""The README of the package: its relative links and pictures lead to the project's address.

A build hook of hatchling (`tool.hatch.metadata.hooks` in pyproject.toml). The address is
`project.urls.Homepage`, so that is the one to change when the project moves.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?://|#)([^)\s]+)\)")


def absolute(text: str, address: str) -> str:
    """The text with absolute links.

    Args:
        text: Markdown with links relative to the repository's root.
        address: the repository's, without a slash at its end.
    """

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        kind = "raw" if picture else "blob"
        return f"{picture}{label}({address}/{kind}/main/{target})"

    return LINK.sub(link, text)


class Readme(MetadataHookInterface):
    """Gives the package its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata["urls"]["Homepage"].rstrip("/")
        text = absolute(readme, address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
