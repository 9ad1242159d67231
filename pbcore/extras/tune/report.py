"""What a tuning prints and writes: its plan, the front while it runs, the report, tuned.yaml."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pbcore.analysis.beside import Beside
from pbcore.analysis.further import has_only, too_few
from pbcore.base.printable import counted, duration, printable
from pbcore.base.registry import Registry
from pbcore.base.tabular import Code, Table, Value, markdown
from pbcore.base.text import folded
from pbcore.extras.tune.proof import Trial
from pbcore.extras.tune.questions import RACING, SHARES, proof_questions
from pbcore.extras.tune.race import front
from pbcore.extras.tune.state import FILE, TuningState
from pbcore.extras.tune.tuning import (
    Left,
    Tuning,
    discordance_held,
    parts_of,
    proof_rows,
    questions_for_proof,
    questions_in,
    race_rows,
    share_taken,
)
from pbcore.models import resolve_model
from pbcore.models.families import block_of
from pbcore.names import SamplerName, parse
from pbcore.results.rundir import write_atomic
from pbcore.tasks.naming import short

REPORT = "tune.md"
PRESET = "tuned.yaml"
# What sets a sampler on a server: lines for a reader, from model, sampler and tokens of an answer.
ON_SERVERS: Registry[Callable[[str, SamplerName, int], list[str]]] = Registry(
    "writer for servers", "pbcore.on_servers"
)
SHOWN = 4  # samplers of a front in a line
REASONS = 4  # why samplers were left out, in the plan


def plan_text(state: TuningState, width: int) -> list[str]:
    """What is about to run: the candidates, what the proof needs, and whether the budget holds
    it.
    """
    request = state.request
    tasks = ", ".join(short(task) for task in state.tasks)
    lines = [
        f"{request.model}: {counted(len(state.candidates), 'candidate')} against"
        f" {state.reference} on {counted(len(state.tasks), 'task')} ({tasks}); at most"
        f" {request.max_loss:g} points may be lost",
        *folded("  " + " ".join(state.candidates), width),
    ]
    if state.axis_note:
        why = state.axis_note.removeprefix("--price here: ")
        lines += folded(f"what is to be small: calls; seconds need prices, and {why}", width)
    else:
        lines.append(f"what is to be small: {state.axis_words}")
    if state.axis_assumed:
        lines += folded(state.axis_assumed, width)
    lines += _left_out(state, width)
    if state.sizes:
        lines += folded(
            f"race: {counted(len(state.sizes), 'round')} of {_sizes(state)}; about"
            f" {race_rows(state):,.0f} forwards{_time(state, race_rows(state))}",
            width,
        )
    else:
        lines.append("no race: all candidates go to the proof")
    for share, need in zip(SHARES, state.need, strict=True):
        rows = proof_rows(state, need)
        lines += folded(
            f"proof at {100 * share:.0f} % discordant answers: {counted(need, 'question')}, at"
            f" most {rows:,.0f} forwards{_time(state, rows)}",
            width,
        )
    lines += _ended(state, width)
    if request.budget is not None:
        lines += folded(_budget(state, request.budget), width)
    return lines


def _sizes(state: TuningState) -> str:
    """How many questions the rounds have: of each task where all have the same number."""
    # Per round: how many questions of each task.
    rounds = []
    for questions in parts_of(state).rounds:
        rounds.append([len(numbers) for numbers in questions.values()])
    if all(len(set(counts)) == 1 for counts in rounds):
        return f"{', '.join(str(counts[0]) for counts in rounds)} questions a task"
    return f"{', '.join(str(sum(counts)) for counts in rounds)} questions over all tasks"


def _ended(state: TuningState, width: int) -> list[str]:
    """How data that end are split, and whether they are enough for a proof."""
    parts = parts_of(state)
    lines: list[str] = []
    for task, known in state.known.items():
        if known is not None:
            racing = sum(len(part[task]) for part in parts.rounds)
            lines.append(
                f"{short(task)} has {counted(len(known), 'question')}: {racing} for the race,"
                f" {len(known) - racing} for the proof"
            )
    held = questions_for_proof(state)
    if lines and held < state.need[-1]:
        text = f"these data hold a proof of {counted(held, 'question')}, {_held(state, held)}"
        lines += folded(text, width)
    return lines


def _held(state: TuningState, questions: int) -> str:
    """Up to which share of discordant answers so many questions are enough."""
    share = discordance_held(state, questions)
    if share:
        return f"enough up to {100 * share:.1f} % discordant answers"
    least = proof_questions(0.0, state.request.margin)
    return (
        f"too few for {state.request.max_loss:g} points even if no answer differs ({least:,} would"
        " do): nothing is likely to be confirmed"
    )


def _left_out(state: TuningState, width: int) -> list[str]:
    """Which samplers the model can't run: the most frequent reasons, and how many have others."""
    reasons = sorted(state.left_out.items(), key=lambda item: -item[1])
    lines: list[str] = []
    for reason, number in reasons[:REASONS]:
        lines += folded(f"  left out: {counted(number, 'sampler')}: {reason}", width)
    others = sum(number for _, number in reasons[REASONS:])
    if others:
        lines.append(f"  left out: {others} more, for reasons in {FILE}")
    return lines


def _time(state: TuningState, rows: float) -> str:
    if state.row_seconds is None:
        return ""
    return f", about {duration(rows * state.row_seconds)} here"


def _budget(state: TuningState, budget: float) -> str:
    """Whether the budget holds the proof."""
    if state.row_seconds is None:
        return f"budget {duration(budget)}: the pace of this server is not known yet"
    left = budget - race_rows(state) * state.row_seconds
    held = questions_in(state, left)
    if held >= questions_for_proof(state):
        whole = "the proof at 10 % discordant answers"
        if held < state.need[-1]:
            whole = "the proof that these data hold"
        return f"budget {duration(budget)}: it holds {whole}"
    return (
        f"budget {duration(budget)}: it holds {counted(max(0, held), 'question')} of the proof,"
        f" {_held(state, held)}"
    )


def why_left(left: Sequence[Left]) -> str:
    """Why samplers left, the most frequent reason first: `5 shown to lose more than 5 points`."""
    reasons = Counter(one.reason for one in left)
    return "; ".join(f"{number} {reason}" for reason, number in reasons.most_common(REASONS))


def front_line(standing: Sequence[Beside], words: str) -> str:
    """The present front in a line: speed-up on the axis, mean difference and bound."""
    points = {one.sampler: (one.cost_share, one.change) for one in standing}
    known = {one.sampler: one for one in standing}
    best = [known[name] for name in front(points)][-SHOWN:]
    parts = [f"{one.sampler} {times(one.cost_share)} fewer {words}, {change(one)}" for one in best]
    return f"front: {'; '.join(parts)}"


def times(share: float | None) -> str:
    """How many times fewer a share of the reference's is: `7.5×`."""
    if not share:
        return "–"
    return f"{1 / share:.1f}×"


def change(one: Beside) -> str:
    """`−0.4 points [at most 1.5 lower]`."""
    points = 100 * one.change
    if points < -0.05:
        sign = "−"
    elif points > 0.05:
        sign = "+"
    else:
        sign = ""
    return f"{sign}{abs(points):.1f} points [{bound(one.bound)}]"


def loss(one: Beside) -> str:
    """The mean loss in points, below 0 for a gain."""
    points = -100 * one.change
    return f"{points:.1f}".replace("-", "−") if abs(points) >= 0.05 else "0.0"


def bound(lower: float) -> str:
    """A one-sided bound of a difference in points, rounded away from 0."""
    points = -100 * lower
    if points <= 0:
        return "not lower"
    return f"at most {math.ceil(10 * points - 1e-6) / 10:.1f} lower"


def recommendation_text(state: TuningState, result: Tuning) -> list[str]:
    """The recommendation in words, and what it means on a server."""
    margin = f"{state.request.max_loss:g} points"
    chosen = result.chosen
    if chosen is None:
        return [_not_confirmed(state, result)]
    own = chosen.paired
    words = state.axis_words
    lines = [
        f"{state.request.model}: {own.sampler} is the fastest that is confirmed to lose less than"
        f" {margin} to {state.reference}: {times(own.cost_share)} fewer {words}; {change(own)},"
        f" one-sided 95 %, {counted(own.questions, 'question')} that nothing was chosen on, Holm"
        f" over {len(result.trials)}"
    ]
    if state.axis == "seconds":
        forwards = times(own.share("calls"))
        rows = times(own.share("rows"))
        lines.append(f"forwards it takes: {forwards} fewer; canvases: {rows} fewer")
    if len(state.tasks) > 1:
        lines.append(f"the task that limits it: {short(chosen.limits)}")
    if chosen.worse:
        named = ", ".join(short(task) for task in chosen.worse)
        lines.append(f"shown to be worse on: {named}")
    return lines


def _not_confirmed(state: TuningState, result: Tuning) -> str:
    if not result.trials:
        why = why_left(result.left)
        return f"{state.request.model}: not confirmed: no sampler was left to prove: {why}"
    best = max(result.trials, key=lambda trial: trial.paired.bound)
    needed = "more questions would not help if its scores stay as they are"
    if best.needed is not None:
        needed = f"{counted(best.needed, 'question')} would do if its scores stay as they are"
        needed += _of_data_that_end(state, best.needed)
    return (
        f"{state.request.model}: not confirmed: no sampler is shown to lose less than"
        f" {state.request.max_loss:g} points to {state.reference}; nearest is {best.sampler},"
        f" {change(best.paired)} after {counted(best.paired.questions, 'question')}; {needed}"
    )


def _of_data_that_end(state: TuningState, proof: int) -> str:
    """What a proof of so many questions, over all tasks, takes of data that end."""
    sizes = {task: None if known is None else len(known) for task, known in state.known.items()}
    if None not in sizes.values():
        whole = math.ceil(proof / (1 - RACING))
        return f", so data of {whole:,} questions, a third of which race"
    lacking = too_few(sizes, math.ceil(proof / len(sizes) / (1 - RACING)))
    return f", and {has_only(lacking)}" if lacking else ""


def proof_table(state: TuningState, result: Tuning) -> Table:
    """A row for each sampler of the proof."""
    rows = [_proof_row(trial) for trial in sorted(result.trials, key=_by_cost)]
    heads = (
        *("sampler", state.axis_unit, "forwards", "rows", "tokens"),
        *("loss", "bound", "p (Holm)", "", "limits it", "shown worse on"),
    )
    return Table(heads, rows, "lrrrrrrrlll")


def _by_cost(trial: Trial) -> tuple[float, str]:
    return trial.paired.cost_share, trial.sampler


def _proof_row(trial: Trial) -> list[Value]:
    own = trial.paired
    verdict = "confirmed"
    if not trial.confirmed:
        needed = "more won't do" if trial.needed is None else f"{trial.needed:,} questions would do"
        verdict = f"not confirmed: {needed}"
    return [
        Code(own.sampler),
        times(own.cost_share),
        times(own.share("calls")),
        times(own.share("rows")),
        times(own.share("tokens")),
        loss(own),
        bound(own.bound),
        f"{trial.p:.4f}" if trial.p >= 0.0001 else "< .0001",
        verdict,
        short(trial.limits),
        ", ".join(short(task) for task in trial.worse) or None,
    ]


def left_table(state: TuningState, result: Tuning) -> Table:
    """A row for each sampler that left the race, in the order of rounds."""
    rows: list[list[Value]] = [
        [
            Code(left.sampler),
            left.round,
            left.reason,
            None if left.paired is None else times(left.paired.cost_share),
            None if left.paired is None else loss(left.paired),
            None if left.paired is None else left.paired.questions,
        ]
        for left in result.left
    ]
    words = state.axis_unit
    heads = ("sampler", "round", "left because", words, "loss", "questions")
    return Table(heads, rows, "lrlrrr")


def write_tuning_report(state: TuningState, result: Tuning, out: Path) -> list[Path]:
    """Writes tune.md, and tuned.yaml where a sampler is recommended.

    Args:
        state: of the tuning.
        result: its outcome.
        out: the folder.

    Returns:
        Their paths.
    """
    taken, every = share_taken(state, result)
    share = f"{100 * taken / every:.0f} %" if every else "–"
    parts = [
        f"# Tuning of {printable(state.request.model)}",
        "\n".join(f"{line}\n" for line in recommendation_text(state, result)).strip(),
        "## The proof",
        "Times fewer than the reference, and loss in points; the bound is one-sided, 95 %.",
        markdown(proof_table(state, result)),
        "## What left the race",
        markdown(left_table(state, result)) if result.left else "Nothing: there was no race.",
        f"The tuning forwarded {taken:,.0f} canvases, {share} of what all candidates take on all"
        " of its questions.",
    ]
    paths = [write_atomic(out / REPORT, "\n\n".join(parts) + "\n")]
    if result.chosen is not None:
        paths.append(write_atomic(out / PRESET, preset_text(state, result.chosen)))
    return paths


def preset_text(state: TuningState, chosen: Trial) -> str:
    """The preset that sets the recommended sampler, as YAML."""
    import yaml

    own = chosen.paired
    said = {
        "model": state.request.model,
        "tasks": list(state.tasks),
        "reference": state.reference,
        "max_loss": state.request.max_loss,
        "axis": state.axis_words,
        "times_fewer": round(1 / own.cost_share, 2),
        "loss": round(-100 * own.change, 2) + 0.0,
        "bound": round(-100 * own.bound, 2),
        "questions": own.questions,
    }
    entry = {
        "source": f"pbcore tune {state.request.model}: loss and bound in points, 95 %, one-sided",
        "options": {"sampler": [own.sampler]},
        "tuned": said,
    }
    text: str = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
    return text


def server_lines(state: TuningState, sampler: str) -> list[str]:
    """What sets the sampler on a server, where that is known. A block model's answer counts as one
    block, so that its block length is said.
    """
    lines: list[str] = []
    tokens = block_of(resolve_model(state.request.model)) or round(state.tokens)
    for same in ON_SERVERS.all().values():
        lines += same(state.request.model, parse(sampler), tokens)
    return lines
