"""`pbcore list samplers`: every policy with its rule; counts token frequencies for `pc`."""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.base.text import folded, terminal_width
from pbcore.decoding.catalog import GROUPS, described, samplers_table
from pbcore.names import MODIFIERS, examples
from pbcore.tasks import task_names
from pbcore.tasks.registry import generate

TRAIN_SAMPLES = 500
_FOR_K = [modifier for modifier in MODIFIERS if modifier.fields & {"counts", "schedule"}]
_BESIDE = [modifier for modifier in MODIFIERS if modifier not in _FOR_K]
HINTS = (
    "Try first: eb-0.1 (few errors in few forwards), threshold-0.9 (as most papers), spec-8 (fewer"
    " calls, more rows). `pbcore list samplers --details` adds parameters and papers.",
    "A name is POLICY-PARAMETERS, e.g. confidence-k2 or klass-0.9-kl0.05, then modifiers:"
    f" {', '.join(map(examples, _BESIDE))}, and a schedule where k is left out:"
    f" {', '.join(map(examples, _FOR_K))}.",
)
DETAILS = 6  # columns by which what is said of a sampler is indented


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
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
