"""Tables of docs/ are what the command above them measures. Their runs take seconds."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.environment import own_environment
from tests.warm_python import warm_python

DOCS = Path(__file__).resolve().parents[1] / "docs"
Cell = dict[str, Any]


def share(value: float) -> str:
    return f"{100 * value:.0f} %"


def decimal(value: float, digits: int) -> str:
    """.064 of 0.0636, as the pages write it."""
    return f"{value:.{digits}f}".removeprefix("0")


def measured(page: str, option: str, folder: Path) -> list[Cell]:
    """The cells of a page's command, the only one that has this option."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (line,) = (
        line.strip()
        for line in text.splitlines()
        if line.strip().startswith("pytest ") and option in line
    )
    words = shlex.split(line.partition(" --out ")[0])
    if words[1] == "benches":
        words[1:2] = ["--pyargs", "pbcore.benches"]
    run = folder / "run"
    result = subprocess.run(
        [warm_python(), "-m", *words, "--out", str(run)],
        cwd=folder,
        env=own_environment() | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    cells: list[Cell] = json.loads((run / "results.json").read_text(encoding="utf-8"))["cells"]
    return cells


def shown(page: str, head: str) -> list[list[str]]:
    """The rows of a page's table with this head; of names the part before a comma."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    start = lines.index(head) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        cells[0] = cells[0].partition(",")[0].strip("` ")
        rows.append(cells)
    assert rows
    return rows


def walk(cell: Cell) -> list[str]:
    law = cell["decoding"]["law"]
    valid = share(cell["scores"]["accuracy"]["mean"])
    return [cell["sampler"], f"{cell['nfe_mean']:.0f}", valid, decimal(law["kernel"], 3)]


def variety(cell: Cell) -> list[str]:
    decoding = cell["decoding"]
    passed = [share(decoding["pass_at"][k]) for k in ("1", "8")]
    back = ["–", "–"]
    if "remasks" in decoding:
        back = [f"{decoding['remasks']:.2f}", share(decoding["flip_flops"])]
    return [cell["sampler"], decimal(decoding["distinct"], 2), *passed, *back]


WALKS = "| sampler | forwards | valid | TV of transitions |"
VARIETY = "| sampler | texts / seed | pass@1 | @8 | remasks | same token again |"
QUESTIONS = "| sampler | k = 1 → 8 | speed-up of 8 | right |"


@pytest.mark.parametrize(
    ("page", "option", "head", "row"),
    [
        pytest.param("tasks.md", "--task walk/graph", WALKS, walk, marks=pytest.mark.slow),
        # Half a minute of decoding.
        pytest.param("results.md", "--seed 0-7", VARIETY, variety, marks=pytest.mark.nightly),
    ],
)
def test_rows(
    page: str, option: str, head: str, row: Callable[[Cell], list[str]], tmp_path: Path
) -> None:
    """Each row of the page is a cell of its command."""
    cells = measured(page, option, tmp_path)
    assert sorted(shown(page, head)) == sorted(row(cell) for cell in cells)


@pytest.mark.slow
def test_several_questions(tmp_path: Path) -> None:
    """Forwards of one and of eight shuffles, of every sampler of the page's command."""
    cells = measured("tasks.md", "--task 'questions/*'", tmp_path)
    of = {(cell["task"].rpartition("/")[2], cell["sampler"]): cell for cell in cells}
    rows = [row for row in shown("tasks.md", QUESTIONS) if ("shuffle-x1", row[0]) in of]
    assert len(rows) == len({sampler for _, sampler in of})
    for sampler, *told in rows:
        alone, eight = of["shuffle-x1", sampler], of["shuffle-x8", sampler]
        forwards = f"{round(alone['nfe_mean'], 2):g} → {round(eight['nfe_mean'], 2):g}"
        speed_up = f"{8 * alone['nfe_mean'] / eight['nfe_mean']:.2f}"
        assert told == [forwards, speed_up, share(eight["scores"]["accuracy"]["mean"])]
