"""In what the settings of two measurements differ, read from what ran: options that a factor can
vary, the parts of the sampler, and what can't be varied here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pbcore.grid.levels import FACTORS, SWITCH
from pbcore.grid.option import Option, Role
from pbcore.grid.settings import OPTIONS
from pbcore.names import MODIFIERS, SamplerName, SamplerNameError, parse
from pbcore.results.baseline import VERSIONS
from pbcore.results.environment import Machine
from pbcore.results.record import CellRecord
from pbcore.tasks.registry import all_task_names, task_spec

POLICY = "policy"
POLICY_FIELDS = ("policy", "arguments")
# Modifiers that are one part together, by their topics.
JOINED = {
    "top-p": "temperature",
    "top-k": "temperature",
    "blocks chosen while decoding": "block length",
    "schedules over 8 steps": "tokens per step",
}
# What a sampler without a part is called; others: `none`.
WITHOUT = {"temperature": "greedy", "block length": "one block", "caches": "no cache"}
# Options that choose the questions: without their equality nothing is paired.
ASKED = ("data_seed", "data_dir", "tasks")
_VALUES_ELSEWHERE = ("dtype", "threads", "seed", "gpu", "device", "n")  # in the conditions


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that differs: its name, and what stands on both sides. `fields` are those of the
    sampler's name, for a part of it; empty for an option.
    """

    name: str
    before: str
    after: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`shots 1 → 0`; a part of a sampler says by itself what it is: `greedy → +t1.0`."""
        if self.fields:
            return f"{self.before} → {self.after}"
        return f"{self.name} {self.before} → {self.after}"


@dataclass(frozen=True, slots=True)
class CellSetting:
    """What decided the answers of cells: the model, the sampler, the levels of all factors by their
    names, and the facts that no factor covers.
    """

    model: str
    sampler: str
    levels: Mapping[str, str]
    facts: Mapping[str, str]
    asked: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs from one setting to another: what can be varied here, and the rest."""

    varied: tuple[Change, ...]
    fixed: tuple[Change, ...]

    def __len__(self) -> int:
        return len(self.varied) + len(self.fixed)


def setting_of(cell: CellRecord, machine: Machine | None = None) -> CellSetting:
    """The setting of a recorded cell.

    Args:
        cell: the record.
        machine: that of its run's facts.
    """
    under = cell.conditions
    levels = {}
    for name, option in FACTORS.items():
        value = under.options.get(option.field)
        if name == "dtype":
            value = under.dtype
        elif name == "threads":
            value = under.threads if under.device == "cpu" else None
        levels[name] = level_word(option, value, cell.task)
    gpus = (machine or {}).get("gpus") or []
    on_gpu = under.device is not None and under.device.startswith("cuda")
    identity = under.model_identity or {}
    info = under.model_info or {}
    facts = {
        "device": f"{under.device} ({gpus[0]})" if on_gpu and gpus else under.device,
        **{name: under.versions.get(name) for name in ("pbcore", *VERSIONS)},
        "weights": identity.get("weights") or identity.get("digest"),
        "tokenizer": identity.get("tokenizer"),
        "stop ids": info.get("stop_ids"),
        "seeds": under.seeds,
        "rows at a time": None if under.dtype == "float32" else under.batch_size,
    }
    for option in OPTIONS:
        decides = option.role in (Role.ANSWERS, Role.LOADS) and not option.is_factor
        if decides and option.field not in (*ASKED, *_VALUES_ELSEWHERE, "preset", "revision"):
            facts[option.name] = under.options.get(option.field)
    asked = {name: under.options.get(name) for name in ASKED}
    return CellSetting(cell.model, cell.sampler, levels, _words(facts), _words(asked))


def level_word(option: Option, value: Any, task: str = "") -> str:
    """A factor's value as `--factor` takes it.

    Args:
        option: the factor.
        value: None, empty or off: not given.
        task: whose own value holds where none is given.
    """
    if option.kind is None:
        return next(word for word, on in SWITCH.items() if on == bool(value))
    if option.of_task and value is None and task in all_task_names():
        value = getattr(task_spec(task), option.field)
    return option.unset if value in (None, "", ()) else str(value)


def differences(first: CellSetting, second: CellSetting) -> Differences:
    """What differs from the first setting to the second."""
    varied = sampler_changes(first.sampler, second.sampler)
    for name in FACTORS:
        before = first.levels[name]
        after = second.levels[name]
        if before != after:
            varied.append(Change(name, before, after))
    fixed = []
    if first.model != second.model:
        fixed.append(Change("model", first.model, second.model))
    for name in dict.fromkeys([*first.facts, *second.facts]):
        before = first.facts.get(name, "")
        after = second.facts.get(name, "")
        if before != after and before and after:
            fixed.append(Change(name, before, after))
    return Differences(tuple(varied), tuple(fixed))


def sampler_changes(first: str, second: str) -> list[Change]:
    """The parts in which two samplers differ: the policy with its parameters, and each kind of
    modifier. Samplers of models that decode by themselves differ as a whole.
    """
    try:
        before = parse(first)
        after = parse(second)
    except SamplerNameError:
        return [] if first == second else [Change(POLICY, first, second, POLICY_FIELDS)]
    changes = []
    for name, fields in _parts().items():
        if any(getattr(before, each) != getattr(after, each) for each in fields):
            change = Change(name, _part_text(name, before), _part_text(name, after), fields)
            changes.append(change)
    return changes


def with_parts(first: str, second: str, fields: frozenset[str]) -> str:
    """The first sampler's name with these fields of the second's."""
    after = parse(second)
    taken: dict[str, Any] = {name: getattr(after, name) for name in fields}
    return str(replace(parse(first), **taken))


def _parts() -> dict[str, tuple[str, ...]]:
    """Part of a sampler's name → its fields."""
    parts: dict[str, tuple[str, ...]] = {POLICY: POLICY_FIELDS}
    for modifier in MODIFIERS:
        name = JOINED.get(modifier.topic, modifier.topic)
        parts[name] = (*parts.get(name, ()), *sorted(modifier.fields))
    return parts


def _part_text(part: str, name: SamplerName) -> str:
    """A part of a sampler's name, in words where it has none."""
    if part == POLICY:
        return str(name).split("+")[0]
    written = []
    for modifier in MODIFIERS:
        if JOINED.get(modifier.topic, modifier.topic) == part and modifier.written(name):
            written.append(f"+{modifier.written(name)}")
    return "".join(written) or WITHOUT.get(part, "none")


def _words(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as texts; empty where there is none."""
    return {
        name: "" if value in (None, False, "") else str(value) for name, value in values.items()
    }
