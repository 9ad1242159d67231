"""Commands of README and docs that need neither the reader's files nor a GPU collect the cells that
they speak of.
"""

from __future__ import annotations

import re

import pytest

from tests.plugin.conftest import Run
from tests.test_doc_commands import SHOWN

# Files, hardware, models and packages of the reader's; whole runs of the project's own tests; and
# other options.
THEIRS = re.compile(
    r"reports/|path/to|\./|adapters/|-gpu|lm_eval|models\.yaml|docs/|mine-|tests/|-m"
    r" |--help|--gate|--ray|X"
)
HERE = [
    line
    for line, (program, words) in SHOWN.items()
    if program == "pytest" and "benches" in words and not THEIRS.search(" ".join(words))
]


@pytest.mark.slow
@pytest.mark.parametrize("command", HERE)
def test_cells_are_found(command: str, in_process: Run) -> None:
    """Without running them."""
    words = [word for word in SHOWN[command][1] if word not in ("-n", "2")]
    result = in_process(*words, "--co", "-q", "-p", "no:xdist")
    assert result.ret == 0
    assert (
        re.search(r"(\d+)/?\d* tests? collected", result.stdout.str())
        or "::test_cell[" in result.stdout.str()
    )
