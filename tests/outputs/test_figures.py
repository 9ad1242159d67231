"""All figures: what they show, point by point."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from pbcore.extras.paper import curves, sweeps
from pbcore.extras.paper.lists import panel, threshold_panel
from pbcore.extras.paper.overlay import published_figure
from pbcore.models import load_model
from pbcore.report import frontier_figure
from pbcore.report.curve_figures import over_questions
from pbcore.report.measured import MeasuredAccuracy
from pbcore.report.plots import write_plots
from pbcore.report.sweeps import over_length
from pbcore.report.under_load import bends, load_levels, under_load_figure
from tests.outputs.entries import SERVED, Check, Entry, changed, stored, under, varied
from tests.report.test_under_load import model_cells
from tests.results import factory


def told(figure: Figure) -> str:
    """What a figure shows, panel by panel."""
    lines = [f"size {figure.get_size_inches().round(2).tolist()}; title {figure.get_suptitle()!r}"]
    lines += [f"y {figure.get_supylabel()!r}; texts {[text.get_text() for text in figure.texts]}"]
    for axis in figure.axes:
        lines.append(
            f"panel {axis.get_title()!r}: {axis.get_xlabel()!r} {axis.get_xscale()},"
            f" {axis.get_ylabel()!r} {axis.get_yscale()}; y"
            f" {np.round(axis.get_ylim(), 3).tolist()}; visible {axis.get_visible()}; inverted"
            f" {axis.xaxis_inverted()}; minor ticks {len(axis.get_xticks(minor=True))}"
        )
        for text in axis.texts:
            x, y = text.get_position()
            lines.append(f"  text {text.get_text()!r} at {x:.4g}, {y:.4g}")
        for line in axis.lines:
            if not np.size(line.get_xdata()):
                continue  # made for a legend alone
            x, y = (
                [f"{value:.5g}" for value in values] for values in map(np.asarray, line.get_data())
            )
            label = line.get_label() if not str(line.get_label()).startswith("_") else ""
            points = " ".join(f"{a},{b}" for a, b in itertools.zip_longest(x, y))
            lines.append(
                f"  line {label!r} {line.get_color()} {line.get_marker()} {line.get_linestyle()} "
                f"{line.get_markerfacecolor()}: {points}"
            )
        for spans in axis.collections:
            ends = [
                [f"{a:.5g},{b:.5g}" for a, b in np.asarray(path.vertices)]
                for path in spans.get_paths()
            ]
            lines.append(f"  spans {' '.join(map('–'.join, ends))}")
    for legend in [*figure.legends, *(axis.get_legend() for axis in figure.axes)]:
        if legend is not None:
            lines.append(f"legend {[text.get_text() for text in legend.get_texts()]}")
    return "\n".join(lines)


class TestFigures:
    def test_curves(self, same: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All figures of a run."""
        drawn: list[str] = []
        monkeypatch.setattr(
            Figure,
            "savefig",
            lambda figure, path: drawn.append(f"== {Path(path).name}\n{told(figure)}"),
        )
        write_plots(factory.rows(record for record, _ in varied()), tmp_path)
        same("\n\n".join(drawn))

    def test_under_load(self, same: Check) -> None:
        """Two models at several numbers at a time, of which one has told an answer's seconds."""
        far = [replace(one, model="far", served=SERVED) for one in model_cells(0.2, 0.05)]
        table = load_levels(factory.rows([*model_cells(0.5, 0.01), *far]))
        written = pd.DataFrame(table).round(6).to_csv(index=False)
        same("\n".join([written, *bends(table), told(under_load_figure(table))]))

    @pytest.mark.parametrize(
        ("draw", "entries"),
        [
            (curves.figure3, factory.grid(tasks=("waiting_line/copy", "puzzle/sudoku"), ks=(1, 2))),
            (
                sweeps.figure4,
                [
                    factory.cell(
                        task=f"waiting_line/{task}", sampler=sampler, length=n, right=1 / int(n[0])
                    )
                    for task in ("copy", "shuffle")
                    for sampler in ("random-k2", "threshold-0.9")
                    for n in ("4", "5", "6")
                ],
            ),
            (
                sweeps.figure5,
                [
                    factory.cell(task=task, sampler=f"random-k2{blocks}", right=right)
                    for task in ("waiting_line/copy", "waiting_line/shuffle", "puzzle/sudoku")
                    for blocks, right in (("", 0.4), ("+b4", 0.6), ("+b8", 0.8))
                ],
            ),
            (
                sweeps.figure6,
                [
                    factory.cell(task=task, sampler=f"{policy}-{rest}", right=right)
                    for task, worth in (
                        ("waiting_line/copy", 1.0),
                        ("waiting_line/shuffle", 0.5),
                        ("puzzle/sudoku", 0.9),
                    )
                    for policy in ("random", "margin")
                    for rest, right in (
                        ("k1", 1.0),
                        ("k2", 0.5 * worth),
                        ("k2+b8", 0.7),
                        ("k4", 0.25 * worth),
                    )
                ],
            ),
            (
                curves.figure7,
                [
                    factory.cell(task=task, sampler=sampler, right=right, nfe=nfe)
                    for task in curves.FIGURE_7
                    for sampler, right, nfe in (
                        ("threshold-0.5", 0.5, 4),
                        ("threshold-0.9", 0.9, 9),
                        ("random-k2", 0.4, 16),
                    )
                ],
            ),
            (
                over_length,
                [
                    under(
                        factory.cell(task="waiting_line/copy", sampler=s, right=8 / m),
                        options={"max_new_tokens": m},
                    )
                    for s in ("random-k2", "confidence-k2")
                    for m in (8, 16, 64)
                ],
            ),
            (
                over_questions,
                [
                    factory.cell(
                        "tiny", f"questions/shuffle-x{k}", sampler, right, nfe=6 * k - k // 2
                    )
                    for sampler, right in (("random-k2", 0.5), ("dapd_direct", 1.0))
                    for k in (1, 2, 5)
                ],
            ),
        ],
        ids=["3", "4", "5", "6", "7", "length", "questions"],
    )
    def test_from_runs(self, draw: Any, entries: list[Entry], same: Check, tmp_path: Path) -> None:
        """Points and looks, and the CSV beside the picture."""
        if draw is over_questions:
            entries = [
                changed(one, scores={**one[0].scores, "accuracy_all": one[0].scores["accuracy"]})
                for one in entries
            ]
        drawings = draw(stored(entries))
        text = []
        for drawing in drawings if isinstance(drawings, list) else [drawings]:
            table = drawing.write(tmp_path)[1].read_text(encoding="utf-8")
            text += [f"== {drawing.name}", drawing.said, told(drawing.figure), table]
        same("\n".join(text))

    def test_published(self, same: Check, tmp_path: Path) -> None:
        """The official site's points, with each model's fastest that is as good."""
        drawing = published_figure()
        table = drawing.write(tmp_path)[1].read_text(encoding="utf-8")
        same("\n".join([drawing.said, told(drawing.figure), table]))

    @pytest.mark.parametrize("kind", ["2a", "2e"])
    def test_decoded(self, kind: str, same: Check) -> None:
        """Figures 2a and 2e of a few answers."""
        model = load_model("ideal")
        if kind == "2e":
            drawing = threshold_panel(model, 4, (2, 3), (0.3, 0.9), 0)
        else:
            drawing = panel(kind, model, 4, (2, 4), (2,), 0)
        same(f"{drawing.said}\n{told(drawing.figure)}\n{json.dumps(drawing.rows, indent=1)}")

    def test_frontier(self, same: Check) -> None:
        """`pbcore figures theory --frontier`: both tables, the figure and its data."""
        rows = frontier_figure.frontier_rows(3)
        found = [
            frontier_figure.regret(
                "shuffle",
                4,
                sampler,
                MeasuredAccuracy(mean, mean - 0.1, mean + 0.05, 100, 2.0),
                0.75,
                1.0,
                1.5,
            )
            for sampler, mean in (
                ("random-k2+t1.0", 0.5),
                ("entropy-k2+t1.0", 0.9),
                ("wino-0.6", 1.0),
                ("eb-0.1", 0.7),
            )
        ]
        drawing = frontier_figure.frontier_drawing(found)
        same(
            "\n".join(
                [
                    frontier_figure.frontier_text(rows),
                    drawing.said,
                    told(drawing.figure),
                    json.dumps(drawing.rows),
                ]
            )
        )
