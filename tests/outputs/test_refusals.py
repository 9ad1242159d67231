"""What users are told of input that can't be used, room by room."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from pbcore.base.errors import PbcoreError
from pbcore.cli import main
from pbcore.extras.paper import curves, sweeps
from pbcore.names import parse
from pbcore.report import measured
from pbcore.report.curve_figures import over_questions, read_curves
from pbcore.report.runs import list_runs
from pbcore.report.sweeps import over_length
from pbcore.results import create
from tests.exchange.test_rescore import run_of
from tests.extras.lm_eval.harness import copy_task, needs_harness
from tests.outputs.entries import stored, under
from tests.plugin.conftest import Run, apart, entry_points, in_process, modules, project, run
from tests.results import factory
from tests.results.test_damaged_files import MADE, READ

__all__ = ["apart", "entry_points", "in_process", "modules", "project", "run"]  # fixtures


@pytest.fixture
def check(
    file_regression: FileRegressionFixture,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    """Compares messages, of calls and of commands by their words, with the file of the test."""

    def message(call: Callable[[], object] | tuple[str, ...] | str) -> str:
        if isinstance(call, str):
            return call
        if isinstance(call, tuple):
            assert main(list(call)) == 2
            return re.sub(r"^pbcore [a-z -]+: ", "", capsys.readouterr().err).rstrip()
        try:
            return f"not refused: {call()}"
        except (PbcoreError, ValueError) as error:
            return str(error)

    def told(calls: Mapping[str, Callable[[], object] | tuple[str, ...] | str]) -> None:
        lines = [
            f"{name}: {message(call).replace(str(tmp_path), '…')}" for name, call in calls.items()
        ]
        name = request.node.name.removeprefix("test_")
        file_regression.check("\n".join(lines) + "\n", encoding="utf-8", basename=name)

    return told


def copies(*levels: str, **more: Any) -> list[Any]:
    return stored(factory.cell("tiny", "waiting_line/copy", level, **more) for level in levels)


def test_figures(check: Any, tmp_path: Path) -> None:
    """What a figure needs."""
    dummy = factory.write(create(tmp_path, "dummy"), [factory.cell("d", dummy=True)]).path
    short = [under(factory.cell(sampler="random-k2"), options={"max_new_tokens": 8})] * 2
    short += [under(factory.cell(sampler="random-k2"), options={"max_new_tokens": 16})]
    check(
        {
            "no runs": ("figures", "3"),
            "a run too many": ("figures", "2a", str(dummy)),
            "blocks": ("figures", "2a", "--n", "4,6", "--block-length", "5", "--samples", "2"),
            "n of the frontier": ("figures", "theory", "--frontier", "--n", "13"),
            "random weights alone": lambda: read_curves([dummy]),
            "3": lambda: curves.figure3(stored([factory.cell(task="waiting_line/sort")])),
            "4": lambda: sweeps.figure4(copies("random-k2", length="5")),
            "4, other questions": lambda: sweeps.by_length(copies("random-k2", length="5,10")[0]),
            "5": lambda: sweeps.figure5(copies("random-k2")),
            "6": lambda: sweeps.figure6(copies("random-k2")),
            "7": lambda: curves.figure7(stored([factory.cell(task="waiting_line/sort")])),
            "length": lambda: over_length(copies("random-k2")),
            "length twice": lambda: over_length(stored(short)),
            "questions": lambda: over_questions(copies("random-k2")),
            "one question": lambda: measured.question_set("insert_random", 4, 2, different=True),
            "no infilling": lambda: measured.question_set("sort", 4, 2),
            "squares": lambda: measured.question_set("latin_square", 4, 2),
        }
    )


def test_exchange_and_report(check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the commands that read runs."""
    made = factory.write(
        create(tmp_path, "run"), [factory.cell(), factory.cell(sampler="random-k4")]
    ).path
    empty = create(tmp_path, "empty").path
    (empty / "cells").mkdir(exist_ok=True)
    asked = run_of(tmp_path / "asked").path
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = str(made)
    check(
        {
            "nothing to export": ("export", str(empty), "--csv", str(tmp_path / "x")),
            "no format": ("export", path),
            "no pyarrow": ("export", path, "--parquet", str(tmp_path / "x")),
            "no answers": ("rescore", str(empty)),
            "no steps": ("rescore", str(asked), "--cot-answer", "whole"),
            "published alone": ("report", path, "--published", "x.csv"),
            "as": ("report", path, "--against-published", "--as", "ours="),
            "no pair": ("compare", path, path, "--sampler", "=x"),
            "twice": ("compare", path, path, "--sampler", "a=b", "--sampler", "a=c"),
            "no such name": ("compare", path, path, "--sampler", "random-k3=random-k4"),
            "no run": lambda: list_runs(tmp_path / "none"),
        }
    )
    assert not (tmp_path / "x").exists()


def test_damaged_files(check: Any, tmp_path: Path) -> None:
    """Records, baselines, tunings and tables that were edited."""
    numbers = count(1)
    cell = factory.cell()[0].id

    def edited(kind: str, before: str, after: str) -> Callable[[], object]:
        def read() -> object:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            file = MADE[kind](folder)
            text = file.read_text()
            assert before in text
            file.write_text(text.replace(before, after, 1))
            return READ[kind](file)

        return read

    check(
        {
            "cut": edited("cell", '"samples":', '"samples"'),
            "type": edited("cell", '"n_samples": 2', '"n_samples": "2"'),
            "true": edited("cell", '"n_samples": 2', '"n_samples": true'),
            "NaN": edited("cell", '"n_samples": 2', '"n_samples": NaN'),
            "range": edited("cell", '"mean": ', '"mean": 7'),
            "word": edited("cell", '"status": "ok"', '"status": "fine"'),
            "missing": edited("cell", '"task": "waiting_line/shuffle",', ""),
            "inside": edited("cell", '"batch_size": 8', '"batch_size": "8"'),
            "answer": edited("cell", '"text": "an answer"', '"text": null'),
            "too few answers": edited("cell", '"n_samples": 2', '"n_samples": 3'),
            "no answers": edited("cell", '"samples": [', '"samples": {}, "more": ['),
            "newer": edited("cell", '"schema": 2', '"schema": 3'),
            "newer field": edited("cell", '"task": ', '"colour": "red", "task": '),
            "twice": edited("cell", '"headline": ', '"headline": "x", "headline": '),
            "twice inside": edited("results", '"mean": ', '"mean": 0.5, "mean": '),
            "twice in a line": edited("samples", '"nfe": 16', '"nfe": 15, "nfe": 16'),
            "run": edited("run.json", '"seeds": [', '"seeds": 0, "x": ['),
            "baseline": edited("baseline", '"schema": 2', '"schema": 9'),
            "twice in a baseline": edited("baseline", '"seeds": ', '"nfe": "9x2", "seeds": '),
            "cell of it twice": edited("baseline", '"cells": {', f'"cells": {{"{cell}": 1,'),
            "tuning": edited("tuning", '"need": [958, 1742]', '"need": "many"'),
            "cut tuning": edited("tuning", "}", ""),
            "prices": edited("prices", '"pbcore_prices": ', '"pbcore_prices": 9'),
            "cut prices": edited("prices", '"model":', '"model"'),
            "record": edited("benchmark", '"pbcore_record": "', '"pbcore_record": "?'),
            "table": edited("published", "method", "way"),
            "no table": edited("published", "\na", "\n1,2,3,4,5\n1,2,3,4,5,6,7\na"),
        }
    )  # fmt: skip


def test_lm_eval(check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the harness's tasks and of the model that it asks."""
    needs_harness()
    from pbcore.extras.lm_eval.likelihood import bounds
    from pbcore.extras.lm_eval.model import PbcoreLM
    from pbcore.extras.lm_eval.records import write_run
    from pbcore.extras.lm_eval.tasks import add_harness_tasks, asked

    monkeypatch.chdir(tmp_path)
    # In place of the harness's own tasks, 13,000 files, stands a folder without any.
    monkeypatch.setattr("lm_eval.tasks.manager.__file__", str(tmp_path / "own" / "manager.py"))
    (tmp_path / "own").mkdir()

    def added(**config: Any) -> Callable[[], object]:
        folder = copy_task(tmp_path / str(len(list(tmp_path.iterdir()))), "sums", 1, **config)
        return lambda: add_harness_tasks(["lm_eval/sums"], folder)

    def settings(sampler: str, **given: Any) -> Callable[[], object]:
        return lambda: asked(given, parse(sampler), 8)

    other = tmp_path / "results_1.json"
    other.write_text(json.dumps({"config": {}}))
    bare = tmp_path / "bare" / "results_2.json"
    bare.parent.mkdir()
    bare.write_text(json.dumps({"config": {"pbcore": {}}, "configs": {"sums": {}}}))
    lm = PbcoreLM("tiny", "random-k2", device="cpu")
    ideal = PbcoreLM("ideal", "random-k2", device="cpu")
    block: Any = SimpleNamespace(
        _model=SimpleNamespace(name="b"), loglikelihood=PbcoreLM.loglikelihood
    )
    check(
        {
            "no model": lambda: PbcoreLM(),
            "sampler": lambda: PbcoreLM("tiny", "confidenc-k2"),
            "batch size": lambda: PbcoreLM("tiny", "random-k2", device="cpu", batch_size="0"),
            "template by name": lambda: lm.chat_template("default"),
            "no template": lambda: ideal.apply_chat_template([{"role": "user", "content": "x"}]),
            "rolling": lambda: lm.loglikelihood_rolling([]),
            "likelihood": lambda: block.loglikelihood(block, []),
            "draws": lambda: bounds(lm._model, [([1], [2])], 1, [0], 1),
            "no continuation": lambda: bounds(lm._model, [([1], [])], 2, [0], 1),
            "two results": lambda: write_run([other, other], tmp_path / "run"),
            "no samples": lambda: write_run([bare], tmp_path / "run2"),
            "no results": ("lm-eval", "import", str(tmp_path / "none")),
            "output": ("lm-eval", "run", "--output_path", "x.json"),
            "import": ("lm-eval", "import"),
            "length": settings("random-k2", max_gen_toks=0),
            "until": settings("random-k2", until=1),
            "unknown setting": settings("random-k2", num_beams=4),
            "temperature": settings("random-k2", temperature="hot"),
            "greedy": settings("random-k2+t0.5", do_sample=False),
            "sampled": settings("random-k2", do_sample=True, temperature=0.7),
            "sampled otherwise": settings("random-k2+t0.5", do_sample=True, temperature=0.7),
            "folder": lambda: add_harness_tasks(["lm_eval/x"], tmp_path / "none"),
            "no task": lambda: add_harness_tasks(["lm_eval/nothing-at-all"], bare.parent),
            "unsafe": added(unsafe_code=True),
            "images": added(doc_to_image="q"),
            "likelihoods": added(output_type="multiple_choice", doc_to_choice=["1", "2"]),
            "prefix": added(gen_prefix="It is"),
            "repeats": added(repeats=2),
        }
    )


CELLS = "def test_cell(cell, model, task, benchmark):\n    cell.measure(model, task, benchmark)\n"
MARK = "import pytest\n\n@pytest.mark.cells('waiting_line')\n"


def test_plugin(check: Any, project: pytest.Pytester, run: Run, in_process: Run) -> None:
    """Usage errors of pytest, by what was given."""
    project.makeini("[pytest]\npbcore_limit = few\n")

    def of(result: pytest.RunResult) -> str:
        lines = [
            line
            for line in [*result.errlines, *result.outlines]
            if re.match(r"(ERROR|E  )|.*(nothing is run|takes the fixture|has samples)", line)
        ]
        return "\n  ".join(line.replace(str(project.path), "…") for line in lines)

    def file(text: str) -> str:
        path = project.path / "test_own.py"
        path.write_text(text)
        return path.name

    base = ("--model", "ideal", "--task", "copy", "--sampler", "random-k2", "--limit", "2")
    texts = {"ini": of(run(*base[:-2]))}
    project.makeini("[pytest]\njunit_family = xunit1\nmarkers = quick: x\n")
    run(*base, "--out", "done").assert_outcomes(passed=1)
    check(
        texts
        | {
            "estimate and workers": of(run(*base, "--estimate", "-n", "2")),
            "estimate and gates": of(run(*base, "--estimate", "--gate", "done")),
            "benchmark": of(run(*base, "--benchmark-disable")),
            "no benchmark": of(run(*base, "-p", "no:benchmark")),
            "a file": of(run(*base, "--out", "conftest.py")),
            "not empty": of(run(*base, "--out", "done")),
            "other settings": of(run(*base, "--n", "4", "--resume", "done")),
            "a sample of a gate": of(run(*base, "--gate", "done", "--sample", "1")),
            "no such sample": of(run(*base, "--sample", "1001")),
            "no such sample of a cell": of(
                in_process(
                    "benches/test_waiting_line.py::test_cell[ideal/copy/random-k2/500]",
                    "-p",
                    "no:cacheprovider",
                )
            ),
            "without cell": of(in_process(file(MARK + "def test_it():\n    pass\n"), *base)),
            "without mark": of(in_process(file(CELLS), *base)),
            "category": of(in_process(file(MARK.replace("waiting_line", "lines") + CELLS), *base)),
            "parameters": of(
                in_process(
                    file(
                        MARK
                        + "@pytest.mark.parametrize('n', [1, 2])\n"
                        + CELLS.replace("(cell", "(n, cell")
                    ),
                    *base,
                )
            ),
            "twice": of(in_process("benches", file(MARK + CELLS), *base)),
        }
    )
