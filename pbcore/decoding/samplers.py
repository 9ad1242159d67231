"""Resolves, validates and canonicalises sampler names."""

from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, get_type_hints

from pbcore.decoding.adas import reordered
from pbcore.decoding.checks import check_ahead
from pbcore.decoding.drawing import drawn
from pbcore.decoding.policies import Policy, build, policies
from pbcore.decoding.protocol import traits
from pbcore.decoding.remasking import remasked
from pbcore.models import ar
from pbcore.names import SamplerName, SamplerNameError, parse, plain


def resolve(text: str) -> SamplerName:
    """The sampler that `text` names, with its parameters in canonical form: `k2`, then the policy's first other
    parameter as a bare number.

    Raises SamplerNameError with close matches for an unknown policy, or with the policy's own message for unusable
    parameters.
    """
    given = parse(text)
    name = given.alone
    if name.policy == ar.POLICY:
        return replace(ar.canonical(name), at_once=given.at_once)
    policy(name)
    return replace(_canonical(name), at_once=given.at_once)


def _canonical(name: SamplerName) -> SamplerName:
    """`confidence-2` → `confidence-k2`, `threshold` and `threshold-gamma0.90` → `threshold-0.9`: one name per sampler.

    The first parameter is always written, the others only if they differ from their defaults.
    """
    cls = policies()[name.policy]
    hints = get_type_hints(cls)
    defaults = {f.name: f.default for f in fields(cls) if f.init}
    places = list(defaults)
    numbered = [place for place in places if hints[place] is not bool]
    given: dict[str, str] = {}
    for word, number in name.arguments:
        given[word or next(place for place in numbered if place not in given)] = number
    if numbered and numbered[0] not in given and isinstance(defaults[numbered[0]], int | float):
        given[numbered[0]] = str(defaults[numbered[0]])
    given = {
        place: number
        for place, number in given.items()
        if hints[place] is bool or place == numbered[0] or float(number) != defaults[place]
    }
    first = next((place for place in numbered if place != "k"), None)
    # A bare number sets the first parameter not yet given, which is k if k is not given.
    bare = first if "k" not in numbered or "k" in given else None
    return replace(
        name,
        arguments=tuple(
            ("" if place == bare else place, _number(given[place], hints[place])) for place in places if place in given
        ),
    )


def _number(text: str, kind: Any) -> str:
    """`0.90` → `0.9`, `02` → `2`, and `1` → `1.0` for a parameter that isn't a whole number; empty for a switch."""
    if kind is bool:
        return ""
    return str(int(text)) if kind in (int, int | None) else plain(float(text))


def policy(name: SamplerName) -> Policy:
    """The policy object of a sampler name, with its parameters.

    Raises SamplerNameError for an unknown policy, an unusable parameter, k and a schedule both given or both missing,
    and modifiers that can't be combined.
    """
    known = policies()
    if name.policy not in known:
        near = get_close_matches(name.policy, known, n=3) or sorted(known)
        raise SamplerNameError(
            f"unknown policy {name.policy!r} in sampler {str(name)!r}; did you mean {', '.join(near)}?"
        )
    result = build(name)
    scheduled = name.counts is not None or name.schedule is not None
    if is_static(known[name.policy]):
        k = getattr(result, "k", None)
        if k is None and not scheduled:
            raise SamplerNameError(
                f"sampler {name}: say how many tokens a step, e.g. {name.policy}-k2, or a schedule (+linear8, +s2_1_1)"
            )
        if k is not None and scheduled:
            raise SamplerNameError(
                f"sampler {name}: -k{k} and a schedule both say how many tokens a step; give one of them"
            )
        if k is not None and k < 1:
            raise SamplerNameError(f"sampler {name}: k is the number of tokens per step, at least 1")
    elif scheduled:
        raise SamplerNameError(
            f"sampler {name}: {name.policy} decides itself how many tokens to reveal; leave the schedule out"
        )
    result = drawn(reordered(remasked(result, name), name), name)
    check_ahead(traits(result), name)
    held = "no_early_eos" if name.no_early_eos else "eos_last" if name.eos_last else ""
    if held and traits(result).rewrites:
        raise SamplerNameError(
            f"sampler {name}: {name.policy} chooses tokens other than the predicted, so +{held} can't hold EOS "
            "back; leave it out"
        )
    if name.cache and name.block is not None and traits(result).reach == "prefix":
        raise SamplerNameError(
            f"sampler {name}: it may remask tokens of earlier blocks, which a cache no longer computes; "
            f"leave +{name.cache} or +b{name.block} out"
        )
    return result


def is_static(cls: type) -> bool:
    """Whether a policy reveals a given number of tokens per step, i.e. has a parameter k."""
    return "k" in {field.name for field in fields(cls)}
