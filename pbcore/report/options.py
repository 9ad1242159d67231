"""What a report is asked to show instead of what its run recorded: the options `--max-loss`,
`--axis`, `--price` and `--price-batch` of commands.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pbcore.base.speed import MAX_LOSS
from pbcore.costs.kinds import SpeedAxis
from pbcore.grid.option import axis, points, positive
from pbcore.results.rundir import RunFacts


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What replaces a run's own: `max_loss`, the loss in points that the headline allows; `axis`,
    what speed is; `price`, price lists as `--price` names them; `price_batch`, answers decoded
    together. None and an empty tuple: the run's own.
    """

    max_loss: float | None = None
    axis: SpeedAxis | None = None
    price: tuple[str, ...] = ()
    price_batch: int | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> "ReportOptions":
        """Those of a command line; what the command doesn't have is the run's own.

        Raises:
            InputError: a price list that there isn't, or a file that can't be read.
        """
        check_price_texts(args.price)
        max_loss = getattr(args, "max_loss", None)
        return cls(max_loss, args.axis, tuple(args.price), args.price_batch)

    def replaced(self, facts: RunFacts) -> RunFacts:
        """The facts of run.json with these in place of the run's own."""
        replaced = facts.copy()
        if self.max_loss is not None:
            replaced["max_loss"] = self.max_loss
        if self.axis is not None:
            replaced["axis"] = self.axis
        if self.price:
            replaced["price"] = list(self.price)
        if self.price_batch is not None:
            replaced["price_batch"] = self.price_batch
        return replaced


OWN = ReportOptions()  # as the run says


def add_loss_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--max-loss`."""
    about = (
        "loss in points that the fastest sampler of the headline may have, by its one-sided 95 %%"
        f" bound (default: the run's own, else {MAX_LOSS:g})"
    )
    parser.add_argument("--max-loss", type=points, metavar="POINTS", help=about)


def add_axis_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--axis`."""
    about = (
        "what speed is in the headline and on the plots: tokens-per-step, tokens-per-row,"
        " tokens-per-forward, calls, rows, tokens (forwarded) or seconds (by the first --price,"
        " else as measured; default: the run's own, else tokens-per-step)"
    )
    parser.add_argument("--axis", type=axis, metavar="NAME", help=about)


def add_price_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--price` and `--price-batch`."""
    about = (
        "also show seconds per answer by a price list: here (pbcore price), a device such as h200"
        " or h200:graphs (pbcore price lists them), or a file (repeatable)"
    )
    parser.add_argument("--price", action="append", default=[], metavar="LIST", help=about)
    about = "answers decoded together, for --price (default: the run's own, else 1)"
    parser.add_argument("--price-batch", type=positive, metavar="N", help=about)


def check_price_texts(texts: Sequence[str]) -> None:
    """Raises InputError for a device that isn't in the table, and a file that can't be read."""
    if not texts:
        return
    from pbcore.results.seconds import check_price

    for text in texts:
        check_price(text)
