"""What `pbcore compare` prints runs the sample that it names."""

from __future__ import annotations

import shlex

import pytest

from pbcore.cli import main
from tests.plugin.conftest import Run


def test_a_printed_command_selects_that_sample(
    run: Run, in_process: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a sampler, lengths and a number of shots that no profile has."""
    run(
        "--model ideal --task shuffle --sampler random-k3 --sampler random-k1 --n 5 --shots 0"
        " --limit 6 --out out"
    )
    capsys.readouterr()
    main(["compare", "out", "out", "--sampler", "random-k3=random-k1"])
    printed = capsys.readouterr().out.splitlines()
    broke = next(line for line in printed if " broke: " in line)
    number = broke.partition(" broke: ")[2].split()[0]
    line = next(line for line in printed if line.startswith("the first worse answer: "))
    words = shlex.split(line[line.index("pytest ") :])
    assert words[1] == f"ideal/shuffle/random-k3/{number}"
    result = in_process(*words[1:])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"sample {number} of waiting_line/shuffle is wrong: *"])
