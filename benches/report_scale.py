"""How long the end of a large run and its reports take: `python benches/report_scale.py` prints
seconds and sizes.

It makes a run of 2,000 cells with 10 answers each, without any model, and times the commands in
processes of their own; with a Chromium and playwright also the page. Processor time is what counts
on a machine that has other work.

`--cells 213,2823 --against DIR` times another checkout, too, on the same runs and in turns, and
prints its seconds beside this one's, with their ratio.
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
HERE = Path(__file__).parents[1]
# What the controller does once a run's last cell is measured: the hooks, as the tests call them.
END = """
import sys
from pathlib import Path
from tests.plugin.ends import begun, last_lines, session
from tests.plugin.fakes import Config

run = Path(sys.argv[1])
outcome = begun(Config(run.parent, resume=run))
outcome.pytest_sessionfinish(session())
last_lines(outcome)
"""


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
        f"{policy}-k{k}+b{b}" for k in (1, 2, 4, 8, 16) for b in (8, 16, 32) for policy in POLICIES
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


def timed(folder: Path, *words: object) -> tuple[float, float]:
    """Seconds of a command of Python in a checkout, and those of the processor."""
    before = os.times()
    start = time.perf_counter()
    command = [sys.executable, *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    seconds = time.perf_counter() - start
    after = os.times()
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def compare(run: Path, against: Path) -> list[str]:
    """What each of two checkouts takes for the end of a run and for its report, in turns: the
    better of two times, in seconds of the processor.
    """
    commands = {
        "the end of a run": ("-c", END, run),
        "pbcore report": ("-m", "pbcore", "report", run, "-o", run.parent / "out"),
    }
    lines = []
    for what, command in commands.items():
        here, there = [], []
        for _ in range(2):
            here.append(timed(HERE, *command)[1])
            there.append(timed(against, *command)[1])
        ratio = min(there) / min(here)
        lines.append(f"{what}: {min(there):.1f} s there, {min(here):.1f} s here, {ratio:.2f}×")
    return lines


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


def measure(root: Path, cells: int, answers: int) -> None:
    """Makes a run and prints what its reports take."""
    run = root / "large"
    if not run.exists():
        make(root, cells, answers)
    print(f"{cells:,} cells, {cells * answers:,} answers")
    seconds, processor = timed(HERE, "-m", "pbcore", "report", run, "-o", run)
    pictures = list(run.glob("*.png"))
    size = (run / "report.html").stat().st_size
    print(
        f"pbcore report: {seconds:.1f} s, {processor:.1f} s of the processor;"
        f" {len(pictures)} PNG, report.html {size:,} bytes"
    )
    print(*browse(run / "report.html"), sep="\n")
    first, second = view(run)
    print(f"pbcore view: page after {first:.1f} s, a cell's answers after {second:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default="2000", help="numbers of cells, with commas")
    parser.add_argument("--answers", type=int, default=10)
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout, timed on the same runs"
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for the runs and their reports (default: a temporary one)"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for cells in map(int, args.cells.split(",")):
            root = (args.keep or Path(temporary)).absolute() / str(cells)
            if args.against is None:
                measure(root, cells, args.answers)
                continue
            run = make(root, cells, args.answers)
            print(f"{cells:,} cells, {cells * args.answers:,} answers")
            print(*compare(run.path, args.against.absolute()), sep="\n")


if __name__ == "__main__":
    main()
