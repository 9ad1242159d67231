"""Samplers: names read, checked and put in canonical form, with their policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from pbcore.base.rules import Rule, why_not
from pbcore.base.source import source_of
from pbcore.decoding.block_rules import BLOCKS, registered
from pbcore.decoding.modifiers import ORDERED, modified
from pbcore.decoding.policies import Policy, policies
from pbcore.decoding.policies.top_k import Confidence
from pbcore.decoding.protocol import Traits, fixed_count, traits
from pbcore.models import ar
from pbcore.names import SamplerName, SamplerNameError, parse, plain_number


def resolve(text: str) -> Sampler:
    """The sampler that `text` names, with its parameters in canonical form: `k2`, then the policy's
    first other parameter as a bare number. Raises SamplerNameError for unknown policies, with close
    matches, for unusable parameters, for k and a schedule both given or both missing, and for
    modifiers that can't be combined.
    """
    return of_name(parse(text))


def of_name(given: SamplerName) -> Sampler:
    """The sampler of a parsed name; errors as of `resolve`."""
    if given.policy == ar.POLICY:
        return Sampler(replace(ar.canonical_ar(given.alone), at_once=given.at_once), None)
    built = _built(given.alone)
    return Sampler(replace(given, arguments=_canonical(built)), built)


def sampler_of(given: str | SamplerName | Sampler) -> Sampler:
    """A sampler given as text, parsed or whole. One that the loop doesn't have comes without a
    policy: models that decode by themselves may know it. Raises SamplerNameError for a text that is
    no name.
    """
    if isinstance(given, Sampler):
        return given
    name = given if isinstance(given, SamplerName) else parse(given)
    try:
        return of_name(name)
    except SamplerNameError:
        return Sampler(name, None)


def sampler_code(name: SamplerName) -> dict[str, str]:
    """The digests of a sampler's code that a user registered: its policy, and the rule of its
    blocks if it has one; empty for the package's own.
    """
    digests = {"policy": source_of(policies().get(name.policy))}
    if name.blocks:
        digests["blocks"] = source_of(BLOCKS.all().get(name.blocks))
    return digests


def _canonical(built: Any) -> tuple[tuple[str, str], ...]:
    """The arguments of a policy, in one spelling: the first always, the others if they differ from
    their defaults.
    """
    kinds = _kinds(type(built))
    defaults = {item.name: item.default for item in fields(built)}
    numbered = [name for name, kind in kinds.items() if _numeric(kind)]
    values = {name: getattr(built, name) for name in kinds}
    # A bare number sets the first parameter not yet given, which is k if k is not given.
    bare = (
        None
        if values.get("k", 0) is None
        else next((name for name in numbered if name != "k"), None)
    )
    return tuple(
        _argument(name, value, kinds[name], bare)
        for name, value in values.items()
        if value is not None and (value != defaults[name] or name in numbered[:1])
    )


def _argument(name: str, value: Any, kind: Any, bare: str | None) -> tuple[str, str]:
    """The word and the number of a parameter: a switch is its name, a choice the chosen word."""
    if kind is bool:
        return name, ""
    if get_origin(kind) is Literal:
        return value, ""
    number = str(value) if kind is int else plain_number(float(value))
    return "" if name == bare else name, number


def _kinds(cls: type) -> Mapping[str, Any]:
    """The type of each parameter: bool, int, float or a Literal of words."""
    hints = get_type_hints(cls)
    return {item.name: _required(hints[item.name]) for item in fields(cls) if item.init}


def _required(hint: Any) -> Any:
    """The type T of a hint `T | None`; other hints as they are."""
    given = [part for part in get_args(hint) if part is not NoneType]
    return given[0] if NoneType in get_args(hint) and len(given) == 1 else hint


def _numeric(kind: Any) -> bool:
    """Whether a parameter takes a number, and so may stand without its name."""
    return kind is not bool and get_origin(kind) is not Literal


def build_policy(name: SamplerName) -> Policy:
    """The policy of a sampler name, with its parameters. Raises SamplerNameError for unknown or
    invalid parameters.
    """
    cls = policies()[name.policy]
    kinds = _kinds(cls)
    values: dict[str, Any] = {}
    for word, number in name.arguments:
        target = _target(word, kinds, values)
        if target not in kinds or target in values:
            usage = [_usage(n, kind) for n, kind in kinds.items()]
            raise SamplerNameError(
                f"sampler {name}: policy {name.policy} has no parameter {word + number!r}; its"
                f" parameters: {', '.join(usage) or 'none'}"
            )
        if word in get_args(kinds[target]) and not number:
            values[target] = word
        else:
            values[target] = _value(name, target, number, kinds[target])
    try:
        return cast(Policy, cls(**values))
    except (TypeError, ValueError) as error:
        raise SamplerNameError(f"sampler {name}: {error}") from error


def _target(word: str, kinds: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The parameter that a word or, if empty, a bare number sets; empty if none is left."""
    if word:
        return next((n for n, kind in kinds.items() if word in get_args(kind)), word)
    return next((n for n, kind in kinds.items() if n not in given and _numeric(kind)), "")


def _usage(parameter: str, kind: Any) -> str:
    """How a parameter is written in a name."""
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if kind is bool:
        return parameter
    return f"{parameter}<{'int' if kind is int else 'number'}>"


def _value(name: SamplerName, parameter: str, number: str, kind: Any) -> bool | int | float:
    """The text of a switch or a number as its field's type."""
    if get_origin(kind) is Literal:
        raise SamplerNameError(
            f"sampler {name}: {parameter} is one word of {', '.join(get_args(kind))}"
        )
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


def _built(name: SamplerName) -> Policy:
    """The policy of a name whose parts go together, without its modifiers."""
    known = policies()
    if name.policy not in known:
        near = get_close_matches(name.policy, known, n=3) or sorted(known)
        raise SamplerNameError(
            f"unknown policy {name.policy!r} in sampler {str(name)!r}; did you mean"
            f" {', '.join(near)}?"
        )
    unmodified = build_policy(name)
    if name.blocks:
        registered(name)
    why = why_not(CLASHES, Sampler(name, unmodified))
    if why is not None:
        raise SamplerNameError(f"sampler {name}: {why}")
    return unmodified


def is_static(cls: type) -> bool:
    """Whether a policy reveals a given number of tokens per step, as it declares."""
    return traits(cls).reveals == "k"


@dataclass(frozen=True)
class Sampler:
    """A sampler, read once: its name in canonical form, and its policy without the modifiers; None
    for one that only a model's own decoder knows. Samplers of one name are equal.
    """

    name: SamplerName
    unmodified: Policy | None = field(compare=False)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return str(self.name)

    @property
    def in_the_loop(self) -> bool:
        """Whether the decoding loop has it."""
        return self.unmodified is not None

    @cached_property
    def policy(self) -> Policy:
        """The policy with its modifiers. Raises SamplerNameError where the loop hasn't got it."""
        policy = self.unmodified
        return modified(_built(self.name) if policy is None else policy, self.name)

    @cached_property
    def declared(self) -> Traits:
        """What the policy declares with its modifiers. Errors as of `policy`."""
        return traits(self.policy)

    @cached_property
    def own(self) -> Traits:
        """What the policy declares without its modifiers."""
        return traits(self.unmodified)

    @property
    def alone(self) -> Sampler:
        """The sampler itself, without how many rows it decodes at a time."""
        return self.but(at_once=0)

    def but(self, **changes: Any) -> Sampler:
        """The sampler with other modifiers, by their fields of SamplerName, which go together."""
        name = replace(self.name, **changes)
        return self if name == self.name else Sampler(name, self.unmodified)

    @property
    def static(self) -> bool:
        return self.in_the_loop and self.own.reveals == "k"

    @property
    def k(self) -> int | None:
        """The tokens that every step reveals, as its policy declares; None for policies that decide
        themselves, for schedules, and for samplers that only their own model knows.
        """
        return fixed_count(self.unmodified) if self.in_the_loop else None

    @property
    def scheduled(self) -> bool:
        return self.name.counts is not None or self.name.schedule is not None

    @property
    def in_blocks(self) -> str | None:
        """What gives it several blocks; None for a single one."""
        if self.name.blocks:
            return f"blocks_{self.name.blocks}"
        return None if self.name.block is None else f"b{self.name.block}"

    @property
    def besides_prophet(self) -> str | None:
        """What can't stand beside an early exit."""
        name = self.name
        for word in (name.cache, name.remask, "ada" if name.ada is not None else None):
            if word:
                return word
        if name.blocks:
            return f"blocks_{name.blocks}"
        if name.gap:
            return f"gap{name.gap}"
        return next((flag for flag in ("no_early_eos", "eos_last") if getattr(name, flag)), None)

    @property
    def asks(self) -> bool:
        """Whether it asks about what-if rows, so that it forwards more canvases than its
        forwards.
        """
        return self.in_the_loop and "probe" in self.declared.needs


UNDECLARED = "(it doesn't declare reveals = 'k')"
# What can't go together in a name: policy, schedule and modifiers.
CLASHES: tuple[Rule[Sampler], ...] = (
    Rule(
        lambda s: not s.static and s.scheduled,
        lambda s: (
            f"{s.name.policy} decides itself how many tokens to reveal; leave the schedule out"
            f" {UNDECLARED}"
        ),
    ),
    Rule(
        lambda s: s.static and s.k is None and not s.scheduled,
        lambda s: (
            f"say how many tokens a step, e.g. {s.name.policy}-k2, or a schedule (+linear8,"
            " +s2_1_1)"
        ),
    ),
    Rule(
        lambda s: s.k is not None and s.scheduled,
        lambda s: f"-k{s.k} and a schedule both say how many tokens a step; give one of them",
    ),
    Rule(
        lambda s: s.k is not None and (not isinstance(s.k, int) or s.k < 1),
        "k is the number of tokens per step, at least 1",
    ),
    Rule(
        lambda s: s.name.remask == "rcr" and type(s.unmodified) is not Confidence,
        lambda s: (
            f"+rcr compares confidences, so it goes with confidence-kN, not {s.name.policy}"
            f"{'' if s.static else f' {UNDECLARED}'}"
        ),
    ),
    Rule(
        lambda s: s.name.remask == "remdm" and not s.static,
        lambda s: f"+remdm goes with policies of k tokens a step, not {s.name.policy} {UNDECLARED}",
    ),
    Rule(
        lambda s: s.name.remask == "remdm" and "probe" in s.own.needs,
        lambda s: f"{s.name.policy} checks its tokens by what-if rows; leave +remdm out",
    ),
    Rule(
        lambda s: s.name.adas is not None and (s.name.policy not in ORDERED or s.name.remask),
        f"+adas changes the order in which {', '.join(ORDERED)} reveal tokens, without remasking",
    ),
    Rule(
        lambda s: s.name.together == "rounding" and s.name.greedy,
        "+rounding draws tokens, so it needs a temperature (+t1.0); +counts does without one",
    ),
    Rule(
        lambda s: s.name.together and s.name.remask,
        lambda s: (
            f"+{s.name.remask} compares the confidences of predicted tokens; leave"
            f" +{s.name.together} out"
        ),
    ),
    Rule(
        lambda s: s.name.gap and s.name.remask,
        lambda s: (
            f"+{s.name.remask} compares the confidences of predicted tokens; leave"
            f" +gap{s.name.gap} out"
        ),
    ),
    Rule(
        lambda s: s.own.rewrites and (s.name.together or s.name.gap),
        lambda s: (
            f"{s.name.policy} chooses its tokens itself; leave"
            f" +{s.name.together or f'gap{s.name.gap}'} out"
        ),
    ),
    Rule(
        lambda s: s.name.gap and "probe" in s.own.needs,
        lambda s: (
            f"{s.name.policy} checks neighbours, too, by what-if rows; leave +gap{s.name.gap} out"
        ),
    ),
    Rule(
        lambda s: s.declared.rewrites and (s.name.no_early_eos or s.name.eos_last),
        lambda s: (
            f"{s.name.policy} chooses tokens other than the predicted, so"
            f" +{'no_early_eos' if s.name.no_early_eos else 'eos_last'} can't hold EOS back; leave"
            " it out"
        ),
    ),
    Rule(
        lambda s: s.name.prophet and not s.static,
        lambda s: (
            f"+prophet goes with policies of k tokens a step, not {s.name.policy} {UNDECLARED}"
        ),
    ),
    Rule(
        lambda s: s.name.prophet and s.besides_prophet,
        lambda s: (
            "+prophet fills all masks at once and knows how many steps there are; leave"
            f" +{s.besides_prophet} out"
        ),
    ),
    Rule(
        lambda s: s.name.ada is not None and s.name.block is None,
        lambda s: (
            "+ada takes the length of a block without a sure line break from +b; write e.g."
            f" +b16+ada{s.name.ada:g}"
        ),
    ),
    Rule(
        lambda s: s.name.blocks and s.name.block is not None,
        lambda s: (
            f"+b{s.name.block} and +blocks_{s.name.blocks} both say how long blocks are; leave one"
            " of them out"
        ),
    ),
    Rule(
        lambda s: s.name.cache and s.in_blocks is not None and s.declared.reach == "prefix",
        lambda s: (
            "it may remask tokens of earlier blocks, which a cache no longer computes; "
            f"leave +{s.name.cache} or +{s.in_blocks} out"
        ),
    ),
)
