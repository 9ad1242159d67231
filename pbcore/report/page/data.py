"""Data for the page's script: cells with their facts, questions, and as many answers as fit, as
compact JSON. Every answer's verdict is there, also where its text has no room.

Tokens (numbers of a table of texts), steps and confidences are strings of digits to the base 62.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NotRequired, TypedDict

from pbcore.printable import first_line, fixed, printable
from pbcore.report.answers import ReportCell, is_wrong
from pbcore.report.page.html import as_json
from pbcore.results.check import dump_json
from pbcore.results.questions import StoredQuestion
from pbcore.results.record import CellRecord, FormerToken, SampleRecord, absent_reasons
from pbcore.results.stats import GRADED
from pbcore.tasks.cot import final_answer
from pbcore.tasks.naming import short

NAME = 300  # characters of a name
LEAST = 300_000  # bytes for answers, however long the tables are
AROUND = 70  # bytes of the element around a cell's answers
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FINEST = len(DIGITS) ** 2 - 1  # confidences are kept in this many parts
LONGEST = 20_000  # characters of one text on a page
PIECE = 200  # of one token
EOS = "<eos>"
SIGNS = {True: "1", False: "0", None: "-"}  # whether an answer is wrong
Tokens = dict[str, int]  # the text of every token on a page → its number, in their order


def _number(tokens: Tokens, text: str) -> int:
    return tokens.setdefault(text[:PIECE], len(tokens))


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


class PackedMatch(TypedDict):
    """A grammar match in an answer: characters `start` to `start + length` break `rule`."""

    start: int
    length: int
    rule: str
    message: str


class PackedToken(TypedDict):
    """A token that was at `place` from `step` to `until` and then taken back; `token` is its
    number.
    """

    place: int
    token: int
    step: int
    until: int
    confidence: float


class PackedAnswer(TypedDict, total=False):
    """An answer for the page's script; a key without a value is left out. `scores` stand in the
    order of the cell's metrics. Without `text` the tokens before the first EOS say it; `cut` is the
    length of a text that was cut. `kinds` are numbers of texts in the page's table.
    """

    index: int
    seed: int
    scores: list[float | None]
    nfe: int | None
    text: str
    tokens: str
    steps: str | list[int]
    confidences: str
    why: str
    matches: list[PackedMatch]
    former: list[PackedToken]
    cut: int
    served: str
    kinds: list[int]


KEYS = tuple(PackedAnswer.__annotations__)


def by_key(answers: Sequence[PackedAnswer]) -> dict[str, list[Any]]:
    """A cell's answers as the page holds them: by key, so that names stand once; 0 where an answer
    has none, and without keys that no answer has.
    """
    return {
        key: [answer.get(key, 0) for answer in answers]
        for key in KEYS
        if any(key in answer for answer in answers)
    }


def packed(cell: CellRecord, sample: SampleRecord, tokens: Tokens) -> PackedAnswer:
    """An answer for the page's script.

    Args:
        cell: what it is part of.
        sample: the answer.
        tokens: takes the texts of its tokens and kinds.
    """
    text = (cell.conditions.options.get("official_text") and sample.official_text) or sample.text
    answer: PackedAnswer = {
        "index": sample.index,
        "scores": [
            round(sample.scores[name], 4) if name in sample.scores else None for name in cell.scores
        ],
    }
    if sample.seed:
        answer["seed"] = sample.seed
    answer["nfe"] = sample.nfe
    if text != _answer(sample):
        answer["text"] = text[:LONGEST]
    if len(text) > LONGEST:
        answer["cut"] = len(text)
    if sample.tokens is not None:
        numbers = [_number(tokens, piece) for piece in sample.tokens]
        answer["tokens"] = "".join(map(token_digits, numbers))
    if sample.steps:
        answer["steps"] = step_digits(sample.steps)
    if sample.confidences:
        answer["confidences"] = "".join(map(confidence_digits, sample.confidences))
    if sample.former:
        answer["former"] = [_former(former, tokens) for former in sample.former]
    if sample.served is not None:
        answer["served"] = dump_json(sample.served)[:LONGEST]
    if why := sample.details.get("why"):
        answer["why"] = str(why)[:LONGEST]
    matches = sample.details.get("matches")
    if isinstance(matches, list) and matches:
        answer["matches"] = _matches(cell, matches, text)
    if kinds := sample.details.get("failure"):
        names = kinds if isinstance(kinds, list) else [kinds]
        answer["kinds"] = [_number(tokens, str(kind)) for kind in names]
    return answer


def _former(former: FormerToken, tokens: Tokens) -> PackedToken:
    return {
        "place": former.at,
        "token": _number(tokens, former.token),
        "step": former.step,
        "until": former.until,
        "confidence": round(former.confidence, 4),
    }


def _answer(sample: SampleRecord) -> str | None:
    """The text that the tokens before the first EOS make; the page's script joins them likewise."""
    if sample.tokens is None or any(len(piece) > PIECE for piece in sample.tokens):
        return None
    end = sample.tokens.index(EOS) if EOS in sample.tokens else len(sample.tokens)
    if end == len(sample.tokens) < len(sample.steps):
        return None  # the last token repeats to the end
    return "".join(sample.tokens[:end])


def step_digits(steps: Sequence[int]) -> str | list[int]:
    """A digit for each step, `-` for tokens that were not decoded; the list itself where steps are
    too many.
    """
    if any(not -1 <= step < len(DIGITS) for step in steps):
        return list(steps)
    return "".join("-" if step < 0 else DIGITS[step] for step in steps)


def confidence_digits(share: float) -> str:
    """A number of [0, 1] in two digits; `!` for 1."""
    part = round(min(max(share, 0.0), 1.0) * FINEST)
    return "!" if part == FINEST else _two(part)


def token_digits(number: int) -> str:
    """A token's number in two digits, or `.` and four."""
    high, low = divmod(number, FINEST + 1)
    return f".{_two(high)}{_two(low)}" if high else _two(low)


def _two(number: int) -> str:
    return DIGITS[number // len(DIGITS)] + DIGITS[number % len(DIGITS)]


def _matches(cell: CellRecord, matches: Iterable[Any], text: str) -> list[PackedMatch]:
    """Grammar matches by the characters of the whole text. LanguageTool was given the stripped
    text, or of one with steps its final answer: its offsets start there.
    """
    options = cell.conditions.options
    marked = options.get("cot") and options.get("cot_answer") != "whole"
    offset = text.rfind((final_answer(text) or "" if marked else text).strip())
    keys = {"offset", "length", "rule", "message"}
    return [
        {
            "start": match["offset"] + offset,
            "length": match["length"],
            "rule": str(match["rule"]),
            "message": str(match["message"]),
        }
        for match in matches
        if isinstance(match, dict) and match.keys() >= keys and isinstance(match["offset"], int)
    ]


def choose_answers(
    cells: Sequence[ReportCell], room: int
) -> tuple[list[list[PackedAnswer]], list[str]]:
    """For each cell its packed answers, as far as `room` (bytes of JSON) goes, and the texts of
    their tokens: flips, then wrong ones, then the others, in turn from all cells and by index, so
    that cells of one task have the same samples.
    """
    tokens: Tokens = {}
    order = []
    for number, one in enumerate(cells):
        counts: Counter[int] = Counter()  # of answers of each kind
        for position, sample in sorted(enumerate(one.samples), key=lambda item: item[1].place):
            flipped = sample.index in (*one.worse, *one.better)
            kind = 0 if flipped else 2 if is_wrong(one.cell, sample) is False else 1
            order.append((kind, counts[kind], number, position))
            counts[kind] += 1
    kept: list[list[tuple[int, PackedAnswer]]] = [[] for _ in cells]
    for _, _, number, position in sorted(order):
        before = len(tokens)
        answer = packed(cells[number].cell, cells[number].samples[position], tokens)
        values = [answer.get(key, 0) for key in KEYS]
        added = (as_json(one) for one in (values, *islice(tokens, before, None)))
        room -= sum(len(text.encode("utf-8", "replace")) + 1 for text in added)
        if room < 0:
            break
        kept[number].append((position, answer))
    return [[answer for _, answer in sorted(one, key=itemgetter(0))] for one in kept], list(tokens)


class PackedQuestion(TypedDict, total=False):
    """A question for the page's script: the part of its prompt that is its own, its length if it
    was cut, one right answer (`label`), and whether that is the only one.
    """

    prompt: str
    label: str
    only: bool
    cut: int


class PackedQuestions(TypedDict):
    """The questions of a task by their index; what all prompts begin and end with stands once."""

    before: str
    after: str
    shots: int
    of: dict[int, PackedQuestion]


class Flips(TypedDict):
    """The indices of the samples whose answers got worse or better."""

    worse: tuple[int, ...]
    better: tuple[int, ...]


class PageCell(TypedDict):
    """A cell for the page's script. `name` is the task's short one; `scores` are [mean, low, high]
    in [0, 1] by metric; `verdicts` as of `answer_verdicts`; `facts` are names and texts;
    `questions` is the number of its task's questions in the page's data. A comparison's cells have
    the run's letter (`side`), the number of the other run's cell (`pair`) and `flips`.
    """

    id: str
    model: str
    task: str
    name: str
    sampler: str
    headline: str
    graded: bool
    metrics: list[str]
    scores: dict[str, list[float]]
    n: int
    verdicts: list[list[Any]]
    kinds: list[str]
    facts: list[list[str]]
    questions: int
    side: NotRequired[str]
    flips: NotRequired[Flips]
    pair: NotRequired[int]


class AnswerData(TypedDict):
    """The answers of a page: `tokens` are the texts that answers name by number, `questions` those
    of each task; a `remote` page asks for both.
    """

    run: str
    remote: bool
    cells: list[PageCell]
    tokens: list[str]
    questions: list[PackedQuestions]


def page_data(
    cells: Sequence[ReportCell], run: str, room: int, remote: bool
) -> tuple[AnswerData, list[list[PackedAnswer]]]:
    """The page's data and the answers in it.

    Args:
        cells: what it shows.
        run: the run's name.
        room: about how many bytes of JSON there is room for; answers have at least `LEAST` of them.
        remote: whether the page asks a server for answers.

    Returns:
        The data, and the answers of each cell that are part of the page: none if `remote`.
    """
    pools, numbers = _pools(cells)
    data: AnswerData = {
        "run": printable(run, NAME),
        "remote": remote,
        "cells": [_cell(one, number) for one, number in zip(cells, numbers, strict=True)],
        "tokens": [],
        "questions": [] if remote else [packed_questions(pool) for pool in pools],
    }
    if remote:
        return data, [[] for _ in cells]
    room -= len(as_json(data).encode()) + AROUND * len(cells)
    answers, tokens = choose_answers(cells, max(room, LEAST))
    for number, pool in enumerate(pools):
        wanted = {
            answer["index"]
            for one, at in zip(answers, numbers, strict=True)
            if at == number
            for answer in one
        }
        data["questions"][number] = packed_questions(
            {at: asked for at, asked in pool.items() if at in wanted}
        )
    data["tokens"] = tokens
    return data, answers


def cell_data(one: ReportCell) -> str:
    """All answers of one cell as JSON, for a page that asks for them."""
    answers, tokens = choose_answers([one], 1 << 62)
    return as_json(
        {
            "answers": by_key(answers[0]),
            "tokens": tokens,
            "questions": packed_questions(one.questions),
        }
    )


def _cell(shown: ReportCell, questions: int) -> PageCell:
    cell = shown.cell
    judged = [is_wrong(cell, sample) for sample in shown.samples]
    packed_cell: PageCell = {
        "id": printable(shown.id, NAME),
        "model": printable(shown.model, NAME),
        "task": printable(cell.task, NAME),
        "name": printable(short(cell.task), NAME),
        "sampler": printable(cell.sampler, NAME),
        "headline": cell.headline,
        "graded": cell.headline in GRADED,
        "metrics": list(cell.scores),
        "scores": {
            name: [round(value, 6) for value in (score.mean, score.low, score.high)]
            for name, score in cell.scores.items()
        },
        "n": len(shown.samples),
        "verdicts": answer_verdicts(cell, shown.samples),
        "kinds": [printable(kind, NAME) for kind in cell.failures],
        "facts": [[name, printable(value, NAME)] for name, value in _facts(cell, judged) if value],
        "questions": questions,
    }
    if shown.side:
        packed_cell["side"] = shown.side
        packed_cell["flips"] = {"worse": shown.worse, "better": shown.better}
        if shown.pair is not None:
            packed_cell["pair"] = shown.pair
    return packed_cell


def _facts(cell: CellRecord, judged: Sequence[bool | None]) -> list[tuple[str, str]]:
    conditions = cell.conditions
    nfe = cell.nfe_mean
    spread = (
        ""
        if nfe is None
        else f"{fixed(nfe)} (median {cell.nfe_median or 0:g}, most {cell.nfe_max})"
    )
    same = cell.rows_mean in (None, nfe)
    rates = {
        "rows": None if same else cell.rows_mean,
        "tokens forwarded": cell.tokens_forwarded,
        "tokens/step": cell.tokens_per_step,
        "tokens/row": None if same else cell.tokens_per_row,
        "tokens/forward": cell.tokens_per_forward,
        "samples/s": cell.samples_per_second,
        "seconds": cell.seconds,
    }
    return [
        ("error", first_line(cell.error or "") if cell.status != "ok" else ""),
        (
            "wrong answers",
            (
                f"{judged.count(True)} of {len(judged)}"
                if any(one is not None for one in judged)
                else ""
            ),
        ),
        ("NFE", spread),
        *((name, "" if value is None else fixed(value, 2)) for name, value in rates.items()),
        ("failures", ", ".join(f"{kind} {count}" for kind, count in cell.failures.items())),
        (
            "not measured",
            "; ".join(
                f"{name}: {first_line(why)}" for name, why in absent_reasons(cell.absent).items()
            ),
        ),
        ("seeds", ", ".join(map(str, conditions.seeds)) if len(conditions.seeds) > 1 else ""),
        ("device", " ".join(filter(None, (conditions.device, conditions.dtype)))),
        ("data", conditions.data_source or ""),
        ("run it again", f"pytest {cell.id}"),
    ]


def _pools(cells: Iterable[ReportCell]) -> tuple[list[dict[int, StoredQuestion]], list[int]]:
    """The questions of all cells without repetitions, and for each cell the number of its pool; −1
    without questions. Cells of a task share a pool if their questions agree wherever they have the
    same index.
    """
    pools: list[dict[int, StoredQuestion]] = []
    of_task: defaultdict[str, list[int]] = defaultdict(list)
    numbers = []
    for one in cells:
        known = of_task[one.cell.task]
        number = -1
        if one.questions:
            fits = (
                i
                for i in known
                if all(pools[i].get(at, asked) == asked for at, asked in one.questions.items())
            )
            number = next(fits, len(pools))
            if number == len(pools):
                pools.append({})
                known.append(number)
            pools[number].update(one.questions)
        numbers.append(number)
    return pools, numbers


def packed_questions(pool: Mapping[int, StoredQuestion]) -> PackedQuestions:
    """Questions for the page's script."""
    prompts = [question.prompt[:LONGEST] for question in pool.values()]
    before = _common(prompts)
    rests = [prompt[len(before) :] for prompt in prompts]
    after = _common([rest[::-1] for rest in rests])[::-1]
    of: dict[int, PackedQuestion] = {}
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
