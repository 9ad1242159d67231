"""Policies by name.

A policy is a frozen dataclass whose fields are its parameters; its docstring states rule, paper and defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from pbcore.decoding.protocol import Policy
from pbcore.errors import InputError
from pbcore.names import POLICY, SamplerName, SamplerNameError
from pbcore.registry import Registry


def _check(name: str, cls: Any) -> None:
    if not isinstance(cls, type) or not is_dataclass(cls) or not callable(getattr(cls, "select", None)):
        given = getattr(cls, "__name__", repr(cls))
        raise TypeError(f"policy {name!r}: {given} must be a dataclass with a method select(step)")
    if not isinstance(name, str) or not POLICY.fullmatch(name):
        raise InputError(f"policy {name!r}: use lower-case letters, digits and _")


P = TypeVar("P", bound=type)
POLICIES: Registry[type] = Registry("policy", "pbcore.policies", builtins="pbcore.decoding.policies", check=_check)


def register_policy(name: str) -> Callable[[P], P]:
    """Class decorator: makes a policy dataclass available as `name` in sampler names.

    Packages register policies by entry points of the group `pbcore.policies`, named like the policy. Raises TypeError
    for a class that is not a dataclass or has no `select`, ValueError for a name that is taken or can't be parsed.
    """
    return POLICIES.decorator(name)


def policies() -> Mapping[str, type]:
    """All policies by name: the package's own, the user's, and those of entry points."""
    return POLICIES.all()


def build(name: SamplerName) -> Policy:
    """The policy of a sampler name, with its parameters. Raises SamplerNameError for unknown or invalid parameters."""
    cls = policies()[name.policy]
    hints = get_type_hints(cls)
    names = [f.name for f in fields(cls) if f.init]
    values: dict[str, Any] = {}
    for word, number in name.arguments:
        target = word or next((n for n in names if n not in values and hints[n] is not bool), "")
        if target not in names or target in values:
            allowed = ", ".join(_usage(n, hints[n]) for n in names) or "none"
            raise SamplerNameError(
                f"sampler {name}: policy {name.policy} has no parameter {word + number!r}; its parameters: {allowed}"
            )
        values[target] = _value(name, target, number, hints[target])
    try:
        policy: Policy = cls(**values)
    except (TypeError, ValueError) as error:
        raise SamplerNameError(f"sampler {name}: {error}") from error
    return policy


def _value(name: SamplerName, parameter: str, number: str, kind: Any) -> Any:
    """A parameter's text as its field's type."""
    if kind is bool:
        if number:
            raise SamplerNameError(f"sampler {name}: {parameter} is a switch and takes no number")
        return True
    whole = kind in (int, int | None)
    if not number or (whole and not number.isdigit()):
        raise SamplerNameError(
            f"sampler {name}: {parameter} needs {'a whole number' if whole else 'a number'}, e.g. "
            f"{parameter}{'2' if whole else '0.9'}"
        )
    return int(number) if whole else float(number)


def _usage(parameter: str, kind: Any) -> str:
    return parameter if kind is bool else f"{parameter}<{'int' if kind in (int, int | None) else 'number'}>"
