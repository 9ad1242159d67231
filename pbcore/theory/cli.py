"""`pbcore theory`: prints Table 1 and the accuracies of Figure 2 for the ideal model."""

import argparse
from typing import Any

from tabulate import tabulate

from pbcore.errors import InputError
from pbcore.theory.accuracy import MOST_ITEMS
from pbcore.theory.bounds import optimal_bound
from pbcore.theory.tables import equality, figure2, table1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `theory` to the subparsers of a command, and returns its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "theory", help="losses of an ideal model: closed forms for the list operations"
    )
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=10, help="length of the lists (default 10)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the tables. Raises InputError for an n without tables."""
    if arguments.n > MOST_ITEMS:
        raise InputError(f"--n {arguments.n}: the exact accuracies go up to n = {MOST_ITEMS}; give a smaller n")
    print(report(arguments.n))
    return 0


def report(n: int) -> str:
    """The closed forms for lists of n, as text. Raises ValueError for n < 2."""
    table = table1(n)
    rows = [
        [row.op, row.total_correlation, row.limit, row.pairs_bound, *row.top_k.values(), *row.threshold.values()]
        for row in table
    ]
    head = ["operation", "C(Y|X)", "n → ∞", "L, pairs"]
    head += [f"greedy k={k}" for k in table[0].top_k] + [f"γ={gamma:g}" for gamma in table[0].threshold]
    parts = [
        f"List operations, n = {n}: bits lost in one step and in pairs, accuracy of the ideal model (greedy)",
        tabulate(rows, head, floatfmt=".4g"),
        f"\nLeast bits lost in T steps, L*_T, n = {n}",
        _optimal(n),
        "\nAccuracy of the ideal model by sampler (Figure 2)",
        _figure(n),
        *([_equality(n)] if n > 2 else []),
    ]
    return "\n".join(parts)


def _optimal(n: int) -> str:
    steps = sorted({1, 2, 3, max(1, n // 2), n - 1, n} & set(range(1, n + 1)))
    rows = [[op, *(optimal_bound(op, n, T) for T in steps)] for op in ("replace_random", "shuffle")]
    return tabulate(rows, ["operation", *(f"T={T}" for T in steps)], floatfmt=".4f")


def _figure(n: int) -> str:
    points = figure2(lengths=(n,), n=n)
    samplers = list(dict.fromkeys(p.sampler for p in points))
    values = {(p.op, p.sampler): p.accuracy for p in points}
    rows = [
        [sampler, values.get(("shuffle", sampler)), values.get(("replace_random", sampler))] for sampler in samplers
    ]
    return tabulate(rows, ["sampler", "shuffle", "replace_random"], floatfmt=".5f")


def _equality(n: int) -> str:
    at = equality(n)
    return (
        f"\nNo γ above equals a confidence. At γ = {n - 1}/{n} the accuracy of replace_random is {at.exceed:g} "
        f"if confidences must exceed γ\n(the paper), {at.reach:g} if they may equal it (the reference code), "
        f"{at.noise:.5f} in the limit of small noise."
    )
