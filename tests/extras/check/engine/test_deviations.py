"""Each deviation of the example engine is found and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.extras.check.engine.deviations import DEVIATIONS, LONGEST, Diagnosis
from pbcore.extras.check.engine.judge import NONE_FITS, judge
from pbcore.extras.check.engine.material import Case, Material
from pbcore.extras.check.engine.varied import decode_varied
from pbcore.models import load_model
from tests.extras.check.engine.plain import Plain, dtype, wrong

# The cases in which a deviation shows; those of all settings otherwise.
SHOWN_BY = {
    "mask written": "threshold-0.9+b8/mask",
    "eos held back": "k4+b8/eos-within",
    "eos ignored": "threshold-0.9+b8/eos-within",
    "padding attended": "threshold-0.9+b8/batch",
    "positions count padding": "threshold-0.9+b8/batch",
    LONGEST: "threshold-0.9+b8/batch",
    "k off by one": "k4+b8/single",
    "remainder late": "k3+b8/single",
    "entropy for confidence": "/batch",
    "threshold without the best": "threshold-0.9+b8/single",
    "prefix for dual": "dual/batch",
    "stale block": "dual/batch",
}
OF_OTHERS = ("logits not shifted", "confidence for entropy")  # deviations of other families
NAMES = [name for name in (*DEVIATIONS, LONGEST) if name not in OF_OTHERS]


def answered(folder: Path, case: Case) -> Any:
    """The example engine's answers to a case."""
    return Plain().answer(folder, [row.prompt for row in case.rows], case.setting)


def cases(material: Material, words: str) -> list[Case]:
    """The cases whose name ends so."""
    return [case for case in material.cases if case.id.endswith(words)]


@pytest.mark.parametrize("name", NAMES)
def test_a_deviation_is_found_and_named(folder: Path, material: Material, name: str) -> None:
    """The example engine with it is at fault, and its name is among those that fit."""
    chosen = cases(material, SHOWN_BY.get(name, "k4+b8/border"))
    others = [other for other in ("causal", "k off by one", "eos ignored") if other != name]
    diagnosis = Diagnosis(folder, material, [each for each in (name, *others) if each != LONGEST])
    with wrong(name):
        results = [judge(case, answered(folder, case)) for case in chosen]
    faults = [result for result in results if result.verdict == "fault"]
    assert faults
    for result in faults:
        assert diagnosis.of(result.case, result.answers) == [name]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_a_right_engine_has_no_fault_in_any_dtype(
    folder: Path, material: Material, kind: torch.dtype
) -> None:
    """Robust prompts give the same answers however it rounds."""
    with dtype(kind):
        results = [judge(case, answered(folder, case)) for case in cases(material, "/batch")]
    assert {result.verdict for result in results} == {"equal"}


def test_unknown_faults_fit_nothing(folder: Path, material: Material) -> None:
    """Answers of another kind get no name."""
    (case,) = cases(material, "threshold-0.9+b8/single")
    strange = [[7] * len(row.answer) for row in case.rows]
    some = Diagnosis(folder, material, ("causal", "least sure first"))
    assert some.of(case, strange) == [NONE_FITS]


def test_the_plain_loop_decodes_as_expected(folder: Path, material: Material) -> None:
    """Without a variation it gives every answer of the material, caches included."""
    model = load_model(str(folder))
    for case in cases(material, "/batch"):
        setting = case.setting
        canvases = decode_varied(model, [row.prompt for row in case.rows], setting)
        for row, canvas in zip(case.rows, canvases, strict=True):
            assert canvas[: len(row.answer)] == row.answer, setting.sampler()
