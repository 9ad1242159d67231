"""The watchdog: a process that runs Java for the processes of a run, and ends it when none of them is left.

Each of them holds the lock of a file in STATE/users, which the system releases when it ends, however it ends. Run as a
script, `watchdog.py STATE COMMAND…`: it needs no other module of pbcore.
"""

import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

STARTS = 2
POLL = 0.3


def start(state: Path, command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    """Starts a watchdog that outlives this process."""
    script = [sys.executable, "-I", __file__, str(state), *command]
    return subprocess.Popen(script, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def main(state: Path, command: list[str]) -> None:
    """Runs `command` with a free port, and once more if it ends. Holds STATE/running meanwhile; STATE/java has Java's
    process id and port."""
    # Linux kills Java when the watchdog is killed: PR_SET_PDEATHSIG = 1.
    bound = (lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)) if sys.platform == "linux" else None
    with FileLock(state / "running"):
        for _ in range(STARTS):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            java = subprocess.Popen([*command, "--port", port], cwd=state, preexec_fn=bound)
            (state / "java").write_text(f"{java.pid} {port}")
            while java.poll() is None:
                _end_if_unused(state, java)
    while True:
        _end_if_unused(state, java)


def _end_if_unused(state: Path, java: subprocess.Popen[bytes]) -> None:
    """Ends Java and this process, and removes STATE, if no process of the run is left; else waits a moment."""
    time.sleep(POLL)
    try:
        with FileLock(state / "lock", timeout=0):
            if not any(held(user) for user in (state / "users").glob("*")):
                java.kill()
                java.wait()
                shutil.rmtree(state, ignore_errors=True)
                sys.exit()
    except Timeout:
        pass  # a process of the run waits for the server


def held(path: Path) -> bool:
    """Whether the lock of a file is held."""
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
