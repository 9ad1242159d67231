"""One writer per run directory: a lock that is held while a run writes, and names its holder."""

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from pbcore.results.rundir import RunDirError, write_atomic

LOCK = ".lock"
HOLDER = ".holder.json"


@dataclass(frozen=True, slots=True)
class RunLock:
    """A held lock. The system releases it when the process ends; `release` also removes its
    files.
    """

    path: Path
    _lock: FileLock

    def release(self) -> None:
        """Frees the directory for other runs. A directory that is empty then is removed."""
        # Removed while still held: nobody can take the lock of a file that is about to go.
        for name in (HOLDER, LOCK):
            # Windows removes no open file; there the lock's release does.
            with suppress(PermissionError):
                (self.path / name).unlink(missing_ok=True)
        self._lock.release()
        if self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()


def lock_run(path: Path) -> RunLock:
    """Takes the lock of a run directory, which is created if it is missing. Raises RunDirError if
    another process holds it (with its pid, host and start), and if the directory can't be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise RunDirError(
            f"{path} is being written by {_holder(path)}; wait for it, or choose another directory"
        ) from None
    except OSError as error:
        raise RunDirError(
            f"{path} can't be written ({error}); choose another directory by --out"
        ) from error
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    write_atomic(
        path / HOLDER,
        json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "started": started}),
    )
    return RunLock(path, lock)


def is_held(path: Path) -> bool:
    """Whether a process writes a run directory, as far as its note tells: of one on another machine
    it is believed.
    """
    try:
        facts = json.loads((path / HOLDER).read_text(encoding="utf-8"))
        pid = facts["pid"]
        here = facts["host"] == socket.gethostname()
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if not here or os.name != "posix" or type(pid) is not int:
        return True
    try:
        os.kill(pid, 0)  # asks whether it is there
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_empty(path: Path) -> bool:
    """Whether a directory holds no run: nothing but the files of a lock."""
    return not any(file.name not in (LOCK, HOLDER) for file in path.iterdir())


def _holder(path: Path) -> str:
    """`process 123 on host since …`; waited for, as a process names itself right after it took the
    lock.
    """
    for _ in range(20):
        try:
            facts = json.loads((path / HOLDER).read_text(encoding="utf-8"))
            return f"process {facts['pid']} on {facts['host']} since {facts['started']}"
        except (OSError, ValueError, KeyError, TypeError):
            time.sleep(0.05)
    return "another process"
