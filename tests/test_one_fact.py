"""Every fact of the canonical run is the same on every screen that tells it.

`TABLE` says which screen tells which facts, and how each is read there; `SILENT` has the screens
that tell none, with the reason. What a run, a report or a command writes and neither table has
fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.printable import fixed
from pbcore.cli.commands import paths
from pbcore.report.report import read_report
from pbcore.results.rundir import RunDir, StoredCell
from tests import screens
from tests.canonical import GIVEN, CanonicalRun

Facts = Mapping[str, Any]
Scores = Mapping[str, float]
DRILLED = "müller/küche/tausch/mine-k2"
SAMPLERS = 4
TASKS = 2


@dataclass(frozen=True, slots=True)
class Reader:
    """How a fact is read from a screen, and what of it the screen shows, and how rounded."""

    read: Callable[[CanonicalRun], Any]
    shown: Callable[[Any], Any] = lambda fact: fact


# What happened, from the answers


def happened(run: CanonicalRun) -> dict[str, Any]:
    """The facts of the judged run, counted from its records."""
    cells = RunDir(run.run).read_cells()
    ran = [entry for entry in cells if entry.cell.status == "ok"]
    models = {entry.cell.model for entry in cells}
    earlier = {entry.cell.id: entry for entry in RunDir(run.base).read_cells()}
    flipped = {}
    words = {}
    for entry in cells:
        base = earlier.get(entry.cell.id)
        if entry.cell.status != "ok":
            words[entry.cell.id] = "error"
        elif base is None:
            words[entry.cell.id] = "new"
        elif any(_flips(entry, base)):
            flipped[entry.cell.id] = _flips(entry, base)
            words[entry.cell.id] = "worse"
    return {
        "scores": {entry.cell.id: 100 * sum(_right(entry)) / len(entry.samples) for entry in ran},
        "scores before": {
            name: 100 * sum(_right(entry)) / len(entry.samples) for name, entry in earlier.items()
        },
        "n": {entry.cell.id: len(entry.samples) for entry in ran},
        "wrong": {entry.cell.id: _right(entry).count(0.0) for entry in ran},
        "forwards": {
            entry.cell.id: sum(sample.nfe or 0 for sample in entry.samples) / len(entry.samples)
            for entry in ran
        },
        "steps": {
            (entry.cell.id, sample.index): sample.blame.step + 1  # records count from 0
            for entry in ran
            for sample in entry.samples
            if sample.blame is not None and sample.blame.step is not None
        },
        "counts": {
            "cells": len(cells),
            "failed": len(cells) - len(ran),
            "left out": len(models) * SAMPLERS * TASKS - len(cells),
            "samples": sum(len(entry.samples) for entry in ran),
        },
        "flips": flipped,
        "words": words,
        "gate": _gate(len(cells), flipped, words),
        "verdict": _verdicts(run.run),
    }


def _right(entry: StoredCell) -> list[float]:
    return [sample.scores[entry.cell.headline] for sample in entry.samples]


def _flips(head: StoredCell, base: StoredCell) -> tuple[list[int], list[int]]:
    """The answers that broke, and those that were mended."""
    pairs = list(enumerate(zip(_right(head), _right(base), strict=True)))
    broke = [index for index, (now, before) in pairs if now < before]
    return broke, [index for index, (now, before) in pairs if now > before]


def _gate(cells: int, flipped: Facts, words: Facts) -> str:
    """The gate's sentence, counted anew; in this run nothing is mended."""
    verdicts = list(words.values())
    compared = cells - verdicts.count("error") - verdicts.count("new")
    broke = sum(len(indices) for indices, _ in flipped.values())
    counts = [f"{verdicts.count(word)} {word}" for word in ("worse", "error", "new")]
    return (
        f"FAILED: worse than base.json (same weights): {broke} of {4 * compared} answers broke,"
        f" none mended; of {cells} cells {', '.join(counts)}"
    )


def _verdicts(run: Path) -> dict[str, str]:
    return {verdict.model: verdict.title for verdict in read_report([run]).verdicts.in_words()}


@pytest.fixture(scope="module")
def facts(canonical: CanonicalRun) -> dict[str, Any]:
    return happened(canonical)


# How a screen shows a fact


def rounded(places: int) -> Callable[[Scores], dict[str, str]]:
    """Numbers of cells with so many decimals, in percent or whatever they are."""
    return lambda numbers: {cell: fixed(number, places) for cell, number in numbers.items()}


def or_error(scores: Scores) -> dict[str, str]:
    """Whole percents; `error` for the cells of the sampler that fails."""
    models = {cell.partition("/")[0] for cell in scores}
    failed = {
        f"{model}/{task}/fails-k2": "error"
        for model in models
        for task in ("shuffle", "küche/tausch")
    }
    return rounded(0)(scores) | failed


def share(places: int) -> Callable[[Scores], dict[str, float]]:
    """Percent as a share of 1, so rounded."""
    return lambda scores: {cell: round(score / 100, places) for cell, score in scores.items()}


def only(*names: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda counts: {name: counts[name] for name in names}


def each(numbers: Mapping[str, int]) -> set[int]:
    return set(numbers.values())


def wrong_of(numbers: Mapping[str, int]) -> dict[str, str]:
    return {cell: f"{number} of 4" for cell, number in numbers.items()}


def judged(words: Mapping[str, str]) -> dict[str, str]:
    """The verdicts on compared cells."""
    return {cell: word for cell, word in words.items() if word not in ("error", "new")}


def failing(words: Mapping[str, str]) -> dict[str, str]:
    """The verdicts that fail a gate."""
    return {cell: word for cell, word in words.items() if word != "new"}


def compared(sentence: str) -> list[str]:
    """The gate's sentence over two runs of which nobody asked for a gate."""
    return [f"{sentence.replace('base.json', 'base')}; 8 of 14 cells compared"]


def mean_of(numbers: Scores) -> dict[str, str]:
    """Means over a sampler's tasks."""
    groups: dict[str, list[float]] = {}
    for cell, number in numbers.items():
        model, *_, sampler = cell.split("/")
        groups.setdefault(f"{model}/{sampler}", []).append(number)
    return {name: fixed(sum(group) / len(group), 2) for name, group in groups.items()}


def first_step(steps: Mapping[tuple[str, int], int]) -> int:
    return min((index, step) for (cell, index), step in steps.items() if cell == DRILLED)[1]


def on_the_site(scores: Scores) -> list[float]:
    """The cells of a task and a sampler that the site has."""
    return [scores[f"{model}/shuffle/confidence-k1"] for model in ("ideal", "müller")]


def alone(sentence: str) -> list[str]:
    return [sentence]


# The table


def of_screen(
    name: str, read: Callable[[str], Any], shown: Callable[[Any], Any] = lambda fact: fact
) -> Reader:
    """A fact on what a command of the canonical run printed."""
    return Reader(lambda run: read(run.screen(name)), shown)


def of_file(
    name: str, read: Callable[[str], Any], shown: Callable[[Any], Any] = lambda fact: fact
) -> Reader:
    """A fact in a text file, given from the project's folder."""
    return Reader(lambda run: read((run.project / name).read_text(encoding="utf-8")), shown)


def of_path(
    name: str, read: Callable[[Path], Any], shown: Callable[[Any], Any] = lambda fact: fact
) -> Reader:
    return Reader(lambda run: read(run.project / name), shown)


def page(prefix: Callable[[CanonicalRun], str]) -> dict[str, Reader]:
    """The facts of a page, from its texts and from what its script shows."""
    return {
        "verdict": Reader(lambda run: screens.page_verdicts(screens.page_text(prefix(run)))),
        "gate": Reader(lambda run: screens.gates(screens.page_text(prefix(run))), alone),
        "scores": Reader(
            lambda run: {
                cell["id"]: round(cell["scores"]["accuracy"][0], 4)
                for cell in screens.page_data(prefix(run))
                if cell["scores"]
            },
            share(4),
        ),
        "n": Reader(
            lambda run: {
                cell["id"]: cell["n"] for cell in screens.page_data(prefix(run)) if cell["n"]
            }
        ),
        "wrong": Reader(lambda run: screens.page_fact(prefix(run), "wrong answers"), wrong_of),
        "forwards": Reader(
            lambda run: {
                cell: nfe.partition(" ")[0]
                for cell, nfe in screens.page_fact(prefix(run), "NFE").items()
            },
            rounded(1),
        ),
    }


def junit(name: str) -> dict[str, Reader]:
    return {
        "scores": of_path(
            name,
            lambda path: {
                cell: float(value) for cell, value in screens.junit_property(path, "score").items()
            },
            share(3),
        ),
        "forwards": of_path(
            name,
            lambda path: {
                cell: float(value)
                for cell, value in screens.junit_property(path, "forwards").items()
            },
            lambda numbers: {cell: round(number, 3) for cell, number in numbers.items()},
        ),
        "n": of_path(
            name,
            lambda path: {
                cell: int(value) for cell, value in screens.junit_line(path, r"(\d+) samp").items()
            },
        ),
        "counts": of_path(name, screens.junit_counts, only("cells", "failed")),
    }


def tabular(rows: Callable[[Path], Any], kind: str) -> dict[str, dict[str, Reader]]:
    """The facts of both exported tables."""
    cells = f"{kind}/cells.{kind}"
    return {
        cells: {
            "scores": of_path(
                cells,
                lambda path: screens.column(rows(path), "score"),
                lambda scores: pytest.approx(share(9)(scores)),
            ),
            "n": of_path(cells, lambda path: screens.column(rows(path), "n")),
            "forwards": of_path(
                cells, lambda path: screens.column(rows(path), "nfe"), pytest.approx
            ),
            "counts": of_path(
                cells, lambda path: screens.cell_counts(rows(path)), only("cells", "failed")
            ),
        },
        f"{kind}/samples.{kind}": {
            "steps": of_path(
                f"{kind}/samples.{kind}", lambda path: screens.blamed_rows(rows(path))
            ),
        },
    }


TABLE: dict[str, dict[str, Reader]] = {
    "pytest": {
        "verdict": of_screen("terminal", screens.verdicts),
        "scores": of_screen("terminal", screens.matrix_scores, or_error),
        "n": of_screen("terminal", screens.matrix_n, each),
        "counts": of_screen("terminal", screens.counts),
        "wrong": of_screen("terminal", screens.kinds, lambda wrong: sum(wrong.values())),
    },
    "pytest -v": {
        "verdict": of_screen("terminal -v", screens.verdicts),
        "scores": of_screen("terminal -v", screens.list_scores, or_error),
        "n": of_screen("terminal -v", screens.list_n, each),
        "counts": of_screen("terminal -v", screens.counts),
    },
    "pytest --gate": {
        "gate": of_screen("gate failed", screens.gates, alone),
        "flips": of_screen("gate failed", screens.flips),
        "scores": of_screen("gate failed", screens.matrix_scores, or_error),
        "n": of_screen("gate failed", screens.matrix_n, each),
        "counts": of_screen("gate failed", screens.counts),
    },
    "pytest CELL -x": {"steps": of_screen("drill-down", screens.blamed, first_step)},
    "pbcore report": {
        "verdict": of_screen("report", screens.verdicts),
        "scores": of_screen("report", screens.list_scores, or_error),
        "n": of_screen("report", screens.list_n, each),
    },
    "pbcore compare": {
        "gate": of_screen(
            "compare", lambda text: screens.gates(text, screens.COMPARISON), compared
        ),
        "flips": of_screen("compare", screens.flips),
        "scores": of_screen(
            "compare",
            lambda text: {cell: a for cell, (_, a) in screens.compared_scores(text).items()},
            lambda scores: rounded(1)({cell: scores[cell] for cell in scores if "mine" in cell}),
        ),
        "scores before": of_screen(
            "compare",
            lambda text: {cell: b for cell, (b, _) in screens.compared_scores(text).items()},
            lambda scores: rounded(1)({cell: scores[cell] for cell in scores if "mine" in cell}),
        ),
    },
    "pbcore view RUN": {
        **page(screens.page_of),
        "steps": Reader(screens.answers_of_page),
    },
    "pbcore view": {
        "gate": Reader(
            lambda run: screens.gates(
                screens.page_text(screens.served((run.project,), "/run/one%20%5B1%5D/"))
            ),
            alone,
        ),
    },
    "pbcore view, two runs marked": {
        "gate": Reader(
            lambda run: screens.gates(
                screens.page_text(screens.compared_page(run)).replace(f"{run.project}/", ""),
                screens.COMPARISON,
            ),
            compared,
        ),
        "words": Reader(
            lambda run: {
                row["cell"]: row["A is"]
                for row in screens.differences(screens.page_text(screens.compared_page(run)))
                if row["A is"] != "the same"
            },
            judged,
        ),
    },
    "pbcore blame": {
        "n": of_screen(
            "blame",
            lambda text: {int(n) for n in re.findall(r"-k?\d +(\d+) +[\d.]+ = ", text)},
            each,
        ),
    },
    "pbcore rescore": {
        "counts": of_screen(
            "rescore",
            lambda text: {"cells": int(text.partition(" ")[0])},
            lambda counts: {"cells": counts["cells"] - counts["failed"]},
        ),
    },
    "pbcore merge": {
        "counts": of_screen(
            "merge",
            lambda text: {"cells": int(text.partition(" ")[0])},
            only("cells"),
        ),
    },
    "report.md": {
        "verdict": of_file("one [1]/report.md", screens.verdicts),
        "gate": of_file("one [1]/report.md", screens.gates, alone),
        "flips": of_file("one [1]/report.md", screens.flips),
        "scores": of_file("one [1]/report.md", screens.by_task, or_error),
        "n": of_file("one [1]/report.md", screens.list_n, each),
        "forwards": of_file(
            "one [1]/report.md", lambda text: screens.by_sampler(text, "NFE"), mean_of
        ),
    },
    "report.html": {
        **page(lambda run: (run.run / "report.html").read_text(encoding="utf-8")),
        "steps": of_file("one [1]/report.html", screens.page_steps),
    },
    "gate.md": {
        "gate": of_file("one [1]/gate.md", screens.gates, alone),
        "words": of_file("one [1]/gate.md", screens.gate_words),
        "flips": of_file("one [1]/gate.md", screens.gate_flips),
    },
    "the step summary of a CI": {
        "gate": of_file(
            "../summary.md",
            screens.gates,
            lambda sentence: [sentence, PASSED],
        ),
        "words": of_file("../summary.md", screens.gate_words),
    },
    "run.json": {
        "gate": of_path(
            "one [1]",
            lambda path: screens.gates("\n".join(RunDir(path).read_run()["gate"])),
            alone,
        ),
    },
    "results.json": {
        "scores": of_path(
            "one [1]",
            lambda path: {
                cell["id"]: cell["scores"]["accuracy"]["mean"]
                for cell in screens.stored(path)
                if cell["status"] == "ok"
            },
            lambda scores: pytest.approx(share(9)(scores)),
        ),
        "n": of_path(
            "one [1]",
            lambda path: {
                cell["id"]: cell["n_samples"]
                for cell in screens.stored(path)
                if cell["status"] == "ok"
            },
        ),
        "counts": of_path(
            "one [1]",
            lambda path: screens.cell_counts(screens.stored(path)),
            only("cells", "failed"),
        ),
    },
    "samples.jsonl": {
        "steps": of_path(
            "one [1]/samples.jsonl",
            lambda path: {
                (row["cell"], row["index"]): row["blame"]["step"] + 1
                for row in screens.lines_of(path)
                if (row.get("blame") or {}).get("step") is not None
            },
        ),
        "counts": of_path(
            "one [1]/samples.jsonl",
            lambda path: {"samples": len(screens.lines_of(path))},
            only("samples"),
        ),
    },
    "junit.xml": {
        **junit("one [1]/junit.xml"),
        "words": of_path("one [1]/junit.xml", screens.junit_words, failing),
    },
    "--junitxml": junit("pytest.xml"),
    "merged junit.xml": junit("merged/junit.xml"),
    "--benchmark-json": {
        "scores": of_path(
            "benchmark.json",
            lambda path: screens.benchmark_property(path, "score"),
            share(3),
        ),
        "forwards": of_path(
            "benchmark.json",
            lambda path: screens.benchmark_property(path, "forwards"),
            lambda numbers: {cell: round(number, 3) for cell, number in numbers.items()},
        ),
    },
    "compare.md": {
        "gate": of_file(
            "compare.md", lambda text: screens.gates(text, screens.COMPARISON), compared
        ),
        "words": of_file("compare.md", screens.comment_words, judged),
        "scores": of_file(
            "compare.md",
            lambda text: {cell: a for cell, (_, a) in screens.comment_scores(text).items()},
            lambda scores: rounded(1)({cell: scores[cell] for cell in scores if "mine" in cell}),
        ),
    },
    "compare.html": {
        "gate": of_file(
            "compare.html",
            lambda text: screens.gates(screens.page_text(text), screens.COMPARISON),
            compared,
        ),
        "words": of_file(
            "compare.html",
            lambda text: {
                row["cell"]: row["A is"]
                for row in screens.differences(screens.page_text(text))
                if row["A is"] != "the same"
            },
            judged,
        ),
        "scores": of_file(
            "compare.html",
            lambda text: {
                row["cell"]: row["A %"] for row in screens.differences(screens.page_text(text))
            },
            lambda scores: rounded(1)(
                {cell: score for cell, score in scores.items() if "saber" not in cell}
            ),
        ),
    },
    **tabular(screens.csv_rows, "csv"),
    **tabular(screens.parquet_rows, "parquet"),
    "site": {
        "scores": of_path("site", screens.site_scores, on_the_site),
    },
    "every-eval": {
        "scores": of_path(
            "every-eval",
            lambda path: {
                cell: round(details["score"], 9)
                for cell, details in screens.every_eval(path).items()
            },
            share(9),
        ),
    },
}
# A file that some command writes → the row of TABLE that has it; * stands for a folder or a name.
WRITTEN = {
    "*/report.md": "report.md",
    "*/report.html": "report.html",
    "*/run.json": "run.json",
    "*/results.json": "results.json",
    "*/samples.jsonl": "samples.jsonl",
    "*/gate.md": "gate.md",
    "*/junit.xml": "junit.xml",
    "merged/junit.xml": "merged junit.xml",
    "pytest.xml": "--junitxml",
    "benchmark.json": "--benchmark-json",
    "compare.md": "compare.md",
    "compare.html": "compare.html",
    "csv/cells.csv": "csv/cells.csv",
    "csv/samples.csv": "csv/samples.csv",
    "parquet/cells.parquet": "parquet/cells.parquet",
    "parquet/samples.parquet": "parquet/samples.parquet",
    "every-eval/**/*.json": "every-eval",
    "site/figures/*/*.csv": "site",
}
SILENT_FILES = {
    "*/cells/*.json": "the records, of which the facts are counted here",
    "*/questions/*.json": "what was asked, before there is an answer",
    "every-eval/**/*_samples.jsonl": "each answer's text and score, without a step or a count",
    "passed/*.png": "pictures, whose points tests/report/test_plots.py compares",
    "*.json": "a baseline, against which gates judge; the screens of gates tell what follows",
}
# A command → the rows of TABLE that have what it prints or shows.
TELLS = {
    ("pytest",): ("pytest", "pytest -v", "pytest --gate", "pytest CELL -x"),
    ("report",): ("pbcore report", "report.md", "report.html"),
    ("view",): ("pbcore view RUN", "pbcore view", "pbcore view, two runs marked"),
    ("compare",): ("pbcore compare", "compare.md", "compare.html"),
    ("blame",): ("pbcore blame",),
    ("merge",): ("pbcore merge", "merged junit.xml"),
    ("rescore",): ("pbcore rescore",),
    ("export",): ("csv/cells.csv", "parquet/cells.parquet", "every-eval", "site"),
}
SILENT_COMMANDS = {
    (
        "tune",
    ): "measures and judges runs of its own; tests/extras/tune compares what it tells with them",
    ("explain",): "measures runs of its own; tests/explain holds page, picture, terminal and JSON",
    ("price",): "measures seconds of calls; it reads no run",
    ("figures",): "draws; its numbers are means of results.load, which its tests compare",
    ("figures", "theory"): "exact losses of an ideal model; it reads no run",
    ("list", "tasks"): "reads no run",
    ("list", "samplers"): "reads no run",
    ("list", "models"): "reads no run",
    ("list", "presets"): "reads no run",
    ("check", "machine"): "reads no run",
    ("check", "gpu"): "checks a device with cells of its own",
    ("check", "model"): "reads no run",
    ("check", "engine"): "checks a program with cases of its own",
    ("check", "scores"): "says whether a run's scores are those of its answers",
    ("check", "agreement"): "reads no run",
    ("install", "languagetool"): "reads no run",
    ("install", "bertscore"): "reads no run",
    ("lm-eval",): "measures a run of its own; its tables are those of report",
    ("import",): "makes a run of another tool's answers; report and view tell of it",
}
PASSED = "PASSED: no worse than same.json (same weights): all 8 answers repeat"


@pytest.mark.parametrize(
    ("screen", "fact"), [(screen, fact) for screen, row in TABLE.items() for fact in row]
)
def test_a_screen_tells_what_happened(
    canonical: CanonicalRun, facts: dict[str, Any], screen: str, fact: str
) -> None:
    """Each fact, as far as the screen shows it, is that which the answers give."""
    reader = TABLE[screen][fact]
    assert reader.read(canonical) == reader.shown(facts[fact])


def test_each_file_is_in_the_table(canonical: CanonicalRun) -> None:
    """What the commands of the canonical run write has a row of TABLE, or a reason for none."""
    known = {**WRITTEN, **SILENT_FILES}
    written = []
    for path in sorted(canonical.project.rglob("*")):
        place = path.relative_to(canonical.project)
        if path.is_file() and place.parts[0] not in (*GIVEN, "__pycache__"):
            written.append(place.as_posix())
    unknown = [path for path in written if not any(_is(path, pattern) for pattern in known)]
    assert unknown == []
    assert [each for each in known if not any(_is(path, each) for path in written)] == []


def _is(path: str, pattern: str) -> bool:
    """Whether a path has this form: `**` stands for folders, `*` for a part of a name."""
    form = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(form, path) is not None


def test_each_command_is_in_the_table() -> None:
    """So has every command, with what it shows of a run."""
    assert {*TELLS, *SILENT_COMMANDS} == {("pytest",), *paths()}
    assert not {*TELLS} & {*SILENT_COMMANDS}


def test_each_row_is_named_by_what_shows_it() -> None:
    """No row of TABLE is left without a file or a command that shows it."""
    shown = {*WRITTEN.values(), "the step summary of a CI"}
    for rows in TELLS.values():
        shown |= {*rows}
    assert shown == {*TABLE}
