"""What the statistics of graded scores hold, by simulation: `python benches/check_statistics.py`.

- The 95 % interval of a mean: how often it holds the known mean, beside Student's t interval
  clipped to the bounds, whose mean width is the unit.
- The test for a drop: how often it finds one, at 5 %, in differences whose mean is 0.
- A gate's shared level: how often it fails unchanged models, at 5 %, by its number of cells, whose
  samplers may agree on a question; and how often it finds a loss that is spread over all cells.
- The test of non-inferiority: how often it passes samplers that are worse by exactly the margin, at
  5 % each and Holm's over four, and how often equal ones, with `questions_to_settle` questions.
- The tests across tasks (the headline's and tune's of non-inferiority, compare's interval), on
  answers that three samplers lose by the draws of a real decoding: how often each is wrong.

- The intervals of an explanation's parts: how often one excludes 0 for an option that does nothing.

`--only gate`, `noninferiority`, `draws` or `explanation` prints that part alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import stats

from pbcore import decode, register_policy
from pbcore.analysis.compare import overall
from pbcore.analysis.noninferiority import p_worse, questions_to_settle
from pbcore.analysis.paired import compare, graded_drop, holm, permutation_p
from pbcore.analysis.pairs import pair_cells
from pbcore.analysis.shares import part_of, shapley
from pbcore.analysis.verdict import verdict_on
from pbcore.base import tabular
from pbcore.decoding import Move, Step
from pbcore.decoding.policies.registry import POLICIES
from pbcore.models.base import Prompt, Query, Request
from pbcore.models.info import ModelInfo
from pbcore.results.baseline import BaselineCell
from pbcore.results.stats import graded_interval
from pbcore.tasks.base import Sample
from pbcore.tasks.naming import PAPER_TASKS

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
TESTS = {"graded_drop": graded_drop, "permutation": permutation_p}


def found(
    source: Source, n: int, draws: int, test: Callable[[Sequence[float]], float], seed: int = 0
) -> float:
    """The share of draws in which the one-sided test at 5 % finds a drop."""
    generator = np.random.default_rng(seed)
    return float(np.mean([test(source.draw(generator, n).tolist()) <= 0.05 for _ in range(draws)]))


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of a gate: tasks × samplers, each of `questions`. The samplers' answers to a question
    are the same draw with the chance `agreeing`.
    """

    tasks: int
    samplers: int
    questions: int
    agreeing: float

    def run(self, generator: Generator, digest: str, loss: float = 0.0) -> dict[str, BaselineCell]:
        """The rows of a run by id. Each answer is right with its question's own chance, less
        `loss`; forwards are drawn, too.
        """
        rows = {}
        for task in range(self.tasks):
            chances = np.linspace(0.2, 1.0, self.questions) - loss
            common = generator.random(self.questions)
            for number in range(self.samplers):
                own = generator.random(self.questions)
                agreed = generator.random(self.questions) < self.agreeing
                right = np.where(agreed, common, own) < chances
                name = f"m/t{task}/threshold-0.{number + 1}"
                rows[name] = BaselineCell(
                    id=name,
                    model="m",
                    task=f"t/t{task}",
                    sampler=f"threshold-0.{number + 1}",
                    seeds=(0,),
                    dtype="float32",
                    data_hash=f"d{task}",
                    length="",
                    headline="accuracy",
                    model_identity={"digest": digest, "weights": digest},
                    indices=tuple(range(self.questions)),
                    scores={"accuracy": tuple(map(float, right))},
                    nfe=tuple(generator.integers(8, 12, self.questions).tolist()),
                    tokens_per_step=None,
                    device="cpu",
                )
        return rows


GRIDS = tuple(
    Grid(tasks, samplers, questions, agreeing)
    for tasks, samplers in ((1, 1), (2, 2), (10, 4))
    for questions in (8, 40)
    for agreeing in ((0.0,) if samplers == 1 else (0.0, 0.9))
    if questions == 8 or samplers < 4 or agreeing
)


def gates_failed(grid: Grid, draws: int, loss: float = 0.0, seed: int = 0) -> float:
    """The share of gates at 5 % that fail, where the run loses `loss` of every answer's chance."""
    generator = np.random.default_rng(seed)
    failed = 0
    for _ in range(draws):
        base = grid.run(generator, "old")
        head = grid.run(generator, "new", loss)
        failed += not verdict_on(pair_cells(head, base).pairs, 0.05).ok
    return failed / draws


def check_gate(draws: int) -> None:
    """Prints how often gates fail."""
    print(f"Gates at 5 %, {draws:,} draws each: how many fail, in %")
    rows = []
    for grid in GRIDS:
        rates = [gates_failed(grid, draws, loss) for loss in (0.0, 0.1)]
        row = [grid.tasks * grid.samplers, grid.questions, f"{grid.agreeing:g}"]
        rows.append([*row, *(f"{100 * rate:.1f}" for rate in rates)])
    heads = ["cells", "questions", "samplers agree", "unchanged", "10 points lost in all"]
    print(tabular.terminal(tabular.Table(heads, rows, "rrrrr")))


MARGIN = 0.03


@dataclass(frozen=True, slots=True)
class Table:
    """A table of paired differences: tasks of `sizes` questions, each with its own source. The mean
    over tasks of the sources' means is the sampler's true change.
    """

    name: str
    sizes: tuple[int, ...]
    sources: tuple[Source, ...]

    @property
    def change(self) -> float:
        return float(np.mean([source.mean for source in self.sources]))

    def draw(self, generator: Generator) -> list[np.ndarray]:
        pairs = zip(self.sources, self.sizes, strict=True)
        return [source.draw(generator, n) for source, n in pairs]


def flips(fell: float, rose: float) -> Source:
    """0/1 scores of which the share `fell` turns wrong and `rose` turns right."""

    def draw(generator: Generator, n: int) -> np.ndarray:
        chance = generator.random(n)
        return np.where(chance < fell, -1.0, np.where(chance < fell + rose, 1.0, 0.0))

    return Source(f"-{fell:g} +{rose:g}", rose - fell, draw, -1.0)


SAME = Source("nothing differs", 0.0, lambda generator, n: np.zeros(n), -1.0)
LOSS = flips(MARGIN, 0.0)
CHURNS = tuple(flips(MARGIN + churn, churn) for churn in (0.01, 0.1, 0.3))
GRADED_LOSSES = (
    Source("normal, sd .1", -MARGIN, lambda g, n: g.normal(-MARGIN, 0.1, n).clip(-1, 1), -1.0),
    Source("-.3 with .1", -MARGIN, lambda g, n: np.where(g.random(n) < 0.1, -0.3, 0.0), -1.0),
    Source("-uniform with .06", -MARGIN, mostly(0.0, 0.94, lambda g, n: -uniform(g, n)), -1.0),
    Source(
        ".02 with .95, else -.98",
        -MARGIN,
        lambda g, n: np.where(g.random(n) < 0.05, -0.98, 0.02),
        -1.0,
    ),
    Source("Beta(2, 5) - 2/7 - .03", -MARGIN, lambda g, n: g.beta(2, 5, n) - 2 / 7 - MARGIN, -1.0),
    Source(
        "seeds of three: flips of thirds",
        -MARGIN,
        lambda g, n: np.mean([CHURNS[1].draw(g, n) for _ in range(3)], axis=0),
        -1.0,
    ),
)


def tables() -> list[Table]:
    """Samplers that are worse by exactly the margin, in many shapes."""
    made = []
    for n in (20, 50, 98, 150, 300, 630, 1000):
        made.append(Table("all loss", (n,), (LOSS,)))
        made += [Table(f"churn {source.name}", (n,), (source,)) for source in CHURNS]
    for n in (20, 100, 600):
        made += [Table(f"graded: {source.name}", (n,), (source,)) for source in GRADED_LOSSES]
    for tasks, n in ((2, 20), (4, 50), (4, 250), (17, 20), (17, 40)):
        one = flips(min(1.0, tasks * MARGIN), 0.0)
        made.append(Table("one task holds all loss", (n,) * tasks, (one, *[SAME] * (tasks - 1))))
        made.append(Table("loss in every task", (n,) * tasks, (LOSS,) * tasks))
        made.append(Table("churn in every task", (n,) * tasks, (CHURNS[1],) * tasks))
        mixed = (flips(tasks * (MARGIN + 0.01), 0.0), flips(0.0, tasks * 0.01))
        made.append(Table("loss here, gain there", (n,) * tasks, mixed + (SAME,) * (tasks - 2)))
    for sizes in ((20, 1000), (1000, 20), (500, 50, 50, 20)):
        one = flips(len(sizes) * MARGIN, 0.0)
        made.append(Table("the first holds all loss", sizes, (one, *[SAME] * (len(sizes) - 1))))
        made.append(Table("loss in every task", sizes, (LOSS,) * len(sizes)))
        mixed = tuple(GRADED_LOSSES[i % 2] for i in range(len(sizes)))
        made.append(Table("graded in every task", sizes, mixed))
    made.append(Table("flips and graded", (200, 60), (CHURNS[0], GRADED_LOSSES[4])))
    made.append(Table("flips and graded", (40,) * 6, (*CHURNS, *GRADED_LOSSES[:3])))
    return made


def passed(table: Table, draws: int, *, margin: float = MARGIN, seed: int = 0) -> float:
    """The share of draws in which the sampler is called at most `margin` worse, at 5 %."""
    generator = np.random.default_rng(seed)
    return float(np.mean([p_worse(table.draw(generator), margin) <= 0.05 for _ in range(draws)]))


def passed_of_four(table: Table, draws: int, *, all_equal: bool, seed: int = 0) -> float:
    """The share of draws in which Holm's procedure over four samplers confirms one or more of those
    that are worse by the margin; with `all_equal` the share of samplers confirmed.
    """
    generator = np.random.default_rng(seed)
    shares = []
    for _ in range(draws):
        adjusted = holm([p_worse(table.draw(generator), MARGIN) for _ in range(4)])
        confirmed = [p <= 0.05 for p in adjusted]
        shares.append(np.mean(confirmed) if all_equal else float(any(confirmed)))
    return float(np.mean(shares))


def settled(fell: float, rose: float, *, level: float, draws: int, seed: int = 0) -> list[object]:
    """How many questions `questions_to_settle` names, and how often they do settle it."""
    n = questions_to_settle(fell + rose, MARGIN, change=rose - fell, level=level)
    if n is None:
        raise ValueError(f"a loss of {fell - rose:g} is not inside the margin {MARGIN:g}")
    generator = np.random.default_rng(seed)
    source = flips(fell, rose)
    hits = [p_worse([source.draw(generator, n)], MARGIN) <= level for _ in range(draws)]
    return [f"{100 * fell:g}", f"{100 * rose:g}", f"{level:g}", n, f"{100 * np.mean(hits):.1f}"]


SETTLED = ((0.0, 0.0), (0.01, 0.01), (0.025, 0.025), (0.1, 0.1), (0.02, 0.01), (0.01, 0.03))


def check_noninferiority(draws: int) -> None:
    """Prints the rates of the test of non-inferiority."""
    print(f"Samplers worse by exactly 3 points, {draws:,} tables each: how many pass at 5 %, in %")
    rows = []
    for table in tables():
        sizes = sorted(set(table.sizes))
        size = f"{sizes[0]}" if len(sizes) == 1 else ", ".join(map(str, table.sizes))
        rows.append([table.name, len(table.sizes), size, f"{100 * passed(table, draws):.1f}"])
    print(
        tabular.terminal(
            tabular.Table(["differences", "tasks", "questions a task", "passed %"], rows, "lrrr")
        )
    )
    print("\nFour samplers on 630 questions, margin 3 points, Holm's 5 %, in %")
    equal = Table("equal, 5 % discordant", (630,), (flips(0.025, 0.025),))
    worse = [Table("all loss", (630,), (LOSS,))]
    worse += [Table(f"churn {source.name}", (630,), (source,)) for source in CHURNS]
    four = [
        [
            f"all worse by 3: {each.name}",
            f"{100 * passed_of_four(each, draws, all_equal=False):.1f}",
        ]
        for each in worse
    ]
    four.append([equal.name, f"{100 * passed_of_four(equal, draws, all_equal=True):.1f}"])
    heads = ["samplers", "confirmed % (worse: one or more)"]
    print(tabular.terminal(tabular.Table(heads, four)))
    print("\nQuestions that settle it with 80 % by the formula, margin 3 points")
    found = [
        settled(fell, rose, level=level, draws=draws)
        for fell, rose in SETTLED
        for level in (0.05, 0.0125)
    ]
    heads = ["newly wrong %", "newly right %", "level", "questions", "passed %"]
    print(tabular.terminal(tabular.Table(heads, found, "rrrrr")))


TASKS = PAPER_TASKS[:4]
CHURN = 0.1  # of samplers that are equal: this share of each one's answers is wrong
MASK, RIGHT, WRONG, END = range(4)


class OneToken:
    """A model whose answers are one token, and the one that it predicts is right."""

    name = "one-token"
    mask_id, eos_id, vocab_size = MASK, END, 4
    device = torch.device("cpu")
    info: ClassVar[ModelInfo] = {}

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        return Request((), (MASK,), key)

    def text(self, token_ids: Sequence[int]) -> str:
        return "right" if token_ids[0] == RIGHT else "wrong"

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> OneToken:
        return self

    def keep(self, rows: torch.Tensor) -> None:
        """Nothing is kept of a row."""

    def logits(self, query: Query) -> torch.Tensor:
        certain = torch.full((int(query.want.sum()), self.vocab_size), -torch.inf)
        certain[:, RIGHT] = 0.0
        return certain


@dataclass(frozen=True)
class Losing:
    """Loses this share of the answers by the draws of the rows' keys, other answers than the same
    policy of another `salt`.
    """

    share: float = MARGIN
    salt: int = 0

    def select(self, step: Step) -> Move:
        lost = step.uniform(self.salt) < self.share
        return Move(step.masked, token=torch.where(lost, WRONG, RIGHT))


def lost_answers(share: float, salt: int, n: int, seed: int) -> list[dict[int, float]]:
    """Each task's scores by question, as decoded in one run."""
    samples = [Sample(task, index, (), {}, "right", 1) for task in TASKS for index in range(n)]
    sampler = f"losing-{share}-salt{salt}"
    answers = decode(OneToken(), samples, sampler, seed=seed, batch_size=len(samples))
    scores = [float(answer.text == "right") for answer in answers]
    return [dict(enumerate(scores[start : start + n])) for start in range(0, len(scores), n)]


def confirmed_by_draws(n: int, seed: int) -> bool:
    """Whether one of three samplers that lose exactly the margin is confirmed, as the headline and
    tune do it: by Holm's procedure at 5 %.
    """
    p_values = []
    for salt in range(3):
        scores = lost_answers(MARGIN, salt, n, seed)
        p_values.append(p_worse([[one - 1 for one in task.values()] for task in scores], MARGIN))
    return min(holm(p_values)) <= 0.05


def outside_by_draws(n: int, seed: int) -> bool:
    """Whether compare's 95 % interval of the change over all tasks leaves out 0 for equal
    samplers.
    """
    head, base = (lost_answers(CHURN, salt, n, seed) for salt in range(2))
    change = overall(list(zip(TASKS, map(compare, head, base), strict=True)))
    return not change.low <= 0 <= change.high


BY_DRAWS = {
    "headline, tune: one of three losing 3 points is confirmed": confirmed_by_draws,
    "compare: equal samplers differ": outside_by_draws,
}


def wrong_by_draws(test: Callable[[int, int], bool], n: int, runs: int) -> float:
    """The share of runs, each of another seed, in which a test across tasks is wrong."""
    with POLICIES.restored():
        register_policy("losing")(Losing)
        return float(np.mean([test(n, seed) for seed in range(runs)]))


def check_draws(runs: int) -> None:
    """Prints how often the tests across tasks are wrong about the draws of real decodings."""
    error = 100 * (0.05 * 0.95 / runs) ** 0.5
    print(
        f"Four tasks, {runs:,} runs: how often a test at 5 % is wrong, in % (± {error:.1f}, one"
        " standard error)"
    )
    rows = [
        [name, n, f"{100 * wrong_by_draws(test, n, runs):.1f}"]
        for name, test in BY_DRAWS.items()
        for n in (50, 250)
    ]
    print(tabular.terminal(tabular.Table(["test", "questions a task", "wrong %"], rows, "lrr")))


def false_parts(n: int, tasks: int, options: int, rate: float, draws: int, seed: int = 0) -> float:
    """How often the interval of an option that does nothing excludes 0.

    Args:
        n: questions of a task.
        tasks: how many there are.
        options: that differ; all but the first make questions easier.
        rate: the share of questions whose answer is drawn anew in each combination.
        draws: simulated explanations.
        seed: of the draws.
    """
    generator = np.random.default_rng(seed)
    wrong = 0
    for _ in range(draws):
        of_first = []
        for _ in range(tasks):
            place = generator.random(n)
            scores = {}
            for number in range(1 << options):
                chance = 0.3 + 0.4 * (place < 0.5) + 0.1 * (number >> 1).bit_count()
                drawn = generator.random(n) < rate
                again = generator.random(n) < 0.5
                scores[number] = np.where(drawn, again, place < chance).astype(float)
            of_first.append(shapley(scores, options)[0])
        part = part_of(of_first, 999)
        wrong += part.low > 1e-9 or part.high < -1e-9
    return wrong / draws


def check_explanation(draws: int) -> None:
    """Prints type I errors of the intervals of an explanation's parts."""
    rows = []
    for n in (8, 12, 24, 48, 96):
        for tasks, options in ((1, 1), (1, 3), (3, 2)):
            shares = []
            for rate in (0.1, 0.5):
                shares.append(f"{100 * false_parts(n, tasks, options, rate, draws):.1f}")
            rows.append([n, tasks, options, *shares])
    heads = ["questions", "tasks", "options", "wrong %, 10 % drawn anew", "50 % drawn anew"]
    print(tabular.terminal(tabular.Table(heads, rows, "rrrrr")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--draws", type=int, default=20_000, help="samples drawn of each kind (default 20,000)"
    )
    parts = ("gate", "noninferiority", "draws", "explanation")
    parser.add_argument("--only", choices=parts, help="print this part alone")
    arguments = parser.parse_args()
    draws = arguments.draws
    if arguments.only == "gate":
        check_gate(draws // 10)
        return
    if arguments.only == "draws":
        check_draws(draws // 20)
        return
    if arguments.only == "explanation":
        check_explanation(draws // 10)
        return
    if arguments.only == "noninferiority":
        check_noninferiority(draws // 10)
        return
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
    heads = ["values", "n", "covers %", "Student's t, clipped %", "width / t's"]
    print(tabular.terminal(tabular.Table(heads, rows, "lrrrr")))
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
    print(
        tabular.terminal(tabular.Table(["differences", "n", *TESTS], rows, "lr" + "r" * len(TESTS)))
    )
    print()
    check_gate(draws // 10)
    print()
    check_noninferiority(draws // 10)
    print()
    check_draws(draws // 20)


if __name__ == "__main__":
    main()
