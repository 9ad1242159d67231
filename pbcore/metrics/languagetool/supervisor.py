"""The supervisor process: runs one Java for all of the user's processes. A script with the standard library only.

`supervisor.py FOLDER COMMAND…` runs COMMAND until it ends or until no process holds `users.lock` any more. Users hold a
shared lock on that file while they live. The kernel releases a lock when its process ends, however it ends, so a killed
run needs no clean-up. On Linux Java dies with the supervisor.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

POLL = 0.2


def main(folder: Path, command: list[str]) -> None:
    """Writes Java's process id to FOLDER/java.pid, its output to FOLDER/server.log."""
    with (folder / "users.lock").open("w") as users, (folder / "server.log").open("ab") as log:
        java = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, preexec_fn=die_with_parent
        )
        (folder / "java.pid").write_text(str(java.pid))
        while java.poll() is None and not unused(users):
            time.sleep(POLL)
        java.kill()
        java.wait()  # a process that wants to be a user now waits for the lock until this one has ended


def unused(users: TextIO) -> bool:
    """Whether no user is left; if so, this process holds the exclusive lock until it exits."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def die_with_parent() -> None:
    """Runs in the child before Java: tells Linux to kill it when the supervisor dies (PR_SET_PDEATHSIG = 1)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    with (Path(sys.argv[1]) / "supervisor.lock").open("w") as alive:
        # Locked before the fork and inherited by the child: when this command returns, the caller sees a running
        # supervisor.
        fcntl.flock(alive, fcntl.LOCK_EX)
        if os.fork() == 0:
            main(Path(sys.argv[1]), sys.argv[2:])
