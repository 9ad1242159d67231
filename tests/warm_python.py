"""`warm_python()`: a program that does what `python …` does, in a process that was forked from one
which has imported torch and the like. A start takes a third of the seconds; pbcore itself is
imported anew each time.

What it starts has a session of its own, gets the signals sent to the program, and dies with it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

IMPORTED = (
    *("torch", "pandas", "scipy.stats", "matplotlib.pyplot", "jinja2", "yaml", "pydantic"),
    *("transformers.models.llama.modeling_llama", "safetensors.torch", "openai", "anthropic"),
    *("pytest", "execnet.gateway_io"),
)
REWRITTEN = ("anyio", "platformdirs")  # plugins of pytest, which warns that it comes too late
FORWARDED = (signal.SIGINT, signal.SIGTERM)
SHIM = "PBCORE_TESTS_WARM_PYTHON"  # the program, for workers of xdist
PAUSE = 0.02  # seconds between two looks at a process


def warm_python(python: str = sys.executable) -> str:
    """The program's path; Windows, which can't fork, has plain Python.

    Args:
        python: the interpreter whose packages it has.
    """
    return python if os.name == "nt" else _served(python)


@cache
def _served(python: str) -> str:
    """Starts the server of an interpreter, which ends, and takes its folder along, after this
    process.
    """
    folder = tempfile.mkdtemp(prefix="warm-")
    place = f"{folder}/socket"  # a socket's path has at most 107 bytes
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    program = Path(folder) / "python"
    words = [python, "-IS", __file__, "ask", place]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment |= {SHIM: str(program), "OMP_NUM_THREADS": "1"}
    subprocess.Popen(
        [python, "-P", __file__, "serve", str(listener.fileno())],
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
    )
    listener.close()
    return str(program)


def warm_programs(folder: Path, python: str = sys.executable) -> Path:
    """A new folder with `python`, `pytest`, `pbcore` and `pip`, each warm."""
    folder.mkdir()
    for name in ("python", "pytest", "pbcore", "pip"):
        module = [] if name == "python" else ["-P", "-m", name]
        words = shlex.join([warm_python(python), *module])
        (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@contextmanager
def warm_workers() -> Iterator[None]:
    """Workers of xdist that this process starts are warm."""
    from execnet import gateway_io

    plain = gateway_io.popen_args

    def warm(spec: Any) -> list[str]:
        program = os.environ.get(SHIM) or warm_python()
        return [program, *plain(spec)[1:]]

    gateway_io.popen_args = warm
    try:
        yield
    finally:
        gateway_io.popen_args = plain


def ask(place: str, words: list[str]) -> NoReturn:
    """The program: has the server start a process, and ends as it does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    deaf = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ), "deaf": deaf}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        socket.send_fds(connection, [b"."], [0, 1, 2])
        with connection.makefile("rw") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            process = int(stream.readline())
            for number in FORWARDED:
                signal.signal(number, lambda number, frame: os.kill(process, number))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            status = int(stream.readline())
    if status < 0:
        if -status in FORWARDED:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(listener: socket.socket) -> dict[str, Any]:
    """Forks a process for each request, and one that waits for it, until the process that started
    the server has ended; returns the request in each process that is to do it.
    """
    for name in IMPORTED:
        with suppress(ModuleNotFoundError):  # of the extras
            import_module(name)
    for name in REWRITTEN:
        if name in sys.modules:
            sys.modules[name].__doc__ = "PYTEST_DONT_REWRITE"
    gc.freeze()  # a collector that looks at it would copy all memory
    parent = os.getppid()
    while os.getppid() == parent:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not select.select([listener], [], [], 1)[0]:
            continue
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return begin(connection)
        connection.close()
    shutil.rmtree(Path(PROGRAM).parent)
    sys.exit()


def begin(connection: socket.socket) -> dict[str, Any]:
    """Forks the process of a request, and returns the request there."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    stream = connection.makefile("rw")
    line = stream.readline()
    if not line:  # the program was killed
        os._exit(0)
    request: dict[str, Any] = json.loads(line)
    process = os.fork()
    if process == 0:
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        stream.close()
        connection.close()
        sys.stdin = os.fdopen(0)  # the server's own are of files that can seek
        sys.stdout = os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1)
        return request
    for descriptor in descriptors:
        os.close(descriptor)
    for number in range(3):
        os.close(number)
    stream.write(f"{process}\n")
    stream.flush()
    status = 0
    ended = 0
    while not ended:
        ended, status = os.waitpid(process, os.WNOHANG)
        if not ended and select.select([connection], [], [], PAUSE)[0]:  # the program was killed
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os._exit(0)
    with suppress(OSError):
        stream.write(f"{os.waitstatus_to_exitcode(status)}\n")
        stream.flush()
    os._exit(0)


def become(request: dict[str, Any]) -> NoReturn:
    """Does what `python …` does with these words, in this folder and environment, but forgets its
    modules at the end, which would take as long as the start.
    """
    status = 0
    try:
        prepare(request)
        with warm_workers():
            perform(request["words"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 (the process ends)
        traceback.print_exc()
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


def prepare(request: dict[str, Any]) -> None:
    """What Python does before it looks at its main program."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ[SHIM] = PROGRAM
    signal.signal(signal.SIGINT, signal.SIG_IGN if request["deaf"] else signal.default_int_handler)
    threads = os.environ.get("OMP_NUM_THREADS", "")  # which torch read before the fork
    torch = import_module("torch")
    torch.set_num_threads(int(threads) if threads.isdigit() else os.cpu_count())
    for folder in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if folder:
            sys.path.insert(0, os.path.abspath(folder))
    invalidate_caches()
    with suppress(ModuleNotFoundError):
        import_module("sitecustomize")


def perform(words: list[str]) -> None:
    """Runs a module, a line or a file as the main program."""
    safe = "PYTHONSAFEPATH" in os.environ
    while words[0] in ("-u", "-B", "-P"):
        safe = safe or words[0] == "-P"
        del words[0]
    kind = words[0]
    if kind in ("-m", "-c"):
        del words[0]
    place = {"-m": os.getcwd(), "-c": ""}.get(kind, os.path.dirname(os.path.abspath(words[0])))
    if not safe:
        sys.path.insert(0, place)
    sys.argv[:] = words
    if kind == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        main = ModuleType("__main__")
        sys.modules["__main__"] = main
        sys.argv[0] = "-c"
        exec(compile(words[0], "<string>", "exec"), vars(main))
    else:
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3:])
    PROGRAM = os.environ[SHIM]
    become(serve(socket.socket(fileno=int(sys.argv[2]))))
