"""Settings of a training run of seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pbcore.extras.train.lora.settings import LoraSettings


def toy(model: Path | str, **changes: Any) -> LoraSettings:
    """Settings of a run of seconds: 12 examples of sudoku, 3 steps an epoch."""
    own = {
        "rank": 4,
        "alpha": 8,
        "train": 12,
        "validation": 4,
        "epochs": 2,
        "batch": 4,
        "rate": 0.01,
        "scored": 2,
    }
    small = {"task": "list_ops/shuffle", "n": (3, 4), "sampler": "confidence-k2"}
    return LoraSettings(model=str(model), **{**own, **small, **changes})
