"""Small pieces of text that several reports share."""

from __future__ import annotations

from collections.abc import Sequence


def listed(lines: Sequence[str], limit: int = 8, what: str = "") -> list[str]:
    """At most `limit` of the lines, then how many more there are (`what` of)."""
    more = len(lines) - limit
    return [*lines[:limit], *([f"  … and {more} more{what}"] if more > 0 else [])]
