"""The samplers that run a race, and the neighbours of those in front.

Of each policy that the model can run: its defaults, the ends of the first parameter that
declares a `Span`, or k = 2, 4, 8 … of those that take the number of tokens per step; and policies
with modifiers. What the model can't run on all tasks is left out with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from pbcore.base.errors import InputError
from pbcore.decoding.policies import policies
from pbcore.decoding.policies.registry import spans
from pbcore.decoding.samplers import build_policy, is_static, resolve
from pbcore.grid.plan import Plan, make_plan
from pbcore.grid.settings import Settings
from pbcore.names import SamplerName, SamplerNameError, parse, plain_number

VALUES = 2  # of a parameter, beside its default: the ends of its span
MOST_K = 8
REFERENCES = ("confidence-k1", "left_to_right-k1", "threshold-1.0")  # the first that the model runs
MODIFIED = (
    "confidence-k2+adas40",
    "confidence-k2+rcr",
    "confidence-k2+rcr-max",
    "confidence-k2+remdm1",
    "confidence-k2+remdm1-early",
    "threshold-0.9+adas40",
    "threshold-0.9+counts",
    "threshold-0.0+counts+gap2",
    "eb-0.1+counts",
    "spec-8-lossless",
    "joint-0.7-edit0.5",
    "axon-1-cover",
)
BLOCKED = ("threshold-0.9", "eb-0.1", "confidence-k2")  # in blocks of half and a quarter answer
CACHES = ("prefix", "dual")
_WHOSE = re.compile(r"^.* × \S+: (it decodes block by block, and )?")  # begins a reason
DIGITS = 2  # significant ones of a value, or of 1 − value near 1


@dataclass(frozen=True, slots=True)
class Field:
    """Who runs: the reference, the candidates in order, and reason → how many were left out."""

    reference: str
    candidates: tuple[str, ...]
    left_out: Mapping[str, int]


def field_of(
    settings: Settings, tasks: Sequence[str], lengths: Collection[int], chosen: Sequence[str]
) -> Field:
    """The field of a model's race.

    Args:
        settings: those of the run, with its one model; its samplers are not used.
        tasks: their full names.
        lengths: how many tokens the answers have.
        chosen: policies or whole sampler names to choose from; empty for all.

    Raises:
        InputError: unknown names, a model that runs no reference, or no candidate.
    """
    names = _chosen(chosen, lengths) if chosen else _all(lengths)
    runs, reasons = runnable(settings, tasks, [*REFERENCES, *names])
    reference = next((name for name in REFERENCES if name in runs), None)
    model = settings.model[0]
    if reference is None:
        raise InputError(
            f"{model} can't run one token at a time, the reference that a loss is measured against:"
            f" {reasons.get(REFERENCES[0], 'unknown reason')}"
        )
    candidates = tuple(name for name in names if name in runs and name != reference)
    left_out = Counter(_WHOSE.sub("", reasons[name]) for name in names if name in reasons)
    if not candidates:
        why = f": {next(iter(left_out))}" if left_out else ""
        raise InputError(f"{model} can run none of the samplers to choose from{why}")
    return Field(reference, candidates, left_out)


def runnable(
    settings: Settings, tasks: Sequence[str], names: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Which samplers the model can run on all tasks.

    Args:
        settings: with the model.
        tasks: their names.
        names: the samplers.

    Returns:
        Those that can run, and why not of the others.
    """
    plan: Plan = make_plan(replace(settings, sampler=tuple(names), task=tuple(tasks)))
    reasons: dict[str, str] = {}
    for cell, reason in plan.combinations:
        if reason is not None:
            reasons.setdefault(str(cell.sampler), reason)
    return [name for name in dict.fromkeys(names) if name not in reasons], reasons


def _all(lengths: Collection[int]) -> list[str]:
    """All candidates by name, each once."""
    names = [name for policy in policies() for name in _of_policy(policy, lengths)]
    names += MODIFIED
    shortest = min(lengths)
    for size in (shortest // 2, shortest // 4):
        if size > 1:
            names += [f"{name}+b{size}" for name in BLOCKED]
            names += [f"{BLOCKED[0]}+b{size}+{cache}" for cache in CACHES]
    return _canonical(names)


def _chosen(texts: Sequence[str], lengths: Collection[int]) -> list[str]:
    """The candidates that `--samplers` names: all of a policy, or one by its whole name."""
    names: list[str] = []
    for text in texts:
        if text in policies():
            names += _of_policy(text, lengths)
            continue
        try:
            names.append(str(resolve(text)))
        except SamplerNameError as error:
            raise InputError(f"--samplers: {error}") from error
    return _canonical(names)


def _canonical(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(str(resolve(name)) for name in names))


def _of_policy(policy: str, lengths: Collection[int]) -> list[str]:
    """A policy's candidates."""
    cls = policies()[policy]
    shortest = min(lengths)
    if is_static(cls):
        ks = [1 << power for power in range(1, MOST_K.bit_length()) if 1 << power <= shortest // 2]
        return [f"{policy}-k{k}" for k in ks or [2]]
    names = [policy] if _has_defaults(cls) else []
    for parameter, span in list(spans(cls).items())[:1]:
        for value in span.spread(VALUES):
            with suppress(ValueError):  # a value that its other parameters forbid
                names.append(_with(parse(policy), parameter, value))
    return names


def _has_defaults(cls: type) -> bool:
    try:
        cls()
    except TypeError:  # a parameter that must be given
        return False
    return True


def _with(name: SamplerName, parameter: str, value: float) -> str:
    """The sampler with this value of a parameter, in few digits."""
    cls: Any = policies()[name.policy]
    built: Any = build_policy(name) if name.arguments else cls()
    whole = isinstance(getattr(built, parameter), int)
    number = round(value) if whole else _short(value)
    changed = replace(built, **{parameter: number})
    words = []
    for item in fields(cls):
        current = getattr(changed, item.name)
        if not item.init or current is None or current == item.default:
            continue
        if isinstance(current, bool):
            words.append((item.name, ""))
        elif isinstance(current, str):
            words.append((current, ""))
        else:
            text = str(current) if isinstance(current, int) else plain_number(float(current))
            words.append((item.name, text))
    return str(resolve(str(replace(name, arguments=tuple(words)))))


def _short(value: float) -> float:
    """In two significant digits, or those of 1 − value for a value between .9 and 1."""
    if 0.9 < value < 1:
        return 1 - float(f"{1 - value:.{DIGITS}g}")
    return float(f"{value:.{DIGITS}g}")


def neighbours(sampler: str, known: Collection[str]) -> list[str]:
    """The samplers halfway between one and its neighbours among the known ones of its kind: those
    that differ in this parameter alone.

    Args:
        sampler: one in front.
        known: all that raced so far.

    Returns:
        At most two new names, of a lower and of a higher value.
    """
    name = parse(sampler)
    cls = policies()[name.policy]
    searched = {"k": None} if is_static(cls) else dict(list(spans(cls).items())[:1])
    made: list[str] = []
    for parameter, span in searched.items():
        values = _values(name, parameter, known)
        own = getattr(build_policy(name), parameter)
        lower = [value for value in values if value < own]
        higher = [value for value in values if value > own]
        for other in (*lower[-1:], *higher[:1]):
            middle = (own + other) / 2 if span is None else span.between(own, other)
            with suppress(ValueError):
                made.append(_with(name, parameter, middle))
    return [new for new in dict.fromkeys(made) if new not in known and new != sampler]


def _values(name: SamplerName, parameter: str, known: Collection[str]) -> list[float]:
    """The values of a parameter among the known samplers that differ from this one in it alone."""
    values = []
    own = _others(name, parameter)
    for text in known:
        other = parse(text)
        if other.policy == name.policy and _others(other, parameter) == own:
            value = getattr(build_policy(other), parameter)
            if value is not None:
                values.append(value)
    return sorted(values)


def _others(name: SamplerName, parameter: str) -> tuple[object, ...]:
    """All of a sampler but one parameter."""
    built: Any = build_policy(name)
    rest = tuple(
        getattr(built, item.name) for item in fields(type(built)) if item.name != parameter
    )
    return (replace(name, arguments=()), *rest)
