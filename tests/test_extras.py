"""Each extra alone: installed into an environment that has the core's packages, torch among them,
and no other.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
TINY = "import pbcore; model = pbcore.load_model('tiny'{}); print(model.name)"
HARNESS = (
    "from lm_eval.api.registry import get_model; from pbcore.extras.lm_eval.model import"
    " register; register(); print(get_model('pbcore'))"
)
USES = {
    "large": ["-c", TINY.format(", device_map='cpu'")],
    "lora": ["-m", "pbcore.train", "--adapt", "tiny", "--task", "copy", "--steps", "1"],
    "openai": ["-c", "from openai import OpenAI; print(OpenAI(api_key='x' * 8).base_url)"],
    "anthropic": [
        "-c",
        "from anthropic import Anthropic; print(Anthropic(api_key='x' * 8).base_url)",
    ],
    "api": ["-c", "import openai, anthropic"],
    "parquet": ["-m", "pbcore", "export", "run", "--parquet", "tables"],
    "wandb": ["-m", "pbcore", "export", "run", "--wandb", "x"],
    "mlflow": ["-m", "pbcore", "export", "run", "--mlflow", "file:store"],
    "lm-eval": ["-c", HARNESS],
    "ray": ["-c", "import ray"],
    "notebook": ["-m", "jupyterlab", "--version"],
}


def core() -> set[str]:
    """The distributions that pbcore needs without extras, by following their requirements."""
    found = set()
    todo = [Requirement("pbcore")]
    while todo:
        one = todo.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in found:
            continue
        found.add(name)
        needs = map(Requirement, distribution(name).requires or [])
        extras = [*one.extras, ""]
        todo += [
            need
            for need in needs
            if not need.marker or any(need.marker.evaluate({"extra": e}) for e in extras)
        ]
    return found - {"pbcore"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to the core's packages as they are installed here, and a small run in
    `run`.
    """
    folder = tmp_path_factory.mktemp("core")
    here = Path(sysconfig.get_paths()["purelib"])
    for name in core():
        for file in distribution(name).files or []:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(here / top)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "benches",
        "--task",
        "copy",
        "--model",
        "ideal",
        "--limit",
        "1",
    ]
    subprocess.run(
        [*command, "--out", str(folder / "run")], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def test_all_are_here() -> None:
    """Those of pyproject.toml, but for the tools of this repository's own checks."""
    extras = set(distribution("pbcore").metadata.get_all("Provides-Extra") or [])
    assert extras - {"dev", "docs", "mutants"} == set(USES)


@pytest.mark.nightly
@pytest.mark.posix
@pytest.mark.parametrize("extra", USES)
def test_an_extra_alone(extra: str, base: Path, tmp_path: Path) -> None:
    """It installs with the pins, brings what it says, and its smallest use runs."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    paths = sysconfig.get_paths(
        vars={"base": str(tmp_path / "env"), "platbase": str(tmp_path / "env")}
    )
    (Path(paths["purelib"]) / "core.pth").write_text(f"{base}\n", encoding="utf-8")
    (tmp_path / "run").symlink_to(base / "run")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "--disable-pip-version-check",
        "install",
        "-q",
    ]
    options = ["-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[{extra}]"]
    made = subprocess.run([*pip, *options], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    listed = subprocess.run(
        [*pip[:-2], "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    assert {"pbcore", "torch"} <= {one["name"] for one in json.loads(listed.stdout)}
    environment = {
        **os.environ,
        "WANDB_MODE": "offline",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "PYTHONPATH": "",
    }
    command = [str(python), *USES[extra]]
    used = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert used.returncode == 0, used.stderr[-3000:]
