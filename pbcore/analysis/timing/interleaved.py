"""Head and base timed interleaved: two processes with the same interpreter and options, each with
its own pbcore.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pbcore.base.errors import InputError, PbcoreError

HEAD = Path(__file__).resolve().parents[3]  # the folder that holds the pbcore under test
SCRIPT = Path(__file__).with_name("worker.py")


class BaseError(InputError):
    """A base that is neither a checkout nor a revision."""


class NotTimed(PbcoreError, RuntimeError):
    """Why a side could not time a cell."""


@dataclass(slots=True)
class TimedCheckout:
    """One checkout's timing process; started with its first job, and again after a job that ended
    it.
    """

    label: str
    folder: Path
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _said: IO[str] | None = field(default=None, init=False)
    _unusable: str | None = field(default=None, init=False)

    def seconds(self, job: Mapping[str, Any]) -> float:
        """How long one decoding of the job's cell took. Raises NotTimed."""
        if self._unusable is not None:
            raise NotTimed(self._unusable)
        if self._process is None:
            self._start()
        answer = self._ask(json.dumps(job) + "\n")
        if "error" in answer:
            raise NotTimed(f"the {self.label} could not run it ({answer['error']})")
        return float(answer["seconds"])

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        if self._said is not None:
            self._said.close()
        self._process = None
        self._said = None

    def _start(self) -> None:
        paths = [str(self.folder)]
        if os.environ.get("PYTHONPATH"):
            paths.append(os.environ["PYTHONPATH"])
        # Held open for as long as the process writes to it.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        # -P: the script's own folder must not be searched for modules.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )
        try:
            imported = Path(str(self._ask("").get("pbcore"))).resolve()
            if not imported.is_relative_to(self.folder.resolve()):
                raise NotTimed(
                    f"the {self.label} of {self.folder} imports another pbcore, {imported}"
                )
        except NotTimed as error:
            self.close()
            self._unusable = str(error)
            raise

    def _ask(self, line: str) -> dict[str, Any]:
        """Sends a line and reads the answer to it. Raises NotTimed where the process has ended."""
        process = self._process
        said = self._said
        assert process is not None
        assert said is not None
        assert process.stdin is not None
        assert process.stdout is not None
        text = ""
        with suppress(BrokenPipeError):
            process.stdin.write(line)
            process.stdin.flush()
            text = process.stdout.readline()
        if text:
            answer: dict[str, Any] = json.loads(text)
            return answer
        status = process.wait()
        said.seek(0)
        last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
        self.close()
        raise NotTimed(f"the {self.label}'s process ended with status {status}: {last}")


@contextmanager
def sides(base: Path) -> Iterator[tuple[TimedCheckout, TimedCheckout]]:
    """The code under test and the code in the folder `base`; their processes end with the
    context.
    """
    with (
        closing(TimedCheckout("head", HEAD)) as head,
        closing(TimedCheckout("base", base)) as other,
    ):
        yield head, other


def interleaved(
    head: TimedCheckout, base: TimedCheckout, job: Mapping[str, Any], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of rounds taken base, head, base, head …, so that what slows the machine down meets
    both.

    Args:
        head: a process with this code.
        base: a process with the base's.
        job: the cell, as plain data.
        rounds: of each side.

    Returns:
        Seconds of head's rounds, and of base's.

    Raises:
        NotTimed: where one of them can't run the job.
    """
    head_seconds = []
    base_seconds = []
    for _ in range(rounds):
        base_seconds.append(base.seconds(job))
        head_seconds.append(head.seconds(job))
    return head_seconds, base_seconds


def check_base(against: str, head: Path = HEAD) -> None:
    """Raises BaseError, saying what to give, where `against` is neither a checkout nor a revision
    of the code in `head`.
    """
    if Path(against).is_dir():
        _holds_pbcore(Path(against))
    else:
        _commit(against, head)


@contextmanager
def checkout(against: str, head: Path = HEAD) -> Iterator[Path]:
    """A folder with the base's pbcore: `against` itself, or a worktree of that revision, gone when
    the context ends.
    """
    if Path(against).is_dir():
        yield _holds_pbcore(Path(against)).resolve()
        return
    commit = _commit(against, head)
    inside = _git(head, "rev-parse", "--show-prefix")
    with tempfile.TemporaryDirectory(prefix="pbcore-base-") as temporary:
        tree = Path(temporary) / "base"
        _git(head, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield _holds_pbcore(tree / inside)
        finally:
            _git(head, "worktree", "remove", "--force", str(tree))


def _holds_pbcore(folder: Path) -> Path:
    if not (folder / "pbcore" / "__init__.py").is_file():
        raise BaseError(
            f"{folder} holds no pbcore/; give the top folder of a checkout, or a revision such as"
            " main"
        )
    return folder


def _commit(revision: str, head: Path) -> str:
    try:
        return _git(
            head, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        )
    except BaseError as error:
        raise BaseError(
            f"{revision!r} is neither a folder nor a revision of the code in {head}; give e.g."
            " main, HEAD~1 or another checkout"
        ) from error


def _git(folder: Path, *arguments: str) -> str:
    """Git's output. Raises BaseError with its error message."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except FileNotFoundError as error:
        raise BaseError(
            "git is not installed; give --against the folder of another checkout"
        ) from error
    except subprocess.CalledProcessError as error:
        raise BaseError(f"git {arguments[0]}: {error.stderr.strip() or 'failed'}") from error
    return done.stdout.strip()
