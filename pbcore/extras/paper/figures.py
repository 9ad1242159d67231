"""`pbcore figures`: the paper's Table 1 and Figures 2 to 7, and its published points."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from pbcore.base.errors import InputError
from pbcore.grid.option import lengths, levels
from pbcore.report.drawings import add_answer_options, write_drawings, write_rows
from pbcore.report.figure_sets import Options, cells_of
from pbcore.theory.tables import GAMMAS

if TYPE_CHECKING:
    from pbcore.report.style import Drawing

DECODED = ("table1", "2a", "2b", "2c", "2d", "2e")
FROM_RUNS = ("3", "4", "5", "6", "7")
PUBLISHED = "published"


class PaperFigures:
    """A `report.figure_sets.FigureSet`."""

    names: Sequence[str] = (*DECODED, *FROM_RUNS, PUBLISHED)
    options: Options = MappingProxyType(
        {("--as", "same"): (PUBLISHED,), ("--model", "model"): (*DECODED, PUBLISHED)}
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of points that are decoded, and of published ones."""
        add = parser.add_argument
        about = "model to decode with (table1 and 2a to 2e; default ideal), or published"
        add("--model", help=about)
        about = (
            "published: draw the run's model OURS over PUBLISHED (repeatable):"
            " GSAI-ML/LLaDA-8B-Instruct, GSAI-ML/LLaDA-1.5, Dream-org/Dream-v0-Instruct-7B or"
            " apple/DiffuCoder-7B-Instruct"
        )
        add("--as", dest="same", action="append", default=[], metavar="OURS=PUBLISHED", help=about)
        about = "lengths of the lists; several are points, or curves (2e) or rows (table1) of"
        add("--n", type=lengths, metavar="N,N", help=f"{about} their own")
        blocks = "also decode in blocks, a curve for each length (2a to 2d)"
        add("--block-length", type=levels, default=(), metavar="B,B", help=blocks)
        add("--threshold", type=_decimals, metavar="γ,γ", help="thresholds of 2e")
        add_answer_options(parser)

    def draw(self, args: argparse.Namespace) -> None:
        """Draws one of them."""
        if args.which in FROM_RUNS:
            write_drawings(_from_runs(args), args.out, args.format)
        elif args.which == PUBLISHED:
            write_drawings([_published(args)], args.out, args.format)
        elif args.runs:
            raise InputError(f"{args.which} isn't drawn from runs and takes no run directory")
        elif args.which == "table1":
            _table1(args)
        else:
            write_drawings([_decoded(args)], args.out, args.format)


FIGURES = PaperFigures()


def _table1(args: argparse.Namespace) -> None:
    from pbcore.extras.paper.lists import measured_table1
    from pbcore.models import load_model

    model = load_model(args.model or "ideal")
    text, rows = measured_table1(model, args.samples, args.n or (10,), args.seed)
    print(text)
    write_rows(rows, args.out / "table1.csv")


def _decoded(args: argparse.Namespace) -> Drawing:
    from pbcore.extras.paper import lists
    from pbcore.models import load_model

    model = load_model(args.model or "ideal")
    if args.which == "2e":
        sizes = args.n or lists.THRESHOLD_LENGTHS
        gammas = args.threshold or GAMMAS
        return lists.threshold_panel(model, args.samples, sizes, gammas, args.seed)
    sizes = args.n or lists.LENGTHS
    return lists.panel(args.which, model, args.samples, sizes, args.block_length, args.seed)


def _published(args: argparse.Namespace) -> Drawing:
    from pbcore.extras.paper.against import same_models
    from pbcore.extras.paper.official_site import MODELS
    from pbcore.extras.paper.overlay import published_figure

    if args.same and not args.runs:
        raise InputError("--as goes with a run: pbcore figures published RUN --as OURS=PUBLISHED")
    cells = cells_of(args.which, args.runs) if args.runs else []
    return published_figure(args.model, cells, same_models(args.same, list(MODELS)))


def _from_runs(args: argparse.Namespace) -> list[Drawing]:
    from pbcore.extras.paper import curves, sweeps

    cells = cells_of(args.which, args.runs)
    if args.which == "3":
        return curves.figure3(cells)
    if args.which == "7":
        return curves.figure7(cells)
    draw = {"4": sweeps.figure4, "5": sweeps.figure5, "6": sweeps.figure6}
    return [draw[args.which](cells)]


def _decimals(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
