"""What a run says of each model in one sentence: the fastest sampler that is shown to lose at most
so many points to the reference, by one rule.

Reference: `confidence-k1`, else the slowest sampler. Speed: forwards, added up over tasks, of each
task's mean, or another cost of an answer; only questions that both answered count, here and for the
scores. Quality: the paired test of `noninferiority`, with Holm's correction over the samplers that
are faster than the reference.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, get_args

from pbcore.analysis.noninferiority import (
    CONFIDENCE,
    MARGIN,
    NonInferiority,
    noninferiority,
    p_worse,
    questions_to_settle,
)
from pbcore.analysis.order import natural
from pbcore.analysis.paired import holm
from pbcore.errors import InputError
from pbcore.names import parse
from pbcore.results.record import CellRecord, SampleRecord, by_index

REFERENCE = "confidence-k1"
MAX_LOSS = 100 * MARGIN  # points
FEW_SAMPLERS = "only one sampler has scores, and a verdict compares two"
NO_ANSWERS = (
    "the verdict compares answers question by question, and none are here; give the run directory"
)
NO_COMMON = "no two samplers answered the same questions"
NO_SPEED = "neither forwards nor comparable times were measured"
Cost = Literal["calls", "rows", "tokens", "seconds"]
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


@dataclass(frozen=True, slots=True)
class TaskScores:
    """A sampler's mean score and its reference's, in [0, 1], on the questions of `task` that both
    answered.
    """

    task: str
    score: float
    reference_score: float

    @property
    def change(self) -> float:
        return self.score - self.reference_score


@dataclass(frozen=True, slots=True)
class Against:
    """A sampler beside its reference on the questions of `tasks` tasks that both answered.

    `score` and `reference_score` are means over tasks. `forwards`, `rows`, `tokens` and `seconds`
    are the reference's divided by the sampler's, so that 7.5 means 7.5 times fewer; None where not
    measured, `rows` also where they are the forwards, `tokens` unless they are the speed. `speed`
    is the one of them that decides. `p_adjusted` is Holm's for "worse by the margin or more" over
    the samplers compared, 1 for one that is not faster. `by_task` has each task's scores.
    """

    sampler: str
    score: float
    reference_score: float
    quality: NonInferiority
    speed: float | None
    forwards: float | None
    rows: float | None
    tokens: float | None
    seconds: float | None
    p_adjusted: float
    better: bool
    own: bool
    by_task: tuple[TaskScores, ...] = ()

    @property
    def tasks(self) -> int:
        return self.quality.tasks

    @property
    def shown(self) -> bool:
        """Whether it is shown, among all samplers compared, to lose at most the margin."""
        return self.p_adjusted <= 1 - CONFIDENCE


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict on one model. `chosen` is the fastest sampler that is shown to lose at most
    `max_loss` points to `reference`, `fastest` the fastest of all; None where none is (faster).
    `compared` of `samplers` are faster and compared; of these, `falls` is the slowest that loses
    more than `max_loss` here. `others` are the user's own samplers and those
    that are better, if not among these; `unpaired` those of the user's own without a question in
    common with the reference. Where none is chosen, `settled` is the fastest that more questions
    could show, `settled_by` how many. `why` says why there is no verdict, where there is none, and
    `speed_is` what speed is, in words, where the user has chosen it.
    """

    model: str
    max_loss: float
    why: str = ""
    reference: str = ""
    tasks: int = 0
    compared: int = 0
    chosen: Against | None = None
    fastest: Against | None = None
    slower: Against | None = None
    falls: Against | None = None
    others: tuple[Against, ...] = ()
    unpaired: tuple[str, ...] = ()
    settled: Against | None = None
    settled_by: int | None = None
    speed_is: str = ""


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
class _Pair:
    """A sampler's and its reference's cells of the tasks that both answered."""

    sampler: str
    differences: tuple[tuple[float, ...], ...]  # of each task
    by_task: tuple[TaskScores, ...]
    speed: float | None
    forwards: float | None
    rows: float | None
    tokens: float | None
    seconds: float | None

    @property
    def change(self) -> float:
        """The mean over tasks of the mean paired difference."""
        return fmean(map(fmean, self.differences))


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
) -> Headline:
    """The verdict on one model of a run.

    Args:
        model: its name in the report.
        cells: its cells with their answers; those of dummies, failed ones and those without the
            task's score don't count.
        max_loss: the loss that is allowed, in points, in (0, 100).
        price: the seconds of an answer of a cell, which then are the speed; None: `cost` is.
        cost: what speed is, as the reference's cost divided by the sampler's; None: `speed_up`.

    Raises:
        InputError: a loss outside its range.
    """
    if not 0 < max_loss < 100:
        raise InputError(f"max_loss {max_loss:g}: must lie between 0 and 100 points, such as 5")
    entries = list(cells)
    table = _answered(entries, price)
    no_speed = NO_SPEED if cost is None or price is not None else NOT_COUNTED[cost]
    if not table:
        return Headline(model, max_loss, NO_ANSWERS)
    if len(table) < 2:
        return Headline(model, max_loss, FEW_SAMPLERS)
    reference = _reference(table)
    if reference is None:
        return Headline(model, max_loss, no_speed)
    pairs = _pairs(table, reference, cost if price is None else "seconds")
    if not pairs:
        return Headline(model, max_loss, NO_COMMON, reference)
    if all(pair.speed is None for pair in pairs):
        return Headline(model, max_loss, no_speed, reference)
    paired = {reference, *(pair.sampler for pair in pairs)}
    ran = {cell.sampler for cell, _ in entries if not cell.conditions.dummy}
    unpaired = sorted(filter(is_own, ran - paired), key=natural)
    return replace(_judged(model, reference, pairs, max_loss), unpaired=tuple(unpaired))


def _judged(model: str, reference: str, pairs: Sequence[_Pair], max_loss: float) -> Headline:
    """The verdict on the samplers beside the reference."""
    margin = max_loss / 100
    whole = max(len(pair.differences) for pair in pairs)
    ranked = [pair for pair in pairs if pair.speed is not None and len(pair.differences) == whole]
    ranked.sort(key=lambda pair: (-(pair.speed or 0.0), natural(pair.sampler)))
    faster = [pair for pair in ranked if (pair.speed or 0.0) > 1]
    losses = holm([p_worse(pair.differences, margin) for pair in faster])
    p_loss = {pair.sampler: p for pair, p in zip(faster, losses, strict=True)}
    gains = holm([p_worse(pair.differences, 0.0) for pair in pairs])
    better = {pair.sampler for pair, p in zip(pairs, gains, strict=True) if p <= 1 - CONFIDENCE}

    def beside_reference(pair: _Pair) -> Against:
        return Against(
            sampler=pair.sampler,
            score=fmean(task.score for task in pair.by_task),
            reference_score=fmean(task.reference_score for task in pair.by_task),
            quality=noninferiority(pair.differences, margin),
            speed=pair.speed,
            forwards=pair.forwards,
            rows=pair.rows,
            tokens=pair.tokens,
            seconds=pair.seconds,
            p_adjusted=p_loss.get(pair.sampler, 1.0),
            better=pair.sampler in better,
            own=is_own(pair.sampler),
            by_task=pair.by_task,
        )

    first = next((pair for pair in faster if p_loss[pair.sampler] <= 1 - CONFIDENCE), None)
    chosen = None if first is None else beside_reference(first)
    fastest = beside_reference(faster[0]) if faster else None
    slower = beside_reference(ranked[0]) if ranked and not faster else None
    losing = [pair for pair in faster if pair.change < -margin]
    falls = beside_reference(losing[-1]) if losing else None
    settled = None
    settled_by = None
    if chosen is None:
        for pair in faster:
            settled_by = _settled_by(pair, margin, len(faster))
            if settled_by is not None:
                settled = beside_reference(pair)
                break
    shown = (chosen, fastest, slower, settled)
    named = {sampler.sampler for sampler in shown if sampler is not None}
    others = [
        beside_reference(pair)
        for pair in pairs
        if pair.sampler not in named and (is_own(pair.sampler) or pair.sampler in better)
    ]
    return Headline(
        model=model,
        max_loss=max_loss,
        reference=reference,
        tasks=whole,
        compared=len(faster),
        chosen=chosen,
        fastest=fastest,
        slower=slower,
        falls=falls,
        others=tuple(others),
        settled=settled,
        settled_by=settled_by,
    )


def _settled_by(pair: _Pair, margin: float, compared: int) -> int | None:
    """How many questions, as many of each task, would show it if its scores stay what they are; a
    gain counts as none.
    """
    level = (1 - CONFIDENCE) / compared
    change = min(0.0, fmean(fmean(task) for task in pair.differences))
    squares = fmean(fmean(value**2 for value in task) for task in pair.differences)
    discordance = max(squares, abs(change))
    return questions_to_settle(discordance, margin, change=change, level=level)


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
        scores = {}
        for i, answers in questions.items():
            scores[i] = fmean(answer.scores[cell.headline] for answer in answers)
        uncounted = dict.fromkeys(questions)
        table.setdefault(cell.sampler, {})[cell.task] = _Scored(
            cell=cell,
            scores=scores,
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
    table: Mapping[str, Mapping[str, _Scored]], reference: str, cost: Cost | None
) -> list[_Pair]:
    """The other samplers beside the reference, those without a common question left out."""
    base = table[reference]
    pairs = []
    for sampler in sorted(table, key=natural):
        if sampler == reference:
            continue
        shared = []
        for task, own in table[sampler].items():
            questions = _common(own, base[task]) if task in base else []
            if questions:
                shared.append((own, base[task], questions))
        if shared:
            pairs.append(_pair(sampler, shared, cost))
    return pairs


def _common(own: _Scored, theirs: _Scored) -> list[int]:
    """The questions that both answered; none where the two cells have other questions, or another
    score.
    """
    digests = {own.cell.conditions.data_hash, theirs.cell.conditions.data_hash} - {None}
    if len(digests) > 1 or own.cell.headline != theirs.cell.headline:
        return []
    return sorted(own.scores.keys() & theirs.scores.keys())


def _pair(
    sampler: str, shared: Sequence[tuple[_Scored, _Scored, list[int]]], cost: Cost | None
) -> _Pair:
    differences = []
    by_task = []
    own_costs: dict[Cost, list[float | None]] = {kind: [] for kind in get_args(Cost)}
    their_costs: dict[Cost, list[float | None]] = {kind: [] for kind in get_args(Cost)}
    for own, theirs, questions in shared:
        differences.append(tuple(own.scores[i] - theirs.scores[i] for i in questions))
        own_score = fmean(own.scores[i] for i in questions)
        their_score = fmean(theirs.scores[i] for i in questions)
        by_task.append(TaskScores(own.cell.task, own_score, their_score))
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
    return _Pair(
        sampler=sampler,
        differences=tuple(differences),
        by_task=tuple(by_task),
        speed=speed,
        forwards=ratios["calls"],
        rows=rows,
        tokens=ratios["tokens"] if cost == "tokens" else None,
        seconds=ratios["seconds"],
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
