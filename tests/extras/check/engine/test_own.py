"""Our own loop as an engine, wherever it computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pbcore.extras.check.engine.judge import judge
from pbcore.extras.check.engine.material import Material
from pbcore.extras.check.engine.worker import load_engine
from pbcore.models.errors import ModelError

if TYPE_CHECKING:
    from tests.pseudo_gpu import PseudoGpu


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_on_a_gpu(folder: Path, material: Material, pseudo_gpu: PseudoGpu, kind: str) -> None:
    """It computes there, and gives the answers and forwards of the material."""
    generate = load_engine(f"pbcore@cuda,{kind}")
    with pseudo_gpu.counting() as counts:
        for name in ("k4+b8/batch", "threshold-0.9+b8/forwards", "dual/batch"):
            (case,) = [each for each in material.cases if each.id.endswith(name)]
            given = generate(str(folder), [row.prompt for row in case.rows], case.setting)
            assert judge(case, given).verdict == "equal", name
    assert counts.kernels() > 0


@pytest.mark.parametrize("place", ["tpu", "cpu,float8"])
def test_an_unknown_place_is_refused(place: str) -> None:
    """Before any case is asked."""
    with pytest.raises(ModelError, match="is not known"):
        load_engine(f"pbcore@{place}")
