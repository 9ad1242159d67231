"""Steps of `pbcore check gpu`: each yields checks as it goes, and its result is written as soon as
it ends, so that a rerun goes on where the last one stopped.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Self

import torch

from pbcore.base.printable import first_line
from pbcore.results.rundir import write_atomic


@dataclass(frozen=True, slots=True)
class Check:
    """A line of the report. `holds` is None for what isn't judged: a figure, or what couldn't be
    checked here. `figures` are plain numbers and texts for the JSON.
    """

    name: str
    holds: bool | None
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """What all steps know: the device, the model of the timed steps and its dtype, and when time is
    up (`ends`, on perf_counter's clock).
    """

    device: torch.device
    model: str
    dtype: str
    ends: float

    @property
    def seconds_left(self) -> float:
        return self.ends - perf_counter()


class CheckStep(NamedTuple):
    """A step: its name (of its file, too), its title, and what yields its checks."""

    name: str
    title: str
    run: Callable[[Setup], Iterator[Check]]


@dataclass(slots=True)
class StepResult:
    """A step's checks. `complete` is False if time was up before its end; `settings` are what the
    result depends on.
    """

    name: str
    title: str
    settings: Mapping[str, Any]
    checks: list[Check] = field(default_factory=list)
    complete: bool = False
    seconds: float = 0.0

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The result that was written as `data`. Raises TypeError or KeyError for other data."""
        checks = [Check(**check) for check in data["checks"]]
        return cls(**{**data, "checks": checks})

    @property
    def failed(self) -> bool:
        return any(check.holds is False for check in self.checks)


def carry_out(step: CheckStep, setup: Setup, settings: Mapping[str, Any]) -> StepResult:
    """Runs a step until it ends, raises or time is up. What it raises is a check that doesn't hold,
    with the error's first line.

    Args:
        step: yields its checks.
        setup: the device and the seconds left.
        settings: what the result depends on, kept with it.
    """
    result = StepResult(step.name, step.title, settings)
    begun = perf_counter()
    try:
        for check in step.run(setup):
            result.checks.append(check)
            if setup.seconds_left <= 0:
                break
        else:
            result.complete = True
    except Exception as error:  # noqa: BLE001  whatever a device raises is a finding, and the other steps go on
        text = first_line(str(error), 300) or "no message"
        result.checks.append(Check(f"raised {type(error).__name__}", False, text))
        result.complete = True
    result.seconds = perf_counter() - begun
    return result


def file_of(folder: Path, name: str) -> Path:
    """Where a step's result is kept."""
    return folder / f"{name}.json"


def write_result(result: StepResult, folder: Path) -> None:
    """Writes a step's result."""
    text = json.dumps(asdict(result), indent=1, ensure_ascii=False)
    write_atomic(file_of(folder, result.name), text + "\n")


def read_results(folder: Path, step: CheckStep, settings: Mapping[str, Any]) -> StepResult | None:
    """The kept result of a step, if it was found under the same settings. None without one, and for
    a file that can't be read: the step runs again.

    Args:
        folder: of the results.
        step: its name is the file's.
        settings: what the result depends on.
    """
    try:
        text = file_of(folder, step.name).read_text(encoding="utf-8")
        result = StepResult.of(json.loads(text))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return result if result.settings == dict(settings) else None


def finished_result(
    folder: Path, step: CheckStep, settings: Mapping[str, Any]
) -> StepResult | None:
    """The result of a step that needn't run again: it is complete and everything in it holds.

    Args:
        folder: of the results.
        step: its name is the file's.
        settings: what the result depends on.
    """
    result = read_results(folder, step, settings)
    return result if result is not None and result.complete and not result.failed else None


def usable(device: torch.device) -> bool:
    """Whether a device still computes: after an assert on a GPU nothing of this process does."""
    try:
        return int(torch.ones(1, device=device).sum()) == 1
    except RuntimeError:
        return False


def outcome(results: Sequence[StepResult]) -> str:
    """`passed`, `failed`, or `incomplete` where time was up before the end."""
    if any(result.failed for result in results):
        return "failed"
    return "passed" if all(result.complete for result in results) else "incomplete"
