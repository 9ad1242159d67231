"""The files of benches/ import: most of them run on demand only."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benches.compare_samplers import Total, draw
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
