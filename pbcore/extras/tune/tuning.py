"""A tuning from its request to its result: plan, rounds, proof."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from pbcore.analysis.answering import answering
from pbcore.analysis.beside import Beside
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.base.rules import Rule, why_not
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import is_static, sampler_of
from pbcore.extras.tune.answers import Round, beside_reference, read_round, standing_of
from pbcore.extras.tune.axis import CostAxis, axis_of
from pbcore.extras.tune.candidates import REFERENCES, field_of, neighbours, runnable
from pbcore.extras.tune.loaded import load_for_race
from pbcore.extras.tune.proof import Trial, recommended, trials
from pbcore.extras.tune.questions import (
    RACING,
    SHARES,
    Split,
    discordance_of,
    kept,
    proof_questions,
    round_sizes,
    split,
)
from pbcore.extras.tune.race import FINALISTS, Cut, cut
from pbcore.extras.tune.state import TuningRequest, TuningRun, TuningState
from pbcore.grid.capabilities import Capabilities, is_served
from pbcore.grid.cost import forward_bounds
from pbcore.grid.needs import Use, acts
from pbcore.grid.plan import Plan, make_plan, masked_tokens
from pbcore.grid.settings import Settings
from pbcore.models.shape import known_shape
from pbcore.names import parse
from pbcore.plugin.pytest_runs import read_settings, run_cells
from pbcore.report.rerun import recorded_command
from pbcore.results.rundir import RunDir
from pbcore.tasks import task_spec

LEAST_COST = 1e-6  # USD
SPARE = 12  # questions of a task, for rounding
NEWCOMERS = 4  # neighbours that join after a round
FRONT = 16  # samplers left, from which on neighbours join
LEAST_RACE = 100  # questions of a race, over all tasks, which a budget doesn't make smaller
SEEN = 40  # samples of a task whose length is looked at
LEAST_PROOF = 100  # questions of a proof, below which a budget is too small


@dataclass(frozen=True, slots=True)
class Left:
    """A sampler that left: after which round, why, and where it stood (None: it failed)."""

    sampler: str
    round: int
    reason: str
    paired: Beside | None


@dataclass(slots=True)
class Tuning:
    """What came of a tuning: who left, how those that stood in the last round stand, and the trials
    of the proof. `rounds` are the runs of the race, `proof` that of the proof. `why_not` says why
    there was no race.
    """

    left: list[Left] = field(default_factory=list)
    standing: list[Beside] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    proof: Round | None = None
    why_not: str = ""

    @property
    def chosen(self) -> Trial | None:
        return recommended(self.trials)


@dataclass(frozen=True, slots=True)
class Watcher:
    """What is told while a tuning runs: a line; how far the present run is (name, cells done, cells
    in all); and a round that is done (name, result so far, who goes on).
    """

    line: Callable[[str], None]
    round: Callable[[str, Tuning, Sequence[str]], None]
    progress: Callable[[str, int, int], None]


def prepare(request: TuningRequest) -> tuple[TuningState, Settings]:
    """The plan of a tuning: its samplers, rounds and questions. Nothing is run.

    Raises:
        InputError: what the user asked for does not exist or can't be done.
    """
    settings = read_settings(["--model", request.model, *request.words])
    why = why_not(RULES, settings)
    if why is not None:
        raise InputError(why)
    tasks, tokens = _tasks(settings)
    chosen = field_of(settings, tasks, sorted(tokens), request.samplers)
    loaded = load_for_race(settings, tasks, [chosen.reference, *chosen.candidates])
    candidates = [name for name in chosen.candidates if name not in loaded.refused]
    left_out = dict(chosen.left_out)
    for name, reason in loaded.refused.items():
        if name == chosen.reference:
            raise InputError(f"{request.model} can't run {name}, the reference: {reason}")
        left_out[reason] = left_out.get(reason, 0) + 1
    if not candidates:
        why = next(iter(loaded.refused.values()))
        raise InputError(f"{request.model} can run none of the samplers to choose from: {why}")
    _check_budget(request, tokens, len(tasks), loaded.row_seconds)
    need = [proof_questions(share, request.margin) for share in SHARES]
    sizes = round_sizes(len(candidates), len(tasks), need[0])
    known = _known(settings, tasks, need[0] + need[-1] + SPARE * len(tasks))
    _check_enough(known, len(sizes))
    axis, note = _axis(request, settings)
    state = TuningState(
        request=request,
        reference=chosen.reference,
        candidates=candidates,
        tasks=tasks,
        left_out=left_out,
        tokens=fmean(tokens.elements()),
        sizes=sizes,
        need=need,
        known=known,
        row_seconds=loaded.row_seconds,
        axis=axis.name,
        axis_words=axis.words,
        axis_note=note,
        axis_assumed="" if axis.prices is None else axis.prices.assumed(map(parse, candidates)),
    )
    _fit(state)
    return state, settings


def _check_budget(
    request: TuningRequest, tokens: Counter[int], tasks: int, row_seconds: float | None
) -> None:
    """Raises InputError for a budget that doesn't hold the least: a question of each task one token
    at a time, and a proof of 100 questions. It is known at once, before questions are drawn.
    """
    if request.budget is None or row_seconds is None:
        return
    questions = tasks + LEAST_PROOF * (FINALISTS + 1)
    least = questions * fmean(tokens.elements()) * row_seconds
    if least > request.budget:
        raise _too_small(request.budget, f"takes at least {least:.0f} s")


def _too_small(budget: float, takes: str) -> InputError:
    return InputError(
        f"--budget {budget:.0f}s: a first round with a proof of {LEAST_PROOF} questions {takes};"
        " give more, or fewer --samplers or --task"
    )


def _axis(request: TuningRequest, settings: Settings) -> tuple[CostAxis, str]:
    """The axis, and why it is calls where the user has named none. Raises InputError for prices
    that can't be had.
    """
    model = request.model
    if request.price is not None and request.axis not in (None, "seconds"):
        raise InputError(f"--price gives seconds, and --axis {request.axis} needs none; drop one")
    name = request.axis or "seconds"
    if request.axis is None and request.price is None:
        if Capabilities(model).entry.served or known_shape(model) is None:
            name = "calls"  # of a server, or of a model that has no forwards to measure
        else:
            try:
                return axis_of(name, None, model, settings.dtype, settings.rows or 1), ""
            except InputError as error:
                return axis_of("calls", None, model, None), str(error)
    return axis_of(name, request.price, model, settings.dtype, settings.rows or 1), ""


def _set_here(field: str, instead: str = "") -> Rule[Settings]:
    """Refuses an option that a tuning sets itself."""
    option = f"--{field.replace('_', '-')}"
    return Rule(
        lambda s: getattr(s, field),
        f"{option}: a tuning sets it itself; leave it out{instead}",
    )


# Models that have no samplers to choose from, and options that a tuning doesn't have.
RULES: tuple[Rule[Settings], ...] = (
    Rule(lambda s: len(s.model) > 1, "tune one model at a time: leave further --model out"),
    Rule(
        lambda s: not is_served(s.model[0]) and Capabilities(s.model[0]).own_samplers,
        lambda s: (
            f"{s.model[0]} decodes by itself"
            f" ({', '.join(Capabilities(s.model[0]).own_samplers[:3])}), so it has no sampler to"
            " choose; tune a masked or a block model, or a server with sampler_fields"
        ),
    ),
    _set_here("sampler", "; choose among samplers by --samplers"),
    *map(_set_here, ("limit", "questions", "sample", "preset", "shard", "factor")),
    *map(_set_here, ("per_sample", "estimate")),
    Rule(
        lambda s: s.gated,
        "a tuning is not judged by gates, floors or baselines; leave them out",
    ),
)


def _tasks(settings: Settings) -> tuple[list[str], Counter[int]]:
    """The tasks that the model can run, and how many masked tokens their answers have."""
    plan = make_plan(replace(settings, sampler=REFERENCES))
    runs = [cell.task for cell, reason in plan.combinations if reason is None]
    tasks = list(dict.fromkeys(runs))
    reasons = {cell.task: reason for cell, reason in plan.combinations if reason is not None}
    missing = [task for task in plan.tasks if task not in tasks and task in reasons]
    if missing and (settings.task or not tasks):
        raise InputError(f"{settings.model[0]} can't run {missing[0]}: {reasons[missing[0]]}")
    tokens: Counter[int] = Counter()
    for task in tasks:
        samples = plan.task(task, settings.model[0]).samples[:SEEN]
        tokens.update(max(1, masked_tokens(sample)) for sample in samples)
    return tasks, tokens


def _known(settings: Settings, tasks: Sequence[str], wanted: int) -> dict[str, list[int] | None]:
    """Task → the numbers of its questions; None where at least as many as wanted can be drawn."""
    known: dict[str, list[int] | None] = {}
    for task in tasks:
        generator = task_spec(task).generator
        if generator is None or settings.data_dir is not None:
            whole = make_plan(replace(settings, task=(task,), sampler=(), limit=10**6))
            known[task] = [sample.index for sample in whole.task(task).samples]
            continue
        number = make_plan(replace(settings, task=(task,), sampler=())).drawn(task, wanted)
        known[task] = None if number >= wanted else list(range(number))
    return known


def _check_enough(known: Mapping[str, Sequence[int] | None], rounds: int) -> None:
    """Raises InputError for data that end before each round has a question."""
    least = max(2, math.ceil(rounds / RACING))
    for task, numbers in known.items():
        if numbers is not None and len(numbers) < least:
            raise InputError(
                f"{task} has {counted(len(numbers), 'question')}: a tuning of"
                f" {counted(rounds, 'round')} needs at least {least}, a third of them for the race;"
                " add questions, or leave the task out"
            )


def parts_of(state: TuningState) -> Split:
    """The questions of the rounds, and at most those of the proof."""
    return split(state.sizes, _per_task(state.need[-1], state.tasks), state.known)


def questions_of_rounds(state: TuningState) -> list[int]:
    """How many questions each round has, over all tasks."""
    return [sum(map(len, part.values())) for part in parts_of(state).rounds]


def questions_for_proof(state: TuningState) -> int:
    """How many questions the data hold for the proof, over all tasks, at most the need."""
    return min(state.need[-1], sum(map(len, parts_of(state).proof.values())))


def expected_rows(state: TuningState, samplers: Sequence[str]) -> float:
    """About how many canvases the samplers forward for one question: a fixed number where the rule
    says it, else the geometric mean of the bounds.
    """
    tokens = round(state.tokens)
    return sum(min(forward_bounds(sampler_of(name), tokens).guess, 2 * tokens) for name in samplers)


def race_rows(state: TuningState) -> float:
    """About how many canvases the race forwards, the reference's included."""
    total = 0.0
    share = expected_rows(state, state.candidates) / len(state.candidates)
    left = [len(state.candidates), *kept(len(state.candidates))]
    for questions, number in zip(questions_of_rounds(state), left, strict=False):
        total += questions * (number * share + state.tokens)
    return total


def proof_rows(state: TuningState, questions: int) -> float:
    """At most so many canvases does a proof of so many questions forward."""
    return questions * state.tokens * (FINALISTS + 1)


def _fit(state: TuningState) -> None:
    """Makes race and proof smaller where the budget needs it. Raises InputError for a budget that
    doesn't hold a first round and a proof of 100 questions.
    """
    budget = state.request.budget
    if budget is None or state.row_seconds is None:
        return
    tasks = len(state.tasks)
    least = LEAST_RACE
    while True:
        race = race_rows(state) * state.row_seconds
        proof = proof_rows(state, state.need[0]) * state.row_seconds
        smaller = [max(1, size // 2) for size in state.sizes]
        if race <= max(budget - proof, budget / 2) or smaller == state.sizes:
            break
        if sum(smaller) * tasks < least:
            break
        state.sizes = smaller
    first = race_rows(replace(state, sizes=state.sizes[:1])) * state.row_seconds
    needed = first + proof_rows(state, LEAST_PROOF) * state.row_seconds
    if needed > budget:
        raise _too_small(budget, f"takes about {needed:.0f} s")


def questions_in(state: TuningState, seconds: float) -> int:
    """How many questions of a proof fit in so many seconds, at most those at 10 % discordance that
    the data hold.
    """
    most = questions_for_proof(state)
    if state.row_seconds is None:
        return most
    return min(most, int(seconds / (proof_rows(state, 1) * state.row_seconds)))


def run(state: TuningState, settings: Settings, out: Path, watcher: Watcher) -> Tuning:
    """Runs what is left of a tuning.

    Args:
        state: its plan, and what is done; written to tune.json as it changes.
        settings: those of its runs.
        out: the run folder of the proof, in which `race/1`, `race/2` … have the rounds.
        watcher: what is told meanwhile.

    Raises:
        InputError: a run that can't begin or lacks a score.
    """
    request = state.request
    axis = axis_of(state.axis, request.price, request.model, settings.dtype, settings.rows or 1)
    parts = parts_of(state)
    result = Tuning()
    racing = _race(state, settings, out, parts, result, axis, watcher)
    if state.proof is not None:
        racing = state.proof.samplers
    if racing and not result.why_not:
        _prove(state, settings, out, parts, racing, result, axis, watcher)
    return result


def _race(
    state: TuningState,
    settings: Settings,
    out: Path,
    parts: Split,
    result: Tuning,
    axis: CostAxis,
    watcher: Watcher,
) -> list[str]:
    """Runs the rounds; the samplers that go to the proof."""
    racing = list(state.candidates)
    raced = set(racing)
    keeps = kept(len(state.candidates))
    for number in range(len(state.sizes)):
        if number == len(state.rounds):
            if state.proof is not None or _too_late(state, number, len(racing)):
                watcher.line("the budget ends the race: those in front go to the proof")
                outcome = _outcome(state, result, result.standing, FINALISTS, last=True)
                racing = _note(result, result.standing, number, outcome)
                break
            state.rounds.append(TuningRun(racing))
            state.write(out)
        racing = state.rounds[number].samplers
        raced.update(racing)
        name = f"round {number + 1} of {len(state.sizes)}"
        folder = out / "race" / str(number + 1)
        if number == 0:
            questions = parts.rounds[0]
            result.why_not = _too_weak(state, settings, out, folder, questions, axis, watcher)
            if result.why_not:
                return []
        state.rounds[number] = _measure(
            state, settings, out, folder, parts.rounds[number], state.rounds[number], name, watcher
        )
        state.write(out)
        result.rounds.append(read_round(RunDir(folder), axis))
        last = number + 1 == len(state.sizes)
        standing = _standing(state, result, racing, number + 1, axis)
        outcome = _outcome(state, result, standing, keeps[number], last=last)
        new: list[str] = []
        if not last and len(outcome.stay) <= FRONT:
            new = _newcomers(settings, state, outcome.stay, raced)
        racing = [*_note(result, standing, number + 1, outcome), *new]
        watcher.round(name, result, racing)
        if len(racing) <= 1:
            break  # further rounds have nothing to decide
    return racing


def _too_weak(
    state: TuningState,
    settings: Settings,
    out: Path,
    folder: Path,
    questions: Mapping[str, Sequence[int]],
    axis: CostAxis,
    watcher: Watcher,
) -> str:
    """Why there is nothing to tune, where the reference answers too little: it answers the
    questions of the first round before all others. Empty where it answers enough.
    """
    if state.rounds[0].seconds is None:
        alone = TuningRun([])
        _measure(state, settings, out, folder, questions, alone, "the reference", watcher)
    run_ = RunDir(folder)
    of_reference = read_round(run_, axis).cells.get(state.reference, {})
    scores = [list(cell.scores.values()) for cell in of_reference.values()]
    if not scores:
        return ""  # it failed, which the round says
    answers = answering(scores, state.request.max_loss)
    if answers.enough:
        return ""
    cell = min(of_reference.values(), key=lambda answers: fmean(answers.scores.values()))
    question = min(cell.scores, key=lambda index: cell.scores[index])
    look = recorded_command(cell.cell, run_.read_run(), question)
    return f"no race: {state.reference} {answers.text}; see an answer: {look}"


def _per_task(questions: int, tasks: Sequence[str]) -> int:
    return math.ceil(questions / len(tasks))


def _measure(
    state: TuningState,
    settings: Settings,
    out: Path,
    folder: Path,
    questions: Mapping[str, Sequence[int]],
    run_: TuningRun,
    name: str,
    watcher: Watcher,
) -> TuningRun:
    """Runs a round or the proof into its folder, unless it is done; returns it with its seconds."""
    if run_.seconds is not None:
        return run_
    questions = {task: numbers for task, numbers in questions.items() if numbers}
    samplers = [state.reference, *run_.samplers]
    cells = len(samplers) * len(questions)
    finished = 0

    def done(node_id: str) -> None:
        nonlocal finished
        finished += 1
        watcher.progress(name, finished, cells)

    watcher.progress(name, 0, cells)
    words = ["--model", state.request.model, *_words(state, settings, samplers, out, folder)]
    begun = time.monotonic()
    run_cells(folder, words, questions, samplers, done)
    return replace(run_, seconds=round(time.monotonic() - begun, 1))


def _words(
    state: TuningState, settings: Settings, samplers: Sequence[str], out: Path, folder: Path
) -> list[str]:
    """The options of a run: the user's, the loss that its page allows, and shared forwards where
    the model can share them.
    """
    words = [*state.request.words, "--max-loss", f"{state.request.max_loss:g}"]
    if state.axis == "seconds" and state.request.price is not None:
        words += ["--price", state.request.price]
    words = _within_cost(words, out, folder)
    if settings.share_forwards is None and settings.rounds == 1:
        plan: Plan = make_plan(
            replace(settings, sampler=tuple(samplers), task=tuple(state.tasks[:1]))
        )
        if any(acts("share_forwards", Use.of(settings, cell)) for cell in plan.items.values()):
            words.append("--share-forwards")
    return words


def _within_cost(words: Sequence[str], out: Path, folder: Path) -> list[str]:
    """The options with what the tuning's other runs have left of `--max-cost`. Raises InputError
    where nothing is left.
    """
    words = list(words)
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if option not in ("--max-cost", "--pbcore-max-cost"):
            continue
        alone = not value
        value = value or words[place + 1]
        runs = [run for run in (out, *sorted((out / "race").glob("[0-9]*"))) if run != folder]
        spent = sum(cost for run in runs for cost in _costs(run))
        left = float(value) - spent
        if left < LEAST_COST:
            raise InputError(
                f"--max-cost {value}: {spent:.4f} USD are spent; start anew with more by --out"
            )
        if alone:
            words[place + 1] = f"{left:.9f}"
        else:
            words[place] = f"{option}={left:.9f}"
    return words


def _costs(folder: Path) -> Iterator[float]:
    """What the cells of a run cost, as far as that is known."""
    for stored in RunDir(folder).read_cells():
        part = stored.cell.served
        cost = part.get("cost") if isinstance(part, dict) else getattr(part, "cost", None)
        if cost is not None:
            yield cost


def _standing(
    state: TuningState, result: Tuning, racing: Sequence[str], number: int, axis: CostAxis
) -> list[Beside]:
    """How those that ran round `number` stand; notes which of them failed."""
    failed = result.rounds[-1].failed
    if state.reference in failed:
        raise InputError(f"the reference {state.reference} failed: {failed[state.reference]}")
    standing = []
    for sampler in racing:
        own = None
        if sampler not in failed:
            own = beside_reference(sampler, state.reference, result.rounds, axis.name)
        if own is None:
            reason = f"it failed: {failed.get(sampler, 'it has no answers')}"
            result.left.append(Left(sampler, number, reason, None))
        else:
            standing.append(own)
    return standing


def _outcome(
    state: TuningState, result: Tuning, standing: Sequence[Beside], keep: int, *, last: bool
) -> Cut:
    """Who goes on of those that stand so, and who leaves."""
    margin = state.request.margin
    standings = [standing_of(own, state.reference, result.rounds, margin) for own in standing]
    return cut(standings, keep, margin, state.need[0], last)


def _note(result: Tuning, standing: Sequence[Beside], number: int, outcome: Cut) -> list[str]:
    """Notes who left after round `number`, and how the others stand; returns those that go on."""
    by_sampler = {beside.sampler: beside for beside in standing}
    for sampler, reason in outcome.left.items():
        result.left.append(Left(sampler, number, reason, by_sampler[sampler]))
    result.standing = [by_sampler[sampler] for sampler in outcome.stay]
    return list(outcome.stay)


def _newcomers(
    settings: Settings, state: TuningState, racing: Sequence[str], raced: set[str]
) -> list[str]:
    """The neighbours of those in front that the model can run, the fastest sampler's first."""
    names = [name for sampler in racing for name in neighbours(sampler, raced)]
    # Steps that don't come out even fail on a served model.
    if Capabilities(state.request.model).entry.served:
        names = [name for name in names if not is_static(policies()[parse(name).policy])]
    if not names:
        return []
    runs, _ = runnable(settings, state.tasks, list(dict.fromkeys(names)))
    return runs[:NEWCOMERS]


def _too_late(state: TuningState, number: int, racing: int) -> bool:
    """Whether the budget lacks the time of the next round and of a proof, at the pace so far."""
    budget = state.request.budget
    if budget is None or not number:
        return False
    spent = sum(done.seconds or 0.0 for done in state.rounds)
    questions = questions_of_rounds(state)
    answers = sum(
        size * (len(done.samplers) + 1) for size, done in zip(questions, state.rounds, strict=False)
    )
    pace = spent / answers  # seconds of an answer
    following = pace * questions[number] * (racing + 1)
    proof = pace * LEAST_PROOF * (FINALISTS + 1)
    return spent + following + proof > budget


def _prove(
    state: TuningState,
    settings: Settings,
    out: Path,
    parts: Split,
    racing: Sequence[str],
    result: Tuning,
    axis: CostAxis,
    watcher: Watcher,
) -> None:
    """The proof: as many questions as the race's discordant answers ask for, between those at 5 and
    at 10 %, and as the budget holds.
    """
    if state.proof is None:
        state.proof = TuningRun(list(racing))
        state.proof_size = _proof_size(state, result)
        state.write(out)
    assert state.proof_size is not None
    size = _per_task(state.proof_size, state.tasks)
    questions = {task: numbers[:size] for task, numbers in parts.proof.items()}
    state.proof = _measure(state, settings, out, out, questions, state.proof, "proof", watcher)
    state.write(out)
    result.proof = read_round(RunDir(out), axis)
    tried = [
        beside_reference(name, state.reference, [result.proof], axis.name)
        for name in state.proof.samplers
    ]
    result.trials = trials([one for one in tried if one is not None], state.request.margin)


def _proof_size(state: TuningState, result: Tuning) -> int:
    """How many questions the proof has, over all tasks."""
    wanted = state.need[0]
    if result.standing:
        sure = min(one.discordance for one in result.standing)
        share = min(max(sure, SHARES[0]), SHARES[-1])
        wanted = proof_questions(share, state.request.margin, len(result.standing))
    budget = state.request.budget
    if budget is None:
        return wanted
    spent = sum(done.seconds or 0.0 for done in state.rounds)
    pace = _proof_pace(state)
    if pace is None:
        return min(wanted, questions_in(state, budget))
    return max(LEAST_PROOF, min(wanted, int((budget - spent) / pace)))


def _proof_pace(state: TuningState) -> float | None:
    """Seconds of a question in the proof, by the pace of the last round; None without rounds."""
    if not state.rounds or state.rounds[-1].seconds is None:
        return None
    done = state.rounds[-1]
    size = questions_of_rounds(state)[len(state.rounds) - 1]
    return (done.seconds or 0.0) / size * (FINALISTS + 1) / (len(done.samplers) + 1)


def share_taken(state: TuningState, result: Tuning) -> tuple[float, float]:
    """The forwards that were taken, and those of all candidates of the list on all questions. Of a
    sampler that left early the mean of the answers that it gave counts for all questions.
    """
    runs = list(result.rounds)
    if result.proof is not None:
        runs.append(result.proof)
    questions = 0
    taken = 0.0
    means: dict[str, tuple[float, int]] = {}
    for run in runs:
        base = run.cells.get(state.reference, {})
        questions += sum(len(cell.scores) for cell in base.values())
        for sampler, tasks in run.cells.items():
            for cell in tasks.values():
                rows = (cell.mean_cost("rows") or 0.0) * len(cell.scores)
                taken += rows
                total, number = means.get(sampler, (0.0, 0))
                means[sampler] = (total + rows, number + len(cell.scores))
    listed = [name for name in (state.reference, *state.candidates) if name in means]
    every = sum(means[name][0] / means[name][1] * questions for name in listed)
    return taken, every


def discordance_held(state: TuningState, questions: int) -> float:
    """The share of discordant answers up to which a proof of so many questions is enough."""
    return discordance_of(questions, state.request.margin)
