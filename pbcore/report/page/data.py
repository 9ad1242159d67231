"""Data for the page's script: cells with their facts, questions, and as many answers as fit. Every
answer's verdict is there, also where its text has no room.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from pbcore.base.check import dump_json
from pbcore.base.printable import first_line, fixed, printable, step_number
from pbcore.report.answers import ReportCell, is_wrong
from pbcore.report.blame_text import Broken, broken
from pbcore.report.nearest import nearest
from pbcore.report.page.html import as_json
from pbcore.report.rerun import recorded_command
from pbcore.results.measures import BY_KEY, shown_in
from pbcore.results.questions import StoredQuestion
from pbcore.results.record import (
    Blame,
    CellRecord,
    FormerToken,
    SampleRecord,
    Score,
    absent_reasons,
)
from pbcore.results.stats import right_or_wrong
from pbcore.results.table_row import cell_rate
from pbcore.tasks.cot import final_answer
from pbcore.tasks.naming import short

NAME = 300  # characters of a name
LEAST = 300_000  # bytes for answers, however long the tables are
PLACES = 3  # decimals of a confidence
LONGEST = 20_000  # characters of one text on a page
PIECE = 200  # of one token
SIGNS = {True: "1", False: "0", None: "-"}  # whether an answer is wrong


def answer_verdicts(cell: CellRecord, samples: Sequence[SampleRecord]) -> list[list[Any]]:
    """All verdicts of a cell: for each seed [seed, indices in order (0 for 0, 1, 2 …), a sign per
    answer], `1` for wrong, `0` for right, `-` for not scored.
    """
    by_seed: defaultdict[int, list[SampleRecord]] = defaultdict(list)
    for sample in sorted(samples, key=lambda sample: sample.place):
        by_seed[sample.seed].append(sample)
    packed_seeds: list[list[Any]] = []
    for seed, answers in sorted(by_seed.items()):
        indices = [sample.index for sample in answers]
        plain = indices == list(range(len(indices)))
        signs = (SIGNS[is_wrong(cell, sample)] for sample in answers)
        packed_seeds.append([seed, 0 if plain else indices, "".join(signs)])
    return packed_seeds


class PageMatch(TypedDict):
    """A grammar match in an answer: characters `start` to `start + length` break `rule`."""

    start: int
    length: int
    rule: str
    message: str


class PageToken(TypedDict):
    """A token that was at `place` from `step` to `until` and then taken back."""

    place: int
    text: str
    step: int
    until: int
    confidence: float


class PageRest(TypedDict):
    """How an answer goes on one token at a time; `wrong` is None where that isn't known."""

    text: str
    tokens: list[str]
    steps: list[int]
    confidences: list[float]
    wrong: bool | None


class PageBlame(TypedDict, total=False):
    """What broke an answer, in `lines`; `step` is the number of the step, from 1, `places` the
    positions of the tokens that clash, and `verdict` that of `--blame`; `rest` is how it ends from
    the canvas before the step.
    """

    lines: list[str]
    step: int
    places: list[int]
    verdict: str
    rest: PageRest


class PageAnswer(TypedDict, total=False):
    """An answer for the page's script; a key without a value is left out. `scores` stand in the
    order of the cell's metrics; `cut` is the length of a text that was cut, `near` the nearest of
    several right answers to a wrong one.
    """

    index: int
    seed: int
    wrong: bool | None
    scores: list[float | None]
    nfe: int | None
    text: str
    near: str
    tokens: list[str]
    steps: list[int]
    confidences: list[float]
    why: str
    matches: list[PageMatch]
    former: list[PageToken]
    cut: int
    served: str
    kinds: list[str]
    blame: PageBlame


def page_answer(
    cell: CellRecord, sample: SampleRecord, question: StoredQuestion | None = None
) -> PageAnswer:
    """An answer for the page's script.

    Args:
        cell: what it is part of.
        sample: the answer.
        question: what it answers, where that is known.
    """
    text = sample.text
    if cell.conditions.options.get("official_text") and sample.official_text:
        text = sample.official_text
    scores = [sample.scores.get(name) for name in cell.scores]
    answer: PageAnswer = {
        "index": sample.index,
        "wrong": is_wrong(cell, sample),
        "scores": [None if score is None else round(score, 4) for score in scores],
        "nfe": sample.nfe,
        "text": text[:LONGEST],
    }
    if sample.seed:
        answer["seed"] = sample.seed
    if len(text) > LONGEST:
        answer["cut"] = len(text)
    if answer["wrong"] and question is not None:
        closest = nearest(question, answer["text"])
        if closest is not None and closest != question.answer:
            answer["near"] = closest[:LONGEST]
    answer |= _film(sample)
    answer |= _reasons(cell, sample, text)
    why_broken = broken(sample) if answer["wrong"] is not False or sample.blame else None
    if why_broken is not None:
        answer["blame"] = _blame(cell, why_broken, sample.blame)
    return answer


def _film(sample: SampleRecord) -> PageAnswer:
    """How an answer was decoded."""
    film: PageAnswer = {}
    if sample.tokens is not None:
        film["tokens"] = [piece[:PIECE] for piece in sample.tokens]
    if sample.steps:
        film["steps"] = list(sample.steps)
    if sample.confidences:
        film["confidences"] = _confidences(sample.confidences)
    if sample.former:
        film["former"] = [_former(former) for former in sample.former]
    if sample.served is not None:
        film["served"] = dump_json(sample.served)[:LONGEST]
    return film


def _reasons(cell: CellRecord, sample: SampleRecord, text: str) -> PageAnswer:
    """What its scorer says of an answer.

    Args:
        cell: what it is part of.
        sample: the answer.
        text: what was scored.
    """
    reasons: PageAnswer = {}
    why = sample.details.get("why")
    if why:
        reasons["why"] = str(why)[:LONGEST]
    matches = sample.details.get("matches")
    if isinstance(matches, list) and matches:
        reasons["matches"] = _matches(cell, matches, text)
    failure = sample.details.get("failure")
    if failure:
        kinds = failure if isinstance(failure, list) else [failure]
        reasons["kinds"] = [str(kind) for kind in kinds]
    return reasons


def _blame(cell: CellRecord, why: Broken, blame: Blame | None) -> PageBlame:
    """What broke an answer, with the film of how it ends one token at a time.

    Args:
        cell: what it is part of.
        why: what broke it.
        blame: its blame, which has that film.
    """
    shown: PageBlame = {"lines": list(why.lines)}
    if why.step is not None:
        shown["step"] = step_number(why.step)
    if why.places:
        shown["places"] = list(why.places)
    if why.verdict:
        shown["verdict"] = why.verdict
    if blame is not None and blame.rest is not None:
        shown["rest"] = {
            "text": blame.rest.text[:LONGEST],
            "tokens": [piece[:PIECE] for piece in blame.rest.tokens],
            "steps": list(blame.rest.steps),
            "confidences": _confidences(blame.rest.confidences),
            "wrong": None if cell.headline == "grammar" else False,
        }
    return shown


def _confidences(shares: Iterable[float]) -> list[float]:
    return [round(share, PLACES) for share in shares]


def _former(former: FormerToken) -> PageToken:
    return {
        "place": former.at,
        "text": former.token[:PIECE],
        "step": former.step,
        "until": former.until,
        "confidence": round(former.confidence, PLACES),
    }


def _matches(cell: CellRecord, matches: Iterable[Any], text: str) -> list[PageMatch]:
    """Grammar matches by the characters of the whole text. LanguageTool was given the stripped
    text, or of one with steps its final answer: its offsets start there.
    """
    options = cell.conditions.options
    checked = text
    if options.get("cot") and options.get("cot_answer") != "whole":
        checked = final_answer(text) or ""
    offset = text.rfind(checked.strip())
    keys = {"offset", "length", "rule", "message"}
    page_matches: list[PageMatch] = []
    for match in matches:
        if not isinstance(match, dict) or not keys <= match.keys():
            continue
        if not isinstance(match["offset"], int):
            continue
        page_matches.append(
            {
                "start": match["offset"] + offset,
                "length": match["length"],
                "rule": str(match["rule"]),
                "message": str(match["message"]),
            }
        )
    return page_matches


def choose_answers(cells: Sequence[ReportCell], room: int) -> list[list[PageAnswer]]:
    """For each cell its answers by seed and index, as far as `room` (bytes of a page) goes: flips,
    then wrong ones, then the others, in turn from all cells and by index, so that cells of one task
    have the same samples.
    """
    kept: list[dict[int, PageAnswer]] = [{} for _ in cells]  # by their positions in the cell
    packer = zlib.compressobj()
    size = 0
    for number, position in _by_weight(cells):
        shown = cells[number]
        sample = shown.samples[position]
        answer = page_answer(shown.cell, sample, shown.questions.get(sample.index))
        size += len(packer.compress(as_json(answer).encode()))
        if size * 4 / 3 > room:  # its base64
            break
        kept[number][position] = answer
    return [[answers[position] for position in sorted(answers)] for answers in kept]


def _by_weight(cells: Sequence[ReportCell]) -> list[tuple[int, int]]:
    """(number of the cell, position in it) of all answers, first those that a page should have."""
    order = []
    for number, shown in enumerate(cells):
        flipped = {*shown.worse, *shown.better}
        counts: Counter[int] = Counter()  # of answers of each kind
        for position, sample in sorted(enumerate(shown.samples), key=lambda item: item[1].place):
            if sample.index in flipped:
                kind = 0
            elif is_wrong(shown.cell, sample) is False:
                kind = 2
            else:
                kind = 1
            order.append((kind, counts[kind], number, position))
            counts[kind] += 1
    return [(number, position) for _, _, number, position in sorted(order)]


class PageQuestion(TypedDict, total=False):
    """A question for the page's script: the part of its prompt that is its own, its length if it
    was cut, one right answer (`label`), and whether that is the only one.
    """

    prompt: str
    label: str
    only: bool
    cut: int


class PageQuestions(TypedDict):
    """The questions of a task by their index; what all prompts begin and end with stands once."""

    before: str
    after: str
    shots: int
    of: dict[int, PageQuestion]


class Flips(TypedDict):
    """The indices of the samples whose answers got worse or better."""

    worse: tuple[int, ...]
    better: tuple[int, ...]


class PageCell(TypedDict):
    """A cell for the page's script. `name` is the task's short one; `scores` are [mean, low, high]
    in [0, 1] by metric; `verdicts` as of `answer_verdicts`; `facts` are names and texts;
    `questions` is the number of its task's questions in the page's data. `blamed` says whether its
    answers have their blame, `traceable` whether `pbcore blame` can find it. A comparison's cells
    have the run's letter (`side`), the number of the other run's cell (`pair`) and `flips`.
    """

    id: str
    model: str
    task: str
    name: str
    sampler: str
    headline: str
    metrics: list[str]
    scores: dict[str, list[float]]
    n: int
    verdicts: list[list[Any]]
    kinds: list[str]
    facts: list[list[str]]
    questions: int
    blamed: NotRequired[bool]
    traceable: NotRequired[bool]
    side: NotRequired[str]
    flips: NotRequired[Flips]
    pair: NotRequired[int]


class RunData(TypedDict):
    """What a page knows of its cells without their answers."""

    run: str
    cells: list[PageCell]


class AnswerData(TypedDict):
    """The answers of a page by cell, and the questions of each task."""

    answers: list[list[PageAnswer]]
    questions: list[PageQuestions]


def run_data(cells: Sequence[ReportCell], run: str) -> RunData:
    """The cells of a page. `run` is the run's name."""
    _, pool_numbers = _pools(cells)
    shown = [_cell(cell, pool) for cell, pool in zip(cells, pool_numbers, strict=True)]
    return {"run": printable(run, NAME), "cells": shown}


def answer_data(cells: Sequence[ReportCell], room: int) -> AnswerData:
    """The answers of a page and their questions, as far as there is room.

    Args:
        cells: what it shows.
        room: about how many bytes of the page they may take; at least `LEAST`.
    """
    pools, pool_numbers = _pools(cells)
    answers = choose_answers(cells, max(room, LEAST))
    return {"answers": answers, "questions": _answered_questions(pools, pool_numbers, answers)}


def _answered_questions(
    pools: Sequence[Mapping[int, StoredQuestion]],
    pool_numbers: Sequence[int],
    answers: Sequence[Sequence[PageAnswer]],
) -> list[PageQuestions]:
    """Of each pool the questions that some answer on the page is to.

    Args:
        pools: of questions.
        pool_numbers: which pool each cell's are in; −1 for none.
        answers: of each cell on the page.
    """
    indices: defaultdict[int, set[int]] = defaultdict(set)
    for number, cell_answers in zip(pool_numbers, answers, strict=True):
        indices[number].update(answer["index"] for answer in cell_answers)
    questions = []
    for number, pool in enumerate(pools):
        answered = {index: pool[index] for index in pool if index in indices[number]}
        questions.append(page_questions(answered))
    return questions


def cell_data(shown: ReportCell) -> str:
    """All answers of one cell as JSON, for a page that asks for them."""
    samples = sorted(shown.samples, key=lambda sample: sample.place)
    answers = []
    for sample in samples:
        answers.append(page_answer(shown.cell, sample, shown.questions.get(sample.index)))
    return as_json({"answers": answers, "questions": page_questions(shown.questions)})


def _cell(shown: ReportCell, questions: int) -> PageCell:
    cell = shown.cell
    page_cell: PageCell = {
        "id": printable(shown.id, NAME),
        "model": printable(shown.model, NAME),
        "task": printable(cell.task, NAME),
        "name": printable(short(cell.task), NAME),
        "sampler": printable(cell.sampler, NAME),
        "headline": cell.headline,
        "metrics": list(cell.scores),
        "scores": {name: _rounded(score) for name, score in cell.scores.items()},
        "n": len(shown.samples),
        "verdicts": answer_verdicts(cell, shown.samples),
        "kinds": [printable(kind, NAME) for kind in cell.failures],
        "facts": [[name, printable(text, NAME)] for name, text in _facts(shown).items() if text],
        "questions": questions,
    }
    if cell.blame is not None:
        page_cell["blamed"] = True
    elif _is_traceable(shown):
        page_cell["traceable"] = True
    if shown.side:
        page_cell["side"] = shown.side
        page_cell["flips"] = {"worse": shown.worse, "better": shown.better}
        if shown.pair is not None:
            page_cell["pair"] = shown.pair
    return page_cell


def _is_traceable(shown: ReportCell) -> bool:
    """Whether `pbcore blame` can find what broke the wrong answers of a cell."""
    if right_or_wrong(shown.cell.headline, shown.cell.scores) is None:
        return False
    return any(sample.steps and sample.served is None for sample in shown.samples)


def _rounded(score: Score) -> list[float]:
    return [round(score.mean, 6), round(score.low, 6), round(score.high, 6)]


def _facts(shown: ReportCell) -> dict[str, str]:
    """What the page says of a cell, by name; texts are empty where there is nothing to say."""
    cell = shown.cell
    facts: dict[str, str] = {}
    if cell.status != "ok":
        facts["error"] = first_line(cell.error or "")
    verdicts = [is_wrong(cell, sample) for sample in shown.samples]
    if any(wrong is not None for wrong in verdicts):
        facts["wrong answers"] = f"{verdicts.count(True)} of {len(verdicts)}"
    rates = [*shown_in("page"), BY_KEY["seconds"]]
    for measure in rates:
        value = None if measure.kind == "theory" else cell_rate(cell, measure.key)
        same_rows = measure.of_rows and cell.rows_mean in (None, cell.nfe_mean)
        if value is not None and not same_rows:
            facts[measure.head] = fixed(value, 2)
    if cell.nfe_mean is not None:
        spread = f"median {cell.nfe_median or 0:g}, most {cell.nfe_max}"
        facts["NFE"] = f"{fixed(cell.nfe_mean)} ({spread})"
    facts["failures"] = ", ".join(f"{kind} {count}" for kind, count in cell.failures.items())
    reasons = absent_reasons(cell.absent).items()
    facts["not measured"] = "; ".join(f"{name}: {first_line(why)}" for name, why in reasons)
    conditions = cell.conditions
    if len(conditions.seeds) > 1:
        facts["seeds"] = ", ".join(str(seed) for seed in conditions.seeds)
    facts["device"] = " ".join(text for text in (conditions.device, conditions.dtype) if text)
    facts["data"] = conditions.data_source or ""
    facts["run it again"] = recorded_command(cell, shown.run)
    return facts


def _pools(cells: Iterable[ReportCell]) -> tuple[list[dict[int, StoredQuestion]], list[int]]:
    """The questions of all cells without repetitions, and for each cell the number of its pool; −1
    without questions. Cells of a task share a pool if their questions agree wherever they have the
    same index.
    """
    pools: list[dict[int, StoredQuestion]] = []
    of_task: defaultdict[str, list[int]] = defaultdict(list)
    numbers = []
    for shown in cells:
        if not shown.questions:
            numbers.append(-1)
            continue
        candidates = of_task[shown.cell.task]
        fitting = (number for number in candidates if _agree(pools[number], shown.questions))
        number = next(fitting, len(pools))
        if number == len(pools):
            pools.append({})
            candidates.append(number)
        pools[number].update(shown.questions)
        numbers.append(number)
    return pools, numbers


def _agree(pool: Mapping[int, StoredQuestion], questions: Mapping[int, StoredQuestion]) -> bool:
    """Whether the questions are those of the pool wherever they have the same index."""
    return all(pool.get(index, question) == question for index, question in questions.items())


def page_questions(pool: Mapping[int, StoredQuestion]) -> PageQuestions:
    """Questions for the page's script."""
    prompts = [question.prompt[:LONGEST] for question in pool.values()]
    before = _common(prompts)
    rests = [prompt[len(before) :] for prompt in prompts]
    after = _common([rest[::-1] for rest in rests])[::-1]
    of: dict[int, PageQuestion] = {}
    for (index, question), rest in zip(pool.items(), rests, strict=True):
        of[index] = {"prompt": rest[: len(rest) - len(after)], "only": question.only}
        if question.answer is not None:
            of[index]["label"] = question.answer[:LONGEST]
        if len(question.prompt) > LONGEST:
            of[index]["cut"] = len(question.prompt)
    shots = max((question.shots for question in pool.values()), default=0)
    return {"before": before, "after": after, "shots": shots, "of": of}


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first = min(texts, default="")
    last = max(texts, default="")
    return next((first[:i] for i, sign in enumerate(first) if sign != last[i]), first)
