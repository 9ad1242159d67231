"""How well `pbcore check engine` finds and names deviations: `python -m benches.engine_deviations
[--family NAME …] [--seeds N] [--out FILE]` makes each family's material and prints

- seconds to make it and to check the example engine on it, and its false faults in float32,
  bfloat16 and float16, of all answers;
- for each deviation that a family can have, how often the example engine with it is found, and how
  often the check's last line names it; `alone`: names nothing else; `cases`: how many of the cases
  at fault it is named in.

With --out a family's numbers are kept in a file as soon as they are there, and not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from pbcore.base.tabular import Table, Value, markdown
from pbcore.extras.check.engine.deviations import DEVIATIONS, LONGEST, CaseInput
from pbcore.extras.check.engine.judge import CaseResult
from pbcore.extras.check.engine.make import families, make
from pbcore.extras.check.engine.material import Material
from pbcore.extras.check.engine.report import fitting
from pbcore.extras.check.engine.run import Checker
from pbcore.models import load_model
from tests.extras.check.engine.plain import Plain, dtype, wrong

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(slots=True)
class Trial:
    """The example engine with a deviation, on the material of a family and a seed."""

    family: str
    seed: int
    name: str
    found: bool
    names: list[str]
    faults: int
    cases: int  # of the faults in which the deviation is named


@dataclass(slots=True)
class Measured:
    """A family's material of a seed. `wrong` are answers of a right engine that aren't equal."""

    family: str
    seed: int
    cases: int
    answers: int
    make: tuple[float, float]  # wall and CPU seconds
    check: tuple[float, float]
    wrong: dict[str, int] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints both tables; exit status 1 for a false fault, or a deviation that isn't found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", nargs="+", metavar="NAME", help="only these families")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1 (1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keeps what is measured")
    arguments = parser.parse_args(argv)
    all_measured = []
    for family in families(arguments.family):
        for seed in range(arguments.seeds):
            all_measured.append(_kept(arguments.out, family, seed))
    print(markdown(table_of_families(all_measured)))
    trials = [trial for each in all_measured for trial in each.trials]
    print(f"\n{markdown(table_of_deviations(trials))}")
    for trial in trials:
        if trial.name not in trial.names:
            told = " or ".join(trial.names) or "not found"
            print(f"\n{trial.family}, seed {trial.seed}, {trial.name}: {told}", end="")
    print()
    false = sum(count for each in all_measured for count in each.wrong.values())
    return int(false > 0 or not all(trial.found for trial in trials))


def _kept(file: Path | None, family: str, seed: int) -> Measured:
    """What a file has of a family, or else measures it."""
    rows: list[Any] = []
    if file is not None and file.is_file():
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if (row["family"], row["seed"]) == (family, seed):
            return Measured(**{**row, "trials": [Trial(**trial) for trial in row["trials"]]})
    print(f"{family}, seed {seed} …", file=sys.stderr, flush=True)
    measured = measure(family, seed)
    if file is not None:
        with file.open("a", encoding="utf-8") as kept:
            kept.write(json.dumps(asdict(measured)) + "\n")
    return measured


def measure(family: str, seed: int, names: Sequence[str] | None = None) -> Measured:
    """A family's numbers.

    Args:
        family: its name.
        seed: of weights and prompts.
        names: deviations that are tried; None: all that the family can have.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        begun = _clock()
        material = make(path, family, seed)
        made = _since(begun)
        begun = _clock()
        answers = sum(result.of for result in _results(path, material))
        measured = Measured(family, seed, len(material.cases), answers, made, _since(begun))
        for kind in DTYPES:
            with dtype(kind):
                measured.wrong[str(kind)] = sum(
                    result.of - result.equal
                    for result in _results(path, material)
                    if result.verdict != "not tried"
                )
        for name in possible(path, material) if names is None else names:
            with wrong(name):
                measured.trials.append(_trial(material, name, _results(path, material)))
    return measured


def _clock() -> tuple[float, float]:
    """Wall and CPU seconds so far."""
    times = os.times()
    return perf_counter(), times.user + times.system


def _since(before: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = _clock()
    return wall - before[0], cpu - before[1]


def _results(folder: Path, material: Material) -> list[CaseResult]:
    checker = Checker(folder, material, Plain())
    return [checker.result(case) for case in material.cases]


def possible(folder: Path, material: Material) -> list[str]:
    """The deviations that some case of a material can have."""
    options: dict[str, Any] = {} if material.block is None else {"block": material.block}
    model: Any = load_model(str(folder), "cpu", "float32", **options)
    asked = [
        CaseInput(model, case.setting, [row.prompt for row in case.rows]) for case in material.cases
    ]
    names = [name for name, make in DEVIATIONS.items() if any(make(each) for each in asked)]
    return [*names, LONGEST]


def _trial(material: Material, name: str, results: Sequence[CaseResult]) -> Trial:
    faults = [result for result in results if result.verdict == "fault" and result.diagnosis]
    named = sum(name in result.diagnosis for result in faults)
    names = fitting(faults) if faults else []
    found = any(result.verdict in ("fault", "failed") for result in results)
    return Trial(material.family, material.seed, name, found, names, len(faults), named)


def table_of_families(all_measured: Sequence[Measured]) -> Table:
    """A row per family: material, seconds (the most of all seeds), false faults."""
    rows: list[list[Value]] = []
    for family in dict.fromkeys(each.family for each in all_measured):
        own = [each for each in all_measured if each.family == family]
        seconds = [max(times) for times in zip(*((*e.make, *e.check) for e in own), strict=True)]
        answers = sum(each.answers for each in own)
        false = [sum(each.wrong[str(kind)] for each in own) for kind in DTYPES]
        trials = [trial for each in own for trial in each.trials]
        found = sum(trial.found for trial in trials)
        rows.append(
            [
                family,
                sum(each.cases for each in own),
                answers,
                *(f"{number:.1f}" for number in seconds),
                *false,
                f"{found} of {len(trials)}",
                sum(trial.name in trial.names for trial in trials),
            ]
        )
    heads = ["family", "cases", "answers", "make s", "CPU s", "check s", "CPU s"]
    heads += ["false float32", "bfloat16", "float16", "found", "named"]
    return Table(heads, rows, "lrrrrrrrrrrr")


def table_of_deviations(trials: Sequence[Trial]) -> Table:
    """A row per deviation: how often it is found and named."""
    rows: list[list[Value]] = []
    tried = Counter(trial.name for trial in trials)
    for name, count in tried.items():
        own = [trial for trial in trials if trial.name == name]
        rows.append(
            [
                name,
                count,
                sum(trial.found for trial in own),
                sum(name in trial.names for trial in own),
                sum(trial.names == [name] for trial in own),
                f"{sum(trial.cases for trial in own)} of {sum(trial.faults for trial in own)}",
            ]
        )
    return Table(["deviation", "tried", "found", "named", "alone", "cases"], rows, "lrrrrr")


if __name__ == "__main__":
    sys.exit(main())
