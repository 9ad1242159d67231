"""The verdict of a report in three lines per model: how much faster, the scores, what the bound
rests on. The same lines stand in the terminal, report.md and page.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import wrap
from typing import Protocol

from pbcore.analysis.beside import AS_FAST, Beside
from pbcore.analysis.further import MOST_QUESTIONS, Further, has_only
from pbcore.analysis.headline import (
    FEW_SAMPLERS,
    NO_ANSWERS,
    Headline,
    RecordAndAnswers,
    Unranked,
    Weak,
    headline,
)
from pbcore.analysis.paired import Paired
from pbcore.base.printable import counted, fixed, printable, some
from pbcore.base.speed import MAX_LOSS
from pbcore.base.text import name
from pbcore.costs.kinds import COST_NAMES, COUNTED
from pbcore.report.cells import served_notes
from pbcore.report.prices import Prices, prices_of
from pbcore.report.rerun import recorded_command
from pbcore.report.rows import CellRow, scored, undummied
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.results.rundir import RunFacts
from pbcore.tasks.naming import short

MODELS = 5  # named in a line
SAMPLERS = 5  # that are not ranked for the same reason, named
WORST = 3  # tasks that a sampler lacks, named
NO_BREAK = "\N{NO-BREAK SPACE}"
FEW_ANSWERS = 100  # below, right answers are counts


@dataclass(frozen=True, slots=True)
class HeadlineInWords:
    """The verdict on a model in words. `lines` say of `sampler` how much faster it is, its scores,
    and the bound with what it rests on; it is the one to use if it is `chosen`. Otherwise `title`
    says what is missing, and the option that would settle it. `notes` are further lines: a faster
    sampler that isn't shown, the user's own ones, better ones, and what was not ranked. `others`
    have a line for each further sampler that is shown, and for the first that loses too much.
    """

    model: str
    sampler: str = ""
    chosen: bool = False
    title: str = ""
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class ModelAnswers(Protocol):
    """A cell's answers, with the model's name in the report and the facts of its run."""

    @property
    def model(self) -> str: ...
    @property
    def cell(self) -> CellRecord: ...
    @property
    def samples(self) -> Sequence[SampleRecord]: ...
    @property
    def run(self) -> RunFacts: ...


class RunVerdicts:
    """The verdicts on a run's models, each worked out once for all that show it.

    Args:
        cells: the report's, whose models are named as there.
        answers: the cells' answers; without any the verdicts say that they are needed.
        run: the facts of run.json; `max_loss` is the loss in points that the run allowed, `axis`
            what speed is, `price` the price lists.
    """

    def __init__(
        self, cells: Iterable[CellRow], answers: Iterable[ModelAnswers], run: RunFacts
    ) -> None:
        self._cost = COUNTED.get(run.get("axis"))
        self._in_seconds = run.get("axis") == "seconds"
        self._max_loss = run.get("max_loss") or MAX_LOSS
        self._prices = prices_of(run)
        measured = undummied(cells)
        self._incomplete = _incomplete(measured, run)
        # Model, in the order of the cells → its samplers with scores; by task, and of all tasks.
        self._samplers: dict[str | None, dict[str, set[str]]] = {None: {}}
        for row in scored(measured):
            for scope in (None, row["task"]):
                models = self._samplers.setdefault(scope, {})
                models.setdefault(row["model"], set()).add(row["sampler"])
        self._answers: dict[str, list[RecordAndAnswers]] = {}
        self._facts: dict[int, RunFacts] = {}  # of a record's run, by the record's identity
        for answer in answers:
            self._answers.setdefault(answer.model, []).append((answer.cell, answer.samples))
            self._facts[id(answer.cell)] = answer.run

    @cached_property
    def by_cost(self) -> list[Headline]:
        """That on each model with scores, in the order of the frame, by counts or seconds."""
        return self._judged()

    @cached_property
    def by_price(self) -> list[Headline]:
        """Those in the seconds of each price list of the run, the first list's first."""
        return self._priced()

    def chosen(self) -> list[Headline]:
        """`by_cost`; where the run asks for seconds (`--axis`), in those of the first price list
        that gives a verdict on the model.
        """
        return self._chosen(self.by_cost, self.by_price if self._in_seconds else ())

    def of_task(self, task: str) -> list[Headline]:
        """`chosen`, over one task alone."""
        return self._chosen(self._judged(task), self._priced(task) if self._in_seconds else ())

    def in_words(self) -> list[HeadlineInWords]:
        """The verdict on each model with scores, in the order of the frame; then those without a
        verdict, together for each cause.
        """
        verdicts = []
        without: dict[str, list[str]] = {}  # the cause → its models
        by_price: dict[str, list[HeadlineInWords]] = {}
        for priced in self.by_price:
            if not priced.why:
                by_price.setdefault(priced.model, []).append(in_words(priced))
        for verdict in self.by_cost:
            in_seconds = by_price.get(verdict.model, [])
            if in_seconds and self._in_seconds:
                verdicts += in_seconds  # the seconds that were asked for
                continue
            if verdict.why:
                without.setdefault(verdict.why, []).append(name(verdict.model))
            else:
                verdicts.append(in_words(verdict))
            verdicts += in_seconds
        for why, models in without.items():
            verdicts.append(HeadlineInWords(some(models, MODELS), title=f"no verdict: {why}"))
        return verdicts

    def _judged(self, task: str | None = None, prices: Prices | None = None) -> list[Headline]:
        """The verdict on each model, over one task or all; with `prices` the seconds of an answer
        by them are the speed.
        """
        verdicts = []
        for model, samplers in self._samplers.get(task, {}).items():
            entries = self._answers.get(model, [])
            if task is not None:
                entries = [entry for entry in entries if entry[0].task == task]
            if prices is None:
                verdict = headline(model, entries, self._max_loss, cost=self._cost)
            else:
                by_price = prices.seconds, self._cost, prices.why
                verdict = headline(model, entries, self._max_loss, *by_price)
            verdict = replace(
                verdict,
                speed_is=self._speed_is(),
                incomplete="" if task else self._incomplete.get(model, ""),
                look=self._look(verdict.weak),
            )
            if verdict.why in (NO_ANSWERS, FEW_SAMPLERS):
                # answers may be there of some samplers alone
                verdict = replace(verdict, why=NO_ANSWERS if len(samplers) > 1 else FEW_SAMPLERS)
            verdicts.append(verdict)
        return verdicts

    def _speed_is(self) -> str:
        """What speed is where no price list says it; empty for `speed_up`."""
        if self._cost is None:
            return ""
        measured = " as measured" if self._cost == "seconds" else ""
        return f"in {COST_NAMES[self._cost]}{measured}"

    def _look(self, weak: Weak | None) -> str:
        """The command that shows a wrong answer of a reference that answers too little."""
        if weak is None:
            return ""
        return recorded_command(weak.cell, self._facts[id(weak.cell)], weak.question)

    def _priced(self, task: str | None = None) -> list[Headline]:
        verdicts = []
        for prices in self._prices:
            judged = self._judged(task, prices)
            # what the list says of itself is known once it has priced
            speed_is = f"in seconds on {prices.head}, {counted(prices.batch, 'answer')} at a time"
            verdicts += [replace(verdict, speed_is=speed_is) for verdict in judged]
        return verdicts

    @staticmethod
    def _chosen(by_cost: Sequence[Headline], by_price: Iterable[Headline]) -> list[Headline]:
        priced: dict[str, Headline] = {}
        for verdict in by_price:
            if not verdict.why:
                priced.setdefault(verdict.model, verdict)
        return [priced.get(verdict.model, verdict) for verdict in by_cost]


def _incomplete(cells: Sequence[CellRow], run: RunFacts) -> dict[str, str]:
    """Model → on how many of its tasks cells failed, how many cells of the run are missing, and
    which of its samplers nobody has verified.
    """
    planned = (run.get("planned") or {}).get("cells")
    missing = ""
    if isinstance(planned, int) and planned > len(cells):
        missing = f"{planned - len(cells):,} of {counted(planned, 'cell')} were not run"
    texts = {}
    by_model: dict[str, list[CellRow]] = {}
    for row in cells:
        by_model.setdefault(row["model"], []).append(row)
    for model, own in by_model.items():
        tasks = {row["task"] for row in own}
        failed = {row["task"] for row in own if row["status"] != "ok"}
        parts = [missing] if missing else []
        if failed:
            parts.insert(0, f"{len(failed)} of {counted(len(tasks), 'task')} failed")
        parts += served_notes(own)
        texts[model] = "; ".join(parts)
    return texts


def in_a_line(verdict: HeadlineInWords) -> str:
    """`tiny: threshold-0.9, 7.6× fewer forwards`, or what is missing."""
    if not verdict.chosen:
        return f"{verdict.model}: {verdict.title}"
    speed_of_it, *_ = verdict.lines[0].split(",")
    return f"{verdict.model}: {verdict.sampler}, {speed_of_it.partition(' than ')[0]}"


def headline_text(verdicts: Iterable[HeadlineInWords], width: int) -> list[str]:
    """The verdicts as lines of a terminal."""
    lines = []
    for verdict in verdicts:
        first, *more = verdict_lines(verdict)
        lines += _wrapped(first, width, "")
        for line in more:
            lines += _wrapped(line, width, "  ")
    return lines


def verdict_lines(verdict: HeadlineInWords) -> list[str]:
    """The lines of a verdict; the first begins with the model, and with the sampler if it is
    chosen.
    """
    sampler = name(verdict.sampler)
    first, *more = [*verdict.lines, *verdict.notes] or [""]
    if verdict.chosen:
        return [f"{verdict.model}   {sampler}   {first}", *more]
    lines = [f"{verdict.model}   {verdict.title}"]
    if verdict.lines:
        first = f"{sampler}: {first}"
    return [*lines, *filter(None, [first, *more])]


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    lines = wrap(
        printable(line, 2000).replace(" %", f"{NO_BREAK}%"),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )
    return [each.replace(NO_BREAK, " ") for each in lines]


def in_words(verdict: Headline) -> HeadlineInWords:
    """A verdict in words, with what isn't in it."""
    told = _in_words(verdict)
    if verdict.incomplete:
        told = replace(told, notes=(*told.notes, verdict.incomplete))
    return told


def _in_words(verdict: Headline) -> HeadlineInWords:
    if verdict.why:
        return HeadlineInWords(name(verdict.model), title=f"no verdict: {verdict.why}")
    if verdict.weak is not None:
        title = f"no winner: {name(verdict.reference)} itself {verdict.weak.answers.text}"
        return HeadlineInWords(
            name(verdict.model), title=title, notes=(f"see an answer: {verdict.look}",)
        )
    about = verdict.chosen or verdict.settled
    if about is None:  # the one that loses least
        about = max(verdict.ranked, key=lambda sampler: sampler.change, default=None)
    lines: tuple[str, ...] = ()
    if about is not None:
        lines = (
            f"{speed(about, verdict.reference)}{_ranked_in(verdict)}",
            scores(about),
            f"{bound(about)} ({_basis(about, verdict.max_loss)})",
        )
    return HeadlineInWords(
        model=name(verdict.model),
        sampler="" if about is None else about.sampler,
        chosen=verdict.chosen is not None,
        title="" if verdict.chosen else _missing(verdict),
        lines=lines,
        notes=tuple(_notes(verdict, about)),
        others=tuple(_others(verdict, about)),
    )


def _missing(verdict: Headline) -> str:
    """Why there is no winner: what is known, and what would show it."""
    if verdict.settled is not None and verdict.further is not None:
        return _not_yet(verdict.settled, verdict.further, verdict.max_loss)
    if verdict.ranked:
        return _none_near(verdict)
    reference = name(verdict.reference)
    beside = [one.beside for one in verdict.unranked if one.beside is not None]
    if any(sampler.pace == "faster" for sampler in beside):
        return f"no winner: what is faster lacks tasks or questions of {reference}"
    return f"no winner: no sampler here is {100 * (AS_FAST - 1):.0f} % faster than {reference}"


def _not_yet(sampler: Beside, further: Further, max_loss: float) -> str:
    """`no winner yet: eb-0.1 looks as good; 53 more questions would show it: --limit 73`."""
    if sampler.change > -1e-9:
        known = f"{name(sampler.sampler)} looks as good"
        show = "show it"
    else:
        lost = fixed(-100 * sampler.change)
        known = f"{name(sampler.sampler)} lost {lost} of {max_loss:g} points allowed"
        show = f"show that it stays below {max_loss:g}"
    if not further.lacking:
        more = counted(further.more, "more question")
        return f"no winner yet: {known}; {more} would {show}: --limit {further.limit}"
    takes = counted(further.limit, "question")
    if len(sampler.by_task) > 1:
        takes += " of each task"
    return (
        f"no winner: {known}, but it takes {takes} to {show}, and {has_only(further.lacking)}; give"
        " data with more"
    )


def _none_near(verdict: Headline) -> str:
    """Why more questions don't make a winner of the faster samplers."""
    best = max(verdict.ranked, key=lambda sampler: sampler.change)
    allowed = points_text(verdict.max_loss)
    if 100 * best.change > -verdict.max_loss:
        return (
            f"no winner: {name(best.sampler)} lost {fixed(-100 * best.change)} points here; more"
            f" than {MOST_QUESTIONS:,} questions of each task would have to show that it loses less"
            f" than {allowed}"
        )
    if len(verdict.ranked) == 1:
        losing = "the only faster sampler"
    else:
        losing = f"each of {len(verdict.ranked)} faster samplers"
    return f"no winner: {losing} loses about {allowed} or more here"


def _ranked_in(verdict: Headline) -> str:
    return f" (ranked {verdict.speed_is})" if verdict.speed_is else ""


def _basis(sampler: Beside, max_loss: float) -> str:
    """What a bound rests on: `limit 5; 95 %, Holm over 4 samplers; 148 questions`."""
    level = "95 %"
    if sampler.tested > 1:
        level += f", Holm over {sampler.tested} samplers"
    return f"limit {max_loss:g}; {level}; {counted(sampler.questions, 'question')}"


def _notes(verdict: Headline, about: Beside | None) -> Iterator[str]:
    """The samplers that must be named beside the one that the lines are about."""
    ahead = verdict.ranked[0] if verdict.chosen else None
    for sampler in verdict.ranked:
        if sampler == about:
            continue
        if sampler == ahead:
            yield f"faster, but not shown: {name(sampler.sampler)}, {_brief(sampler)}"
        elif sampler.better or sampler.sampler in verdict.own:
            yield f"{name(sampler.sampler)}: {_brief(sampler)}"
    reasons: dict[str, list[str]] = {}
    for one in verdict.unranked:
        why = _reason(one, verdict)
        beside = one.beside
        named = not verdict.ranked or one.sampler in verdict.own
        if beside is not None and (beside.better or named):
            yield f"{name(one.sampler)}, not ranked ({why}): {_brief(beside)}"
        else:
            reasons.setdefault(why, []).append(name(one.sampler))
    parts = [f"{some(samplers, SAMPLERS)} ({why})" for why, samplers in reasons.items()]
    if parts:
        yield f"not ranked: {'; '.join(parts)}"


def _reason(one: Unranked, verdict: Headline) -> str:
    """Why a sampler is not ranked: `16 of 17 tasks, without sudoku`."""
    beside = one.beside
    if beside is None:
        no_common = f"no question in common with {name(verdict.reference)}"
        return "no scores" if one.reason == "no scores" else no_common
    if one.reason == "speed":
        return beside.no_speed
    if one.reason == "tasks":
        without = some([name(short(task)) for task in one.missing], WORST)
        return f"{len(beside.by_task)} of {verdict.tasks} tasks, without {without}"
    if one.reason == "questions":
        return f"{beside.questions:,} of {counted(verdict.questions, 'question')}"
    return beside.pace


def _others(verdict: Headline, about: Beside | None) -> Iterator[str]:
    """Further samplers that are shown, and the slowest of the faster ones that loses more than is
    allowed.
    """
    for sampler in verdict.ranked:
        if sampler.shown and sampler != about:
            at_worst = bound(sampler).replace(" points", "")  # for one line beside the plot
            yield f"{name(sampler.sampler)}: {_in_a_line(sampler)}; {at_worst}"
    losing = [sampler for sampler in verdict.ranked if 100 * sampler.change < -verdict.max_loss]
    if losing and losing[-1] != about:
        falls = losing[-1]
        yield f"falls first: {name(falls.sampler)}, {_in_a_line(falls)}"


def _in_a_line(sampler: Beside) -> str:
    """`7.2× fewer forwards; 93.1 %`: the first measure of its speed, and its score."""
    first, *_ = speed(sampler).split(",")
    right = _right_of_one(sampler)
    if right is not None:
        return f"{first}; {right[1]} of {sampler.questions}"
    return f"{first}; {fixed(100 * sampler.score)} %"


def _brief(sampler: Beside) -> str:
    return "; ".join(filter(None, [speed(sampler), _score(sampler), bound(sampler)]))


def speed(sampler: Beside, reference: str = "") -> str:
    """`7.5× fewer forwards, 6.1× less time`, than a reference if it is named; empty where nothing
    is known.
    """
    ratios = {"forwards": sampler.fewer("calls"), "rows": sampler.rows}
    if sampler.cost == "tokens":
        ratios["tokens forwarded"] = sampler.fewer("tokens")
    parts = [ratio_text(ratio, what) for what, ratio in ratios.items() if ratio is not None]
    seconds = sampler.fewer("seconds")
    if seconds is not None:
        parts.append(ratio_text(seconds, "time", "less"))
    text = ", ".join(parts)
    if not reference or not parts:
        return text
    than = "than" if "×" in parts[-1] else "as"
    return f"{text} {than} {name(reference)}"


def ratio_text(ratio: float, what: str, fewer: str = "fewer") -> str:
    """A ratio of costs: `7.5× fewer rows`, `1.20× more rows`, `about as many rows`.

    Args:
        ratio: the reference's cost divided by the sampler's.
        what: of what, in words.
        fewer: the word for a ratio above 1.
    """
    factor = ratio if ratio >= 1 else 1 / ratio
    if factor < AS_FAST:
        about = "" if fixed(factor, 2) == "1.00" else "about "
        return f"{about}as {'much' if fewer == 'less' else 'many'} {what}"
    return f"{fixed(factor, 1 if factor >= 2 else 2)}× {fewer if ratio >= 1 else 'more'} {what}"


def scores(sampler: Beside) -> str:
    """`score 93.1 % against 91.2 %; largest loss: copy, 8 → 7 of 8`; without the second part for a
    single task.
    """
    text = _score(sampler)
    if len(sampler.by_task) < 2:
        return text
    task, worst = min(sampler.by_task.items(), key=lambda item: item[1].change)
    if worst.change > -1e-9:
        return f"{text}; on no task lower"
    return f"{text}; largest loss: {name(short(task))}, {_loss(worst)}"


def _score(sampler: Beside) -> str:
    right = _right_of_one(sampler)
    if right is not None:
        return f"score {right[1]} against {right[0]} of {sampler.questions}"
    return f"score {fixed(100 * sampler.score)} % against {fixed(100 * sampler.reference_score)} %"


def _loss(task: Paired) -> str:
    right = _right(task)
    if right is not None:
        return f"{right[0]} → {right[1]} of {task.n}"
    return f"{fixed(100 * task.base)} → {fixed(100 * task.head)} %"


def _right_of_one(sampler: Beside) -> tuple[int, int] | None:
    """`_right` of its only task; None where it has several."""
    tasks = list(sampler.by_task.values())
    return _right(tasks[0]) if len(tasks) == 1 else None


def _right(task: Paired) -> tuple[int, int] | None:
    """How many answers of the reference and the sampler are right, where there are few and each is
    right or wrong.
    """
    counts = (task.n * task.base, task.n * task.head)
    if task.n >= FEW_ANSWERS or any(abs(count - round(count)) > 1e-6 for count in counts):
        return None
    return round(counts[0]), round(counts[1])


def bound(sampler: Beside) -> str:
    """`at worst 2.9 points lower`, rounded away from 0 so that what is said of it is true."""
    if sampler.lower > 0:
        return f"at least {fixed(math.floor(1000 * sampler.lower) / 10)} points higher"
    return f"at worst {fixed(math.ceil(-1000 * sampler.lower - 1e-6) / 10)} points lower"


def points_text(loss: float) -> str:
    """`5 points`."""
    return f"{loss:g} point{'' if loss == 1 else 's'}"
