"""What only POSIX systems have is imported where it is used, so that everything else runs on Windows and macOS, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pbcore

POSIX = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "posix_ipc")
SHARED = "pbcore.metrics.languagetool."  # the shared grammar server: these two modules need file locks
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
    def test_only_the_shared_grammar_server_needs_posix(self) -> None:
        """With the POSIX modules blocked, every other module still imports."""
        wanted = [name for name in modules() if name not in (f"{SHARED}shared", f"{SHARED}supervisor")]
        assert len(wanted) > 150
        code = f"{BLOCKED}\nimport importlib\nfor name in {wanted!r}: importlib.import_module(name)\nprint('all')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "all", done.stderr[-2000:]

    def test_without_file_locks_grammar_says_what_to_do(self) -> None:
        """The shared server can't start there; the reason names the option that takes a server of the user's."""
        code = f"{BLOCKED}\nfrom pbcore.metrics import grammar\ngrammar.checker()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "Unavailable: pbcore starts a LanguageTool server on Linux and macOS only" in done.stderr
        assert "--languagetool-url" in done.stderr
