"""The headline of a report: a sentence per model, the same in the terminal, report.md and page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Protocol

import pandas as pd

from pbcore.analysis.headline import (
    FEW_SAMPLERS,
    MAX_LOSS,
    NO_ANSWERS,
    Against,
    Cost,
    Headline,
    Priced,
    headline,
)
from pbcore.printable import counted, fixed, printable, some
from pbcore.report.cells import real
from pbcore.report.prices import Prices, prices_of
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.results.rundir import RunFacts
from pbcore.speed import SpeedAxis
from pbcore.text import name

MODELS = 5  # named in a sentence
# What speed is on an axis; on others it is `speed_up`.
COSTS: Mapping[SpeedAxis | None, Cost] = {
    "tokens-per-row": "rows",
    "tokens-per-forward": "calls",
    "calls": "calls",
    "rows": "rows",
    "tokens": "tokens",
    "seconds": "seconds",
}
COST_WORDS: Mapping[Cost, str] = {
    "calls": "in forwards",
    "rows": "in rows",
    "tokens": "in tokens forwarded",
    "seconds": "in seconds as measured",
}


class ModelAnswers(Protocol):
    """A cell's answers, with the model's name in the report."""

    @property
    def model(self) -> str: ...
    @property
    def cell(self) -> CellRecord: ...
    @property
    def samples(self) -> Sequence[SampleRecord]: ...


def model_verdicts(
    cells: pd.DataFrame,
    answers: Iterable[ModelAnswers],
    run: RunFacts,
    price: Priced | None = None,
) -> list[Headline]:
    """The verdict on each model with scores, in the order of the frame.

    Args:
        cells: a frame of `results.load`, whose models are named as in the report.
        answers: the cells' answers; without any the verdict says that they are needed.
        run: the facts of run.json; `max_loss` is the loss in points that the run allowed, `axis`
            what speed is.
        price: the seconds of an answer of a cell, which then are the speed; None: as `run` says.
    """
    cost = COSTS.get(run.get("axis"))
    scored = real(cells)
    scored = scored[(scored["status"] == "ok") & scored["score"].notna()]
    by_model: dict[str, list[tuple[CellRecord, Sequence[SampleRecord]]]] = {}
    for answer in answers:
        by_model.setdefault(answer.model, []).append((answer.cell, answer.samples))
    loss = run.get("max_loss") or MAX_LOSS
    verdicts = []
    for model, group in scored.groupby("model", sort=False):
        verdict = headline(str(model), by_model.get(str(model), []), loss, price, cost)
        verdict = replace(verdict, speed_is="" if cost is None else COST_WORDS[cost])
        if verdict.why in (NO_ANSWERS, FEW_SAMPLERS):
            # answers may be there of some samplers alone
            why = NO_ANSWERS if group["sampler"].nunique() > 1 else FEW_SAMPLERS
            verdict = replace(verdict, why=why)
        verdicts.append(verdict)
    return verdicts


def chosen_verdicts(
    cells: pd.DataFrame, answers: Iterable[ModelAnswers], run: RunFacts
) -> list[Headline]:
    """`model_verdicts`; where the run asks for seconds (`--axis`), in those of the first price list
    that gives a verdict on the model.
    """
    answers = list(answers)
    verdicts = model_verdicts(cells, answers, run)
    if run.get("axis") != "seconds":
        return verdicts
    priced: dict[str, Headline] = {}
    for prices in prices_of(run):
        for verdict in priced_verdicts(cells, answers, run, prices):
            if not verdict.why:
                priced.setdefault(verdict.model, verdict)
    return [priced.get(verdict.model, verdict) for verdict in verdicts]


def priced_verdicts(
    cells: pd.DataFrame, answers: Iterable[ModelAnswers], run: RunFacts, prices: Prices
) -> list[Headline]:
    """`model_verdicts` in the seconds of a price list."""
    verdicts = model_verdicts(cells, answers, run, prices.seconds)
    together = f"{counted(prices.batch, 'answer')} at a time"
    return [
        replace(verdict, speed_is=f"in seconds on {prices.head}, {together}")
        for verdict in verdicts
    ]


def headlines(
    cells: pd.DataFrame, answers: Iterable[ModelAnswers], run: RunFacts
) -> list[tuple[str, str]]:
    """The verdict on each model in a sentence.

    Args:
        cells: a frame of `results.load`.
        answers: those of its cells.
        run: the facts of run.json.

    Returns:
        (model, sentence) for each model with scores, in the order of the frame; then those without
        a verdict, a sentence for each cause, whose model is empty where it is about several.
    """
    sentences = []
    without: dict[str, list[str]] = {}  # the cause → its models
    answers = list(answers)
    by_price: dict[str, list[tuple[str, str]]] = {}
    for prices in prices_of(run):
        for verdict in priced_verdicts(cells, answers, run, prices):
            if not verdict.why:
                headline_of = (name(verdict.model), sentence(verdict))
                by_price.setdefault(verdict.model, []).append(headline_of)
    for verdict in model_verdicts(cells, answers, run):
        priced = by_price.pop(verdict.model, [])
        if priced and run.get("axis") == "seconds":
            sentences += priced  # the seconds that were asked for
            continue
        if verdict.why:
            without.setdefault(verdict.why, []).append(name(verdict.model))
        else:
            sentences.append((name(verdict.model), sentence(verdict)))
        sentences += priced
    for why, models in without.items():
        about = models[0] if len(models) == 1 else ""
        sentences.append((about, f"no verdict on {some(models, MODELS)}: {why}"))
    return sentences


def headline_text(sentences: Sequence[tuple[str, str]], width: int) -> list[str]:
    """The sentences as lines of a terminal."""
    lines = []
    for _, text in sentences:
        lines += wrap(printable(text, 2000), width)
    return lines


def sentence(verdict: Headline) -> str:
    """The verdict on one model in words, without a full stop, where there is one."""
    model = name(verdict.model)
    if verdict.speed_is:
        model = f"{verdict.speed_is}: {model}"
    reference = name(verdict.reference)
    allowed = f"at most {points_text(verdict.max_loss)}"
    parts = []
    if verdict.chosen is not None:
        best = verdict.chosen
        parts.append(
            f"{model}: {name(best.sampler)} is the fastest in this run that is shown to lose"
            f" {allowed} to {reference}: {speed(best)}; {quality(best)}, {basis(best)}"
        )
        if verdict.fastest is not None and verdict.fastest != best:
            fastest = verdict.fastest
            parts.append(
                f"{name(fastest.sampler)} is faster ({speed(fastest)}) and may lose more:"
                f" {quality(fastest)}{correction(fastest, verdict)}"
            )
    elif verdict.fastest is not None:
        parts.append(f"{model}: no sampler in this run is shown to lose {allowed} to {reference}")
        parts += undecided(verdict, verdict.fastest)
    else:
        parts.append(f"{model}: no sampler in this run is faster than {reference}")
        if verdict.slower is not None:
            slower = verdict.slower
            text = f"{name(slower.sampler)}: {speed(slower)}; {quality(slower)}, {basis(slower)}"
            parts.append(text)
    for other in verdict.others:
        text = f"{name(other.sampler)}: {speed(other)}; {quality(other)}"
        text += correction(other, verdict)
        if other.tasks < verdict.tasks:
            text += f", on {other.tasks} of {verdict.tasks} tasks"
        parts.append(text)
    for sampler in verdict.unpaired:
        parts.append(f"{name(sampler)}: no scores on the same questions")
    return "; ".join(parts)


def speed(sampler: Against) -> str:
    """`7.5 times fewer forwards, 6.1 times less time`."""
    parts = []
    if sampler.forwards is not None:
        parts.append(ratio_text(sampler.forwards, "forwards"))
    if sampler.rows is not None:
        parts.append(ratio_text(sampler.rows, "rows"))
    if sampler.tokens is not None:
        parts.append(ratio_text(sampler.tokens, "tokens forwarded"))
    if sampler.seconds is not None:
        parts.append(ratio_text(sampler.seconds, "time", "less"))
    return ", ".join(parts) or "its speed was not measured"


def ratio_text(ratio: float, what: str, fewer: str = "fewer") -> str:
    """A ratio of costs: `7.5 times fewer rows`, `1.20 times more rows`.

    Args:
        ratio: the reference's cost divided by the sampler's.
        what: of what, in words.
        fewer: the word for a ratio above 1.
    """
    factor = ratio if ratio >= 1 else 1 / ratio
    shown = fixed(factor, 1 if factor >= 2 else 2)
    if shown == "1.00":
        return f"as {'much' if fewer == 'less' else 'many'} {what}"
    return f"{shown} times {fewer if ratio >= 1 else 'more'} {what}"


def quality(sampler: Against) -> str:
    """`91.2 % against 91.5 %, −0.3 points, at most 2.9 lower`. The bound is rounded away from 0, so
    that what is said of it is true.
    """
    result = sampler.quality
    scores = f"{fixed(100 * sampler.score)} % against {fixed(100 * sampler.reference_score)} %"
    change = fixed(100 * result.change)
    if change in ("0.0", "-0.0"):
        change = "0.0"
    else:
        change = change.replace("-", "−") if result.change < 0 else f"+{change}"
    if result.lower > 0:
        bound = f"at least {fixed(math.floor(1000 * result.lower) / 10)} higher"
    else:
        bound = f"at most {fixed(math.ceil(-1000 * result.lower - 1e-6) / 10)} lower"
    better = " (better)" if sampler.better else ""
    return f"{scores}, {change} points, {bound}{better}"


def basis(sampler: Against) -> str:
    """What the bound is, and on how much it rests."""
    tasks = f"mean of {counted(sampler.tasks, 'task')}, " if sampler.tasks > 1 else ""
    return f"at 95 % one-sided ({tasks}{counted(sampler.quality.n, 'question')})"


def correction(sampler: Against, verdict: Headline) -> str:
    """Why a bound inside the limit is not enough, where it isn't."""
    faster = sampler.speed is not None and sampler.speed > 1
    if faster and sampler.quality.shown and not sampler.shown:
        return f" (not shown with Holm's correction for {counted(verdict.compared, 'sampler')})"
    return ""


def undecided(verdict: Headline, fastest: Against) -> list[str]:
    """Where nothing is shown: the sampler that more questions could show, and how many would settle
    it; then the fastest, which may lose much.
    """
    nearest = verdict.settled or fastest
    title = f"the fastest, {name(nearest.sampler)}" if nearest == fastest else name(nearest.sampler)
    first = f"{title}: {speed(nearest)}; {quality(nearest)}, {basis(nearest)}"
    parts = [first + correction(nearest, verdict)]
    if verdict.settled is None:
        lost = points_text(verdict.max_loss)
        parts.append(f"more questions would hardly help, since it loses {lost} or more here")
        return parts
    parts.append(questions_text(verdict.settled_by))
    if nearest != fastest:
        parts.append(
            f"the fastest, {name(fastest.sampler)}: {speed(fastest)}; {quality(fastest)}"
            f"{correction(fastest, verdict)}"
        )
    return parts


def questions_text(number: int | None) -> str:
    """How many questions would settle a verdict, in words."""
    return f"about {_rounded(number or 0):,} questions would settle it"


def points_text(loss: float) -> str:
    """`5 points`."""
    return f"{loss:g} point{'' if loss == 1 else 's'}"


def _rounded(number: int) -> int:
    """Up to two digits."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return math.ceil(number / unit) * unit
