"""The run directory of a session: one path for the controller and all workers, made when the first cell is known."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.plugin.options import given
from pbcore.plugin.state import settings

if TYPE_CHECKING:
    from pbcore.results.rundir import RunDir

_PATH = pytest.StashKey[Path]()


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
    requested = settings(config)
    if requested.resume is not None:
        from pbcore.results.rundir import RunDirError, open_run

        try:
            return open_run(requested.resume).path.absolute()
        except RunDirError as error:
            raise pytest.UsageError(f"--resume: {error}") from error
    if requested.out is None:
        from pbcore.results.rundir import new_name

        return config.rootpath / "reports" / new_name()
    if requested.out.exists() and (not requested.out.is_dir() or any(requested.out.iterdir())):
        raise pytest.UsageError(
            f"--out {requested.out} exists and is not empty; choose another name, or resume it: --resume {requested.out}"
        )
    return requested.out.absolute()


def write_facts(config: pytest.Config) -> None:
    """run.json: command, versions, machine; written first, so that a killed run stays identifiable."""
    from pbcore.results.facts import machine, versions

    requested, run = settings(config), run_dir(config)
    earlier = run.read_run() if requested.resume is not None else {}
    run.write_run(
        {
            "command": ["pytest", *map(str, config.invocation_params.args)],
            "started": datetime.now().astimezone().isoformat(timespec="seconds"),
            "profile": requested.profile,
            "seeds": list(requested.seed),
            "data_seed": requested.data_seed,
            "data_dir": None if requested.data_dir is None else str(requested.data_dir),
            "limit": requested.limit,
            "shard": None if requested.shard is None else "/".join(map(str, requested.shard)),
            "versions": versions(),
            "machine": machine(requested.gpu),
            "resumes": [*earlier.get("resumes", []), *([earlier["started"]] if "started" in earlier else [])],
        }
    )


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Keeps a copy of the JUnit file, where one was asked for, with the run it belongs to."""
    path, junit = config.stash.get(_PATH, None), config.getoption("xmlpath", None)
    if path is None or not junit or hasattr(config, "workerinput") or not path.is_dir():
        return
    source = Path(os.path.expandvars(junit)).expanduser()
    if source.is_file() and source.resolve() != (path / "junit.xml").resolve():
        shutil.copyfile(source, path / "junit.xml")
