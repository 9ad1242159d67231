"""The watchdog: a process that runs Java for the processes of a run, and ends it when none of them
is left.

Each of them holds the lock of a file in STATE/users, which the system releases when it ends,
however it ends. Run as a script, `watchdog.py STATE COMMAND…`: it needs no other module of pbcore.
"""

import contextlib
import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

STARTS = 2
POLL = 0.3


def main(state: Path, command: list[str]) -> None:
    """Runs `command` with a free port, and once more if it ends. Holds STATE/running as long as
    there is a server to wait for; STATE/java has its process id and port.
    """
    # Linux kills Java when the watchdog is killed: PR_SET_PDEATHSIG = 1.
    bound = (
        (lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)) if sys.platform == "linux" else None
    )
    running = FileLock(state / "running")
    servers = list[subprocess.Popen[bytes]]()
    running.acquire()
    while True:
        if len(servers) < STARTS and all(server.poll() is not None for server in servers):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            servers.append(
                subprocess.Popen([*command, "--port", port], cwd=state, preexec_fn=bound)
            )
            (state / "java").write_text(f"{servers[-1].pid} {port}")
        elif servers[-1].poll() is not None:
            running.release()
        time.sleep(POLL)
        with contextlib.suppress(Timeout), FileLock(state / "lock", timeout=0):
            if not any(held(user) for user in (state / "users").glob("*")):
                servers[-1].kill()
                servers[-1].wait()
                shutil.rmtree(state, ignore_errors=True)
                return


def held(path: Path) -> bool:
    """Whether the lock of a file is held."""
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
