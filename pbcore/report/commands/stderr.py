"""Messages of the commands on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pbcore.printable import printable
from pbcore.results.rundir import CorruptCellWarning


@contextmanager
def damage_told(command: str) -> Iterator[None]:
    """Cell files that can't be read are named in a line each on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CorruptCellWarning)
        yield
    for one in caught:
        if issubclass(one.category, CorruptCellWarning):
            refused(command, one.message)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def refused(command: str, error: Exception | Warning | str, status: int = 2) -> int:
    """Says why on stderr, without control characters, and returns the exit status."""
    print("\n".join(printable(line, 1000) for line in f"pbcore {command}: {error}".split("\n")), file=sys.stderr)
    return status
