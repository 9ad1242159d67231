"""The warm Python is Python: words, folder, environment, status and signals are a new process's."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.warm_python import warm_python

pytestmark = [pytest.mark.slow, pytest.mark.posix]  # its server imports torch


def run(*words: str, **settings: object) -> subprocess.CompletedProcess[str]:
    command = [warm_python(), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload, no-any-return]


def test_a_line(tmp_path: Path) -> None:
    """It has what was given, third parties' modules, and none of pbcore's."""
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['SEEN'] = '1'\n")
    code = (
        "import os, sys; print(sys.argv, os.getcwd(), os.environ['GIVEN'], os.environ['SEEN'],"
        " sys.stdin.read(), 'torch' in sys.modules, 'pbcore' in sys.modules)"
    )
    environment = {**os.environ, "GIVEN": "ü", "PYTHONPATH": str(tmp_path)}
    done = run("-c", code, "a", cwd=tmp_path, env=environment, input="typed")
    assert done.stdout == f"['-c', 'a'] {tmp_path} ü 1 typed True False\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_files_and_modules(tmp_path: Path) -> None:
    """Both find what lies beside them."""
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    (tmp_path / "main.py").write_text("import beside, sys\nprint(beside.NAME, sys.argv[1:])\n")
    assert run(str(tmp_path / "main.py"), "x", cwd="/").stdout == "beside ['x']\n"
    assert run("-m", "main", "x", cwd=tmp_path).stdout == "beside ['x']\n"
    assert "No module named main" in run("-P", "-m", "main", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('it broke')", 1, "it broke\n"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
        ("import atexit, sys; atexit.register(print, 'end', file=sys.stderr)", 0, "end\n"),
    ],
)
def test_ends(code: str, status: int, said: str) -> None:
    done = run("-c", code)
    assert done.returncode == status
    assert said in done.stderr


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 7), ("SIGKILL", -9)])
def test_signals(name: str, status: int, tmp_path: Path) -> None:
    """An interrupt is passed on; what is killed leaves no process."""
    code = (
        "import os, time; from pathlib import Path\n"
        "Path('id').write_text(str(os.getpid()))\n"
        "try: time.sleep(60)\n"
        "except KeyboardInterrupt: os._exit(7)"
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's job ignores it
    process = subprocess.Popen([warm_python(), "-c", code], cwd=tmp_path)
    signal.signal(signal.SIGINT, before)
    while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text():
        time.sleep(0.02)
    process.send_signal(signal.Signals[name])
    assert process.wait() == status
    started = int((tmp_path / "id").read_text())
    with pytest.raises(ProcessLookupError):
        stays(started)


def stays(process: int) -> None:
    """Raises ProcessLookupError once a process has ended; returns if that takes too long."""
    for _ in range(1000):
        os.kill(process, 0)
        time.sleep(0.02)
