"""What the statistics of graded scores hold, by simulation: `python benches/check_statistics.py`.

- The 95 % interval of a mean: how often it holds the known mean, beside Student's t interval
  clipped to the bounds, whose mean width is the unit.
- The test for a drop: how often it finds one, at 5 %, in differences whose mean is 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from tabulate import tabulate

from pbcore.analysis.paired import graded_drop, permutation
from pbcore.results.stats import graded_interval

SIZES = (8, 16, 40)
SIZES_OF_TESTS = (10, 20, 40)
Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class Source:
    """A distribution of scores or of differences in [least, 1]. `draw` gives n values; `mean` is
    their true mean.
    """

    name: str
    mean: float
    draw: Callable[[Generator, int], np.ndarray]
    least: float = 0.0


def mostly(
    common: float, chance: float, other: Callable[[Generator, int], np.ndarray]
) -> Callable[..., np.ndarray]:
    """Draws `common` with this chance, else from `other`."""
    return lambda generator, n: np.where(generator.random(n) < chance, common, other(generator, n))


def uniform(generator: Generator, n: int) -> np.ndarray:
    return generator.random(n)


# Those of which the project promises 93 %.
PROMISED = (
    Source("Beta(2, 5)", 2 / 7, lambda generator, n: generator.beta(2, 5, n)),
    Source("Beta(5, 2)", 5 / 7, lambda generator, n: generator.beta(5, 2, n)),
    Source("1 with .9, else uniform", 0.95, mostly(1.0, 0.9, uniform)),
)
SOURCES = (
    *PROMISED,
    Source("1 with .7, else uniform", 0.85, mostly(1.0, 0.7, uniform)),
    Source("1 with .97, else uniform", 0.985, mostly(1.0, 0.97, uniform)),
    Source("Beta(20, 1)", 20 / 21, lambda generator, n: generator.beta(20, 1, n)),
    Source("Beta(.5, .5)", 0.5, lambda generator, n: generator.beta(0.5, 0.5, n)),
    Source(
        "difference: normal, sd .1",
        0.0,
        lambda generator, n: generator.normal(0, 0.1, n).clip(-1, 1),
        -1.0,
    ),
    Source(
        "difference: 0 with .9, else −uniform",
        -0.05,
        mostly(0.0, 0.9, lambda g, n: -uniform(g, n)),
        -1.0,
    ),
    Source(
        "difference: 0 with .5, else −.4 uniform",
        -0.1,
        mostly(0.0, 0.5, lambda g, n: -0.4 * uniform(g, n)),
        -1.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of draws whose interval held the true mean, by ours and by Student's clipped t;
    `width` of ours, where Student's mean width is 1.
    """

    source: str
    n: int
    held: float
    students: float
    width: float


def coverage(source: Source, n: int, draws: int, seed: int = 0) -> Coverage:
    generator = np.random.default_rng(seed)
    values = [source.draw(generator, n) for _ in range(draws)]
    ours = np.array(
        [graded_interval(one.tolist(), source.least, 1.0) for one in values]
    )  # (draws, 2)
    means = np.mean(values, axis=1)
    spreads = np.std(values, axis=1, ddof=1)
    half = stats.t.isf(0.025, n - 1) * spreads / np.sqrt(n)
    students = np.stack([means - half, means + half], axis=1).clip(source.least, 1.0)
    held, known = (
        float(np.mean((each[:, 0] <= source.mean) & (source.mean <= each[:, 1])))
        for each in (ours, students)
    )
    return Coverage(
        source.name,
        n,
        held,
        known,
        float(np.ptp(ours, axis=1).mean() / np.ptp(students, axis=1).mean()),
    )


# Differences with mean 0.
NULLS = (
    Source("normal, sd .1", 0.0, lambda generator, n: generator.normal(0, 0.1, n), -1.0),
    Source(
        ".1 (exponential − 1)",
        0.0,
        lambda generator, n: 0.1 * (generator.exponential(size=n) - 1),
        -1.0,
    ),
    Source(
        ".1 (1 − exponential)",
        0.0,
        lambda generator, n: 0.1 * (1 - generator.exponential(size=n)),
        -1.0,
    ),
    Source("Beta(1, 4) − .2", 0.0, lambda generator, n: generator.beta(1, 4, n) - 0.2, -1.0),
    Source(
        "Beta(1, 4) − .2 with .6, else 0",
        0.0,
        mostly(0.0, 0.4, lambda g, n: g.beta(1, 4, n) - 0.2),
        -1.0,
    ),
)
DROP = Source(
    "a drop: normal, mean −.05, sd .1",
    -0.05,
    lambda generator, n: generator.normal(-0.05, 0.1, n),
    -1.0,
)
TESTS = {"graded_drop": graded_drop, "permutation": permutation}


def found(
    source: Source, n: int, draws: int, test: Callable[[Sequence[float]], float], seed: int = 0
) -> float:
    """The share of draws in which the one-sided test at 5 % finds a drop."""
    generator = np.random.default_rng(seed)
    return float(np.mean([test(source.draw(generator, n).tolist()) <= 0.05 for _ in range(draws)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draws", type=int, default=20_000, help="samples drawn of each kind (default 20,000)"
    )
    draws = parser.parse_args().draws
    rows = []
    for source in SOURCES:
        for n in SIZES:
            row = coverage(source, n, draws)
            rows.append(
                [
                    row.source,
                    n,
                    f"{100 * row.held:.1f}",
                    f"{100 * row.students:.1f}",
                    f"{row.width:.2f}",
                ]
            )
    print(f"The 95 % interval of a mean, {draws:,} draws each: how often it holds the true mean")
    print(
        tabulate(
            rows,
            ["values", "n", "covers %", "Student's t, clipped %", "width / t's"],
            disable_numparse=True,
        )
    )
    print(
        f"\nThe one-sided test at 5 %, {draws // 10:,} draws each: how often it finds a drop, in %"
    )
    rows = [
        [
            source.name,
            n,
            *(f"{100 * found(source, n, draws // 10, test):.1f}" for test in TESTS.values()),
        ]
        for source in (*NULLS, DROP)
        for n in SIZES_OF_TESTS
    ]
    print(tabulate(rows, ["differences", "n", *TESTS], disable_numparse=True))


if __name__ == "__main__":
    main()
