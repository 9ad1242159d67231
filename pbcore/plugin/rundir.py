"""The run directory of a session: one path for the controller and all workers, made when the first cell is known."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.plugin.state import measures, plan, settings
from pbcore.printable import command_line, counted, printable

if TYPE_CHECKING:
    from pbcore.results.lock import RunLock
    from pbcore.results.rundir import RunDir

_PATH = pytest.StashKey[Path]()
_LOCK: pytest.StashKey[RunLock] = pytest.StashKey()
_TARGETS = ("--out", "--pbcore-out", "--resume", "--pbcore-resume")  # options that name a run directory


def pytest_configure(config: pytest.Config) -> None:
    """Takes a directory that the options name before anything is loaded."""
    requested = settings(config)
    if not (requested.out or requested.resume):
        return
    run = run_dir(config)
    if hasattr(config, "workerinput") or not measures(config):
        return
    if requested.resume is not None and not requested.resume_anyway:
        _check_same_settings(config, run)
    lock(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers write into the controller's run directory."""
    node.workerinput["pbcore_run"] = str(run_dir(node.config).path)


def run_dir(config: pytest.Config) -> RunDir:
    """This session's run directory; nothing is created here. Raises pytest.UsageError if it can't be used."""
    from pbcore.results.rundir import RunDir

    if _PATH not in config.stash:
        config.stash[_PATH] = _path(config)
    return RunDir(config.stash[_PATH])


def lock(config: pytest.Config) -> None:
    """Makes this session the one writer of its run directory. Raises pytest.UsageError if it can't be."""
    from pbcore.results.lock import lock_run
    from pbcore.results.rundir import RunDirError

    if _LOCK in config.stash:
        return
    name = "--resume" if settings(config).resume else "--out"
    try:
        config.stash[_LOCK] = lock_run(run_dir(config).path)
    except RunDirError as error:
        raise pytest.UsageError(f"{name}: {error}") from error
    run_dir(config).remove_torn()


def _path(config: pytest.Config) -> Path:
    from pbcore.results.lock import is_empty
    from pbcore.results.rundir import RunDirError, new_name, open_run

    worker = getattr(config, "workerinput", None)
    if worker is not None:
        return Path(worker["pbcore_run"])
    requested = settings(config)
    if requested.resume is not None:
        try:
            return open_run(requested.resume).path.absolute()
        except RunDirError as error:
            raise pytest.UsageError(f"--resume: {error}") from error
    if requested.out is None:
        return config.rootpath / "reports" / new_name()
    if requested.out.exists() and not requested.out.is_dir():
        raise pytest.UsageError(f"--out {requested.out} is a file; give the name of a directory")
    if requested.out.exists() and not is_empty(requested.out):
        how = f"choose another name, or resume it: --resume {requested.out}"
        raise pytest.UsageError(f"--out {requested.out} exists and is not empty; {how}")
    return requested.out.absolute()


def _check_same_settings(config: pytest.Config, run: RunDir) -> None:
    """Raises pytest.UsageError if the resumed run had other settings: which, and what would happen to its cells."""
    from pbcore.results.check import plain
    from pbcore.results.resume import differences, finished

    earlier = run.read_run()
    if different := differences(earlier, plain(settings(config).remembered, "settings")):
        stored = set(finished(run.path))
        again = stored & {name.cell_id for name in plan(config).items.values()}
        raise pytest.UsageError(
            f"--resume {run.path}: its settings differ: {'; '.join(different)}. Of its "
            f"{counted(len(stored), 'finished cell')} up to {len(again)} would be measured again and overwritten, "
            f"{len(stored) - len(again)} are not in this run and would stay. Give the same options"
            f"{_command_of(earlier)}, another --out, or --resume-anyway"
        )


def _command_of(facts: dict[str, Any]) -> str:
    """A run's command as run.json has it, in brackets; nothing if it isn't known."""
    command = facts.get("command")
    return f" ({printable(command_line(map(str, command)), 400)})" if isinstance(command, list) and command else ""


def resume_command(config: pytest.Config) -> str:
    """The command that resumes this run: its own arguments, with --resume in place of --out."""
    words, skip = [], False
    for word in map(str, config.invocation_params.args):
        name, equals, _ = word.partition("=")
        if skip or name in _TARGETS:
            skip = name in _TARGETS and not equals and not skip
        else:
            words.append(word)
    return command_line(["pytest", *words, "--resume", str(run_dir(config).path)])


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Whose run is resumed: other tasks and models would be added to it."""
    if settings(config).resume is None:
        return []
    return [f"pbcore: resuming {run_dir(config).path}{_command_of(run_dir(config).read_run())}"]


def write_facts(config: pytest.Config) -> None:
    """run.json, before any cell: command, settings, versions, machine; a resumed run's earlier ones as `history`."""
    from pbcore.results.resume import machine, versions

    requested, run = settings(config), run_dir(config)
    earlier = run.read_run() if requested.resume is not None else {}
    history = [*earlier.pop("history", []), *([earlier] if earlier else [])]
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
            "settings": requested.remembered,
            "versions": versions(),
            "machine": machine(requested.gpu),
            "history": history,
        }
    )


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Copies the JUnit file, if one was written, to the run it belongs to, and frees the run directory."""
    path, junit = config.stash.get(_PATH, None), config.getoption("xmlpath", None)
    try:
        if path is not None and junit and not hasattr(config, "workerinput") and path.is_dir():
            source, copy = Path(os.path.expandvars(junit)).expanduser(), path / "junit.xml"
            if source.is_file() and source.resolve() != copy.resolve():
                shutil.copyfile(source, copy)
    finally:
        if _LOCK in config.stash:
            config.stash[_LOCK].release()
