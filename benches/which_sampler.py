"""The tables of docs/which-sampler.md: `python benches/which_sampler.py`.

Which samplers cost less than one token at a time (`confidence-k1`) and lose nothing by it? For each
model and task in two stages, on questions that have none in common:

1. *Screening*: every registered sampler that the model can run, with its default parameters (two
   tokens a step where it takes their number), and some with modifiers, answers `--screen`
   questions. It decides nothing but who is tried: of the samplers that are cheaper than
   `confidence-k1` and at most 3 points below it the cheapest four, by calls and by rows in turn.
   Samplers with the same scores, calls and rows on all questions count once, by the shortest name.
2. *Confirmation*: these four and `confidence-k1` answer `--confirm` new questions, of another seed.
   A candidate is confirmed if a loss of 3 points or more is rejected, one-sided at 5 %, paired by
   question, with Holm's correction for the candidates tried. The winner is the cheapest that is
   confirmed, by calls (sequential forwards) and by rows (canvases forwarded).

`ideal-mi`, which differs from `ideal` by its oracle for attention, runs the samplers that `ideal`
can't. Each finished cell is a file in `--out`; the same command resumes an interrupted run.
`--simulate` shows by simulation how often the choice errs, and runs no model.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean
from time import perf_counter

import numpy as np

import pbcore
from benches.simulation import (
    Known,
    Scenario,
    all_too_bad,
    crowd,
    drawn_flips,
    drawn_right,
    p_of_flips,
    simulated_differences,
)
from pbcore.analysis.noninferiority import lower_bound
from pbcore.analysis.paired import flips, holm
from pbcore.base.check import read_json
from pbcore.base.errors import InputError
from pbcore.base.tabular import MarkdownText, Table, markdown
from pbcore.decoding import resolve
from pbcore.decoding.catalog import described
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import is_static
from pbcore.decoding.sharing import ForwardStore
from pbcore.extras.tune.candidates import MODIFIED
from pbcore.models.base import Model
from pbcore.names import parse
from pbcore.results.resume import cell_key, user_code
from pbcore.results.rundir import write_json
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.naming import short
from pbcore.tasks.registry import data_hash

BASE = "confidence-k1"
MOST = 4  # candidates that are confirmed on a task
MARGIN = 0.03  # a loss that a confirmed candidate is shown to stay below
LEVEL = 0.05  # of all tests of a task together
PRICES = ("calls", "rows")
NAMED = 3  # samplers that are named beside the one that stands for them
TASKS = (
    "waiting_line/copy",
    "waiting_line/shuffle",
    "waiting_line/replace_random",
    "puzzle/latin_square",
)
MODELS = ("ideal", "ideal-mi", "tiny")
FURTHER = (BASE, "confidence-k4", "threshold-0.6", *MODIFIED)


@dataclass(frozen=True, slots=True)
class Stage:
    """Which questions of a task: its name in file names, the seed of the questions, which is that
    of decoding, too, and their number.
    """

    name: str
    seed: int
    n: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One sampler on one task: score, calls and rows of each sample, in order, and the seconds
    that decoding took.
    """

    scores: Sequence[float]
    calls: Sequence[float]
    rows: Sequence[float]
    seconds: float = 0.0

    def price(self, name: str) -> float:
        """Mean calls or rows."""
        return fmean(self.calls if name == "calls" else self.rows)


Cells = Mapping[str, Measured]  # of one model and task, by sampler


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate on the questions of the confirmation, against one token at a time: how many
    answers are newly wrong and newly right, and the test's p adjusted by Holm.
    """

    sampler: str
    measured: Measured
    newly_wrong: int
    newly_right: int
    p: float

    @property
    def lower(self) -> float:
        """The one-sided 95 % bound of the difference in accuracy, head − base."""
        n = len(self.measured.scores)
        return lower_bound(
            [simulated_differences(self.newly_wrong, self.newly_right, n)], 1 - LEVEL
        )

    @property
    def confirmed(self) -> bool:
        return self.p <= LEVEL


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one model and task: one token at a time, and the candidates as they were
    tried, with the samplers that each stands for (`others`). `base` is None where none was tried.
    """

    model: str
    task: str
    base: Measured | None
    trials: Sequence[Trial]
    others: Mapping[str, Sequence[str]]


def samplers(without: Iterable[str] = ()) -> list[str]:
    """What is measured: all policies but those in `without`, the decoders of block models' authors
    and those that need such models.
    """
    names = [
        item.name for item in described() if item.group != "blocks" and item.name in policies()
    ]
    plain = [str(resolve(f"{name}-k2" if is_static(policies()[name]) else name)) for name in names]
    every = dict.fromkeys([*(str(resolve(name)) for name in FURTHER), *plain])
    return [name for name in every if parse(name).policy not in set(without)]


# The choice


def candidates(screened: Cells) -> dict[str, list[str]]:
    """Who is tried on new questions: the cheapest four of those that cost less than one token at a
    time and are at most 3 points below it, taken from the order of calls and that of rows in turn.
    With each those that it stands for: of samplers with the same scores, calls and rows on all
    questions only the one with the shortest name is tried.
    """
    base = screened.get(BASE)
    if base is None:
        return {}
    alike = defaultdict[tuple[tuple[float, ...], ...], list[str]](list)
    for sampler in sorted(screened, key=lambda name: (len(name), name)):
        head = screened[sampler]
        lost = sum(base.scores) - sum(head.scores)
        if sampler != BASE and lost <= MARGIN * len(base.scores) + 1e-9:
            alike[tuple(head.scores), tuple(head.calls), tuple(head.rows)].append(sampler)
    others = {first: rest for first, *rest in alike.values()}
    orders = []
    for price in PRICES:
        cheaper = [name for name in others if screened[name].price(price) < base.price(price)]
        orders.append(sorted(cheaper, key=lambda name: by_cost(price, name, screened[name])))
    chosen = list[str]()
    for name in chain(*zip_longest(*orders)):
        if name is not None and name not in chosen:
            chosen.append(name)
    return {name: others[name] for name in chosen[:MOST]}


def by_cost(price: str, sampler: str, head: Measured) -> tuple[float, float, int, str]:
    """The order of samplers in a price: equals by both prices together, then by name."""
    both = head.price("calls") + head.price("rows")
    return head.price(price), both, len(sampler), sampler


def trials(base: Measured, heads: Cells) -> list[Trial]:
    """The candidates against one token at a time, in the given order; Holm's correction is over
    all of them.
    """
    counts = [
        flips([a - b for a, b in zip(head.scores, base.scores, strict=True)])
        for head in heads.values()
    ]
    adjusted = holm([p_of_flips(*pair, len(base.scores), MARGIN) for pair in counts])
    return [
        Trial(sampler, head, *pair, p)
        for (sampler, head), pair, p in zip(heads.items(), counts, adjusted, strict=True)
    ]


def winner(verdict: Verdict, price: str) -> Trial | None:
    """The cheapest confirmed candidate that costs less than one token at a time; None if there is
    none.
    """
    if verdict.base is None:
        return None
    most = verdict.base.price(price)
    good = [
        trial for trial in verdict.trials if trial.confirmed and trial.measured.price(price) < most
    ]
    order = {trial.sampler: by_cost(price, trial.sampler, trial.measured) for trial in good}
    return min(good, key=lambda trial: order[trial.sampler], default=None)


# The questions and the answers


def questions(name: str, screen: Stage, confirm: Stage) -> tuple[Task, Task]:
    """The task with the questions of each stage. None of the screening's is among the
    confirmation's.
    """
    first = pbcore.load_task(name, limit=screen.n, seed=screen.seed)
    seen = {question(sample) for sample in first.samples}
    second = pbcore.load_task(name, limit=confirm.n + screen.n, seed=confirm.seed)
    new = tuple(sample for sample in second.samples if question(sample) not in seen)[: confirm.n]
    return first, replace(second, samples=new, data_hash=data_hash(new))


def question(sample: Sample) -> str:
    """What is asked, without the solved example before it."""
    return sample.messages[-1]["content"]


@dataclass(frozen=True, slots=True)
class Bench:
    """One model and where its cells are kept."""

    name: str
    model: Model
    out: Path
    batch_size: int

    def cell(self, task: Task, sampler: str, stage: Stage, store: ForwardStore) -> Measured | str:
        """Scores and costs of a sampler, from its file if it holds just this, else measured and
        written; or why the model can't run it.
        """
        key = self._key(task, sampler, stage)
        file = self.out / f"{stage.name}_{self.name}_{short(task.name)}_{sampler}.json".replace(
            "/", "_"
        )
        kept = read_json(file) if file.exists() else {}
        if kept.get("key") != key:
            kept = {"key": key, **self._measure(task, sampler, stage, store)}
            write_json(file, kept)
        if "refused" in kept:
            return str(kept["refused"])
        return Measured(kept["scores"], kept["calls"], kept["rows"], kept["seconds"])

    def _measure(
        self, task: Task, sampler: str, stage: Stage, store: ForwardStore
    ) -> dict[str, object]:
        start = perf_counter()
        try:
            answers = pbcore.decode(
                self.model,
                task.samples,
                sampler,
                seed=stage.seed,
                batch_size=self.batch_size,
                store=store,
            )
        except ValueError as error:
            return {"refused": str(error)}
        seconds = perf_counter() - start
        scored = task.score_many(
            [answer.text for answer in answers], task.samples, metrics=[task.headline]
        )
        return {
            "scores": [each.scores[task.headline] for each in scored],
            "calls": [answer.nfe or 0 for answer in answers],
            "rows": [answer.rows or 0 for answer in answers],
            "seconds": round(seconds, 2),
        }

    def _key(self, task: Task, sampler: str, stage: Stage) -> str:
        return cell_key(
            model=self.name,
            model_identity=dict(self.model.info),
            task=task.name,
            data_hash=task.data_hash,
            sampler=sampler,
            settings={},
            dtype=str(self.model.info.get("dtype", "")),
            seeds=[stage.seed],
            task_identity=task.identity,
            own_code=user_code(self.name, self.model, parse(sampler)),
        )


def screened(
    bench: Bench, tasks: Sequence[Task], names: Sequence[str], stage: Stage
) -> list[dict[str, Measured]]:
    """The cells of the screening by task; a sampler is absent where the model can't run it."""
    every = []
    for task in tasks:
        store = ForwardStore(bench.model)
        cells = {}
        for sampler in names:
            cell = bench.cell(task, sampler, stage, store)
            if isinstance(cell, Measured):
                cells[sampler] = cell
            else:
                say(f"{bench.name} {short(task.name)} {sampler}: {cell}")
        say(f"{bench.name} {short(task.name)}: {len(cells)} samplers screened")
        every.append(cells)
    return every


def confirmed(
    bench: Bench, task: Task, tried: Mapping[str, Sequence[str]], stage: Stage
) -> Verdict:
    """Measures the candidates, `tried`, and one token at a time on the new questions. Raises
    InputError if the model refuses there what it ran in the screening.
    """
    if not tried:
        return Verdict(bench.name, short(task.name), None, (), {})
    store = ForwardStore(bench.model)
    cells = {}
    for sampler in (BASE, *tried):
        cell = bench.cell(task, sampler, stage, store)
        if isinstance(cell, str):
            raise InputError(f"{bench.name} {short(task.name)} {sampler}: {cell}")
        cells[sampler] = cell
    base = cells.pop(BASE)
    verdict = Verdict(bench.name, short(task.name), base, trials(base, cells), tried)
    passed = sum(trial.confirmed for trial in verdict.trials)
    say(f"{bench.name} {verdict.task}: {passed} of {len(tried)} candidates confirmed")
    return verdict


def say(line: str) -> None:
    """Progress, apart from the tables."""
    print(line, file=sys.stderr, flush=True)


# The tables


def screening_table(name: str, tasks: Sequence[str], cells: Sequence[Cells]) -> str:
    """A row a sampler: accuracy in % and mean calls on each task, calls and rows added up over
    them; those that the model can't run on all tasks come last.
    """
    every = dict.fromkeys(sampler for by_task in cells for sampler in by_task)

    def totals(sampler: str) -> list[float | None]:
        if any(sampler not in by_task for by_task in cells):
            return [None, None]
        return [sum(by_task[sampler].price(price) for by_task in cells) for price in PRICES]

    def order(sampler: str) -> tuple[bool, list[float]]:
        sums = totals(sampler)
        return None in sums, [value for value in sums if value is not None]

    lines = [
        [
            sampler,
            *(short_cell(by_task.get(sampler)) for by_task in cells),
            *(None if value is None else f"{value:.1f}" for value in totals(sampler)),
        ]
        for sampler in sorted(every, key=order)
    ]
    return markdown(Table([f"{name}: sampler", *tasks, *PRICES], lines))


def short_cell(cell: Measured | None) -> str | None:
    return None if cell is None else f"{100 * fmean(cell.scores):.0f} / {cell.price('calls'):.1f}"


def winners_table(verdicts: Sequence[Verdict]) -> str:
    """A row for each model and task, or one for calls and one for rows where these have other
    winners.
    """
    lines = []
    for verdict in verdicts:
        by_price = {price: winner(verdict, price) for price in PRICES}
        names = {None if won is None else won.sampler for won in by_price.values()}
        if len(names) == 1:
            by_price = {"both": by_price["calls"]}
        for price, won in by_price.items():
            lines.append([verdict.model, verdict.task, price, *won_by(verdict, won)])
    heads = ("model", "task", "fewest", "winner", *PRICES, "accuracy", f"against {BASE}")
    return markdown(Table(heads, lines))


def won_by(verdict: Verdict, won: Trial | None) -> list[str | None]:
    """The winner's name, costs, accuracy beside that of one token at a time, and bound."""
    if won is None or verdict.base is None:
        return ["none confirmed" if verdict.trials else "none tried", *[None] * 4]
    base = verdict.base
    return [
        won.sampler,
        *(times(won.measured.price(price), base.price(price)) for price in PRICES),
        f"{percent(won.measured)} ({percent(base)})",
        bound(won.lower),
    ]


TRIED = (
    *("model", "task", "candidate", *PRICES, "accuracy", "newly wrong / right"),
    *(f"against {BASE}", "p (Holm)", "verdict", "the same in the screening"),
)


def tried(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """A row for each candidate that was tried, in order of calls; columns as in TRIED."""
    return [
        [
            verdict.model,
            verdict.task,
            trial.sampler,
            *(f"{trial.measured.price(price):.2f}" for price in PRICES),
            percent(trial.measured),
            f"{trial.newly_wrong} / {trial.newly_right}",
            bound(trial.lower),
            f"{trial.p:.4f}" if trial.p >= 0.0001 else "< .0001",
            "confirmed" if trial.confirmed else "not confirmed",
            some(verdict.others[trial.sampler]),
        ]
        for verdict in verdicts
        for trial in sorted(
            verdict.trials, key=lambda trial: by_cost("calls", trial.sampler, trial.measured)
        )
    ]


def write_tried(verdicts: Sequence[Verdict], file: Path) -> None:
    """Writes the candidates as CSV. Rows of other models stay, so that several runs fill a file."""
    measured = {verdict.model for verdict in verdicts}
    rows = tried(verdicts)
    if file.is_file():
        with file.open(encoding="utf-8", newline="") as stream:
            rows = [row for row in list(csv.reader(stream))[1:] if row[0] not in measured] + rows
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([TRIED, *rows])


def trials_table(verdicts: Sequence[Verdict]) -> str:
    """The candidates that were tried, those that failed in bold."""
    lines: list[list[str | None]] = []
    for row in tried(verdicts):
        cells: list[str | None] = [cell or None for cell in row]
        if row[9] != "confirmed":
            cells[9] = MarkdownText(f"**{row[9]}**")
        lines.append(cells)
    return markdown(Table(TRIED, lines))


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - NAMED
    first = ", ".join(names[:NAMED])
    return f"{first} and {rest} more" if rest > 0 else first


def percent(cell: Measured) -> str:
    return f"{100 * fmean(cell.scores):.1f}"


def times(head: float, base: float) -> str:
    """A mean cost, and how much less than one token at a time it is."""
    if head > base:
        return f"{head:.2f} ({head / base:.1f} times more)"
    return f"{head:.2f} ({base / head:.1f} times fewer)"


def bound(lower: float) -> str:
    """The one-sided bound of the difference in points; its last digit is rounded away from 0."""
    points = -100 * lower
    if points <= 0:
        return "not lower"
    return f"at most {np.ceil(10 * points - 1e-6) / 10:.1f} lower"


# The simulation


EQUAL = {"equal": Known(0.025, 0.025, 1 / 3)}
SCENARIOS = (
    *all_too_bad(),
    Scenario("an equal sampler alone (2.5 % lost, 2.5 % gained)", EQUAL, list(EQUAL)),
    *(
        Scenario(
            f"the same beside {number} cheaper ones that are {100 * lost:g} points worse",
            {**crowd(number, lost, 0.0, 0.3), **EQUAL},
            list(EQUAL),
        )
        for number, lost in ((3, 0.03), (3, 0.06), (20, 0.06), (40, 0.1))
    ),
)


def drawn(
    generator: np.random.Generator, n: int, samplers: Mapping[str, Known]
) -> dict[str, Measured]:
    """A table of answers to n questions. Which of them a sampler loses makes no difference, only
    how many: the first ones.
    """
    right = drawn_right(generator, n, 1)
    changed = drawn_flips(generator, right, n, samplers)[0]  # (S, 2)
    base = np.arange(n) < right[0, 0]  # (n,)
    cells = {BASE: Measured(base.astype(float).tolist(), [60.0] * n, [60.0] * n)}
    for (name, sampler), (lost, gained) in zip(samplers.items(), changed, strict=True):
        scores = base.copy()  # (n,)
        scores[:lost] = False
        scores[right[0, 0] : right[0, 0] + gained] = True
        cost = [60.0 * sampler.cost] * n
        cells[name] = Measured(scores.astype(float).tolist(), cost, cost)
    return cells


def simulated(scenario: Scenario, tables: int, screen: int, confirm: int, seed: int = 0) -> float:
    """The share of tables in which one of the watched samplers is confirmed, by the choice as it
    is made: candidates from the screening, tried on questions drawn anew.
    """
    generator = np.random.default_rng(seed)
    hits = 0
    for _ in range(tables):
        tried = candidates(drawn(generator, screen, scenario.samplers))
        new = drawn(generator, confirm, {name: scenario.samplers[name] for name in tried})
        base = new.pop(BASE)
        done = trials(base, new)
        if any(trial.confirmed and trial.sampler in scenario.watched for trial in done):
            hits += 1
    return hits / tables


def simulation(tables: int, screen: int, confirm: int) -> str:
    """How often the choice confirms a sampler that is 3 points worse, and one that is equal."""
    lines = [
        [scenario.name, f"{100 * simulated(scenario, tables, screen, confirm):.1f}"]
        for scenario in SCENARIOS
    ]
    return markdown(Table([f"{tables:,} tables each", "confirmed in % of them"], lines))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--screen", type=int, default=100, help="questions of the screening")
    parser.add_argument("--confirm", type=int, default=700, help="questions of the confirmation")
    parser.add_argument("--screen-seed", type=int, default=0, help="seed of the screening")
    parser.add_argument("--confirm-seed", type=int, default=1, help="seed of the confirmation")
    parser.add_argument(
        "--model", action="append", help=f"a model; several times for several (default: {MODELS})"
    )
    parser.add_argument(
        "--task", action="append", help=f"a task; several times for several (default: {TASKS})"
    )
    parser.add_argument(
        "--sampler", action="append", help=f"a sampler beside {BASE} (default: all)"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="POLICY", help="a policy to leave out"
    )
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument(
        "--out", type=Path, default=Path("reports/which-sampler"), help="where cells are kept"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="also write the candidates that were tried"
    )
    parser.add_argument(
        "--simulate", type=int, metavar="TABLES", help="simulate the choice on so many tables"
    )
    args = parser.parse_args(arguments)
    if args.screen_seed == args.confirm_seed:
        parser.error(
            f"--screen-seed and --confirm-seed are both {args.screen_seed}; give two seeds, so that"
            " candidates are confirmed on new questions"
        )
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the simulation, or measures and prints the tables: the winners, the candidates that
    were tried, and the screening of each model.
    """
    args = parsed(arguments)
    if args.simulate is not None:
        print(simulation(args.simulate, args.screen, args.confirm))
        return
    screen = Stage("screen", args.screen_seed, args.screen)
    confirm = Stage("confirm", args.confirm_seed, args.confirm)
    both = [questions(name, screen, confirm) for name in args.task or TASKS]
    chosen = samplers(args.without)
    if args.sampler is not None:
        chosen = list(dict.fromkeys([BASE, *(str(resolve(name)) for name in args.sampler)]))
    verdicts = []
    tables = []
    seconds = 0.0
    known = set[str]()
    for name in args.model or MODELS:
        bench = Bench(name, pbcore.load_model(name), args.out, args.batch_size)
        new = chosen
        if name == "ideal-mi":
            new = [sampler for sampler in chosen if sampler == BASE or sampler not in known]
        cells = screened(bench, [first for first, _ in both], new, screen)
        known.update(*cells)
        tables.append(screening_table(name, [short(first.name) for first, _ in both], cells))
        for (_, task), by_task in zip(both, cells, strict=True):
            verdicts.append(confirmed(bench, task, candidates(by_task), confirm))
            measured = [*by_task.values(), verdicts[-1].base]
            measured += [trial.measured for trial in verdicts[-1].trials]
            seconds += sum(cell.seconds for cell in measured if cell is not None)
    if args.csv is not None:
        write_tried(verdicts, args.csv)
    print(*(winners_table(verdicts), trials_table(verdicts), *tables), sep="\n\n")
    print(f"\n{seconds / 60:.0f} minutes of decoding")


if __name__ == "__main__":
    main()
