"""Readers of the canonical run's screens: each takes one fact from one screen, as it stands there.

What a reader returns is in the screen's own decimals, as text where digits are rounded.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen
from xml.etree import ElementTree

import pandas as pd

from pbcore.report.page.html import read_element
from pbcore.report.view import serve, serve_folder
from tests.canonical import CanonicalRun
from tests.outputs.entries import readable

TASKS = {"shuffle": "shuffle", "tausch": "küche/tausch", "küche/tausch": "küche/tausch"}
GATE = "gate "
COMPARISON = "comparison "
Row = dict[str, str]


# Texts of terminals


def gates(text: str, word: str = GATE) -> list[str]:
    """Verdicts as `FAILED: worse than …`, each once: the terminal ends with their short form."""
    lines = [line.strip("#* ") for line in text.splitlines()]
    verdicts = [line.removeprefix(word) for line in lines if line.startswith(word)]
    whole = [each for each in verdicts if ": " in each.partition(": ")[2]]
    return list(dict.fromkeys(whole))


def flips(text: str) -> dict[str, tuple[list[int], list[int]]]:
    """Cell → its broken and its mended answers: `  ideal/shuffle  mine-k2   2 of 4 broke: 0 1`."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"  (\S+) +(\S+) {3}(.*(?:broke|mended): .*)", line)
        if match and f"{match[1]}/{match[2]}" not in found:
            found[f"{match[1]}/{match[2]}"] = flips_of(match[3])
    return found


def flips_of(reason: str) -> tuple[list[int], list[int]]:
    """The answers in `2 of 4 broke: 0 1; 1 of 4 mended: 3`."""
    lists = []
    for word in ("broke", "mended"):
        match = re.search(rf"{word}: ([\d ]+)", reason)
        lists.append([int(index) for index in match[1].split()] if match else [])
    return lists[0], lists[1]


def compared_scores(text: str) -> dict[str, tuple[str, str]]:
    """Cell → the scores of B and A in the comparison's table."""
    row = r"^(?:worse|better|changed|slower|faster)? *(\S+/\S+) +([\d.]+) +([\d.]+) +[+-]"
    return {cell: (b, a) for cell, b, a in re.findall(row, text, re.MULTILINE)}


def matrix_scores(text: str) -> dict[str, str]:
    """Cell → its score in the matrices of a run's end."""
    scores = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("score in %, n = "):
            continue
        model, *policies = lines[number - 1].split()
        parameters = line.split()[6:]
        samplers = [f"{a}-{b}" for a, b in zip(policies, parameters, strict=True)]
        for row in lines[number + 1 :]:
            task, *values = row.split()
            if task not in TASKS:
                break
            for sampler, value in zip(samplers, values, strict=True):
                scores[f"{model}/{TASKS[task]}/{sampler}"] = value
    return scores


def matrix_n(text: str) -> set[int]:
    """The number of questions above the matrices."""
    return {int(n) for n in re.findall(r"^score in %, n = (\d+)", text, re.MULTILINE)}


def list_scores(text: str) -> dict[str, str]:
    """Cell → its score in the tables of `pbcore report` and of `-v`, a category each."""
    scores = {}
    task = model = ""
    for line in text.splitlines():
        if re.match(r" {8,}\S+ +tok/step", line):
            task = TASKS[line.split()[0]]
        elif task and re.fullmatch(r"\S+", line):
            model = line
        elif task and line.startswith("  error:"):
            task = ""
        else:
            match = re.match(r"  (\S+-\S+) +(\d+|error)\b", line)
            if task and match:
                scores[f"{model}/{task}/{match[1]}"] = match[2]
    return scores


def list_n(text: str) -> set[int]:
    """The number of questions above those tables."""
    return {int(n) for n in re.findall(r"\((\d+) samples a cell\)", text)}


def verdicts(text: str) -> dict[str, str]:
    """Model → its verdict: `ideal   no winner: …`."""
    told = re.findall(r"^[* ]*(\w+) {3}(no (?:winner|verdict).*?)[* ]*$", text, re.MULTILINE)
    return dict(told)


def counts(text: str) -> dict[str, int]:
    """How many cells a run has, how many failed, how many were left out, and the samples."""
    named = {
        "cells": r"^(\d+) cells, ",
        "failed": r"^(\d+) cells could not be run",
        "left out": r"^left out: (\d+) cells",
        "samples": r"^\d+ cells, (\d+) samples",
    }
    return {
        name: int(found[1])
        for name, pattern in named.items()
        if (found := re.search(pattern, text, re.MULTILINE))
    }


def kinds(text: str) -> int:
    """How many answers are wrong by any kind."""
    line = re.search(r"^wrong answers by kind: (.*)", text, re.MULTILINE)
    assert line is not None
    return sum(int(count) for count in re.findall(r" (\d+)(?:,|$)", line[1]))


def blamed(text: str) -> int:
    """The step to blame of the one answer that is shown."""
    match = re.search(r"Step (\d+) revealed ", text)
    assert match is not None
    return int(match[1])


# Tables of Markdown, and of pages as text


def cells_of(line: str) -> list[str]:
    parts = line.strip().strip("|").split("|")
    return [re.sub(r"[`*\\]", "", part).strip() for part in parts]


def tables(text: str, *heads: str) -> Iterator[list[Row]]:
    """The tables whose first heads are these, each as its rows by head."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        columns = cells_of(line) if "|" in line else []
        if tuple(columns[: len(heads)]) != heads:
            continue
        rows = []
        for row in lines[number + 1 :]:
            if "|" not in row:
                break
            if not row.startswith("|:"):
                rows.append(dict(zip(columns, cells_of(row), strict=False)))
        yield rows


def by_task(text: str) -> dict[str, str]:
    """Cell → its score in tables with a column for each task, without its interval."""
    scores = {}
    for rows in tables(text, "model", "sampler"):
        for row in rows:
            for task in TASKS.keys() & row.keys():
                score = row[task].partition(" ")[0]
                if re.fullmatch(r"\d+|error", score):
                    scores[f"{row['model']}/{TASKS[task]}/{row['sampler']}"] = score
    return scores


def by_sampler(text: str, column: str) -> dict[str, str]:
    """Model and sampler → a column of the first table that has it."""
    for rows in tables(text, "model", "sampler"):
        if rows and column in rows[0]:
            return {f"{row['model']}/{row['sampler']}": row[column] for row in rows}
    raise AssertionError(f"no column {column!r}")


def page_tasks(text: str, column: str) -> dict[str, str]:
    """Cell → a column of the page's table of its task."""
    found = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        title = re.fullmatch(r"(\S+): score is \w+", line)
        if title is None:
            continue
        (rows, *_) = tables("\n".join(lines[number:]), "model", "sampler")
        for row in rows:
            cell = f"{row['model']}/{TASKS[title[1]]}/{row['sampler']}"
            found[cell] = row[column].partition(" ")[0]
    return found


def gate_words(text: str) -> dict[str, str]:
    """Cell → its verdict in gate.md, where it has one."""
    (rows, *_) = tables(text, "cell", "verdict", "why")
    return {row["cell"]: row["verdict"] for row in rows}


def gate_flips(text: str) -> dict[str, tuple[list[int], list[int]]]:
    """Cell → its flipped answers in gate.md."""
    (rows, *_) = tables(text, "cell", "verdict", "why")
    return {row["cell"]: flips_of(row["why"]) for row in rows if "broke: " in row["why"]}


def comment_words(text: str) -> dict[str, str]:
    """Cell → its verdict in a comparison's Markdown."""
    (rows, *_) = tables(text, "cell", "B", "A")
    found = {}
    for row in rows:
        word, _, cell = row["cell"].rpartition(" ")
        found[cell] = word
    return found


def comment_scores(text: str) -> dict[str, tuple[str, str]]:
    """Cell → the scores of B and A there."""
    (rows, *_) = tables(text, "cell", "B", "A")
    return {row["cell"].rpartition(" ")[2]: (row["B"], row["A"]) for row in rows}


def differences(text: str) -> list[Row]:
    """The rows of a comparison's page."""
    found = []
    for rows in tables(text, "model", "sampler", "task", "A − B"):
        for row in rows:
            found.append(row | {"cell": f"{row['model']}/{TASKS[row['task']]}/{row['sampler']}"})
    return found


# Pages


def page_data(html: str) -> list[dict[str, Any]]:
    """The cells that a page's script shows."""
    cells: list[dict[str, Any]] = read_element(html, "page")["cells"]
    return cells


def page_fact(html: str, name: str) -> dict[str, str]:
    """Cell → one of the facts beside its answers."""
    found = {}
    for cell in page_data(html):
        facts = dict(cell["facts"])
        if name in facts:
            found[cell["id"]] = facts[name]
    return found


def page_steps(html: str) -> dict[tuple[str, int], int]:
    """Cell and question → the step to blame, which its sentence names, too."""
    found = {}
    answers = read_element(html, "answers")["answers"]
    for cell, of_cell in zip(page_data(html), answers, strict=True):
        for answer in of_cell:
            step = answer.get("blame", {}).get("step")
            if step is not None:
                told = re.match(r"Step (\d+) ", answer["blame"]["lines"][0])
                assert told is None or int(told[1]) == step
                found[cell["id"], answer["index"]] = step
    return found


def page_verdicts(text: str) -> dict[str, str]:
    """Model → what its card says, of a page as text; the cards of all tasks come first."""
    lines = text.splitlines()
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        if line.startswith("## ") and lines[number + 1].startswith("no "):
            found.setdefault(line.removeprefix("## "), lines[number + 1])
    return found


@cache
def served(paths: tuple[Path, ...], address: str = "/") -> str:
    """What `pbcore view` serves: of one run or several, or of a folder of runs."""
    only = len(paths) == 1 and not (paths[0] / "cells").is_dir()
    server = serve_folder(paths[0]) if only else serve(list(paths))
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        with urlopen(f"http://127.0.0.1:{server.server_port}{address}") as reply:
            text: str = reply.read().decode()
        server.shutdown()
    return text


def page_of(run: CanonicalRun) -> str:
    """The page of the judged run as `pbcore view` serves it."""
    return served((run.run,))


def answers_of_page(run: CanonicalRun) -> dict[tuple[str, int], int]:
    """Cell and question → the step to blame, from the answers that the server tells."""
    found = {}
    for number, cell in enumerate(page_data(page_of(run))):
        told = json.loads(served((run.run,), f"/samples/{number}.json"))
        for answer in told["answers"]:
            step = answer.get("blame", {}).get("step")
            if step is not None:
                found[cell["id"], answer["index"]] = step
    return found


def compared_page(run: CanonicalRun) -> str:
    """The comparison that the list of runs opens."""
    names = "&".join(f"run={quote(path.name)}" for path in (run.run, run.base))
    return served((run.project,), f"/compare?{names}")


# Files of cells


def csv_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    rows = pd.read_parquet(path).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def column(rows: Iterable[Any], name: str) -> dict[str, float]:
    """Cell → a number of the table of cells, where the cell was run."""
    return {row["id"]: float(row[name]) for row in rows if row["status"] == "ok"}


def cell_counts(rows: Iterable[Any]) -> dict[str, int]:
    statuses = [row["status"] for row in rows]
    return {"cells": len(statuses), "failed": statuses.count("error")}


def blamed_rows(rows: Iterable[Any]) -> dict[tuple[str, int], int]:
    """Cell and question → the step to blame; exports count from 0."""
    found = {}
    for row in rows:
        step = row["blamed_step"]
        if step not in ("", None) and not pd.isna(step):
            found[row["cell"], int(row["index"])] = int(float(step)) + 1
    return found


def junit_cases(path: Path, gate: bool = False) -> dict[str, ElementTree.Element]:
    """Cell → its test case, or that of its gate."""
    cases = {}
    for case in ElementTree.parse(path).iter("testcase"):
        if case.get("classname", "").startswith("gate") == gate:
            name = case.get("name", "").removeprefix("test_cell[").removesuffix("]")
            assert name not in cases
            cases[name] = case
    return cases


def junit_property(path: Path, name: str) -> dict[str, str]:
    found = {}
    for cell, case in junit_cases(path).items():
        for entry in case.iter("property"):
            if entry.get("name") == name:
                found[cell] = entry.get("value", "")
    return found


def junit_line(path: Path, pattern: str) -> dict[str, str]:
    """Cell → what its line of figures says."""
    found = {}
    for cell, case in junit_cases(path).items():
        match = re.search(pattern, case.findtext("system-out") or "")
        if match:
            found[cell] = match[1]
    return found


def junit_counts(path: Path) -> dict[str, int]:
    """Cells, and those that failed or could not be run."""
    cells = junit_cases(path).values()
    bad = [case for case in cells if [*case.iter("failure"), *case.iter("error")]]
    return {"cells": len(cells), "failed": len(bad)}


def junit_words(path: Path) -> dict[str, str]:
    """Cell → the verdict that its gate's case fails with."""
    found = {}
    for cell, case in junit_cases(path, gate=True).items():
        reason = case.find("properties/property")
        assert reason is not None
        found[cell] = reason.get("value", "").partition(":")[0]
    return found


def benchmark_property(path: Path, name: str) -> dict[str, float]:
    benchmarks = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    infos = [entry["extra_info"] for entry in benchmarks]
    return {info["cell"]: info[name] for info in infos if name in info}


def every_eval(folder: Path) -> dict[str, dict[str, Any]]:
    """Cell → its result of the headline score in the export for Every Eval Ever."""
    found = {}
    for file in sorted(folder.rglob("*.json")):
        for result in json.loads(file.read_text(encoding="utf-8"))["evaluation_results"]:
            cell, _, metric = result["evaluation_result_id"].partition("#")
            if metric == "accuracy":
                found[cell] = result["score_details"]
    return found


def site_scores(folder: Path) -> list[float]:
    """The scores in the layout of the benchmark's site, model by model."""
    rows = [row for file in sorted(folder.rglob("*.csv")) for row in csv_rows(file)]
    return [float(row["accuracy"]) for row in rows]


def stored(run: Path) -> list[dict[str, Any]]:
    """The cells of results.json."""
    cells: list[dict[str, Any]] = json.loads((run / "results.json").read_text("utf-8"))["cells"]
    return cells


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def page_text(html: str) -> str:
    return readable(html)
