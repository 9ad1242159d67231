"""Policies by name, and the ranges of their parameters.

A policy is a frozen dataclass whose fields are its parameters; its docstring states rule, paper and
defaults.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pbcore.base.errors import InputError
from pbcore.base.registry import Registry
from pbcore.names import POLICY

P = TypeVar("P", bound=type)


def _check(name: str, cls: Any) -> None:
    if (
        not isinstance(cls, type)
        or not is_dataclass(cls)
        or not callable(getattr(cls, "select", None))
    ):
        given = getattr(cls, "__name__", repr(cls))
        raise TypeError(f"policy {name!r}: {given} must be a dataclass with a method select(step)")
    declared: Any = cls
    if not declared.__dataclass_params__.frozen:
        raise TypeError(
            f"policy {name!r}: {cls.__name__} must be a frozen dataclass: @dataclass(frozen=True)."
            " One object decodes all answers together; what it remembers of each stands in"
            " step.state(name, fill)"
        )
    if not isinstance(name, str) or not POLICY.fullmatch(name):
        raise InputError(f"policy {name!r}: use lower-case letters, digits and _")


# Policy → the number of its colour and marker in plots, which it declares.
LOOKS: dict[str, int] = {}
POLICIES: Registry[type] = Registry(
    "policy", "pbcore.policies", builtins="pbcore.decoding.policies", check=_check
)


@dataclass_transform(frozen_default=True)
def register_policy(name: str, look: int | None = None) -> Callable[[P], P]:
    """Class decorator: makes a policy available as `name` in sampler names, and a frozen dataclass
    unless it is one. Packages register policies by entry points of the group `pbcore.policies`,
    named like the policy. Raises TypeError for a class without `select`, with an `__init__` of its
    own, or that is a dataclass but not frozen, ValueError for a name or look that is taken and a
    name that can't be parsed. `look` is the next free number of a colour and marker, for policies
    of this package; that of others is drawn from their names.
    """

    def register(cls: P) -> P:
        plain = (
            isinstance(cls, type)
            and callable(getattr(cls, "select", None))
            and not is_dataclass(cls)
            # An __init__ of its own sets the fields in its own way.
            and vars(cls).get("__init__") is None
        )
        policy: Any = dataclass(frozen=True)(cls) if plain else cls
        others = {number: other for other, number in LOOKS.items() if other != name}
        if look in others:
            free = max(others) + 1
            raise ValueError(f"look {look} of {name!r} is that of {others[look]!r}; {free} is free")
        POLICIES.register(name, policy)
        if look is not None:
            LOOKS[name] = look
        return cast(P, policy)

    return register


def policies() -> Mapping[str, type]:
    """All policies by name: the package's own, the user's, and those of entry points."""
    return POLICIES.all()


def is_ours(policy: type) -> bool:
    """Whether this package has a policy, not its user or another package."""
    return policy.__module__.startswith("pbcore.")


def declared_looks() -> Mapping[str, int]:
    """The numbers of colours and markers that policies declare, by name."""
    policies()
    return LOOKS


class Range(NamedTuple):
    """What a parameter may be, in words and as a test."""

    words: str
    holds: Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class Span:
    """Where a search looks for a parameter: from `low` to `high`, in one of three spacings.

    `scale`: `linear`; `log`, for a parameter whose ratios count; `rest`, logarithmic in 1 − value,
    for one that counts towards 1, such as a confidence. It stands beside the type: `gamma:
    Annotated[float, Span(0.5, 0.98, "rest")]`. A parameter without one keeps its default; k, the
    number of tokens per step, is looked for in any case.
    """

    low: float
    high: float
    scale: Literal["linear", "log", "rest"] = "linear"

    def __post_init__(self) -> None:
        inside = self.low > 0 if self.scale == "log" else self.scale != "rest" or self.high < 1
        if not (self.low < self.high and inside):
            raise InputError(
                f"Span({self.low:g}, {self.high:g}, {self.scale!r}): low lies below high, above 0"
                " for log, and high below 1 for rest"
            )

    def spread(self, count: int) -> list[float]:
        """So many values (at least 2) from low to high, evenly spaced on the scale."""
        first = self._to_scale(self.low)
        step = (self._to_scale(self.high) - first) / (count - 1)
        return [self._from_scale(first + i * step) for i in range(count)]

    def between(self, one: float, other: float) -> float:
        """The middle of two values on the scale; of values outside it, their mean."""
        if all(self.low <= value <= self.high for value in (one, other)):
            return self._from_scale((self._to_scale(one) + self._to_scale(other)) / 2)
        return (one + other) / 2

    def _to_scale(self, value: float) -> float:
        if self.scale == "linear":
            return value
        return math.log(value if self.scale == "log" else 1 - value)

    def _from_scale(self, place: float) -> float:
        if self.scale == "linear":
            return place
        return math.exp(place) if self.scale == "log" else 1 - math.exp(place)


def spans(policy: type) -> dict[str, Span]:
    """The parameters of a policy that declare a `Span`, by name."""
    declared = {}
    for name, hint in get_type_hints(policy, include_extras=True).items():
        for part in getattr(hint, "__metadata__", ()):
            if isinstance(part, Span):
                declared[name] = part
    return declared


Chance = Annotated[float, Range("a probability in [0, 1]", lambda value: 0 <= value <= 1)]
OptionalChance = Annotated[
    float | None, Range("a probability in [0, 1]", lambda value: 0 <= value <= 1)
]
NotNegative = Annotated[float, Range("a number of at least 0", lambda value: value >= 0)]
Positive = Annotated[float, Range("a number above 0", lambda value: value > 0)]
Whole = Annotated[int, Range("a whole number of at least 0", lambda value: value >= 0)]
Count = Annotated[int, Range("a whole number of at least 1", lambda value: value >= 1)]
Several = Annotated[int, Range("a whole number of at least 2", lambda value: value >= 2)]


TunedChance = Annotated[Chance, Span(0.5, 0.98, "rest")]


class Ranged:
    """A dataclass that raises ValueError for a field outside the range or the choices in its
    annotation.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            if get_origin(hint) is Literal and value not in get_args(hint):
                choices = ", ".join(get_args(hint))
                raise ValueError(f"{name} is one of {choices}, not {value!r}")
            for allowed in getattr(hint, "__metadata__", ()):
                if not isinstance(allowed, Range) or value is None:
                    continue
                if not allowed.holds(value):
                    raise ValueError(f"{name} is {allowed.words}, not {value}")
