"""How long the reports of a large run take: `python benches/report_scale.py` prints seconds and
sizes.

It makes a run of 2,000 cells with 10 answers each, without any model, and times the commands in
processes of their own; with a Chromium and playwright also the page. Processor time is what counts
on a machine that has other work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from random import Random

from pbcore.models.base import Generation
from pbcore.results import CellRecord, Conditions, RunDir, build_cell, create
from pbcore.results.questions import write_questions
from pbcore.tasks import load_task
from pbcore.tasks.lists import OPERATIONS
from pbcore.tasks.scoring import Scored

MODELS = ("ideal", "tiny", "large", "larger")
POLICIES = ("confidence", "random", "margin", "entropy", "left_to_right")
CANVAS = 32


def make(root: Path, cells: int, answers: int) -> RunDir:
    """A run of `cells` cells of `answers` answers each, whose accuracy falls with the tokens per
    step.
    """
    run = create(root, "large")
    random = Random(0)
    tasks = [load_task(f"waiting_line/{name}", limit=answers) for name in OPERATIONS]
    for task in tasks:
        write_questions(run, task)
    samplers = [
        f"{policy}-k{k}+b{b}" for k in (1, 2, 4, 8, 16) for b in (8, 32) for policy in POLICIES
    ]
    grid = [(model, sampler, task) for sampler in samplers for task in tasks for model in MODELS][
        :cells
    ]
    for model, sampler, task in grid:
        k = int(sampler.partition("-k")[2].partition("+")[0])
        name = task.name.split("/")[1]
        conditions = Conditions.unknown(
            data_source="own",
            data_hash=task.data_hash,
            key=sampler,
            batch_size=8,
            device="cpu",
            dtype="float32",
            worker="",
            shared_device=False,
            dummy=False,
            model_info={"source": "none", "revision": "r"},
        )
        facts = CellRecord(
            f"{model}/{name}/{sampler}", model, task.name, sampler, conditions, headline="accuracy"
        )
        right = [random.random() > 0.04 * k for _ in range(answers)]
        scored = [
            Scored(
                {"accuracy": float(one)},
                {} if one else {"why": "an item twice", "failure": ["item twice"]},
            )
            for one in right
        ]
        steps = tuple(place // k for place in range(CANVAS))
        sure = tuple(round(random.random(), 3) for _ in range(CANVAS))
        told = [
            Generation(
                f"answer {i}",
                tuple(range(CANVAS)),
                CANVAS // k,
                18,
                steps,
                sure,
                text_after_eos=False,
            )
            for i in range(answers)
        ]
        record, samples = build_cell(facts, told, scored, rounds=[1.5])
        words = [*(f"w{place}" for place in range(18)), *["<eos>"] * (CANVAS - 18)]
        run.write_cell(
            record, [replace(one, tokens=words, text="".join(words[:18])) for one in samples]
        )
    run.write_run(
        {
            "command": "pytest benches",
            "started": "2026-01-02 03:04:05",
            "seeds": [0],
            "data_source": "own",
        }
    )
    run.assemble()
    return run


def report(run: Path, out: Path) -> tuple[float, float]:
    """Seconds of `pbcore report RUN -o OUT`, and those of the processor."""
    before = os.times()
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pbcore", "report", run, "-o", out], check=True, capture_output=True
    )
    seconds = time.perf_counter() - start
    after = os.times()
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def browse(page: Path) -> list[str]:
    """What a browser's main thread takes until the page is usable, and for filters: lines with
    seconds of the processor. One line that says what is missing where there is no browser.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("PBCORE_CHROMIUM") or next(filter(None, map(shutil.which, names)), "")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = ""
    if not chromium:
        return ["browser: needs playwright and a Chromium ($PBCORE_CHROMIUM)"]
    lines = []
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def used() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

        tab.goto(page.as_uri())
        tab.wait_for_timeout(1000)
        lines.append(f"page usable: {used():.2f} s")
        filters = (("task", "waiting_line/copy"), ("model", "tiny"), ("sampler", "random-k2+b8"))
        for name, value in filters:
            before = used()
            tab.evaluate(f"location.hash = '{name}={value}'")
            tab.wait_for_timeout(1000)
            lines.append(f"filter {name} {value}: {used() - before:.2f} s")
    return lines


def view(run: Path) -> tuple[float, float]:
    """Seconds from `pbcore view RUN` to the whole page, and to the answers of a cell."""
    start = time.perf_counter()
    command = [sys.executable, "-u", "-m", "pbcore", "view", str(run), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(
            line.strip() for line in server.stdout if line.startswith(("http:", "file:"))
        )
        with urllib.request.urlopen(address) as reply:
            reply.read()
        first = time.perf_counter() - start
        if address.startswith("http:"):
            with urllib.request.urlopen(f"{address}samples/7.json") as reply:
                reply.read()
        second = time.perf_counter() - start
        server.terminate()
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--answers", type=int, default=10)
    parser.add_argument(
        "--keep", type=Path, help="folder for the run and its report (default: a temporary one)"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = args.keep or Path(temporary)
        run = (
            root / "large"
            if (root / "large").exists()
            else make(root, args.cells, args.answers).path
        )
        print(f"{args.cells:,} cells, {args.cells * args.answers:,} answers")
        seconds, processor = report(run, run)
        pictures = list(run.glob("*.png"))
        size = (run / "report.html").stat().st_size
        print(
            f"pbcore report: {seconds:.1f} s, {processor:.1f} s of the processor;"
            f" {len(pictures)} PNG, report.html {size:,} bytes"
        )
        print(*browse(run / "report.html"), sep="\n")
        first, second = view(run)
        print(f"pbcore view: page after {first:.1f} s, a cell's answers after {second:.1f} s")


if __name__ == "__main__":
    main()
