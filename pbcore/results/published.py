"""Published results in our columns, in files that neighbours read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pbcore.base.registry import Registry

if TYPE_CHECKING:
    import pandas as pd


class PublishedSource(Protocol):
    """Published results (group `pbcore.published`), a row per model, sampler and task in the
    columns of `results.load`.
    """

    def read(self, path: Path) -> pd.DataFrame | None:
        """The rows of a file or folder; None where it holds no known kind. Raises LoadError."""


SOURCES: Registry[PublishedSource] = Registry("source of published results", "pbcore.published")


def read_published(path: Path) -> pd.DataFrame | None:
    """Rows of published results at `path`; None if no source knows what it holds. Raises
    LoadError.
    """
    for source in SOURCES.all().values():
        rows = source.read(path)
        if rows is not None:
            return rows
    return None
