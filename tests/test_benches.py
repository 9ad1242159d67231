"""The files of benches/ import: most of them run on demand only."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benches.compare_samplers import Measured, Total, draw, verdict
from pbcore.report.looks import COLOURS, MARKERS

BENCHES = Path(__file__).resolve().parents[1] / "benches"


@pytest.mark.parametrize("name", sorted(file.stem for file in BENCHES.glob("test_*.py")))
def test_a_benchmark_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes from the package is there, and it holds at least one test."""
    monkeypatch.syspath_prepend(str(BENCHES))
    monkeypatch.syspath_prepend(str(BENCHES.parent))
    module = import_module(f"benches.{name}")
    assert any(attribute.startswith("test_") for attribute in vars(module))


def test_colours_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's, as in every report, whatever else is compared; fills tell a policy's samplers
    apart.
    """
    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda figure, *args, **more: drawn.append(figure) or save(figure, *args, **more),
    )
    names = ("eb-0.1", "threshold-0.9", "threshold-0.5", "confidence-k2")
    draw(
        {"tiny": {name: Total(0.9, calls, calls) for calls, name in enumerate(names, 1)}},
        tmp_path / "a.png",
    )
    lines = {line.get_label(): line for line in drawn[0].axes[0].lines}
    for name, number in (
        ("confidence-k2", 0),
        ("threshold-0.9", 2),
        ("threshold-0.5", 2),
        ("eb-0.1", 7),
    ):
        assert (lines[name].get_color(), lines[name].get_marker()) == (
            COLOURS[number],
            MARKERS[number],
        )
    assert [lines[name].get_fillstyle() for name in names] == ["full", "full", "none", "full"]


def test_a_verdict_says_what_holds() -> None:
    """A replacement has every interval above −3 points, two thirds of the calls and no task
    with more than 1.05 times them; one error in forty or a call too many isn't one.
    """
    scores = dict.fromkeys(range(200), 1.0)
    base = Measured(scores, ((1,),) * 200, 6.0, 6.0)
    fast = replace(base, calls=2.0)
    slow = replace(base, calls=6.5)
    wrong = replace(base, scores={**scores, 7: 0.0})
    each = {
        "base": [base, base],
        "fast": [fast, base],
        "slow": [fast, slow],
        "wrong": [fast, replace(wrong, calls=2)],
    }
    said = {name: verdict(name, "base", ["copy", "sort"], each) for name in each}
    assert said["fast"][0].startswith(
        "fast can replace base: lower ends of differences from -1.9 points"
    )
    assert "0.67 of its calls, at most 1.00 of them on a task (sort)" in said["fast"][0]
    assert "400 of 400 answers are those of base; errors on 0 of 2 tasks" in said["fast"][1]
    assert said["slow"][0].startswith("slow can not")
    assert said["wrong"][0].startswith(
        "wrong can replace base: lower ends of differences from -2.8 points (sort)"
    )
    assert "errors on 1 of 2 tasks" in said["wrong"][1]
    assert "more on sort" in said["slow"][1]


def test_prices_without_published_timings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says what it needs, and fails."""
    prices = import_module("benches.gpu_prices")
    monkeypatch.setattr(prices, "timings_file", lambda: None)
    monkeypatch.setattr("sys.argv", ["gpu_prices"])
    assert prices.main() == 2
    said = capsys.readouterr().out
    assert "--timings FILE" in said
    assert "tokens_per_second" in said
