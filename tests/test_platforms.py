"""What only POSIX systems have is imported where it is used, so that everything else runs on Windows and macOS, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pbcore

POSIX = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "posix_ipc")
BLOCKED = f"""
import builtins

def blocked(name, globals=None, *rest, original=builtins.__import__, **more):
    # Modules of Python itself may have imported them: only what pbcore asks for counts.
    if name in {POSIX!r} and (globals or {{}}).get("__name__", "").startswith("pbcore"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return original(name, globals, *rest, **more)

builtins.__import__ = blocked
"""


def modules() -> list[str]:
    """Every module of the package that is imported by name."""
    root = Path(pbcore.__file__).parent
    files = (file.relative_to(root.parent).with_suffix("") for file in root.rglob("*.py"))
    names = (".".join(file.parts).removesuffix(".__init__") for file in files)
    return sorted(name for name in names if not name.endswith("__main__"))


class TestImports:
    def test_no_module_needs_posix(self) -> None:
        """With the POSIX modules blocked, every module still imports."""
        assert len(modules()) > 150
        code = f"{BLOCKED}\nimport importlib\nfor name in {modules()!r}: importlib.import_module(name)\nprint('all')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "all", done.stderr[-2000:]
