"""The list of samplers: every policy with its parameters, paper and kind."""

import re
from dataclasses import MISSING, Field, dataclass, fields, replace
from inspect import cleandoc
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.tabular import MarkdownText, Table, markdown
from pbcore.decoding.block_rules import AdaBlock
from pbcore.decoding.modifiers import Prophet, Rcr, RcrMax, Remdm, RemdmEarly
from pbcore.decoding.policies import block_models, policies
from pbcore.decoding.protocol import Traits, traits
from pbcore.decoding.samplers import is_static

MODIFIERS = (  # name, class, parameters, kind, group
    ("+rcr", Rcr, "–", "remasker", "modifiers"),
    ("+rcr-max", RcrMax, "–", "remasker", "modifiers"),
    ("+remdmN", Remdm, "N rounds", "remasker", "modifiers"),
    ("+remdmN-early", RemdmEarly, "N rounds", "remasker", "modifiers"),
    ("+bN+adaX", AdaBlock, "N places by default, X the delimiter's confidence", "blocks", "course"),
    (
        "+prophet",
        Prophet,
        "early = 7.5, mid = 5, late = 2.5, start = 0, length (to the end)",
        "early exit",
        "course",
    ),
)
HEADERS = ("sampler", "kind", "rule", "parameters", "paper")
GROUPS = {
    "numbers": "Token, confidence, margin and entropy of each position",
    "distributions": "Whole distributions",
    "tokens": "Revealed tokens again",
    "attention": "Attention",
    "what-if": "What-if rows",
    "blocks": "Decoders of block models' authors",
    "modifiers": "Remasking modifiers",
    "course": "Modifiers of blocks and of the end",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A sampler's row in the list: `rule` and `state` come from its docstring; `kind` is unmasker,
    remasker, reviser, or what a modifier changes; `group`, of GROUPS, is what it reads.
    """

    name: str
    kind: str
    rule: str
    state: str
    parameters: str
    paper: str
    forwards: str
    group: str


def described() -> list[Described]:
    """All policies by name, users' included, then the modifiers with a rule of their own."""
    return [_described(name, cls, traits(cls)) for name, cls in policies().items()] + [
        replace(
            _described(name, cls, Traits()),
            kind=kind,
            parameters=parameters,
            group=group,
        )
        for name, cls, parameters, kind, group in MODIFIERS
    ]


def policy_rule(policy: str) -> str:
    """The rule of a policy in a sentence: the first paragraph of its docstring. Raises InputError
    for an unknown policy.
    """
    cls = policies().get(policy)
    if cls is None:
        raise InputError(f"sampler {policy}: unknown; `pbcore list samplers` lists them")
    return _described(policy, cls, traits(cls)).rule


def samplers_table() -> str:
    """The tables in docs/samplers.md, by what a sampler reads."""
    parts = []
    for group, title in GROUPS.items():
        rows = []
        for sampler in described():
            if sampler.group == group:
                about = (sampler.name, sampler.kind, sampler.rule)
                cells = (*about, sampler.parameters, sampler.paper)
                rows.append([MarkdownText(cell) for cell in cells])
        parts.append(f"### {title}\n\n{markdown(Table(HEADERS, rows))}")
    return "\n\n".join(parts)


def _described(name: str, cls: type, declared: Traits) -> Described:
    rule, *rest = (
        " ".join(part.split())
        for part in re.split(r"\n\s*\n", cleandoc(cls.__doc__ or "no description"))
    )
    paper = re.search(r"arXiv \d{4}\.\d{5}", " ".join([rule, *rest]))
    state = next(
        (part.removeprefix("State: ").rstrip(".") for part in rest if part.startswith("State: ")),
        "–",
    )
    forwards = "1, with a shadow block" if declared.review == "hidden" else "1"
    if "causal" in declared.needs:
        forwards = "1, then 1 causal of the drafts"
    elif "probe" in declared.needs:
        forwards = (
            "1 of what-if rows, the next step's too"
            if name != "punt"
            else "1, then 1 per bit of a rank"
        )
    kind = "unmasker"
    if declared.review and declared.cap:
        kind = "reviser" if declared.rewrites else "remasker"
    parameters = _parameters(cls)
    group = _group(cls, declared)
    return Described(
        name, kind, rule, state, parameters, paper[0] if paper else "–", forwards, group
    )


def _group(cls: type, declared: Traits) -> str:
    """What a sampler reads, of GROUPS."""
    if "probe" in declared.needs:
        return "what-if"
    if "attention" in declared.needs:
        return "attention"
    if cls.__module__ == block_models.__name__:
        return "blocks"
    return "tokens" if declared.review else declared.reads


def _parameters(cls: type) -> str:
    """The parameters with their defaults."""
    scheduled = "k" if is_static(cls) else None
    given = [_parameter(item, scheduled) for item in fields(cls) if item.init]
    return ", ".join(given) or "–"


def _parameter(item: Field[Any], scheduled: str | None) -> str:
    """`name = default`; the parameter that a schedule replaces as `k (or a schedule)`; another
    whose default depends on the rest as `name (by the rule)`.
    """
    if item.default is MISSING:
        return item.name
    if item.default is None:
        return f"{item.name} ({'or a schedule' if item.name == scheduled else 'by the rule'})"
    return f"{item.name} = {item.default}"
