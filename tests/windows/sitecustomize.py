"""Shows pbcore and its tests a Windows, as far as Linux can: what only POSIX has is absent, other
packages keep it.

Python imports this module when it starts with this folder on PYTHONPATH; workers and servers
inherit that.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
import time
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = "fcntl grp pwd resource termios tty pty syslog posix readline crypt spwd nis curses"
ABSENT = {
    "os": (
        "fork forkpty getuid geteuid getgid getegid getpgid getpgrp getsid setsid setpgid setuid"
        " killpg uname sysconf getloadavg sched_getaffinity sched_setaffinity nice getpriority"
        " mkfifo mknod chown chroot wait wait3 wait4 statvfs posix_spawn pipe2 pread pwrite"
        " sendfile memfd_create openpty ttyname register_at_fork O_CLOEXEC O_NONBLOCK O_DIRECTORY"
        " O_NOFOLLOW WNOHANG"
    ),
    "signal": (
        "SIGKILL SIGHUP SIGALRM SIGUSR1 SIGUSR2 SIGQUIT SIGCHLD SIGPIPE SIGSTOP SIGCONT alarm"
        " setitimer pause pthread_kill pthread_sigmask sigwait siginterrupt"
    ),
    "sys": "abiflags",
}
OTHER = {"os": {"name": "nt"}, "sys": {"platform": "win32"}}
FILES = ("/proc/", "/dev/shm")
BETWEEN = {
    __name__,
    "pathlib",
    "pathlib._local",
    "pathlib._os",
    "os",
    "io",
    "shutil",
    "genericpath",
    "contextlib",
}
TICK = 1 / 64  # seconds between two times of Windows' coarse clock


class Windows(ModuleType):
    """A module without what Windows lacks."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_module"]
        if name in ABSENT[module.__name__].split():
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return OTHER.get(module.__name__, {}).get(name, getattr(module, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_module"], name, value)


def of_pbcore(name: object) -> bool:
    """Of the package or of its tests."""
    return isinstance(name, str) and name.split(".")[0] in ("pbcore", "tests")


def asked_by_pbcore() -> bool:
    """Whether the innermost caller outside of Python's file functions is pbcore."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in BETWEEN:
        frame = frame.f_back
    return of_pbcore(frame.f_globals.get("__name__"))


def imported(
    name: str, globals: Any = None, *rest: Any, original: Any = builtins.__import__, **more: Any
) -> Any:
    ours = of_pbcore((globals or {}).get("__name__"))
    if ours and name in MODULES.split():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = original(name, globals, *rest, **more)
    return shown[name] if ours and name in shown else module


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith(FILES) and asked_by_pbcore():
        raise FileNotFoundError(2, "No such file or directory", arguments[0])
    if event in ("os.remove", "os.rename", "os.rmdir") and asked_by_pbcore():
        for path in arguments[: 2 if event == "os.rename" else 1]:
            if os.path.realpath(path) in opened():
                raise PermissionError(
                    13, "The process cannot access the file: it is being used", str(path)
                )


def opened() -> set[str]:
    """The files that this process has open."""
    folder = "/proc/self/fd"
    return {
        os.readlink(link)
        for name in os.listdir(folder)
        if os.path.islink(link := f"{folder}/{name}")
    }


def stat(path: Any, *rest: Any, original: Any = os.stat, **more: Any) -> os.stat_result:
    if isinstance(path, str | Path) and str(path).startswith(FILES) and asked_by_pbcore():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return original(path, *rest, **more)


def coarse(clock: Any) -> Any:
    return wraps(clock)(lambda: clock() // TICK * TICK)


shown = {module.__name__: Windows(module) for module in (os, signal, sys)}
builtins.__import__ = imported
os.stat = stat
for clock in ("perf_counter", "monotonic", "time"):
    setattr(time, clock, coarse(getattr(time, clock)))
sys.addaudithook(audit)
