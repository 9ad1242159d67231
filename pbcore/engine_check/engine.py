"""An engine in a process of its own, so that one that hangs or ends doesn't end the check."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from pbcore.base.errors import InputError
from pbcore.base.printable import printable
from pbcore.engine_check.setting import Setting
from pbcore.engine_check.worker import is_own

START = 300.0  # seconds that an engine may take to load


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a case: `answers` as the engine returned them, or why there are none: `skipped`
    for what it doesn't have, `failed` for all else.
    """

    answers: Any = None
    skipped: str | None = None
    failed: str | None = None


class Engine:
    """An engine by its name: `FILE.py`, `module:function`, `pbcore` or `pbcore@cuda`. Its process
    starts with the first case and again after one that it didn't survive.

    Raises InputError for a file that isn't there and for a name of another form.
    """

    def __init__(self, name: str, timeout: float = 60.0) -> None:
        if name.endswith(".py") and not Path(name).is_file():
            raise InputError(f"--engine {name}: there is no such file")
        if not is_own(name) and not name.endswith(".py") and ":" not in name:
            raise InputError(
                f"--engine {name}: give a file FILE.py that has generate(checkpoint, prompts,"
                " setting), module:function, or pbcore"
            )
        self.name = name
        self.timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None

    def answer(
        self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: Setting
    ) -> Answered:
        """The engine's answers to prompts.

        Args:
            checkpoint: the folder.
            prompts: ids.
            setting: how it is to decode.

        Raises:
            InputError: for an engine that can't be loaded.
        """
        process = self._started()
        case = {
            "checkpoint": str(checkpoint),
            "prompts": [list(ids) for ids in prompts],
            "setting": asdict(setting),
        }
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
        except OSError:
            return Answered(failed=self._ended())
        said = self._next(self.timeout)
        if isinstance(said, str):
            return Answered(failed=said)
        if "skipped" in said:
            return Answered(skipped=said["skipped"] or "NotImplementedError")
        if "raised" in said:
            return Answered(failed=f"raised {printable(said['raised'], 300)}")
        return Answered(answers=said["answers"])

    def close(self) -> None:
        """Ends the process."""
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _started(self) -> subprocess.Popen[str]:
        """The process, which has loaded the engine."""
        if self._process is not None:
            return self._process
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        process = subprocess.Popen(
            [sys.executable, "-m", "pbcore.engine_check.worker", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._process = process
        lines: queue.Queue[str | None] = queue.Queue()
        self._lines = lines
        assert process.stdout is not None
        stdout = process.stdout

        def read() -> None:
            for line in stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        said = self._next(max(self.timeout, START))
        if isinstance(said, str) or "broken" in said:
            reason = said if isinstance(said, str) else said["broken"]
            self.close()
            raise InputError(f"--engine {self.name} can't be loaded: {printable(reason, 300)}")
        return process

    def _next(self, seconds: float) -> dict[str, Any] | str:
        """What the process says in so many seconds, or a sentence why nothing came."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            return f"gave no answer in {seconds:g} s (--timeout)"
        if line is None:
            return self._ended()
        said: dict[str, Any] = json.loads(line)
        return said

    def _ended(self) -> str:
        """A sentence about a process that has ended."""
        process = self._process
        status = None if process is None else process.wait()
        last = ""
        if self._errors is not None:
            self._errors.seek(0)
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            last = f": {printable(lines[-1], 200)}" if lines else ""
        self.close()
        return f"its process ended with status {status}{last}"
