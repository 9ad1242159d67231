"""The tables of docs/tune.md: `python benches/tune.py`, and with `--simulate 1000`.

For each model a tuning, and then:

- the canvases that it forwarded, against those of all candidates of its list on all its questions;
- the recommended sampler on `--further` more questions a task, which neither race nor proof has
  asked: its bound and how many times fewer it takes;
- the samplers of docs/which-sampler.md on the same questions: those that are faster than the
  recommended one and confirmed to lose no more than the margin. Those that cost over 10 % more than
  it on the first 50 questions a task are not asked the others.

Each model's run folder is in `--out`; the same command resumes an interrupted run. `--simulate`
shows by simulation how often a tuning errs, and runs no model.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.simulation import Known, Scenario, all_too_bad, crowd, simulate
from pbcore.analysis.beside import Beside
from pbcore.base.errors import InputError
from pbcore.base.tabular import Table, Value, markdown
from pbcore.extras.tune.answers import beside_reference, read_round
from pbcore.extras.tune.axis import CostAxis, axis_of
from pbcore.extras.tune.candidates import runnable
from pbcore.extras.tune.picture import picture
from pbcore.extras.tune.proof import Trial, trials
from pbcore.extras.tune.questions import SHARES, proof_questions
from pbcore.extras.tune.report import (
    bound,
    change,
    front_line,
    loss,
    plan_text,
    times,
    write_tuning_report,
)
from pbcore.extras.tune.state import FILE, TuningRequest, TuningState, read_state
from pbcore.extras.tune.tuning import Tuning, Watcher, prepare, run, share_taken
from pbcore.plugin.pytest_runs import read_settings, run_cells
from pbcore.results.rundir import RunDir

TASKS = ("waiting_line/shuffle", "waiting_line/replace_random")
MODELS = ("ideal", "tiny", "tiny-block")
MAX_LOSS = 3.0
FEW = 50  # questions a task that all samplers of the page answer
NEAR = 1.1  # times the recommended one's cost: who costs less is asked all
TRIED = Path("docs/which-sampler.csv")
# On a CPU `tiny` races among these: samplers that ask what-if rows forward ten canvases a call.
SAMPLERS: Mapping[str, Sequence[str]] = {
    "tiny": (
        *("threshold", "eb", "entropy_threshold", "factor", "frechet", "slowfast", "klass"),
        *("confidence", "margin", "localleap", "credit", "less", "hierarchy", "dus"),
        *("eb-0.1+counts", "threshold-0.9+counts", "threshold-0.0+counts+gap2", "spec-8"),
    ),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A tuning and what came of it on further questions: the recommended sampler's trial, and the
    samplers of docs/which-sampler.md that are both faster and confirmed there.
    """

    state: TuningState
    result: Tuning
    further: Trial | None
    better: Sequence[str]
    compared: int


def of_the_page(model: str) -> list[str]:
    """The candidates of a model in docs/which-sampler.csv, each once; those of all models where it
    hasn't this one.
    """
    with TRIED.open(encoding="utf-8", newline="") as stream:
        named = list(csv.DictReader(stream))
    own = [row for row in named if row["model"] == model]
    return list(dict.fromkeys(row["candidate"] for row in own or named))


def measure(model: str, tasks: Sequence[str], args: argparse.Namespace) -> Measured:
    """Tunes a model, or goes on with it, and asks the further questions."""
    out: Path = args.out / model
    words = [word for task in tasks for word in ("--task", task)]
    settings = read_settings(["--model", model, *words])
    if (out / FILE).is_file():
        state = read_state(out)
    else:
        request = TuningRequest(
            model=model,
            samplers=list(args.samplers or SAMPLERS.get(model, ())),
            max_loss=args.max_loss,
            axis=args.axis,
            price=args.price,
            budget=None,
            words=words,
        )
        state, settings = prepare(request)
        (out / "race").mkdir(parents=True, exist_ok=True)
        state.write(out)
    say("\n".join(plan_text(state, 120)))
    request = state.request
    axis = axis_of(state.axis, request.price, model, settings.dtype)
    result = run(state, settings, out, Watcher(say, _after, _silent))
    write_tuning_report(state, result, out)
    picture(state, result).write(out)
    if result.chosen is None:
        return Measured(state, result, None, (), 0)
    begin = sum(state.sizes) + -(-state.need[-1] // len(state.tasks))
    questions = {task: range(begin, begin + args.further) for task in state.tasks}
    if any(known is not None for known in state.known.values()):
        raise InputError("further questions are drawn: choose tasks with a generator")
    page, _ = runnable(settings, state.tasks, of_the_page(model))
    chosen = result.chosen.sampler
    others = [name for name in page if name not in (chosen, state.reference)]
    few = {task: numbers[:FEW] for task, numbers in questions.items()}
    own, rest = _answered(out / "few", model, few, axis, state.reference, [chosen, *others])
    say(f"on {FEW} questions a task: {front_line([own, *rest], state.axis_words)}")
    near = [one.sampler for one in rest if one.cost_share < NEAR * own.cost_share]
    own, rest = _answered(out / "further", model, questions, axis, state.reference, [chosen, *near])
    faster = [one for one in rest if one.cost_share < own.cost_share]
    tried = trials(faster, state.request.margin)
    for one in (trial.paired for trial in tried):
        say(f"{one.sampler}: {times(one.cost_share)}, {change(one)}, p {one.p:.4f}")
    better = [trial.sampler for trial in tried if trial.confirmed]
    [further] = trials([own], state.request.margin)
    return Measured(state, result, further, better, len(others))


def _answered(
    folder: Path,
    model: str,
    questions: Mapping[str, Sequence[int]],
    axis: CostAxis,
    reference: str,
    samplers: Sequence[str],
) -> tuple[Beside, list[Beside]]:
    """The first sampler and the others beside the reference, on questions that a run of this folder
    asks.
    """
    run_cells(folder, ["--model", model], questions, [reference, *samplers], lambda node_id: None)
    after = read_round(RunDir(folder), axis)
    every = [beside_reference(name, reference, [after], axis.name) for name in samplers]
    first, *rest = [one for one in every if one is not None]
    return first, rest


def table(measured: Sequence[Measured]) -> str:
    """A row for each model."""
    rows: list[list[Value]] = []
    for one in measured:
        taken, every = share_taken(one.state, one.result)
        row: list[Value] = [
            one.state.request.model,
            len(one.state.candidates),
            f"{one.state.request.max_loss:g}",
            f"{taken:,.0f} of {every:,.0f} ({100 * taken / every:.0f} %)",
        ]
        if one.further is None:
            rows.append([*row, "none confirmed", *[None] * 4])
            continue
        own = one.further.paired
        better = ", ".join(one.better) or f"none of {one.compared}"
        rows.append([*row, own.sampler, times(own.cost_share), loss(own), bound(own.bound), better])
    heads = (
        *("model", "candidates", "points allowed", "canvases forwarded, of all", "recommended"),
        *(f"fewer {measured[0].state.axis_words}", "loss", "bound"),
        "of which-sampler.md faster and as good",
    )
    return markdown(Table(heads, rows, "lrrrlrrrl"))


def say(text: str) -> None:
    """Progress, apart from the tables."""
    print(text, file=sys.stderr, flush=True)


def _after(name: str, result: Tuning, racing: Sequence[str]) -> None:
    say(f"{name}: {len(result.rounds[-1].cells) - 1} raced, {len(racing)} go on")


def _silent(*about: object) -> None:
    pass


# The simulation

EQUAL = {"equal": Known(0.025, 0.025, 0.5)}


def scenarios() -> list[Scenario]:
    """Fields in which all are exactly 3 points worse, and fields with one equal sampler."""
    every = all_too_bad()
    every.append(Scenario("an equal one alone", EQUAL, ["equal"]))
    for number, lost, gained in ((3, 0.04, 0.01), (20, 0.04, 0.01), (40, 0.04, 0.01)):
        name = f"an equal one beside {number} that are 3 points worse"
        every.append(Scenario(name, {**crowd(number, lost, gained), **EQUAL}, ["equal"]))
    for number, lost in ((20, 0.06), (40, 0.06), (40, 0.1)):
        points = round(100 * lost)
        name = f"an equal one beside {number} that are {points} points worse"
        every.append(Scenario(name, {**crowd(number, lost, 0.0), **EQUAL}, ["equal"]))
    return every


def simulation(races: int) -> str:
    """How often a tuning recommends a sampler that is 3 points worse, and one that is equal."""
    rows = []
    for scenario in scenarios():
        outcome = simulate(scenario.samplers, scenario.watched, races)
        rows.append(
            [
                scenario.name,
                f"{100 * outcome.recommended:.1f}",
                f"{100 * outcome.reached:.1f}",
                f"{100 * outcome.taken:.0f}",
            ]
        )
        say(" ".join(rows[-1]))
    heads = (
        f"{races:,} tunings each, margin 3 points",
        "recommends one of them, %",
        "one reached the proof, %",
        "answers, % of all",
    )
    need = proof_questions(SHARES[0], MAX_LOSS / 100)
    text = markdown(Table(heads, rows, "lrrr"))
    return f"{text}\n\nThe proof has {need:,} questions, the need at 5 % discordant answers."


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    about = f"a model; several times for several (default: {', '.join(MODELS)})"
    parser.add_argument("--model", action="append", help=about)
    about = f"a task; several times for several (default: {', '.join(TASKS)})"
    parser.add_argument("--task", action="append", help=about)
    parser.add_argument("--samplers", action="append", help="as of `pbcore tune` (repeatable)")
    about = f"points that may be lost (default: {MAX_LOSS:g})"
    parser.add_argument("--max-loss", type=float, default=MAX_LOSS, help=about)
    parser.add_argument("--axis", default="calls", help="as of `pbcore tune` (default: calls)")
    parser.add_argument("--price", help="as of `pbcore tune`")
    parser.add_argument("--further", type=int, default=500, help="further questions a task")
    parser.add_argument(
        "--out", type=Path, default=Path("reports/tune"), help="where run folders are kept"
    )
    parser.add_argument("--simulate", type=int, metavar="TUNINGS", help="simulate so many")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the simulation, or tunes the models and prints the table."""
    args = parsed(arguments)
    if args.simulate is not None:
        print(simulation(args.simulate))
        return
    models = args.model or MODELS
    print(table([measure(model, args.task or TASKS, args) for model in models]))


if __name__ == "__main__":
    main()
