"""`pbcore export RUN --to parallelbench-site DIR`: a run in the layout of the benchmark's site."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.extras.paper.official_site import MODELS, TASKS, site_points
from pbcore.extras.paper.site import write_site
from pbcore.results import create
from tests.reference import bundled
from tests.results import factory

EXAMPLE = ("figures/llada10/random.csv", "leaderboard/llada10.json")


def run_of(folder: Path, samplers: Sequence[str], tasks: Sequence[str], model: str) -> Path:
    """A run whose answers are right in nine of ten cases."""
    cells = []
    for task in tasks:
        headline = "grammar" if task.startswith("text_writing/") else "accuracy"
        for sampler in samplers:
            cells.append(factory.cell(model, task, sampler, 0.9, n=10, headline=headline))
    return factory.write(create(folder, "run"), cells).path


def test_the_sites_own_points_come_out_as_its_files(tmp_path: Path) -> None:
    """Byte for byte."""
    points = site_points()
    write_site(points.assign(model=points["model"].map(MODELS)), tmp_path)
    for name in EXAMPLE:
        example = bundled("site_example", name).read_bytes()
        assert (tmp_path / name).read_bytes() == example
    assert len(list(tmp_path.rglob("*.csv"))) == 33


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All tasks under the site's names, the mean last, and what has no place there named."""
    samplers = ("confidence-k2+b8", "threshold-0.9+b8+prefix", "eb-0.1")
    tasks = [*TASKS.values(), "list_ops/other"]
    run = run_of(tmp_path, samplers, tasks, "llada-1.5")
    out = tmp_path / "site"
    assert main(["export", str(run), "--to", "parallelbench-site", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "no strategy on the site: eb-0.1" in printed
    assert "tasks that the site doesn't have: list_ops/other" in printed
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*.*"))
    assert files == [
        "figures/llada15/confidence-threshold.csv",
        "figures/llada15/confidence-topk.csv",
        "leaderboard/llada15.json",
    ]
    lines = (out / files[0]).read_text().splitlines()
    assert lines[0] == "task,tps,accuracy"
    assert [line.split(",")[0] for line in lines[1:]] == [*sorted(TASKS), "avg"]
    assert lines[-1] == "avg,2.0,90.0"
    board = json.loads((out / files[2]).read_text())
    assert board["results"]["confidence-topk"] == {"80": 2.0, "75": 2.0, "70": 2.0}


def test_without_all_tasks_there_is_no_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, ["random-k2"], ["waiting_line/copy"], "my model")
    out = tmp_path / "site"
    assert main(["export", str(run), "--to", "parallelbench-site", str(out)]) == 0
    assert "without all 17 tasks: my_model random-k2" in capsys.readouterr().out
    assert [path.name for path in out.rglob("*.*")] == ["random.csv"]
    assert "avg" not in (out / "figures/my_model/random.csv").read_text()


@pytest.mark.parametrize(
    ("samplers", "layout", "message"),
    [
        (["eb-0.1"], "parallelbench-site", "no scored cell of this run has a place on the site"),
        (["random-k2", "random-k2+b8"], "parallelbench-site", "are both random-k2 on the site"),
        (["random-k2"], "site", "--to site: the layout is parallelbench-site"),
    ],
)
def test_refusals(
    samplers: list[str],
    layout: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = run_of(tmp_path, samplers, ["waiting_line/copy"], "tiny")
    assert main(["export", str(run), "--to", layout, str(tmp_path / "site")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "site").exists()
