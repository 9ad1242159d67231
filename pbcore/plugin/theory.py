"""What theory says of a cell, worked out when its clock has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pbcore.ceilings.cells import Ceilings
    from pbcore.models.base import Model
    from pbcore.plugin.answered import Answered
    from pbcore.tasks.base import Task

_CEILINGS = pytest.StashKey["Ceilings"]()


def theory_of(
    config: pytest.Config, model: Model, task: Task, sampler: str, answers: Sequence[Answered]
) -> dict[str, Any]:
    """`ceiling` and `bits_lost` of a cell's record; None for answers with steps, of which theory knows the end."""
    from pbcore.ceilings.cells import mean_bits_lost
    from pbcore.names import parse

    sampler = str(parse(sampler).alone)

    taken = [] if task.cot else [(one.sample, one.answer.steps) for one in answers]
    return {
        "ceiling": _ceilings(config).of(task, sampler, getattr(model, "block", None)),
        "bits_lost": mean_bits_lost(model, sampler, taken),
    }


def _ceilings(config: pytest.Config) -> Ceilings:
    """Those of this process."""
    from pbcore.ceilings.cells import Ceilings

    return config.stash.setdefault(_CEILINGS, Ceilings())
