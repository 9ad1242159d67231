"""What a run says of each model: the fastest sampler that is shown to lose at most so many points
to the reference, by one rule; else what is missing.

Reference: `confidence-k1`, else the slowest sampler. Speed: forwards, added up over tasks, of each
task's mean, or another cost of an answer; only questions that both answered count, here and for the
scores. Ranked are the samplers that are faster than the reference by 5 % or more and have scores on
the same tasks and questions. Quality: the paired test of `noninferiority`, with Holm's correction
over the samplers that are ranked; those that aren't are tested together in the same way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from pbcore.analysis.answering import Answering, answering
from pbcore.analysis.beside import (
    Beside,
    CellAnswers,
    beside,
    cell_answers,
    mean_known,
    no_worse,
)
from pbcore.analysis.further import Further, further_questions
from pbcore.analysis.noninferiority import CONFIDENCE, p_worse
from pbcore.analysis.order import natural
from pbcore.analysis.paired import holm
from pbcore.analysis.pairs import unpaired
from pbcore.analysis.timing.alike import timed_otherwise
from pbcore.base.errors import InputError
from pbcore.base.speed import MAX_LOSS
from pbcore.costs.kinds import COST_NAMES, Cost
from pbcore.names import recorded
from pbcore.results.record import CellRecord, SampleRecord

REFERENCE = "confidence-k1"
FEW_SAMPLERS = "only one sampler has scores, and a verdict compares two"
NO_ANSWERS = (
    "the verdict compares answers question by question, and none are here; give the run directory"
)
NO_COMMON = "no two samplers answered the same questions"
NO_SPEED = "neither forwards nor comparable times were measured"
NO_TIMES = "no comparable times were measured"
NO_PRICE = "the price list has no seconds for it"
QUESTIONS = ("data_hash", "headline")  # without whose equality cells of a task aren't paired
ELSEWHERE = ("ar", "server")  # samplers of models that decode by themselves
RecordAndAnswers = tuple[CellRecord, Sequence[SampleRecord]]
Priced = Callable[[CellRecord], float | None]  # seconds of an answer of a cell by a price list
Unpriced = Callable[[CellRecord], str]  # why a cell has no such seconds, in words
SamplerAnswers = Mapping[str, Mapping[str, CellAnswers]]  # sampler → task → its answers
# Sampler → its answers to each task, with the reference's to the same questions.
SharedAnswers = Mapping[str, Sequence[tuple[CellAnswers, CellAnswers]]]
# Why a sampler is not ranked.
Reason = Literal["no scores", "other questions", "tasks", "questions", "speed", "not faster"]


@dataclass(frozen=True, slots=True)
class Unranked:
    """A sampler that is not ranked, and why: it lacks scores on the tasks `missing` or on some
    questions, or is not faster than the reference. `beside` compares it on what it has.
    """

    sampler: str
    reason: Reason
    missing: tuple[str, ...] = ()
    beside: Beside | None = None


@dataclass(frozen=True, slots=True)
class Weak:
    """A reference that answers too little for a verdict: what it scores, and one of its wrong
    answers.
    """

    answers: Answering
    cell: CellRecord
    question: int


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict on one model. `ranked` are the samplers that are faster than `reference` and have
    scores on the same `tasks` and `questions`, the fastest first; `unranked` all others. `chosen`
    is the fastest that is shown to lose at most `max_loss` points; None where none is. Without it
    `settled` is the one that fewest questions could show, and `further` how many. `why` says why
    there is no verdict, where there is none, and `speed_is` what speed is, in words, where the user
    has chosen it. Of a `weak` reference no sampler is ranked or chosen, and `look` is the command
    that shows its wrong answer. `incomplete` says in words what failed or wasn't run. `own` are the
    samplers whose policies are the user's.
    """

    model: str
    max_loss: float
    why: str = ""
    reference: str = ""
    tasks: int = 0
    questions: int = 0
    ranked: tuple[Beside, ...] = ()
    unranked: tuple[Unranked, ...] = ()
    chosen: Beside | None = None
    settled: Beside | None = None
    further: Further | None = None
    speed_is: str = ""
    weak: Weak | None = None
    look: str = ""
    incomplete: str = ""
    own: frozenset[str] = frozenset()

    @property
    def limit(self) -> int | None:
        """The questions of each task by which `settled` is shown; None where the data has fewer."""
        return None if self.further is None or self.further.lacking else self.further.limit


@dataclass(frozen=True, slots=True)
class _Lacks:
    """Says what is missing where a speed isn't known, by what speed is."""

    cost: Cost | None
    unpriced: Unpriced | None

    def speed(self, cells: Iterable[CellRecord]) -> str:
        """What is missing of some of these cells."""
        if self.unpriced is not None:
            return next(filter(None, map(self.unpriced, cells)), NO_PRICE)
        if self.cost is None:
            return NO_SPEED
        if self.cost == "seconds":
            return NO_TIMES
        return f"{COST_NAMES[self.cost]} were not counted"


def headline(
    model: str,
    cells: Iterable[RecordAndAnswers],
    max_loss: float = MAX_LOSS,
    price: Priced | None = None,
    cost: Cost | None = None,
    unpriced: Unpriced = lambda cell: NO_PRICE,
) -> Headline:
    """The verdict on one model of a run.

    Args:
        model: its name in the report.
        cells: its cells with their answers; those of dummies, failed ones and those without the
            task's score don't count.
        max_loss: the loss that is allowed, in points, in (0, 100).
        price: the seconds of an answer of a cell, which then are the speed; None: `cost` is.
        cost: what speed is, as the reference's cost divided by the sampler's; None: `speed_up`.
        unpriced: why a cell has no seconds by `price`.

    Raises:
        InputError: a loss outside its range.
    """
    if not 0 < max_loss < 100:
        raise InputError(f"max_loss {max_loss:g}: must lie between 0 and 100 points, such as 5")
    entries = list(cells)
    table = _answered(entries, price)
    if not table:
        return Headline(model, max_loss, NO_ANSWERS)
    if len(table) < 2:
        return Headline(model, max_loss, FEW_SAMPLERS)
    lacks = _Lacks(cost, None if price is None else unpriced)
    reference = _reference(table)
    if reference is None:
        some_cells = next(iter(table.values())).values()
        return Headline(model, max_loss, lacks.speed([each.cell for each in some_cells]))
    shared = _shared(table, reference)
    pairs = _pairs(shared, cost if price is None else "seconds", lacks)
    if not pairs:
        return Headline(model, max_loss, NO_COMMON, reference)
    if all(pair.speed is None for pair in pairs):
        return Headline(model, max_loss, pairs[0].no_speed, reference)
    weak = _weak(shared, max_loss)
    if weak is not None:
        return Headline(model, max_loss, reference=reference, weak=weak)
    ran = {cell.sampler for cell, _ in entries if not cell.conditions.dummy}
    silent: list[Unranked] = []
    for sampler in sorted(ran - {reference} - {pair.sampler for pair in pairs}, key=natural):
        silent.append(Unranked(sampler, "other questions" if sampler in table else "no scores"))
    return _judged(Headline(model, max_loss, reference=reference), pairs, silent)


def _judged(verdict: Headline, pairs: Sequence[Beside], silent: Sequence[Unranked]) -> Headline:
    """The verdict on the samplers beside the reference; `silent` are those without a common
    question.
    """
    margin = verdict.max_loss / 100
    # The reference's tasks on which another sampler has scores as well.
    tasks: dict[str, None] = {}
    for pair in pairs:
        tasks |= dict.fromkeys(pair.by_task)
    whole = [pair.questions for pair in pairs if len(pair.by_task) == len(tasks)]
    questions = max(whole, default=0)
    reasons: dict[str, Reason] = {}
    for pair in pairs:
        reason = _why_not_ranked(pair, len(tasks), questions)
        if reason is not None:
            reasons[pair.sampler] = reason
    gains = holm([p_worse(pair.differences, 0.0) for pair in pairs])
    better = {pair.sampler for pair, p in zip(pairs, gains, strict=True) if p <= 1 - CONFIDENCE}
    ranked = [pair for pair in pairs if pair.sampler not in reasons]
    ranked.sort(key=lambda pair: (-(pair.speed or 0.0), natural(pair.sampler)))
    others = [pair for pair in pairs if pair.sampler in reasons]
    ranked = _tested(ranked, margin, better)
    unranked = list(silent)
    for other in _tested(others, margin, better):
        lacking = tuple(task for task in tasks if task not in other.by_task)
        unranked.append(Unranked(other.sampler, reasons[other.sampler], lacking, other))
    chosen = next((one for one in ranked if one.shown), None)
    settled, further = (None, None) if chosen else _settled(ranked, margin)
    samplers = [*(pair.sampler for pair in pairs), *(one.sampler for one in silent)]
    return replace(
        verdict,
        tasks=len(tasks),
        questions=questions,
        ranked=tuple(ranked),
        unranked=tuple(unranked),
        chosen=chosen,
        settled=settled,
        further=further,
        own=frozenset(filter(is_own, samplers)),
    )


def _why_not_ranked(pair: Beside, tasks: int, questions: int) -> Reason | None:
    """Why a sampler isn't ranked, where others have scores on so many tasks and questions."""
    if len(pair.by_task) < tasks:
        return "tasks"
    if pair.questions < questions:
        return "questions"
    if pair.speed is None:
        return "speed"
    return None if pair.pace == "faster" else "not faster"


def _tested(pairs: Sequence[Beside], margin: float, better: set[str]) -> list[Beside]:
    """Samplers that are tested together, with which of them are better than the reference."""
    tested = []
    for pair in no_worse(pairs, margin):
        judged = replace(pair, better=True)
        is_better = pair.sampler in better and judged.lower > 0
        tested.append(replace(judged, better=is_better))
    return tested


def _settled(ranked: Sequence[Beside], margin: float) -> tuple[Beside | None, Further | None]:
    """The sampler that fewest questions of each task would show, best of those that the tasks have,
    of equal ones the fastest, and how many.
    """
    level = (1 - CONFIDENCE) / max(1, len(ranked))
    best: tuple[Beside | None, Further | None] = (None, None)
    for pair in ranked:
        further = further_questions(pair.differences, pair.available, margin, level)
        if further is not None and (best[1] is None or _cost_of(further) < _cost_of(best[1])):
            best = pair, further
    return best


def _cost_of(further: Further) -> tuple[bool, int]:
    return bool(further.lacking), further.limit


def is_own(sampler: str) -> bool:
    """Whether a sampler's policy is the user's: registered outside pbcore, or a name that pbcore
    doesn't know, read from a run. Those of models that decode by themselves are not.
    """
    from pbcore.decoding.policies.registry import is_ours, policies  # a record doesn't need it

    name = recorded(sampler)
    if name is None:
        return False
    kind = policies().get(name.policy)
    return name.policy not in ELSEWHERE if kind is None else not is_ours(kind)


def _answered(cells: Iterable[RecordAndAnswers], price: Priced | None) -> SamplerAnswers:
    """The answers of the cells that have scores; by a price list, seconds are their only cost."""
    table: dict[str, dict[str, CellAnswers]] = {}
    for cell, samples in cells:
        if cell.status != "ok" or cell.conditions.dummy:
            continue
        seconds = _seconds_of(cell) if price is None else price(cell)
        answers = cell_answers(cell, samples, seconds)
        if price is not None:
            answers = replace(answers, costs={"seconds": answers.costs["seconds"]})
        if answers.scores:
            table.setdefault(cell.sampler, {})[cell.task] = answers
    return table


def _reference(table: SamplerAnswers) -> str | None:
    """`confidence-k1`, also with a number of rows at a time (`+x1`); else the slowest of the
    samplers that answered most tasks: by forwards, or seconds where a model has no forwards, and of
    equally slow ones the best.
    """
    for name in sorted(table, key=natural):
        if name == REFERENCE or name.partition("+x")[0] == REFERENCE:
            return name
    most = max(len(tasks) for tasks in table.values())
    whole = {name: tasks for name, tasks in table.items() if len(tasks) == most}
    costs: dict[str, float] = {}
    kinds: tuple[Cost, ...] = ("calls", "seconds")
    for kind in kinds:
        for name, tasks in whole.items():
            cost = mean_known(one.mean_cost(kind) for one in tasks.values())
            if cost is not None:
                costs[name] = cost
        if costs:
            break
    if not costs:
        return None
    slowest = max(costs.values())
    equal = [name for name in sorted(costs, key=natural) if costs[name] >= 0.999 * slowest]

    def score(name: str) -> float:
        return fmean(fmean(one.scores.values()) for one in whole[name].values())

    return max(equal, key=score)


def _shared(table: SamplerAnswers, reference: str) -> SharedAnswers:
    """The other samplers' answers that can be paired with the reference's."""
    base = table[reference]
    shared: dict[str, list[tuple[CellAnswers, CellAnswers]]] = {}
    for sampler, tasks in table.items():
        for task, own in tasks.items():
            if sampler == reference or task not in base:
                continue
            if not unpaired(own.cell, base[task].cell, QUESTIONS):
                shared.setdefault(sampler, []).append((own, base[task]))
    return shared


def _pairs(shared: SharedAnswers, cost: Cost | None, lacks: _Lacks) -> list[Beside]:
    """The samplers beside the reference, those without a common question left out."""
    pairs = []
    for sampler in sorted(shared, key=natural):
        cells = [(_comparable(own, theirs, lacks), theirs) for own, theirs in shared[sampler]]
        pair = beside(sampler, cells, cost)
        if pair is not None:
            pairs.append(_described(pair, cells, lacks))
    return pairs


def _comparable(own: CellAnswers, theirs: CellAnswers, lacks: _Lacks) -> CellAnswers:
    """Answers without seconds that were not measured as the reference's; a price list's can always
    be compared.
    """
    if lacks.unpriced is not None or not timed_otherwise(own.cell, theirs.cell):
        return own
    return replace(own, costs={**own.costs, "seconds": dict.fromkeys(own.scores)})


def _described(
    pair: Beside, shared: Iterable[tuple[CellAnswers, CellAnswers]], lacks: _Lacks
) -> Beside:
    """With how many questions each task's data has, and what is missing of the speed."""
    available: dict[str, int | None] = {}
    compared = []
    for own, theirs in shared:
        if own.cell.task in pair.by_task:
            known = (own.cell.n_available, theirs.cell.n_available)
            ends = [number for number in known if number is not None]
            available[own.cell.task] = min(ends, default=None)
            compared += [theirs.cell, own.cell]
    no_speed = lacks.speed(compared) if pair.speed is None else ""
    return replace(pair, available=available, no_speed=no_speed)


def _weak(shared: SharedAnswers, max_loss: float) -> Weak | None:
    """The reference, if its scores on the questions that another sampler answered, too, are not
    enough for a verdict.
    """
    reference: dict[str, CellAnswers] = {}
    compared: dict[str, set[int]] = {}
    for cells in shared.values():
        for own, theirs in cells:
            task = theirs.cell.task
            reference[task] = theirs
            compared.setdefault(task, set()).update(own.scores.keys() & theirs.scores.keys())
    scores = []
    wrong: list[tuple[float, CellRecord, int]] = []
    for task, questions in compared.items():
        if questions:
            of_task = reference[task].scores
            scores.append([of_task[i] for i in sorted(questions)])
            worst = min(sorted(questions), key=lambda i: of_task[i])
            wrong.append((of_task[worst], reference[task].cell, worst))
    answers = answering(scores, max_loss)
    if answers.enough:
        return None
    _, cell, question = min(wrong, key=lambda found: found[0])
    return Weak(answers, cell, question)


def _seconds_of(cell: CellRecord) -> float | None:
    """Seconds per question as measured, over all seeds."""
    if not cell.seconds or not cell.n_samples:
        return None
    return cell.seconds / cell.n_samples
