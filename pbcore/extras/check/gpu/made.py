"""A made checkpoint on the device, checked as `pbcore check engine` checks any engine: on its
prompts any difference is a fault, whatever the dtype.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pbcore.extras.check.engine import own
from pbcore.extras.check.engine.material import read_material
from pbcore.extras.check.engine.report import exit_status, summary
from pbcore.extras.check.engine.run import Checker
from pbcore.extras.check.engine.setting import Setting
from pbcore.extras.check.gpu.models import golden_folders
from pbcore.extras.check.gpu.steps import Check, Setup

DTYPES = ("float32", "bfloat16", "float16")
NAME = "llada"


class OwnEngine:
    """Our own loop on a device, in this process."""

    def __init__(self, device: str, dtype: str) -> None:
        self._generate = own.engine(f"{device},{dtype}")

    def answer(self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: Setting) -> Any:
        """Its answers, with their forwards."""
        return self._generate(str(checkpoint), prompts, setting)

    def close(self) -> None:
        """Nothing was begun."""


def made_folder() -> Path | None:
    """The first made checkpoint beside golden ones; None without any."""
    for folder in golden_folders():
        if (folder / "engines" / NAME / "expected.json").is_file():
            return folder / "engines" / NAME
    return None


def check_made(setup: Setup) -> Iterator[Check]:
    """Its answers in each dtype; of a fault, the deviation that gives the same ones."""
    folder = made_folder()
    if folder is None:
        text = "no made checkpoint here: set PBCORE_REFERENCE to tests/reference of a clone"
        yield Check("made checkpoint", None, text)
        return
    material = read_material(folder)
    for kind in DTYPES:
        checker = Checker(folder, material, OwnEngine(str(setup.device), kind))
        results = [checker.result(case) for case in material.cases]
        equal = sum(result.equal for result in results)
        answers = sum(result.of for result in results)
        figures = {"answers": answers, "equal": equal}
        yield Check(f"{NAME}, {kind}", exit_status(results) == 0, summary(results), figures)
