"""Sampler names made good: parsed, checked against the registered policies, spelled in one way."""

from __future__ import annotations

from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, get_type_hints

from pbcore.decoding.policies import Policy, build, policies, reaches_back
from pbcore.decoding.remasking import remasked
from pbcore.names import SamplerName, SamplerNameError, parse


def resolve(text: str) -> SamplerName:
    """The sampler that `text` names, its parameters spelled in one way: `k2`, the policy's first other parameter as a bare number.

    Raises SamplerNameError with close matches for an unknown policy, or the policy's own complaint.
    """
    name = parse(text)
    if name.policy == "ar":
        return name
    policy(name)
    return _spelled(name)


def _spelled(name: SamplerName) -> SamplerName:
    """`confidence-2` as `confidence-k2`, `threshold-gamma0.90` as `threshold-0.9`: one sampler, one name."""
    cls = policies()[name.policy]
    hints = get_type_hints(cls)
    places = [f.name for f in fields(cls) if f.init]
    numbered = [place for place in places if hints[place] is not bool]
    given: dict[str, str] = {}
    for word, number in name.arguments:
        given[word or next(place for place in numbered if place not in given)] = number
    first = next((place for place in numbered if place != "k"), None)
    # A bare number goes to the first parameter that is still free, which is k where k is not given.
    bare = first if "k" not in numbered or "k" in given else None
    return replace(
        name,
        arguments=tuple(
            ("" if place == bare else place, _number(given[place], hints[place])) for place in places if place in given
        ),
    )


def _number(text: str, kind: Any) -> str:
    """`0.90` as `0.9`, `1` as `1.0` where the parameter is no whole number, `02` as `2`; a switch has none."""
    if kind is bool:
        return ""
    whole, _, part = text.partition(".")
    return str(int(whole)) if kind in (int, int | None) else f"{int(whole)}.{part.rstrip('0') or '0'}"


def policy(name: SamplerName) -> Policy:
    """The policy of a sampler name with its parameters, ready for the loop.

    Raises SamplerNameError where the policy is unknown, a parameter is wrong, k and a schedule are both given or both missing, or modifiers
    don't go together.
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
                f"sampler {name}: say how many tokens a step, e.g. {name.policy}-k2, or give a schedule (+linear8, +s2_1_1)"
            )
        if k is not None and scheduled:
            raise SamplerNameError(
                f"sampler {name}: -k{k} and a schedule both say how many tokens a step; give one of them"
            )
        if k is not None and k < 1:
            raise SamplerNameError(f"sampler {name}: k is the number of tokens a step, at least 1")
    elif scheduled:
        raise SamplerNameError(
            f"sampler {name}: {name.policy} decides itself how many tokens to reveal, so a schedule can't be given"
        )
    if name.no_early_eos and getattr(result, "rewrites", False):
        raise SamplerNameError(
            f"sampler {name}: {name.policy} chooses tokens other than the prediction, so +no_early_eos can't hold an EOS back; leave it out"
        )
    result = remasked(result, name)
    if name.cache and name.block is not None and reaches_back(result):
        raise SamplerNameError(
            f"sampler {name}: it masks tokens of earlier blocks again, whose positions a cache no longer runs; "
            f"leave +{name.cache} or +b{name.block} out"
        )
    return result


def is_static(cls: type) -> bool:
    """Whether a policy reveals a given number of tokens a step: it has a parameter k."""
    return "k" in {field.name for field in fields(cls)}
