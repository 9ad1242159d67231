"""What a run says of each model: the fastest sampler that is shown to lose at most so many points
to the reference, by one rule; else what is missing.

Reference: `confidence-k1`, else the slowest sampler. Speed: forwards, added up over tasks, of each
task's mean, or another cost of an answer; only questions that both answered count, here and for the
scores. Ranked are the samplers that are faster than the reference by 5 % or more and have scores on
the same tasks and questions. Quality: the paired test of `noninferiority`, with Holm's correction
over the samplers that are ranked; those that aren't are tested together in the same way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, get_args

from pbcore.analysis.answering import Answering, answering
from pbcore.analysis.further import Further, further_questions
from pbcore.analysis.noninferiority import CONFIDENCE, lower_bound, p_worse
from pbcore.analysis.order import natural
from pbcore.analysis.paired import Paired, holm, holm_levels, on_common
from pbcore.base.errors import InputError
from pbcore.base.speed import MAX_LOSS
from pbcore.names import parse
from pbcore.results.record import CellRecord, SampleRecord, by_index, question_scores

REFERENCE = "confidence-k1"
AS_FAST = 1.05  # up to this ratio of costs, either way, two samplers are about as fast
FEW_SAMPLERS = "only one sampler has scores, and a verdict compares two"
NO_ANSWERS = (
    "the verdict compares answers question by question, and none are here; give the run directory"
)
NO_COMMON = "no two samplers answered the same questions"
NO_SPEED = "neither forwards nor comparable times were measured"
Cost = Literal["calls", "rows", "tokens", "seconds"]
NO_PRICE = "the price list has no seconds for it"
NOT_COUNTED: Mapping[Cost, str] = {
    "calls": "forwards were not counted",
    "rows": "rows were not counted",
    "tokens": "tokens forwarded were not counted",
    "seconds": "no comparable times were measured",
}
# Conditions under which two cells' seconds are measured alike.
TIMED_ALIKE = ("device", "dtype", "batch_size", "threads", "seeds", "wait_policy")
ELSEWHERE = ("ar", "server")  # samplers of models that decode by themselves
RecordAndAnswers = tuple[CellRecord, Sequence[SampleRecord]]
Priced = Callable[[CellRecord], float | None]  # seconds of an answer of a cell by a price list
Unpriced = Callable[[CellRecord], str]  # why a cell has no such seconds, in words
Pace = Literal["faster", "about as fast", "slower", "unknown"]
# Why a sampler is not ranked.
Reason = Literal["no scores", "other questions", "tasks", "questions", "speed", "not faster"]


@dataclass(frozen=True, slots=True)
class TaskScores:
    """A sampler's mean score and its reference's, in [0, 1], on the `n` questions of `task` that
    both answered, of the `available` that its data has (None: no known end).
    """

    task: str
    score: float
    reference_score: float
    n: int
    available: int | None = None

    @property
    def change(self) -> float:
        return self.score - self.reference_score


@dataclass(frozen=True, slots=True)
class Against:
    """A sampler beside its reference on the questions that both answered.

    `differences` are the paired ones of each task, `by_task` its scores. `forwards`, `rows`,
    `tokens` and `seconds` are the reference's divided by the sampler's, so that 7.5 means 7.5 times
    fewer; None where not measured, `rows` also where they are the forwards, `tokens` unless they
    are the speed. `speed` is the one of them that decides; where it is None `no_speed` says what is
    missing. Of `tested` samplers tested together, it
    is `shown` to lose at most the margin, at `level` by Holm's procedure, and `better` than the
    reference. `own`: its policy is the user's.
    """

    sampler: str
    differences: tuple[tuple[float, ...], ...]
    by_task: tuple[TaskScores, ...]
    speed: float | None
    forwards: float | None
    rows: float | None
    tokens: float | None
    seconds: float | None
    no_speed: str = ""
    own: bool = False
    tested: int = 1
    level: float = 1 - CONFIDENCE
    shown: bool = False
    better: bool = False

    @property
    def score(self) -> float:
        """The mean over tasks."""
        return fmean(task.score for task in self.by_task)

    @property
    def reference_score(self) -> float:
        return fmean(task.reference_score for task in self.by_task)

    @property
    def change(self) -> float:
        """The mean over tasks of the mean paired difference."""
        return fmean(map(fmean, self.differences))

    @property
    def lower(self) -> float:
        """The one-sided lower bound of `change` by the test that decides: above minus the margin if
        it is shown, above 0 if it is better.
        """
        bound = lower_bound(self.differences, 1 - self.level)
        return bound if self.better else min(0.0, bound)

    @property
    def questions(self) -> int:
        return sum(map(len, self.differences))

    @property
    def pace(self) -> Pace:
        if self.speed is None:
            return "unknown"
        if self.speed >= AS_FAST:
            return "faster"
        return "slower" if self.speed <= 1 / AS_FAST else "about as fast"


@dataclass(frozen=True, slots=True)
class Unranked:
    """A sampler that is not ranked, and why: it lacks scores on the tasks `missing` or on some
    questions, or is not faster than the reference. `beside` compares it on what it has.
    """

    sampler: str
    reason: Reason
    missing: tuple[str, ...] = ()
    beside: Against | None = None


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
    that shows its wrong answer. `incomplete` says in words what failed or wasn't run.
    """

    model: str
    max_loss: float
    why: str = ""
    reference: str = ""
    tasks: int = 0
    questions: int = 0
    ranked: tuple[Against, ...] = ()
    unranked: tuple[Unranked, ...] = ()
    chosen: Against | None = None
    settled: Against | None = None
    further: Further | None = None
    speed_is: str = ""
    weak: Weak | None = None
    look: str = ""
    incomplete: str = ""

    @property
    def limit(self) -> int | None:
        """The questions of each task by which `settled` is shown; None where the data has fewer."""
        return None if self.further is None or self.further.lacking else self.further.limit


@dataclass(frozen=True, slots=True)
class _Scored:
    """A cell's mean score, forwards, rows and tokens forwarded by question; with `price` its
    seconds are those of a price list, and there are no other counts.
    """

    cell: CellRecord
    scores: Mapping[int, float]
    forwards: Mapping[int, float | None]
    rows: Mapping[int, float | None]
    tokens: Mapping[int, float | None]
    price: Priced | None = None


@dataclass(frozen=True, slots=True)
class _Lacks:
    """Says what is missing where a speed isn't known, by what speed is."""

    cost: Cost | None
    unpriced: Unpriced | None

    def speed(self, cells: Iterable[CellRecord]) -> str:
        """What is missing of some of these cells."""
        if self.unpriced is not None:
            return next(filter(None, map(self.unpriced, cells)), NO_PRICE)
        return NO_SPEED if self.cost is None else NOT_COUNTED[self.cost]


def speed_up(forwards: float | None, rows: float | None, seconds: float | None) -> float | None:
    """How much faster a sampler is than the reference: in forwards; where rows are not forwards, no
    more than its seconds show, and without them, no more than its rows.

    Args:
        forwards: the reference's forwards divided by the sampler's; None where not counted.
        rows: the same of rows; None where they are the forwards.
        seconds: the same of seconds; None where not measured alike.

    Returns:
        The ratio, of seconds alone without forwards; None where nothing is known.
    """
    if forwards is None:
        return seconds
    if rows is None:
        return forwards
    return min(forwards, rows if seconds is None else seconds)


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
    pairs = _pairs(table, reference, cost if price is None else "seconds", lacks)
    if not pairs:
        return Headline(model, max_loss, NO_COMMON, reference)
    if all(pair.speed is None for pair in pairs):
        return Headline(model, max_loss, pairs[0].no_speed, reference)
    weak = _weak(table, reference, max_loss)
    if weak is not None:
        return Headline(model, max_loss, reference=reference, weak=weak)
    ran = {cell.sampler for cell, _ in entries if not cell.conditions.dummy}
    silent: list[Unranked] = []
    for sampler in sorted(ran - {reference} - {pair.sampler for pair in pairs}, key=natural):
        silent.append(Unranked(sampler, "other questions" if sampler in table else "no scores"))
    return _judged(Headline(model, max_loss, reference=reference), pairs, silent)


def _judged(verdict: Headline, pairs: Sequence[Against], silent: Sequence[Unranked]) -> Headline:
    """The verdict on the samplers beside the reference; `silent` are those without a common
    question.
    """
    margin = verdict.max_loss / 100
    # The reference's tasks on which another sampler has scores as well.
    tasks: dict[str, None] = {}
    for pair in pairs:
        tasks |= dict.fromkeys(task.task for task in pair.by_task)
    whole = [pair for pair in pairs if len(pair.by_task) == len(tasks)]
    questions = max((pair.questions for pair in whole), default=0)
    reasons: dict[str, Reason] = {}
    for pair in pairs:
        if len(pair.by_task) < len(tasks):
            reasons[pair.sampler] = "tasks"
        elif pair.questions < questions:
            reasons[pair.sampler] = "questions"
        elif pair.speed is None:
            reasons[pair.sampler] = "speed"
        elif pair.pace != "faster":
            reasons[pair.sampler] = "not faster"
    gains = holm([p_worse(pair.differences, 0.0) for pair in pairs])
    better = {pair.sampler for pair, p in zip(pairs, gains, strict=True) if p <= 1 - CONFIDENCE}
    ranked = [pair for pair in pairs if pair.sampler not in reasons]
    ranked.sort(key=lambda pair: (-(pair.speed or 0.0), natural(pair.sampler)))
    others = [pair for pair in pairs if pair.sampler in reasons]
    ranked = _tested(ranked, margin, better)
    unranked = list(silent)
    for other in _tested(others, margin, better):
        missing = tasks.keys() - {task.task for task in other.by_task}
        lacking = tuple(task for task in tasks if task in missing)
        unranked.append(Unranked(other.sampler, reasons[other.sampler], lacking, other))
    chosen = next((one for one in ranked if one.shown), None)
    settled, further = (None, None) if chosen else _settled(ranked, margin)
    return replace(
        verdict,
        tasks=len(tasks),
        questions=questions,
        ranked=tuple(ranked),
        unranked=tuple(unranked),
        chosen=chosen,
        settled=settled,
        further=further,
    )


def _tested(pairs: Sequence[Against], margin: float, better: set[str]) -> list[Against]:
    """Samplers that are tested together by Holm's procedure: which are shown to lose at most the
    margin, and at what level that was decided.
    """
    levels = holm_levels([p_worse(pair.differences, margin) for pair in pairs], 1 - CONFIDENCE)
    tested = []
    for pair, (shown, level) in zip(pairs, levels, strict=True):
        judged = replace(pair, tested=len(pairs), level=level, shown=shown, better=True)
        is_better = pair.sampler in better and judged.lower > 0
        tested.append(replace(judged, better=is_better))
    return tested


def _settled(ranked: Sequence[Against], margin: float) -> tuple[Against | None, Further | None]:
    """The sampler that fewest questions of each task would show, best of those that the tasks have,
    of equal ones the fastest, and how many.
    """
    level = (1 - CONFIDENCE) / max(1, len(ranked))
    best: tuple[Against | None, Further | None] = (None, None)
    for pair in ranked:
        sizes = [(task.task, task.available) for task in pair.by_task]
        further = further_questions(pair.differences, sizes, margin, level)
        if further is not None and (best[1] is None or _cost_of(further) < _cost_of(best[1])):
            best = pair, further
    return best


def _cost_of(further: Further) -> tuple[bool, int]:
    return bool(further.lacking), further.limit


def is_own(sampler: str) -> bool:
    """Whether a sampler's policy is the user's: registered outside pbcore, or a name that pbcore
    doesn't know, read from a run. Those of models that decode by themselves are not.
    """
    from pbcore.decoding.policies import policies  # a record doesn't need it

    with suppress(InputError):
        policy = parse(sampler).policy
        kind = policies().get(policy)
        if kind is None:
            return policy not in ELSEWHERE
        return not kind.__module__.startswith("pbcore.")
    return False


def _answered(
    cells: Iterable[RecordAndAnswers], price: Priced | None
) -> dict[str, dict[str, _Scored]]:
    """Sampler → task → its answers, of the cells that have scores."""
    table: dict[str, dict[str, _Scored]] = {}
    for cell, samples in cells:
        if cell.status != "ok" or cell.conditions.dummy:
            continue
        scored = [sample for sample in samples if cell.headline in sample.scores]
        if not scored:
            continue
        questions = by_index(scored)
        uncounted = dict.fromkeys(questions)
        table.setdefault(cell.sampler, {})[cell.task] = _Scored(
            cell=cell,
            scores=question_scores(scored, cell.headline),
            forwards=uncounted if price else _means(questions, lambda answer: answer.nfe),
            rows=uncounted if price else _means(questions, _rows),
            tokens=uncounted if price else _means(questions, _tokens),
            price=price,
        )
    return table


def _rows(sample: SampleRecord) -> float | None:
    """The rows of an answer; its forwards, where they are the same."""
    return sample.nfe if sample.rows is None else sample.rows


def _tokens(sample: SampleRecord) -> float | None:
    return sample.tokens_forwarded


def _means(
    questions: Mapping[int, Sequence[SampleRecord]], count: Callable[[SampleRecord], float | None]
) -> dict[int, float | None]:
    """The mean count of each question's answers."""
    means = {}
    for i, answers in questions.items():
        means[i] = _mean([count(answer) for answer in answers])
    return means


def _reference(table: Mapping[str, Mapping[str, _Scored]]) -> str | None:
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
    for attempt in (_forwards_of, _seconds_of):
        for name, tasks in whole.items():
            cost = _total([attempt(one) for one in tasks.values()])
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


def _pairs(
    table: Mapping[str, Mapping[str, _Scored]],
    reference: str,
    cost: Cost | None,
    lacks: _Lacks,
) -> list[Against]:
    """The other samplers beside the reference, those without a common question left out."""
    base = table[reference]
    pairs = []
    for sampler in sorted(table, key=natural):
        if sampler == reference:
            continue
        shared = []
        for task, own in table[sampler].items():
            if task in base and _same_questions(own.cell, base[task].cell):
                paired = on_common(own.scores, base[task].scores)
                if paired.n:
                    shared.append((own, base[task], paired))
        if shared:
            pairs.append(_pair(sampler, shared, cost, lacks))
    return pairs


def _weak(
    table: Mapping[str, Mapping[str, _Scored]], reference: str, max_loss: float
) -> Weak | None:
    """The reference, if its scores on the questions that another sampler answered, too, are not
    enough for a verdict.
    """
    base = table[reference]
    compared: dict[str, set[int]] = {}
    for sampler, tasks in table.items():
        for task, own in tasks.items():
            if sampler != reference and task in base and _same_questions(own.cell, base[task].cell):
                both = own.scores.keys() & base[task].scores.keys()
                compared.setdefault(task, set()).update(both)
    scores = []
    wrong: list[tuple[float, CellRecord, int]] = []
    for task, questions in compared.items():
        if questions:
            of_task = base[task].scores
            scores.append([of_task[i] for i in sorted(questions)])
            worst = min(sorted(questions), key=lambda i: of_task[i])
            wrong.append((of_task[worst], base[task].cell, worst))
    answers = answering(scores, max_loss)
    if answers.enough:
        return None
    _, cell, question = min(wrong, key=lambda found: found[0])
    return Weak(answers, cell, question)


def _same_questions(own: CellRecord, theirs: CellRecord) -> bool:
    """Whether two cells of a task have the same data, as far as is known, and score."""
    digests = {own.conditions.data_hash, theirs.conditions.data_hash} - {None}
    return len(digests) < 2 and own.headline == theirs.headline


def _pair(
    sampler: str,
    shared: Sequence[tuple[_Scored, _Scored, Paired]],
    cost: Cost | None,
    lacks: _Lacks,
) -> Against:
    differences = []
    by_task = []
    own_costs: dict[Cost, list[float | None]] = {kind: [] for kind in get_args(Cost)}
    their_costs: dict[Cost, list[float | None]] = {kind: [] for kind in get_args(Cost)}
    for own, theirs, paired in shared:
        questions = paired.indices
        differences.append(paired.differences)
        known = (own.cell.n_available, theirs.cell.n_available)
        available = min((number for number in known if number is not None), default=None)
        by_task.append(TaskScores(own.cell.task, paired.head, paired.base, paired.n, available))
        alike = own.price is not None or _timed_alike(own.cell, theirs.cell)
        for costs, side in ((own_costs, own), (their_costs, theirs)):
            costs["calls"].append(_mean([side.forwards[i] for i in questions]))
            costs["rows"].append(_mean([side.rows[i] for i in questions]))
            costs["tokens"].append(_mean([side.tokens[i] for i in questions]))
            costs["seconds"].append(_seconds_of(side) if alike else None)
    own_total = {kind: _total(values) for kind, values in own_costs.items()}
    their_total = {kind: _total(values) for kind, values in their_costs.items()}
    ratios = {kind: _ratio(their_total[kind], own_total[kind]) for kind in own_total}
    same = all(total["rows"] == total["calls"] for total in (own_total, their_total))
    rows = None if same else ratios["rows"]
    speed = speed_up(ratios["calls"], rows, ratios["seconds"]) if cost is None else ratios[cost]
    compared = [side.cell for own, theirs, _ in shared for side in (theirs, own)]
    return Against(
        sampler=sampler,
        differences=tuple(differences),
        by_task=tuple(by_task),
        speed=speed,
        forwards=ratios["calls"],
        rows=rows,
        tokens=ratios["tokens"] if cost == "tokens" else None,
        seconds=ratios["seconds"],
        no_speed=lacks.speed(compared) if speed is None else "",
        own=is_own(sampler),
    )


def _timed_alike(own: CellRecord, theirs: CellRecord) -> bool:
    """Whether two cells' seconds can be compared: of the same questions, under the same conditions,
    with the device to themselves.
    """
    if own.n_samples != theirs.n_samples:
        return False
    if any(cell.conditions.shared_device for cell in (own, theirs)):
        return False
    return all(
        getattr(own.conditions, name) == getattr(theirs.conditions, name) for name in TIMED_ALIKE
    )


def _forwards_of(answered: _Scored) -> float | None:
    return _mean(list(answered.forwards.values()))


def _seconds_of(answered: _Scored) -> float | None:
    """Seconds per question, over all seeds; by the price list if there is one."""
    if answered.price is not None:
        return answered.price(answered.cell)
    cell = answered.cell
    if not cell.seconds or not cell.n_samples:
        return None
    return cell.seconds / cell.n_samples


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one was not measured."""
    total = _total(values)
    return None if total is None else total / len(values)


def _total(values: Sequence[float | None]) -> float | None:
    """None where one was not measured, and for no values."""
    measured = [value for value in values if value is not None]
    if not measured or len(measured) < len(values):
        return None
    return sum(measured)


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
