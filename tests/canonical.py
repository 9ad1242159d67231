"""The canonical run: one small run that has all that screens tell of, and the text of each screen.

Cells of `ideal` and of a checkpoint of one's own, on lists and on a task of one's own, with wrong
answers that are blamed, cells that fail, a cell that is left out, a gate that passes and one that
fails. Names hold characters that shells and pytest read. It is made once a session, in a process
of its own, and workers of xdist share it; tests only read it.

    project/pytest.ini        options of the project
           /conftest.py       a sampler of its own, and one that fails
           /own.yaml          a task of its own
           /müller            the checkpoint, a copy of `tiny`
           /base, /one [1]    the run that baselines are made of, and the run that is judged
           /open              the same answers as `one [1]`, reported without a gate
           /passed, /stopped  runs whose gate passes, and that Ctrl-C stops
           /weak              a run whose reference answers nothing
    screens/NAME              what the command of this name printed
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]
INI = "[pytest]\npbcore_n = 4\npbcore_max_new_tokens = 20\npbcore_tasks = own.yaml\n"
CONFTEST = '''
from dataclasses import dataclass
from pathlib import Path

from pbcore import register_policy


@register_policy("mine")
@dataclass(frozen=True)
class Mine:
    """The k surest places; once the file `worse` is there, the least sure ones."""

    k: int = 2
    reveals = "k"

    def select(self, step):
        sign = -1 if Path("worse").exists() else 1
        return step.best(sign * step.confidence, self.k)


@register_policy("stops")
@dataclass(frozen=True)
class Stops:
    """As Ctrl-C does, while the file `stop` is there."""

    k: int = 2

    def select(self, step):
        if Path("stop").exists():
            raise KeyboardInterrupt
        return step.best(step.confidence, self.k)


@register_policy("fails")
@dataclass(frozen=True)
class Fails:
    """Fails."""

    k: int = 2

    def select(self, step):
        raise RuntimeError("it broke")
'''
TASK = """
küche/tausch:
  generator: insert_random
  scorer: list_insert_random
  lengths: [4]
  samples: 12
  shots: 1
  max_new_tokens: 32
  prompt: |
    You are managing a waiting line at a customer service desk.
    A new person "{word}" is inserted into the line at a random position:
    {context}
    Please put the new person in the random position and provide only the final list.

küche/nie:
  generator: reverse
  scorer: list_match
  lengths: [4]
  samples: 12
  shots: 1
  max_new_tokens: 32
  prompt: |
    You are managing a waiting line at a customer service desk.
    A new person "Joanna Hagen" is inserted into the line at a random position:
    {context}
    Please put the new person in the random position and provide only the final list.
"""
MODEL = "müller"
FILES = {"pytest.ini": INI, "conftest.py": CONFTEST, "own.yaml": TASK}
GIVEN = (*FILES, "worse", "stop", MODEL)  # what the project has before the first command
OUT = "one [1]"
OUT_WORD = shlex.quote(OUT)


def commands(
    model: str = MODEL, stock: str = "--pyargs pbcore.benches", options: str = ""
) -> dict[str, str]:
    """Name of a screen → the command that prints it.

    Args:
        model: the path of the checkpoint.
        stock: how pytest is told of the stock cells.
        options: what decides the answers, where no ini file does.
    """
    plain = f"pytest {stock} -p no:cacheprovider {options}"
    cells = f"{plain} --task shuffle --task küche/tausch --limit 4"
    samplers = f"--model {model} --model ideal --sampler confidence-k1 --sampler mine-k2"
    more = "--sampler fails-k2 --sampler saber-2 --blame"  # `ideal` can't run saber
    few = f"{plain} --task shuffle --task küche/tausch --limit 2"
    return {
        "base": f"{cells} {samplers} --update-baseline base.json --out base",
        "gate failed": (
            f"{cells} {samplers} {more} --gate base.json --out {OUT_WORD} --junitxml pytest.xml"
            " --benchmark-json benchmark.json"
        ),
        "gate passed": (
            f"{cells} --model ideal --sampler confidence-k1 --gate same.json --out passed"
        ),
        "terminal": f"{cells} {samplers} {more} --resume open",
        "terminal -v": f"{cells} {samplers} {more} --resume open -v",
        "drill-down": f"pytest -p no:cacheprovider {options} {model}/küche/tausch/mine-k2 -x",
        "weak": (
            f"{plain} --model {model} --task küche/nie --limit 2 --sampler confidence-k2"
            " --sampler confidence-k4 --out weak"
        ),
        "stopped": f"{few} --model ideal --sampler confidence-k1 --sampler stops-k2 --out stopped",
        "no such folder": "pytest benches --model ideal --task shuffle --sampler random-k8",
        "taken": f"{few} --model ideal --sampler random-k8 --out base",
        "report": f"pbcore report {OUT_WORD} --width 200",
        "compare": f"pbcore compare {OUT_WORD} base --markdown compare.md --html compare.html",
        "blame": "pbcore blame again",
        "export": (
            f"pbcore export {OUT_WORD} --csv csv --parquet parquet --every-eval-ever every-eval"
            " --to parallelbench-site site"
        ),
        "merge": f"pbcore merge {OUT_WORD} -o merged",
        "rescore": f"pbcore rescore {OUT_WORD} -o rescored",
    }


@dataclass(frozen=True, slots=True)
class CanonicalRun:
    """Where the canonical run is."""

    folder: Path

    @property
    def project(self) -> Path:
        """The folder in which all commands were given."""
        return self.folder / "project"

    @property
    def run(self) -> Path:
        """The run that was judged."""
        return self.project / OUT

    @property
    def base(self) -> Path:
        """The run that it was judged against."""
        return self.project / "base"

    def screen(self, name: str) -> str:
        """What a command printed, stderr too."""
        return (self.folder / "screens" / name).read_text(encoding="utf-8")


def make(folder: Path) -> None:
    """Makes the canonical run in a folder: gives all commands in this process, and keeps what each
    prints.
    """
    project = folder / "project"
    project.mkdir(parents=True)
    for name, text in FILES.items():
        (project / name).write_text(text, encoding="utf-8")
    shutil.copytree(tiny(), project / MODEL)
    os.environ["GITHUB_STEP_SUMMARY"] = str(folder / "summary.md")
    print_all(commands(), project, folder / "screens")


def tiny() -> Path:
    """The folder of the embedded checkpoint."""
    import pbcore

    return Path(pbcore.__file__).parent / "models" / "tiny"


def print_all(given: Mapping[str, str], place: Path, screens: Path) -> None:
    """Gives commands in a folder.

    Args:
        given: name of a screen → its command; those of `commands`, in their order.
        place: the folder.
        screens: the folder for what they print.
    """
    from pbcore.report import markdown
    from pbcore.report.page import write
    from pbcore.results.baseline import write_baseline
    from pbcore.results.rundir import RunDir

    # Curves cost more than all else, and say nothing that is read here: one run draws them.
    drawn = vars(markdown)["write_plots"], vars(write)["_picture"]
    undrawn: tuple[Any, Any] = (lambda *given: [], lambda *given: "")
    screens.mkdir()
    os.chdir(place)
    for name, command in given.items():
        if name == "gate passed":
            shutil.copytree(OUT, "open")
            shutil.copytree(OUT, "again")
        if name == "stopped":
            Path("stop").touch()
        plots, picture = drawn if name == "gate passed" else undrawn
        vars(markdown)["write_plots"] = plots
        vars(write)["_picture"] = picture
        (screens / name).write_text(said(command), encoding="utf-8")
        if name == "base":
            cells = RunDir(Path("base")).read_cells()
            ideal = [entry for entry in cells if entry.cell.id.startswith("ideal/")]
            same = [entry for entry in ideal if entry.cell.sampler == "confidence-k1"]
            write_baseline("same.json", same)
            Path("worse").touch()


def said(command: str) -> str:
    """What a command of `pytest` or `pbcore` prints, run in this process."""
    from pbcore.cli import main

    program, *words = shlex.split(command)
    stream = io.StringIO()
    with redirect_stdout(stream), redirect_stderr(stream):
        if program == "pytest":
            pytest.main(words)
        else:
            main(words)
    return stream.getvalue()


def shared(base: Path) -> CanonicalRun:
    """The canonical run in a folder, made by the first process that asks for it.

    Args:
        base: the folder, which all workers of a session have in common.
    """
    folder = base / "canonical"
    with FileLock(base / "canonical.lock"):
        if not (folder / "done").exists():
            folder.mkdir(exist_ok=True)
            _start(folder)
            (folder / "done").touch()
    return CanonicalRun(folder)


def _start(folder: Path) -> None:
    from tests.environment import own_environment
    from tests.warm_python import warm_python

    environment = {
        name: value for name, value in own_environment().items() if not name.startswith("PYTEST_")
    }
    environment |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
        "COLUMNS": "160",
        "PYTEST_ADDOPTS": "-p no:hypothesispytest",
        "PBCORE_CACHE": str(folder / "cache"),
    }
    for name in ("CI", "BUILD_NUMBER", "GITHUB_STEP_SUMMARY"):
        environment.pop(name, None)
    done = subprocess.run(
        [warm_python(), "-m", "tests.canonical", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the canonical run could not be made:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        make(Path(sys.argv[1]))
    else:  # FILE of commands, the folder for them, the folder for what they print
        given_file, *folders = map(Path, sys.argv[1:])
        print_all(json.loads(given_file.read_text(encoding="utf-8")), *folders)
