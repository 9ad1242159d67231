"""A recipe: the network's size, the data's seed, and the phases of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from pbcore.tasks.registry import task_names


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a run: `steps` batches of `rows` rows, with the learning rate going from `rate` to `end_rate` on a half cosine.

    `weights` are shares of tasks (every task of the paper not named has 1; 0 leaves one out). `balance` weights each row's tokens by
    the row's number of masks to the power −`balance`: 0 counts every token alike, 1 every row (as LLaDA's 1/t). `lengths` gives
    tasks other values of n than the test has: short ones are learned sooner. The rest as in `rows.Draw`.
    """

    steps: int
    rate: float
    end_rate: float
    rows: int = 32
    full_canvas: float = 0.5
    masked_shots: float = 0.5
    pairs: float = 0.0
    power: float = 1.0
    balance: float = 0.0
    weights: Mapping[str, float] | None = None
    lengths: Mapping[str, Sequence[int]] | None = None

    def tasks(self) -> dict[str, float]:
        """Every task of this phase with its share. Raises ValueError for a name that is none of the paper's."""
        given = dict(self.weights or {})
        unknown = set(given) - set(task_names())
        if unknown:
            raise ValueError(f"recipe: no task {sorted(unknown)}; there are {', '.join(task_names())}")
        return {name: share for name in task_names() if (share := given.get(name, 1.0)) > 0}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides a run. `vocabulary_samples` per task and split are read to collect the tokens."""

    width: int
    layers: int
    heads: int
    inner: int
    seed: int
    vocabulary_samples: int
    warmup: int
    phases: tuple[Phase, ...]
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.phases)

    def at(self, step: int) -> tuple[int, int]:
        """The number of the phase that a step belongs to, and the step's number within it."""
        for number, phase in enumerate(self.phases):
            if step < phase.steps:
                return number, step
            step -= phase.steps
        raise ValueError(f"step {step} lies behind the recipe's end")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_recipe(path: Path) -> Recipe:
    """A recipe from a YAML file. Raises ValueError naming the file for unknown or missing keys."""
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        phases = tuple(Phase(**phase) for phase in loaded.pop("phases"))
        return Recipe(phases=phases, **loaded)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is no recipe ({error}); see pbcore/train/recipe.yaml for one") from None
