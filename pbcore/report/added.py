"""Parts of `pbcore report` that neighbours add, with options of their own."""

import argparse
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pbcore.base.registry import Registry
from pbcore.report.rows import CellRow


class AddedText(NamedTuple):
    """A part on the terminal and in report.md; `same`: the run's name of a model → another one,
    over whose points the page draws it.
    """

    terminal: str
    markdown: str
    same: Mapping[str, str]


class AddedPart(Protocol):
    """A part that a neighbour adds (group `pbcore.report_parts`)."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its options."""

    def text(self, args: argparse.Namespace, cells: Sequence[CellRow]) -> AddedText | None:
        """What it says of cells; None where these options don't ask for it. Raises InputError."""


PARTS: Registry[AddedPart] = Registry("part of a report", "pbcore.report_parts")
