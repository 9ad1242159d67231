"""Resolves, validates and canonicalises sampler names."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, cast, get_type_hints

from pbcore.decoding.checks import why_not_ahead
from pbcore.decoding.modifiers import ORDERED, modified
from pbcore.decoding.policies import Policy, policies
from pbcore.decoding.policies.top_k import Confidence
from pbcore.decoding.protocol import Traits, traits
from pbcore.models import ar
from pbcore.names import SamplerName, SamplerNameError, parse, plain


def resolve(text: str) -> SamplerName:
    """The sampler that `text` names, with its parameters in canonical form: `k2`, then the policy's
    first other parameter as a bare number. Raises SamplerNameError for unknown policies, with close
    matches, and for unusable parameters.
    """
    given = parse(text)
    name = given.alone
    if name.policy == ar.POLICY:
        return replace(ar.canonical(name), at_once=given.at_once)
    policy(name)
    return replace(given, arguments=_canonical(build(name)))


def _canonical(built: Any) -> tuple[tuple[str, str], ...]:
    """The arguments of a policy, in one spelling: the first always, the others if they differ from
    their defaults.
    """
    kinds = _kinds(type(built))
    defaults = {item.name: item.default for item in fields(built)}
    numbered = [name for name, kind in kinds.items() if kind is not bool]
    values = {name: getattr(built, name) for name in kinds}
    # A bare number sets the first parameter not yet given, which is k if k is not given.
    bare = (
        None
        if values.get("k", 0) is None
        else next((name for name in numbered if name != "k"), None)
    )
    return tuple(
        ("" if name == bare else name, _spelled(value, kinds[name]))
        for name, value in values.items()
        if value is not None and (value != defaults[name] or name in numbered[:1])
    )


def _spelled(value: float, kind: Any) -> str:
    """`2`, and `1.0` for a parameter that isn't a whole number; empty for a switch."""
    return "" if kind is bool else str(value) if kind is int else plain(float(value))


def _kinds(cls: type) -> Mapping[str, Any]:
    """The type of each parameter: bool, int or float."""
    hints = get_type_hints(cls)
    return {
        item.name: int if hints[item.name] == int | None else hints[item.name]
        for item in fields(cls)
        if item.init
    }


def build(name: SamplerName) -> Policy:
    """The policy of a sampler name, with its parameters. Raises SamplerNameError for unknown or
    invalid parameters.
    """
    cls = policies()[name.policy]
    kinds = _kinds(cls)
    values: dict[str, Any] = {}
    for word, number in name.arguments:
        target = word or next(
            (n for n, kind in kinds.items() if n not in values and kind is not bool), ""
        )
        if target not in kinds or target in values:
            usage = [
                n if kind is bool else f"{n}<{'int' if kind is int else 'number'}>"
                for n, kind in kinds.items()
            ]
            raise SamplerNameError(
                f"sampler {name}: policy {name.policy} has no parameter {word + number!r}; its"
                f" parameters: {', '.join(usage) or 'none'}"
            )
        values[target] = _value(name, target, number, kinds[target])
    try:
        return cast(Policy, cls(**values))
    except (TypeError, ValueError) as error:
        raise SamplerNameError(f"sampler {name}: {error}") from error


def _value(name: SamplerName, parameter: str, number: str, kind: Any) -> bool | int | float:
    """A parameter's text as its field's type."""
    if kind is bool:
        if number:
            raise SamplerNameError(f"sampler {name}: {parameter} is a switch and takes no number")
        return True
    if not number or (kind is int and not number.isdigit()):
        needed = (
            f"a whole number, e.g. {parameter}2"
            if kind is int
            else f"a number, e.g. {parameter}0.9"
        )
        raise SamplerNameError(f"sampler {name}: {parameter} needs {needed}")
    return int(number) if kind is int else float(number)


def policy(name: SamplerName) -> Policy:
    """The policy object of a sampler name, with its parameters. Raises SamplerNameError for an
    unknown policy, unusable parameters, k and a schedule both given or both missing, and modifiers
    that can't be combined.
    """
    known = policies()
    if name.policy not in known:
        near = get_close_matches(name.policy, known, n=3) or sorted(known)
        raise SamplerNameError(
            f"unknown policy {name.policy!r} in sampler {str(name)!r}; did you mean"
            f" {', '.join(near)}?"
        )
    built = build(name)
    for why in _clashes(built, name):
        raise SamplerNameError(f"sampler {name}: {why}")
    result = modified(built, name)
    for why in _clashes_together(traits(result), name):
        raise SamplerNameError(f"sampler {name}: {why}")
    return result


def _clashes(built: Policy, name: SamplerName) -> Iterator[str]:
    """Why a policy can't have the sampler's schedule or modifiers."""
    declared = traits(built)
    k = getattr(built, "k", None)
    scheduled = name.counts is not None or name.schedule is not None
    if not is_static(type(built)):
        if scheduled:
            yield f"{name.policy} decides itself how many tokens to reveal; leave the schedule out"
    elif k is None and not scheduled:
        yield (
            f"say how many tokens a step, e.g. {name.policy}-k2, or a schedule (+linear8, +s2_1_1)"
        )
    elif k is not None and scheduled:
        yield f"-k{k} and a schedule both say how many tokens a step; give one of them"
    elif k is not None and k < 1:
        yield "k is the number of tokens per step, at least 1"
    if name.remask == "rcr" and not isinstance(built, Confidence):
        yield f"+rcr compares confidences, so it goes with confidence-kN, not {name.policy}"
    if name.remask == "remdm" and not hasattr(built, "k"):
        yield f"+remdm goes with policies of k tokens a step, not {name.policy}"
    if name.remask == "remdm" and "probe" in declared.needs:
        yield f"{name.policy} checks its tokens by what-if rows; leave +remdm out"
    if name.adas is not None and (name.policy not in ORDERED or name.remask):
        yield (
            f"+adas changes the order in which {', '.join(ORDERED)} reveal tokens, without"
            " remasking"
        )
    if name.together == "rounding" and name.greedy:
        yield "+rounding draws tokens, so it needs a temperature (+t1.0); +counts does without one"
    if name.together or name.gap:
        words = f"+{name.together or f'gap{name.gap}'}"
        if name.remask:
            yield f"+{name.remask} compares the confidences of predicted tokens; leave {words} out"
        if declared.rewrites:
            yield f"{name.policy} chooses its tokens itself; leave {words} out"
    if name.gap and "probe" in declared.needs:
        yield f"{name.policy} checks neighbours, too, by what-if rows; leave +gap{name.gap} out"


def _clashes_together(declared: Traits, name: SamplerName) -> Iterator[str]:
    """Why a sampler, with what it declares as a whole, can't have its other modifiers."""
    held = "no_early_eos" if name.no_early_eos else "eos_last" if name.eos_last else ""
    yield from why_not_ahead(declared, name)
    if held and declared.rewrites:
        yield (
            f"{name.policy} chooses tokens other than the predicted, so +{held} can't hold EOS"
            " back; leave it out"
        )
    if name.cache and name.block is not None and declared.reach == "prefix":
        yield (
            "it may remask tokens of earlier blocks, which a cache no longer computes; "
            f"leave +{name.cache} or +b{name.block} out"
        )


def is_static(cls: type) -> bool:
    """Whether a policy reveals a given number of tokens per step, i.e. has a parameter k."""
    return "k" in {field.name for field in fields(cls)}
