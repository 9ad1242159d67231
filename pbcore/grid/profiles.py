"""The grids that profiles name: data/profiles.yaml, worked out for a canvas length."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from pbcore.package_data import package_yaml


@dataclass(frozen=True, slots=True)
class Profile:
    """A grid as declared: models, task patterns, fixed samplers, sweeps over blocks, and the most samples a task (None:
    all). `only` has what differs for single models: model → its task patterns, samplers and limit."""

    name: str
    models: tuple[str, ...]
    limit: int | None
    tasks: tuple[str, ...]
    samplers: tuple[str, ...] = ()
    sweeps: tuple[dict[str, Any], ...] = ()
    only: dict[str, dict[str, Any]] = field(default_factory=dict)

    def limit_of(self, model: str) -> int | None:
        """The most samples a task for this model; None: all."""
        limit: int | None = self.only.get(model, {}).get("limit", self.limit)
        return limit

    def has_task(self, model: str, task: str) -> bool:
        """Whether the grid has this task for this model."""
        patterns = self.only.get(model, {}).get("tasks")
        return patterns is None or any(fnmatchcase(task, pattern) for pattern in patterns)

    def has_sampler(self, model: str, sampler: str) -> bool:
        """Whether the grid has this sampler for this model."""
        return sampler in self.only.get(model, {}).get("samplers", (sampler,))

    def sampler_names(self, canvas: int) -> list[str]:
        """The samplers for answers of `canvas` tokens, in the order declared, each once."""
        swept = (name for sweep in self.sweeps for name in _sweep(sweep, canvas))
        return list(dict.fromkeys([*self.samplers, *swept]))


@cache
def profiles() -> dict[str, Profile]:
    """All profiles by name."""
    data = package_yaml("pbcore.grid", "profiles.yaml")
    found: dict[str, dict[str, Any]] = {
        name: {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
        for name, entry in data.items()
    }
    return {name: Profile(name, **entry) for name, entry in found.items()}


def powers_of_two(last: int) -> list[int]:
    """1, 2, 4 … up to `last`."""
    return [1 << i for i in range(last.bit_length()) if 1 << i <= last]


def _sweep(sweep: dict[str, Any], canvas: int) -> Iterator[str]:
    for policy in sweep["policies"]:
        for block in powers_of_two(canvas):
            ending = "" if block == canvas else f"+b{block}"
            parameters = [f"k{k}" for k in powers_of_two(block)] if sweep.get("k") else sweep["values"]
            yield from (f"{policy}-{parameter}{ending}" for parameter in parameters)
