"""The run directory of a session: one path for the controller and all workers, made when the first cell is known."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.plugin.options import given, settings

if TYPE_CHECKING:
    from pbcore.results.rundir import RunDir

_PATH = pytest.StashKey[Path]()
PACKAGES = ("pbcore", "torch", "transformers", "tokenizers", "numpy", "pytest", "pytest-benchmark", "pytest-xdist")


def pytest_configure(config: pytest.Config) -> None:
    if given(config):
        run_dir(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers write into the controller's run directory."""
    node.workerinput["pbcore_run"] = str(run_dir(node.config).path)


def run_dir(config: pytest.Config) -> RunDir:
    """This session's run directory; nothing is created here. Raises pytest.UsageError where it can't be used."""
    from pbcore.results.rundir import RunDir

    path = config.stash.get(_PATH, None)
    if path is None:
        path = config.stash[_PATH] = _path(config)
    return RunDir(path)


def _path(config: pytest.Config) -> Path:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        return Path(worker["pbcore_run"])
    asked = settings(config)
    if asked.resume is not None:
        from pbcore.results.rundir import RunDirError, open_run

        try:
            return open_run(asked.resume).path.absolute()
        except RunDirError as error:
            raise pytest.UsageError(f"--resume: {error}") from error
    if asked.out is None:
        return config.rootpath / "reports" / f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if asked.out.exists() and (not asked.out.is_dir() or any(asked.out.iterdir())):
        raise pytest.UsageError(
            f"--out {asked.out} exists and is not empty; choose another name, or go on with it: --resume {asked.out}"
        )
    return asked.out.absolute()


def write_facts(config: pytest.Config) -> None:
    """run.json: what was run, by what, on what. Written before the first cell, so that a killed run can be told apart, too."""
    asked, run = settings(config), run_dir(config)
    earlier = run.read_run() if asked.resume is not None else {}
    run.write_run(
        {
            "command": ["pytest", *map(str, config.invocation_params.args)],
            "started": datetime.now().astimezone().isoformat(timespec="seconds"),
            "profile": asked.profile,
            "seeds": list(asked.seed),
            "data_seed": asked.data_seed,
            "data_dir": None if asked.data_dir is None else str(asked.data_dir),
            "limit": asked.limit,
            "shard": None if asked.shard is None else "/".join(map(str, asked.shard)),
            "versions": versions(),
            "machine": machine(asked.gpu),
            "resumes": [*earlier.get("resumes", []), *([earlier["started"]] if "started" in earlier else [])],
        }
    )


def versions() -> dict[str, str]:
    """Versions of what decides a result; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine(gpu: bool) -> dict[str, Any]:
    """What the timings depend on; the GPUs only where they are used."""
    facts: dict[str, Any] = {
        "system": platform.platform(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "gpus": [],
    }
    if gpu:
        import torch

        facts["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return facts


def _processor() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Keeps a copy of the JUnit file, where one was asked for, with the run it belongs to."""
    path, junit = config.stash.get(_PATH, None), config.getoption("xmlpath", None)
    if path is None or not junit or hasattr(config, "workerinput") or not path.is_dir():
        return
    source = Path(os.path.expandvars(junit)).expanduser()
    if source.is_file() and source.resolve() != (path / "junit.xml").resolve():
        shutil.copyfile(source, path / "junit.xml")
