"""Checks an engine case by case."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pbcore.extras.check.engine.judge import CaseResult, flips_of, judge
from pbcore.extras.check.engine.material import Case, Material, NearTies
from pbcore.extras.check.engine.source import AnyEngine
from pbcore.models.errors import ModelError


class Checker:
    """An engine that is checked on a made checkpoint.

    Args:
        folder: of the checkpoint.
        material: its `expected.json`.
        engine: the engine.
    """

    def __init__(self, folder: Path, material: Material, engine: AnyEngine) -> None:
        self._folder = folder.resolve()
        self._material = material
        self._engine = engine
        self._diagnosis: Any = None

    def result(self, case: Case) -> CaseResult:
        """A case's result, with a diagnosis of a fault. Raises InputError for an engine that can't
        be loaded.
        """
        result = self._judged(case)
        if case.property == "twice" and result.verdict == "equal":
            result = self._judged(case)
        if result.verdict == "fault" and result.first is not None:
            if self._diagnosis is None:
                from pbcore.extras.check.engine.deviations import (
                    Diagnosis,  # torch, only where needed
                )

                self._diagnosis = Diagnosis(self._folder, self._material)
            result.diagnosis = self._diagnosis.of(case, result.answers)
        return result

    def _judged(self, case: Case) -> CaseResult:
        prompts = [row.prompt for row in case.rows]
        try:
            answers = self._engine.answer(self._folder, prompts, case.setting)
        except NotImplementedError as error:
            return CaseResult(case, "not tried", of=len(prompts), text=str(error))
        except (ModelError, TimeoutError) as error:
            return CaseResult(case, "failed", of=len(prompts), text=str(error))
        return judge(case, answers)

    def near(self, ties: NearTies) -> str:
        """A sentence with the flips of near ties, beside our own in bfloat16; empty where the
        engine doesn't answer them.
        """
        result = self._judged(Case(ties.id, "near-ties", ties.setting, ties.rows))
        if result.verdict not in ("equal", "fault"):
            return ""
        flips = 0
        decisions = 0
        for row, answer in zip(ties.rows, result.answers, strict=True):
            flipped, until = flips_of(row, answer)
            flips += flipped
            decisions += until
        ours = 100 * ties.flips / max(1, ties.decisions)
        theirs = 100 * flips / max(1, decisions)
        return (
            f"Near ties: {theirs:.1f} flips in 100 decisions ({flips} of {decisions}); our own loop"
            f" in bfloat16: {ours:.1f}"
        )


def check(
    folder: Path, material: Material, engine: AnyEngine, chosen: Collection[str]
) -> Iterator[CaseResult | str]:
    """The results of the chosen cases, in order, one by one; after all cases of the material also
    sentences about near ties.

    Args:
        folder: of the checkpoint.
        material: its `expected.json`.
        engine: the engine; it is closed at the end.
        chosen: the ids of the cases.

    Raises:
        InputError: for an engine that can't be loaded.
    """
    checker = Checker(folder, material, engine)
    try:
        for case in material.cases:
            if case.id in chosen:
                yield checker.result(case)
        if len(chosen) == len(material.cases):
            for ties in material.near:
                told = checker.near(ties)
                if told:
                    yield told
    finally:
        engine.close()
