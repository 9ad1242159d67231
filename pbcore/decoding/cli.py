"""`pbcore samplers`: lists every policy with its parameters, paper and kind; counts token frequencies for `pc`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from inspect import cleandoc
from itertools import islice
from pathlib import Path
from typing import Any

from tabulate import tabulate

from pbcore.decoding.policies import policies
from pbcore.decoding.protocol import traits
from pbcore.decoding.remasking import Rcr, RcrMax, Remdm, RemdmEarly
from pbcore.errors import InputError
from pbcore.tasks import task_names
from pbcore.tasks.registry import generate

TRAIN_SAMPLES = 500
MODIFIERS = (
    ("+rcr", Rcr, "–"),
    ("+rcr-max", RcrMax, "–"),
    ("+remdmN", Remdm, "N rounds"),
    ("+remdmN-early", RemdmEarly, "N rounds"),
)
KINDS = {None: "unmasker", "seen": "reviser", "hidden": "remasker"}  # by review
HEADERS = ("sampler", "kind", "rule", "state", "parameters", "paper", "forwards per step")


@dataclass(frozen=True, slots=True)
class Described:
    """A sampler's row in the list.

    `rule` and `state` come from its docstring; `kind` is unmasker, remasker or reviser.
    """

    name: str
    kind: str
    rule: str
    state: str
    parameters: str
    paper: str
    forwards: str

    def row(self) -> tuple[str, ...]:
        return (self.name, self.kind, self.rule, self.state, self.parameters, self.paper, self.forwards)


def described() -> list[Described]:
    """All policies by name, users' included, then the remasking modifiers."""
    known = [_described(name, cls, traits(cls).review) for name, cls in policies().items()]
    return known + [_modifier(*modifier) for modifier in MODIFIERS]


def samplers_table() -> str:
    """The table in docs/samplers.md."""
    rows = [tuple(cell.replace("|", "\\|") for cell in item.row()) for item in described()]
    return tabulate(rows, headers=HEADERS, tablefmt="pipe", disable_numparse=True)


def add_parser(subparsers: Any) -> None:
    """Adds `samplers` to the command line."""
    parser = subparsers.add_parser("samplers", help="list the samplers, or count token frequencies for pc")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/samplers.md")
    parser.add_argument(
        "--frequencies",
        metavar="CORPUS",
        help="count the tokens of a text file, or (`train`) of the answers in the tasks' train split",
    )
    parser.add_argument("--model", help="the model whose tokenizer is used")
    parser.add_argument(
        "--output", type=Path, help="where to write the table; set PBCORE_FREQUENCIES=FILE to use it in a run"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the samplers, or writes a frequency table.

    Raises ValueError, OSError or ModelError if the tokens can't be counted.
    """
    if args.frequencies:
        return _count(args)
    if args.model or args.output:
        raise InputError(
            "--model and --output say how to count tokens: give --frequencies CORPUS too, or leave them out"
        )
    if args.markdown:
        print(samplers_table())
        return 0
    for item in described():
        details = [
            item.parameters,
            item.paper,
            item.forwards + " per step",
            f"keeps {item.state}" if item.state != "–" else "",
        ]
        print(
            f"{item.name}  ({item.kind})\n  {item.rule}\n  "
            f"{'; '.join(part for part in details if part not in ('', '–'))}"
        )
    print(
        "\nA name is POLICY-PARAMETERS, e.g. confidence-k2 or klass-0.9-kl0.05, then modifiers: +b8, +prefix, +dual, "
        "+t1.0, +rcr, +rcr-max,"
    )
    print(
        "+remdm1, +remdm1-early, +eos_stop, +no_early_eos, +eos_last, +adas40, and a schedule where k is left out: "
        "+s2_1_1, +linear8, +cosine8."
    )
    return 0


def _count(args: argparse.Namespace) -> int:
    from pbcore.models import frequencies

    if not args.model or not args.output:
        raise InputError(
            "--frequencies needs a model whose tokenizer is used (--model NAME) and a file to write (--output FILE)"
        )
    if args.output.is_dir() or not args.output.parent.is_dir():
        raise InputError(f"--output {args.output}: give a file in a folder that exists")
    tokenizer, size = frequencies.tokenizer_of(args.model)
    counts = frequencies.count(tokenizer, _texts(args.frequencies))
    frequencies.save(args.output, counts, size)
    print(f"{args.output}: {counts.total():,} tokens, {len(counts):,} different ones")
    return 0


def _texts(corpus: str) -> Iterator[str]:
    """The lines of a file, or the answers of the train split."""
    if corpus != "train":
        with Path(corpus).open(encoding="utf-8") as lines:
            try:
                yield from lines
            except UnicodeDecodeError as error:
                raise InputError(f"--frequencies {corpus}: not UTF-8 text ({error.reason}); save it as UTF-8") from None
        return
    for name in task_names():
        yield from (sample.answer for sample in islice(generate(name), TRAIN_SAMPLES) if sample.answer)


def _described(name: str, cls: type, review: str | None) -> Described:
    first, *rest = re.split(r"\n\s*\n", cleandoc(cls.__doc__ or "no description"))
    text = " ".join(first.split())
    everything = " ".join((cls.__doc__ or "").split())
    paper = re.search(r"(?:arXiv )(\d{4}\.\d{5})", everything)
    state = next(
        (" ".join(part.split())[len("State: ") :].rstrip(".") for part in rest if part.startswith("State: ")), "–"
    )
    forwards = "1, with a shadow block" if review == "hidden" else "1"
    return Described(
        name, KINDS[review], text, state, _parameters(cls), f"arXiv {paper[1]}" if paper else "–", forwards
    )


def _modifier(name: str, cls: type, parameters: str) -> Described:
    return replace(_described(name, cls, None), kind="remasker", parameters=parameters)


def _parameters(cls: type) -> str:
    """Each parameter as `name = default`; `k`, which has none, as `k (or a schedule)`."""
    shown = []
    for item in (each for each in fields(cls) if each.init):
        if item.default is None:
            shown.append(f"{item.name} (or a schedule)")
        elif item.default is not MISSING:
            shown.append(f"{item.name} = {item.default}")
        elif item.name != "policy":
            shown.append(item.name)
    return ", ".join(shown) or "–"
