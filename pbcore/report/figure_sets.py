"""What `pbcore figures` draws: sets of figures, those of runs here and others by neighbours."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from pbcore.base.errors import InputError
from pbcore.base.registry import Registry

if TYPE_CHECKING:
    from pbcore.report.style import Drawing
    from pbcore.results.rundir import StoredCell


# An option and its field of the parsed arguments → the figures that it goes with.
Options = Mapping[tuple[str, str], Sequence[str]]


class FigureSet(Protocol):
    """Figures of one kind (group `pbcore.figures`): their names, and the options that not all
    figures take.
    """

    names: Sequence[str]
    options: Options

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of these figures."""

    def draw(self, args: argparse.Namespace) -> None:
        """Draws `args.which`, writes it to `args.out` and prints what it shows. Raises
        InputError.
        """


class OfRuns:
    """Curves, films and other figures of any runs."""

    names: Sequence[str] = ("curves", "length", "questions", "film")
    options: Options = MappingProxyType(
        {("--cell", "cell"): ("film",), ("--question", "question"): ("film",)}
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of the film."""
        add = parser.add_argument
        add("--cell", metavar="MODEL/TASK/SAMPLER", help="the only cell that film looks at")
        add("--question", type=int, metavar="N", help="the only question that film looks at")

    def draw(self, args: argparse.Namespace) -> None:
        """Draws one of them."""
        from pbcore.report.drawings import write_drawings

        write_drawings(self._drawings(args), args.out, args.format)

    def _drawings(self, args: argparse.Namespace) -> list[Drawing]:
        from pbcore.report.curve_figures import curve_figures, over_questions
        from pbcore.report.film import film
        from pbcore.report.sweeps import over_length

        cells = cells_of(args.which, args.runs)
        if args.which == "film":
            return [film(cells, args.cell, args.question)]
        if args.which == "length":
            return [over_length(cells)]
        if args.which == "questions":
            return [over_questions(cells)]
        return curve_figures(cells)


FIGURES: Registry[FigureSet] = Registry("set of figures", "pbcore.figures")
FIGURES.register("curves", OfRuns())


def cells_of(which: str, runs: Sequence[Path]) -> list[StoredCell]:
    """The scored cells that a figure is drawn from. Raises InputError without a run."""
    from pbcore.report.curve_figures import read_curves

    if not runs:
        raise InputError(
            f"figure {which} is drawn from runs: give their directories, `pbcore figures"
            f" {which} RUN`"
        )
    return read_curves(runs)
