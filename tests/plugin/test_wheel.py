"""The wheel in a project that has nothing of this repository: stock cells, cells of its own, a
sampler of its own.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import pbcore
from tests import test_notebook as notebook
from tests.environment import own_environment
from tests.test_recipes import follow
from tests.warm_python import warm_programs, warm_python

pytestmark = pytest.mark.slow  # a wheel is built and installed
ROOT = Path(__file__).resolve().parents[2]
CELLS = ["--model", "ideal", "--limit", "2", "--out", "out", "-p", "no:cacheprovider"]
OWN = {
    "conftest.py": (
        """
from dataclasses import dataclass
from pbcore import register_policy

@register_policy("leftmost")
@dataclass(frozen=True)
class Leftmost:
    k: int = 1
    def select(self, step):
        return step.best(-step.position.double(), self.k)
"""
    ),
    "test_mine.py": (
        """
import pytest

@pytest.mark.cells("waiting_line")
def test_mine(cell, model, task, benchmark):
    cell.measure(model, task, benchmark)
"""
    ),
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel installed; what the wheel depends on is
    taken from this environment.
    """
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("pbcore-*.whl")
    venv.create(folder / "env", with_pip=False)
    executable = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [*pip, "--python", str(executable), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True)
    paths = sysconfig.get_paths(vars={"base": str(folder / "env"), "platbase": str(folder / "env")})
    here = sysconfig.get_paths()
    (Path(paths["purelib"]) / "dependencies.pth").write_text(
        f"{here['purelib']}\n{here['platlib']}\n"
    )
    return executable


def start(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python …` of that environment in a folder outside the repository, without what this process
    was told.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST_"))
    }
    environment["PYTEST_ADDOPTS"] = (
        "-p no:hypothesispytest"  # no dependency of the wheel, and slow to import
    )
    command = [str(python), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return start(Path(warm_python(str(python))), folder, "-m", "pytest", *arguments)


def ids(folder: Path) -> list[str]:
    return sorted(pbcore.results.load(folder / "out")["id"])


class TestWheel:
    def test_stock_cells_run_from_the_package(self, python: Path, tmp_path: Path) -> None:
        """`--pyargs pbcore.benches` is the grid, -k selects from it, and the record is written into
        the project.
        """
        done = run(
            python,
            tmp_path,
            "--pyargs",
            "pbcore.benches",
            "-k",
            "shuffle",
            "--sampler",
            "random-k8",
            *CELLS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert ids(tmp_path) == ["ideal/list_ops/shuffle/random-k8", "ideal/shuffle/random-k8"]
        assert "score in %" in done.stdout

    @pytest.mark.parametrize("workers", ["0", "1"])
    def test_a_project_of_ones_own(self, python: Path, tmp_path: Path, workers: str) -> None:
        """Ten lines: a cell function and a sampler of the project's own, with and without a
        worker.
        """
        for name, text in OWN.items():
            (tmp_path / name).write_text(text)
        cells = [
            "--task",
            "copy",
            "--sampler",
            "leftmost-k2",
            "--sampler",
            "random-k8",
            "-n",
            workers,
        ]
        done = run(python, tmp_path, *CELLS, *cells)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ids(tmp_path) == ["ideal/copy/leftmost-k2", "ideal/copy/random-k8"]

    def test_it_is_the_wheel_that_runs(self, python: Path, tmp_path: Path) -> None:
        """The package comes from the environment, not from this repository, and holds the cells and
        no tests.
        """
        code = "import pbcore, pathlib; print(pathlib.Path(pbcore.__file__).parent)"
        done = start(python, tmp_path, "-c", code)
        assert done.returncode == 0, done.stderr
        package = Path(done.stdout.strip())
        assert package.is_relative_to(python.parents[1])
        assert not package.is_relative_to(ROOT)
        assert {file.name for file in (package / "benches").glob("test_*.py")} == {
            file.name
            for file in (ROOT / "benches").glob("test_*.py")
            if "import test_cell" in file.read_text()
        }

    def test_it_names_no_address(self, python: Path, tmp_path: Path) -> None:
        """Help names the pages of the repository, while the project has no address."""
        told = start(python, tmp_path, "-m", "pytest", "--help-pbcore").stdout
        assert "docs/servers.md" in " ".join(told.split())
        code = "import importlib.metadata as m; print(m.metadata('pbcore').get_all('Project-URL'))"
        assert start(python, tmp_path, "-c", code).stdout.split() == ["None"]

    @pytest.mark.parametrize("installed", ["wheel", "editable"])
    @pytest.mark.parametrize("workers", ["0", "2"])
    def test_a_cells_name_runs_in_any_folder(
        self, python: Path, tmp_path: Path, installed: str, workers: str
    ) -> None:
        """As the page of an answer advises."""
        executable = python if installed == "wheel" else Path(sys.executable)
        names = ["ideal/shuffle/random-k8", "ideal/sudoku/random-k8"]
        done = run(executable, tmp_path, *names, "-n", workers, *CELLS[2:])
        assert done.returncode == 0, done.stdout + done.stderr
        assert ids(tmp_path) == names

    def test_the_notebook_runs(self, python: Path, tmp_path: Path) -> None:
        """Its cells in their order, in any folder; what stands under them is what they print. The
        notebook's sampler breaks fewer shuffles than the one it is compared with.
        """
        accuracies = "measure('apart-k2')['accuracy'], measure('confidence-k2')['accuracy']"
        text = f"{notebook.program()}print(*[{accuracies}])\n"
        (tmp_path / "notebook.py").write_text(text, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MPLBACKEND", "Agg")
            done = start(Path(warm_python(str(python))), tmp_path, "notebook.py")
        assert done.returncode == 0, done.stderr
        *printed, last = done.stdout.split(f"{notebook.END}\n")
        for text, shown in zip(printed, notebook.shown(), strict=True):
            assert text.split() == shown.split()
        ours, theirs = map(float, last.split())
        assert ours > theirs

    def test_the_command_for_a_wrong_sample_works(self, python: Path, tmp_path: Path) -> None:
        """A stock cell's command names the installed file, so that it runs from any folder."""
        cells = [
            "-k",
            "waiting_line and shuffle",
            "--model",
            "ideal",
            "--sampler",
            "random-k32",
            "--limit",
            "4",
        ]
        done = run(
            python, tmp_path, "--pyargs", "pbcore.benches", *cells, "-x", "-p", "no:cacheprovider"
        )
        line = next(
            line for line in done.stdout.splitlines() if line.startswith("rerun this sample:")
        )
        again = run(
            python, tmp_path, *shlex.split(line.partition("pytest ")[2]), "-p", "no:cacheprovider"
        )
        assert "1 failed" in again.stdout
        assert "is wrong" in again.stdout


@pytest.fixture
def shell(python: Path, tmp_path: Path) -> Callable[[str, Path], tuple[int, str]]:
    """Runs a line where `pytest`, `pbcore`, `python` and `pip` are those of that environment."""
    programs = warm_programs(tmp_path / "programs", str(python))
    environment = {
        name: value for name, value in own_environment().items() if not name.startswith("PYTHON")
    }
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@example.com"}
    environment |= {
        "PATH": f"{programs}{os.pathsep}{environment['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "OUT": "reports/gate",
    }

    def run(command: str, folder: Path) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.posix
def test_the_gate_of_the_ci_page(
    python: Path, shell: Callable[[str, Path], tuple[int, str]], tmp_path: Path
) -> None:
    """In an empty repository that holds a checkpoint: a baseline is made and committed in one
    folder, judged in another, a worse checkpoint is red, and one command accepts it. Then the
    workflow's own steps pass there.
    """
    project = tmp_path / "laptop" / "project"
    clone = tmp_path / "runner" / "_work" / "project"
    shutil.copytree(Path(pbcore.__file__).parent / "models" / "tiny", project / "checkpoint")
    for name in ("gate.sh", "github-actions-gpu.yml"):
        shutil.copy(ROOT / "docs" / "examples" / name, project)
    (wheel,) = python.parents[2].glob("pbcore-*.whl")
    (project / "requirements.txt").write_text(f"{wheel}\n")

    def step(command: str, folder: Path) -> str:
        code, text = shell(command, folder)
        assert code == 0, f"{command}\n{text}"
        return text

    def runner() -> Path:
        if clone.is_dir():
            step("git pull -q", clone)
        else:
            step(shlex.join(["git", "clone", "-q", str(project), str(clone)]), project)
        return clone

    step("git init -q && git add . && git commit -q -m checkpoint", project)
    follow(ROOT / "docs" / "ci.md", project, shell, runner)
    workflow = yaml.safe_load((runner() / "github-actions-gpu.yml").read_text(encoding="utf-8"))
    printed = ""
    for part in workflow["jobs"]["gate"]["steps"]:
        if "run" in part:
            printed = step(part["run"].replace(" --gpu", ""), clone)  # here is none
    assert "gate PASSED" in printed
    assert (clone / "reports" / "gate.xml").is_file()
