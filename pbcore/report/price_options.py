"""The options `--price` and `--price-batch` of commands."""

import argparse
from collections.abc import Sequence

from pbcore.grid.option import positive


def add_price_options(parser: argparse.ArgumentParser) -> None:
    """Adds both."""
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
    from pbcore.prices.lists import check_price

    for text in texts:
        check_price(text)
