"""What users see, whole: each output of small made runs as it stood when somebody last read it, in `test_outputs/`.

After a change that is meant, `pytest tests/test_outputs.py --force-regen` writes the files anew; read their diff."""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from pytest_regressions.file_regression import FileRegressionFixture

from pbcore.analysis.compare import compare_runs
from pbcore.analysis.factors import factor_changes
from pbcore.analysis.frontier_gap import Room
from pbcore.cli import COMMANDS, add_command, main
from pbcore.figures import frontier_figure, runs, sweeps
from pbcore.figures.lists import panel, threshold_panel
from pbcore.figures.measured import Measured
from pbcore.gates.floors import parse_floor
from pbcore.gates.judge import gate_markdown, gate_text, judge
from pbcore.integrations.servers.record import Served
from pbcore.models import load_model
from pbcore.plugin import options as plugin_options
from pbcore.report.comparison import comparison_markdown, comparison_text
from pbcore.report.markdown import report_text
from pbcore.report.page import write_page
from pbcore.report.page.compare import comparison_page
from pbcore.report.page.sections import exploration_section, factor_section, frontier_section
from pbcore.report.plots import write_plots
from pbcore.report.summary import summary
from pbcore.report.tables import terminal, trade_off_tables
from pbcore.report.under_load import bends, levels, under_load_figure
from pbcore.results import CellRecord, Conditions, RunDir, create, error_cell, frame
from pbcore.results.baseline import rows_by_id
from pbcore.results.load import load_stored
from pbcore.results.rundir import StoredCell
from pbcore.theory.accuracy import Ceiling
from tests.report.page.films import filmed
from tests.report.test_under_load import model_cells
from tests.results import factory

Entry = tuple[CellRecord, list[Any]]
Check = Callable[[str], None]


@pytest.fixture
def same(file_regression: FileRegressionFixture, request: pytest.FixtureRequest) -> Check:
    """Compares a text with the test's file."""
    name = re.sub(r"\W+", "_", f"{request.cls.__name__}_{request.node.name}").replace("_test_", "_").strip("_")
    return lambda text: file_regression.check(text.rstrip() + "\n", encoding="utf-8", basename=name)


def under(entry: Entry, **conditions: Any) -> Entry:
    return replace(entry[0], conditions=replace(entry[0].conditions, **conditions)), entry[1]


def changed(entry: Entry, **facts: Any) -> Entry:
    return replace(entry[0], **facts), entry[1]


def failed(model: str, task: str, sampler: str) -> Entry:
    cell = CellRecord(f"{model}/{task.split('/')[1]}/{sampler}", model, task, sampler, Conditions.unknown())
    return error_cell(cell, "RuntimeError: out of memory\ntrace"), []


SERVED = Served(
    provider="example.org",
    kind="openai",
    version="1.2",
    concurrency=4,
    asked=15,
    kept=5,
    models={"far-1": 20},
    first_asked="2026-03-04T05:06:07+00:00",
    last_asked="2026-03-05T05:06:07+00:00",
    tokens_in=1200,
    tokens_out=400,
    cost=0.0123,
    outcomes={"length": 2, "refusal": 1},
    first_token=0.1,
    request=0.5,
    requests={"p50": 0.5, "p90": 0.9, "p99": 1.5},
)


def varied() -> list[Entry]:
    """Cells of all kinds that a report tells apart."""
    grid = factory.grid(tasks=("waiting_line/copy", "waiting_line/shuffle"), ks=(1, 2, 4))
    entries = [
        changed(entry, ceiling=Ceiling(1 / k, "exact", 1 / k, 1 / k), bits_lost=k / 4)
        if entry[0].model == "tiny" and entry[0].task.endswith("shuffle")
        else changed(entry, ceiling=Ceiling(1.0, "closed", 1.0, 1.0), bits_lost=0.0)
        for entry in grid
        if (k := int(entry[0].sampler[-1]))
    ]
    entries += [
        factory.cell("tiny", "puzzle/sudoku", "confidence-k1", 0.75, canvas=16),
        factory.cell("tiny", "puzzle/sudoku", "confidence-k2", 0.5, nfe=8, canvas=16),
        factory.cell("tiny", "waiting_line/copy", "spec-8", 1.0, nfe=8, rows=30),
        factory.cell("tiny", "waiting_line/shuffle", "spec-8", 0.95, nfe=12, rows=41),
        factory.failing("item missing", *factory.cell("tiny", "waiting_line/sort", "threshold-0.9+b8", 0.6, nfe=5)),
        under(factory.cell("tiny", "text_writing/summarization", "random-k2", 0.25, headline="rouge_l"), seeds=[0, 1]),
        changed(
            factory.cell("tiny", "text_writing/w2s_easy", "random-k2", 1.0, headline="grammar"),
            scores={},
            absent={"grammar": "LanguageTool is not installed"},
        ),
        changed(
            factory.cell("far", "waiting_line/copy", "served", 0.9),
            **dict.fromkeys(("nfe_mean", "nfe_median", "nfe_max", "tokens_per_step", "tokens_per_forward")),
            **dict.fromkeys(("rows_mean", "tokens_per_row")),
            served=SERVED,
            seconds=4.0,
            samples_per_second=5.0,
            tokens_per_second=90.0,
        ),
        under(factory.cell("near:dummy", "waiting_line/copy", "random-k1", 0.0), dummy=True),
        under(factory.cell("other", "waiting_line/copy", "random-k1", 0.8), shared_device=True, dtype="bfloat16"),
        under(factory.cell("other", "waiting_line/copy", "random-k2", 0.4), model_info={"remote_code": True}),
        changed(
            factory.cell("other", "waiting_line/shuffle", "random-k1", 0.7, nfe=20),
            seconds=None,
            samples_per_second=None,
            tokens_per_second=None,
            seconds_estimated=2.5,
            forwards_shared=300,
            forwards_computed=100,
            text_after_eos=3,
        ),
        failed("other", "puzzle/sudoku", "random-k1"),
    ]
    return entries


EXPLORED: dict[str, Any] = {
    "kendall": 0.5,
    "remasks": 1.25,
    "flip_flops": 0.5,
    "distinct": 2.5,
    "pass_at": {"1": 0.5, "4": 0.875},
    "law": {
        "kernel": 0.25,
        "kernel_by_chance": 0.125,
        "entropy": 1.5,
        "entropy_exact": 2.0,
        "places": 0.5,
        "places_by_chance": 0.25,
    },
}
FACTS: dict[str, Any] = {
    "command": ["pytest", "benches", "-k", "a b"],
    "started": "2026-03-04T05:06:07",
    "profile": "ci",
    "shard": "1/2",
    "seeds": [0, 1],
    "data_source": "own",
    "prompts": "v1",
    "machine": {"cpu": "x", "gpu": None, "note": "", "gpus": [], "cpus": 2},
    "versions": {"torch": "2"},
}


def written(root: Path, entries: Iterable[Entry], name: str = "a", **facts: Any) -> RunDir:
    run = create(root, name)
    run.write_run(FACTS | facts)
    for record, samples in entries:
        run.write_cell(record, samples)
    return run


def stored(entries: Iterable[Entry]) -> list[StoredCell]:
    return [StoredCell(cell, tuple(samples)) for cell, samples in entries]


class TestOptions:
    @staticmethod
    def lines(actions: Iterable[argparse.Action]) -> list[str]:
        """A line per option, in no version of argparse's own layout."""
        return [
            f"  {' '.join(one.option_strings) or one.dest}: {type(one).__name__.strip('_')} of "
            f"{getattr(one.type, '__name__', None)}, metavar {one.metavar}, nargs {one.nargs}, const {one.const}, "
            f"default {one.default}, choices {one.choices and list(one.choices)}, required {one.required}: "
            f"{one.help}"
            for one in actions
            if not isinstance(one, argparse._HelpAction)
        ]

    def test_commands(self, same: Check) -> None:
        """Every option of every command, with its help."""
        text = []
        for name in COMMANDS:
            commands = argparse.ArgumentParser().add_subparsers()
            add_command(commands, name)
            waiting = [
                (name, commands.choices[name], next((a.help for a in commands._choices_actions if a.dest == name), ""))
            ]
            while waiting:
                path, parser, line = waiting.pop(0)
                assert isinstance(parser, argparse.ArgumentParser)
                text += [f"{path}: {line or ''}"]
                text += [f"  {kind}: {told}" for kind in ("description", "epilog") if (told := getattr(parser, kind))]
                nested = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
                text += self.lines(one for one in parser._actions if one not in nested)
                for inner in nested:
                    helps = {one.dest: one.help for one in inner._choices_actions}
                    waiting += [(f"{path} {key}", one, helps.get(key)) for key, one in inner.choices.items()]
        same("\n".join(text))

    def test_pytest(self, same: Check) -> None:
        """Every option and ini value that the plugin and the integrations add."""
        text: list[str] = []

        class Group:
            def addoption(self, *names: str, **how: Any) -> None:
                if names[0].startswith("--pbcore-"):  # the other spelling of the option that follows
                    return
                kind = how.pop("type", None)
                told = ", ".join(f"{key} {value!r}" for key, value in sorted(how.items()))
                text.append(f"{' '.join(names)}: {getattr(kind, '__name__', getattr(kind, 'refused', kind))}; {told}")

            def addini(self, name: str, help: str, *more: Any, **how: Any) -> None:
                text.append(f"ini {name}: {help}; {more} {sorted(how.items())}")

            def getgroup(self, *words: str) -> Group:
                text.append(f"group {words}")
                return self

        plugin_options.pytest_addoption(Group())  # type: ignore[arg-type]
        same("\n".join(text))


class TestRun:
    def test_report(self, same: Check) -> None:
        """report.md."""
        same(report_text(frame(record for record, _ in varied()), "run", FACTS, ["curves.png", "speed.png"]))

    def test_summary(self, same: Check) -> None:
        """The end of a run on the terminal."""
        same(summary([record for record, _ in varied()], 100, FACTS))

    def test_tables(self, same: Check) -> None:
        """`pbcore report` on a wide and on a narrow terminal, and one without Unicode."""
        tables = trade_off_tables(frame(record for record, _ in varied()))
        same("\n\n".join(terminal(table, width) for table in tables for width in (120, 60)))

    def test_sections(self, same: Check) -> None:
        """What changes with factors, the order and variety of answers, and the frontier, in both renderings."""
        entries = []
        for threads, right in ((1, [1.0, 0.0, 1.0]), (8, [0.0, 1.0, 1.0])):
            for dtype in ("float32", "bfloat16"):
                cell, samples = under(
                    factory.cell(right=right), level={"threads": threads, "dtype": dtype}, dtype=dtype
                )
                cell = replace(cell, id=f"{cell.id}/threads:{threads}+dtype:{dtype}", decoding=EXPLORED)
                entries.append((cell, [replace(one, text=f"{one.index} {right}") for one in samples]))
        rooms = [
            Room("ideal", "list_ops/shuffle", "random-k2", "order", 0.5, 0.4, 0.6, 5.0, 0.625),
            Room("ideal", "list_ops/shuffle", "wino-0.6", "back", 0.9, 0.8, 0.95, 4.0, None),
        ]
        sections = [
            factor_section(factor_changes(stored(entries))),
            exploration_section(frame(record for record, _ in entries)),
            frontier_section(rooms),
        ]
        same("\n".join(part for one in sections for part in (one.markdown(), readable(one.html()))))

    def test_page(self, same: Check, tmp_path: Path) -> None:
        """report.html without its script, its style and its data."""
        same(readable(write_page(written(tmp_path, map(filmed, varied())).path).read_text(encoding="utf-8")))

    def test_ceilings_and_published(self, same: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """`pbcore report --ceilings --against-published`."""
        entries = [
            factory.cell("LLaDA", f"waiting_line/{task}", f"confidence-k{k}", right=1 / k, n=20)
            for task in ("copy", "shuffle")
            for k in (1, 2)
        ]
        path = written(tmp_path, [*entries, *varied()]).path
        assert main(["report", str(path), "--ceilings", "--against-published", "--width", "160"]) == 0
        same(capsys.readouterr().out)

    def test_junit(self, same: Check, tmp_path: Path) -> None:
        """The JUnit file of merged runs."""
        paths = [written(tmp_path, varied()[i::6], f"part{i}", shard=None).path for i in (0, 1)]
        assert main(["merge", *map(str, paths), "-o", str(tmp_path / "whole")]) == 0
        text = (tmp_path / "whole" / "junit.xml").read_text(encoding="utf-8")
        same(re.sub(r'(timestamp|hostname|time)="[^"]*"', r'\1="…"', text).replace("><", ">\n<"))

    def test_export(self, same: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """`pbcore export --csv`: both files."""
        run = written(tmp_path, [*map(filmed, varied()[:2]), varied()[-1]])
        assert main(["export", str(run.path), "--csv", str(tmp_path / "out")]) == 0
        said = capsys.readouterr().out.replace(str(tmp_path), "")
        same("\n".join([said, *(path.read_text("utf-8") for path in sorted((tmp_path / "out").iterdir()))]))


def readable(html: str) -> str:
    """A page's markup, a tag a line."""
    html = re.sub(r"<(script|style)\b.*?</\1>", r"<\1/>", str(html), flags=re.DOTALL)
    return re.sub(r"\s*(</?[a-zA-Z!])", r"\n\1", re.sub(r"sha256-[^']*", "…", html))


def two_runs(root: Path) -> list[RunDir]:
    """B, and A with answers that got worse and better, a faster cell, one dropped, one failed, one new."""
    base = [
        factory.cell("tiny", "waiting_line/shuffle", "confidence-k2", [1.0] * 19 + [0.0]),
        factory.cell("tiny", "waiting_line/copy", "confidence-k2", 1.0),
        factory.cell("tiny", "waiting_line/sort", "random-k2+t1.0", 0.9, nfe=16),
        factory.cell("tiny", "waiting_line/reverse", "random-k2", 1.0, nfe=16),
        factory.cell("tiny", "puzzle/sudoku", "random-k2", 1.0),
        factory.cell("tiny", "text_writing/summarization", "random-k2", [0.5] * 20, headline="rouge_l"),
        factory.cell("tiny", "puzzle/latin_square", "random-k2", 1.0),
    ]
    head = [
        factory.cell("tiny", "waiting_line/shuffle", "confidence-k2", [0.0] * 9 + [1.0] * 11),
        under(factory.cell("tiny", "waiting_line/copy", "confidence-k2", 1.0), dtype="bfloat16"),
        factory.cell("tiny", "waiting_line/sort", "random-k2+t1.0", 0.85, nfe=20, rows=33),
        factory.cell("tiny", "waiting_line/reverse", "random-k2", 1.0, nfe=[16] * 19 + [18]),
        failed("tiny", "puzzle/sudoku", "random-k2"),
        factory.cell("tiny", "text_writing/summarization", "random-k2", [0.5, 0.25] * 10, headline="rouge_l"),
        factory.cell("tiny", "waiting_line/insert_index", "random-k2", 1.0),
    ]
    return [written(root, entries, name) for name, entries in (("a", head), ("b", base))]


class TestComparison:
    def test_text_and_markdown(self, same: Check, tmp_path: Path) -> None:
        """`pbcore compare`."""
        head, base = (load_stored(run.path) for run in two_runs(tmp_path))
        comparison = compare_runs(head, base)
        verdict = judge(head, rows_by_id(base))
        shown = [comparison_text(comparison, "a", "b", width, 40) for width in (160, 60)]
        same("\n\n".join([*shown, comparison_markdown(comparison, "a", "b", verdict)]))

    def test_other_names(self, same: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Two samplers of one run."""
        right = {"random-k2": 0.5, "confidence-k2": 0.9, "ar": 1.0}
        entries = [
            factory.cell("tiny", f"waiting_line/{task}", sampler, share)
            for task in ("copy", "shuffle")
            for sampler, share in right.items()
        ]
        path = str(written(tmp_path, entries).path)
        status = main(["compare", path, path, "--sampler", "random-k2=confidence-k2", "--width", "140"])
        same(f"{status}\n{capsys.readouterr().out.replace(str(tmp_path), '')}")

    def test_page(self, same: Check, tmp_path: Path) -> None:
        """`pbcore compare --html`."""
        paths = [run.path for run in two_runs(tmp_path)]
        head, base = map(load_stored, paths)
        page = comparison_page(compare_runs(head, base), head, base, (paths[0], paths[1]))
        same(readable(page).replace(str(tmp_path), ""))

    def test_gate(self, same: Check, tmp_path: Path) -> None:
        """The gate's text and Markdown, with a broken floor."""
        head, base = (load_stored(run.path) for run in two_runs(tmp_path))
        verdict = judge(head, rows_by_id(base), floors=[parse_floor("tiny/shuffle/* accuracy>=0.9")])
        same("\n\n".join([gate_text(verdict, "b"), gate_text(verdict, "b", limit=2), gate_markdown(verdict, "b")]))


def told(figure: Figure) -> str:
    """What a figure shows, panel by panel."""
    lines = [f"size {figure.get_size_inches().round(2).tolist()}; title {figure.get_suptitle()!r}"]
    lines += [f"y {figure.get_supylabel()!r}; texts {[text.get_text() for text in figure.texts]}"]
    for axis in figure.axes:
        lines.append(
            f"panel {axis.get_title()!r}: {axis.get_xlabel()!r} {axis.get_xscale()}, {axis.get_ylabel()!r} "
            f"{axis.get_yscale()}; y {np.round(axis.get_ylim(), 3).tolist()}; "
            f"visible {axis.get_visible()}; inverted {axis.xaxis_inverted()}; "
            f"minor ticks {len(axis.get_xticks(minor=True))}"
        )
        lines += [f"  text {one.get_text()!r} at {one.get_position()}" for one in axis.texts]
        for line in axis.lines:
            if not np.size(line.get_xdata()):
                continue  # made for a legend alone
            x, y = ([f"{value:.5g}" for value in values] for values in map(np.asarray, line.get_data()))
            label = line.get_label() if not str(line.get_label()).startswith("_") else ""
            points = " ".join(f"{a},{b}" for a, b in itertools.zip_longest(x, y))
            lines.append(
                f"  line {label!r} {line.get_color()} {line.get_marker()} {line.get_linestyle()} "
                f"{line.get_markerfacecolor()}: {points}"
            )
        for spans in axis.collections:
            ends = [[f"{a:.5g},{b:.5g}" for a, b in np.asarray(path.vertices)] for path in spans.get_paths()]
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
            Figure, "savefig", lambda figure, path: drawn.append(f"== {Path(path).name}\n{told(figure)}")
        )
        write_plots(frame(record for record, _ in varied()), tmp_path)
        same("\n\n".join(drawn))

    def test_under_load(self, same: Check) -> None:
        """Two models at several numbers at a time, of which one has told an answer's seconds."""
        far = [replace(one, model="far", served=SERVED) for one in model_cells(0.2, 0.05)]
        table = levels(frame([*model_cells(0.5, 0.01), *far]))
        same("\n".join([table.round(6).to_csv(index=False), *bends(table), told(under_load_figure(table))]))

    @pytest.mark.parametrize(
        ("draw", "entries"),
        [
            (runs.figure3, factory.grid(tasks=("waiting_line/copy", "puzzle/sudoku"), ks=(1, 2))),
            (
                sweeps.figure4,
                [
                    factory.cell(task=f"waiting_line/{task}", sampler=sampler, length=n, right=1 / int(n[0]))
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
                    for rest, right in (("k1", 1.0), ("k2", 0.5 * worth), ("k2+b8", 0.7), ("k4", 0.25 * worth))
                ],
            ),
            (
                runs.figure7,
                [
                    factory.cell(task=task, sampler=sampler, right=right, nfe=nfe)
                    for task in runs.FIGURE_7
                    for sampler, right, nfe in (
                        ("threshold-0.5", 0.5, 4),
                        ("threshold-0.9", 0.9, 9),
                        ("random-k2", 0.4, 16),
                    )
                ],
            ),
            (
                sweeps.over_length,
                [
                    under(factory.cell(task="waiting_line/copy", sampler=s, right=8 / m), options={"max_new_tokens": m})
                    for s in ("random-k2", "confidence-k2")
                    for m in (8, 16, 64)
                ],
            ),
            (
                runs.over_questions,
                [
                    factory.cell("tiny", f"questions/shuffle-x{k}", sampler, right, nfe=6 * k - k // 2)
                    for sampler, right in (("random-k2", 0.5), ("dapd_direct", 1.0))
                    for k in (1, 2, 5)
                ],
            ),
        ],
        ids=["3", "4", "5", "6", "7", "length", "questions"],
    )
    def test_from_runs(self, draw: Any, entries: list[Entry], same: Check, tmp_path: Path) -> None:
        """Points and looks, and the CSV beside the picture."""
        if draw is runs.over_questions:
            entries = [
                changed(one, scores={**one[0].scores, "accuracy_all": one[0].scores["accuracy"]}) for one in entries
            ]
        drawings = draw(stored(entries))
        text = []
        for drawing in drawings if isinstance(drawings, list) else [drawings]:
            table = drawing.write(tmp_path)[1].read_text(encoding="utf-8")
            text += [f"== {drawing.name}", drawing.said, told(drawing.figure), table]
        same("\n".join(text))

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
        """`pbcore theory --frontier`: both tables, the figure and its data."""
        rows = frontier_figure.frontier_rows(3)
        found = [
            frontier_figure.regret(
                "shuffle", 4, sampler, Measured(mean, mean - 0.1, mean + 0.05, 100, 2.0), 0.75, 1.0, 1.5
            )
            for sampler, mean in (("random-k2+t1.0", 0.5), ("entropy-k2+t1.0", 0.9), ("wino-0.6", 1.0), ("eb-0.1", 0.7))
        ]
        drawing = frontier_figure.frontier_drawing(found)
        same(
            "\n".join(
                [frontier_figure.frontier_text(rows), drawing.said, told(drawing.figure), json.dumps(drawing.rows)]
            )
        )
