"""`pbcore samplers`: lists every policy with its parameters, paper and kind; counts token
frequencies for `pc`.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, astuple, dataclass, fields, replace
from inspect import cleandoc
from itertools import islice
from pathlib import Path
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.tabular import MarkdownText, Table, markdown
from pbcore.base.text import folded, terminal_width
from pbcore.decoding.modifiers import Rcr, RcrMax, Remdm, RemdmEarly
from pbcore.decoding.policies import block_models, policies
from pbcore.decoding.protocol import Traits, traits
from pbcore.tasks import task_names
from pbcore.tasks.registry import generate

TRAIN_SAMPLES = 500
MODIFIERS = (
    ("+rcr", Rcr, "–"),
    ("+rcr-max", RcrMax, "–"),
    ("+remdmN", Remdm, "N rounds"),
    ("+remdmN-early", RemdmEarly, "N rounds"),
)
HEADERS = ("sampler", "kind", "rule", "state", "parameters", "paper", "forwards per step")
HINTS = (
    "Try first: eb-0.1 (few errors in few forwards), threshold-0.9 (as most papers), spec-8 (fewer"
    " calls, more rows). `pbcore samplers --details` adds parameters and papers.",
    "A name is POLICY-PARAMETERS, e.g. confidence-k2 or klass-0.9-kl0.05, then modifiers: +b8,"
    " +prefix, +dual, +t1.0, +rcr, +rcr-max, +remdm1, +remdm1-early, +eos_stop, +no_early_eos,"
    " +eos_last, +adas40, +counts, +rounding, +gap2, +ahead16, and a schedule where k is left"
    " out: +s2_1_1, +linear8, +cosine8.",
)
DETAILS = 6  # columns by which what is said of a sampler is indented
GROUPS = {
    "numbers": "Token, confidence, margin and entropy of each position",
    "distributions": "Whole distributions",
    "tokens": "Revealed tokens again",
    "attention": "Attention",
    "what-if": "What-if rows",
    "blocks": "Decoders of block models' authors",
    "modifiers": "Remasking modifiers",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A sampler's row in the list: `rule` and `state` come from its docstring; `kind` is unmasker,
    remasker or reviser; `group`, of GROUPS, is what it reads.
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
    """All policies by name, users' included, then the remasking modifiers."""
    return [_described(name, cls, traits(cls)) for name, cls in policies().items()] + [
        replace(
            _described(name, cls, Traits()),
            kind="remasker",
            parameters=parameters,
            group="modifiers",
        )
        for name, cls, parameters in MODIFIERS
    ]


def policy_rule(policy: str) -> str:
    """The rule of a policy in a sentence: the first paragraph of its docstring. Raises InputError
    for an unknown policy.
    """
    cls = policies().get(policy)
    if cls is None:
        raise InputError(f"sampler {policy}: unknown; `pbcore samplers` lists them")
    return _described(policy, cls, traits(cls)).rule


def samplers_table() -> str:
    """The tables in docs/samplers.md, by what a sampler reads."""
    parts = []
    for group, title in GROUPS.items():
        rows = []
        for sampler in described():
            if sampler.group == group:
                cells = astuple(sampler)[: len(HEADERS)]
                rows.append([MarkdownText(cell) for cell in cells])
        parts.append(f"### {title}\n\n{markdown(Table(HEADERS, rows))}")
    return "\n\n".join(parts)


def add_parser(subparsers: Any) -> None:
    """Adds `samplers` to the command line."""
    parser = subparsers.add_parser(
        "samplers", help="list the samplers, or count token frequencies for pc"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the table of docs/samplers.md"
    )
    parser.add_argument(
        "--details", action="store_true", help="add parameters, papers, forwards and state"
    )
    parser.add_argument(
        "--frequencies",
        metavar="CORPUS",
        help=(
            "count the tokens of a text file, or (`train`) of the answers in the tasks' train split"
        ),
    )
    parser.add_argument("--model", help="the model whose tokenizer is used")
    parser.add_argument(
        "--output",
        type=Path,
        help="where to write the table; set PBCORE_FREQUENCIES=FILE to use it in a run",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the samplers, or writes a frequency table. Raises InputError, OSError or ModelError if
    it can't.
    """
    if args.frequencies:
        return _count(args)
    if args.model or args.output:
        raise InputError(
            "--model and --output say how to count tokens: give --frequencies CORPUS too, or leave"
            " them out"
        )
    if args.markdown:
        print(samplers_table())
        return 0
    width = terminal_width()
    for group, title in GROUPS.items():
        print(f"{title}:")
        for item in described():
            if item.group == group:
                about = f"  {item.name}  ({item.kind})  {item.rule}"
                print("\n".join(folded(about, width, DETAILS - 2)))
                more = [
                    item.parameters,
                    item.paper,
                    f"{item.forwards} per step",
                    f"keeps {item.state}",
                ]
                if args.details:
                    told = "; ".join(part for part in more if part not in ("–", "keeps –"))
                    print("\n".join(folded(" " * DETAILS + told, width, 0)))
    for paragraph in HINTS:
        print("", *folded(paragraph, min(width, 150), 0), sep="\n")
    return 0


def _count(args: argparse.Namespace) -> int:
    from pbcore.models import frequencies

    if not args.model or not args.output:
        raise InputError(
            "--frequencies needs a model whose tokenizer is used (--model NAME) and a file to write"
            " (--output FILE)"
        )
    if args.output.is_dir() or not args.output.parent.is_dir():
        raise InputError(f"--output {args.output}: give a file in a folder that exists")
    tokenizer, size = frequencies.tokenizer_of(args.model)
    counts = frequencies.count_tokens(tokenizer, _texts(args.frequencies))
    frequencies.save_table(args.output, counts, size)
    print(f"{args.output}: {counts.total():,} tokens, {len(counts):,} different ones")
    return 0


def _texts(corpus: str) -> Iterator[str]:
    """The lines of a file, or the answers of the train split."""
    if corpus != "train":
        with Path(corpus).open(encoding="utf-8") as lines:
            try:
                yield from lines
            except UnicodeDecodeError as error:
                raise InputError(
                    f"--frequencies {corpus}: not UTF-8 text ({error.reason}); save it as UTF-8"
                ) from None
        return
    for name in task_names():
        yield from (
            sample.answer for sample in islice(generate(name), TRAIN_SAMPLES) if sample.answer
        )


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
    return ", ".join(_parameter(item) for item in fields(cls) if item.init) or "–"


def _parameter(item: Field[Any]) -> str:
    """`name = default`; `k`, which has none, as `k (or a schedule)`; another whose default depends
    on the rest as `name (by the rule)`.
    """
    if item.default is MISSING:
        return item.name
    if item.default is None:
        return f"{item.name} (or a schedule)" if item.name == "k" else f"{item.name} (by the rule)"
    return f"{item.name} = {item.default}"
