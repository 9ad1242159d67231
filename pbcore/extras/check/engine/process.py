"""An engine in a process of its own, so that one that hangs or ends doesn't end the check."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from pbcore.base.errors import InputError
from pbcore.base.printable import printable
from pbcore.extras.check.engine.setting import Setting
from pbcore.extras.check.engine.worker import is_own
from pbcore.models.errors import ModelError

START = 300.0  # seconds that an engine may take to load


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

    def answer(self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: Setting) -> Any:
        """The engine's answers to prompts, as it returned them.

        Args:
            checkpoint: the folder.
            prompts: ids.
            setting: how it is to decode.

        Raises:
            InputError: for an engine that can't be loaded.
            NotImplementedError: for a setting that it doesn't have.
            ModelError: where no answers came.
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
            raise ModelError(self._ended()) from None
        said = self._next(self.timeout)
        if "skipped" in said:
            raise NotImplementedError(said["skipped"] or "NotImplementedError")
        if "raised" in said:
            raise ModelError(f"raised {printable(said['raised'], 300)}")
        return said["answers"]

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
            [sys.executable, "-m", "pbcore.extras.check.engine.worker", self.name],
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
        try:
            said = self._next(max(self.timeout, START))
        except ModelError as error:
            said = {"broken": str(error)}
        if "broken" in said:
            self.close()
            reason = printable(said["broken"], 300)
            raise InputError(f"--engine {self.name} can't be loaded: {reason}")
        return process

    def _next(self, seconds: float) -> dict[str, Any]:
        """What the process says in so many seconds. Raises ModelError where nothing comes."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise ModelError(f"gave no answer in {seconds:g} s (--timeout)") from None
        if line is None:
            raise ModelError(self._ended())
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
