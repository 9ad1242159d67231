"""Data for the page's script: cells with their facts, questions, and as many answers as fit, as
compact JSON. Every answer's verdict is there, also where its text has no room.

An answer is a list: index, seed, scores, NFE, text (or 0 if its tokens say it), tokens, steps,
confidences, why it is wrong, grammar matches, former tokens, the length of a text that was cut,
what a server told, and kinds of failure. Tokens (numbers of a table of texts, as kinds are), steps
and confidences are strings of digits to the base 62.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

from pbcore.printable import first_line, fixed, printable
from pbcore.report.page.html import as_json
from pbcore.results.check import dump_json, encodable
from pbcore.results.questions import StoredQuestion
from pbcore.results.record import CellRecord, SampleRecord, absent_reasons
from pbcore.results.rundir import StoredCell
from pbcore.results.stats import GRADED, is_wrong_score
from pbcore.tasks.cot import final_answer

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


@dataclass(frozen=True, slots=True)
class Answers:
    """A cell as the page shows it, under its `id` and `model` there, with its answers and their
    questions. In a comparison also the run's letter (`side`), the number of the other run's cell
    and the samples that flipped.
    """

    id: str
    model: str
    cell: CellRecord
    samples: Sequence[SampleRecord]
    questions: Mapping[int, StoredQuestion] = field(default_factory=dict)
    side: str = ""
    pair: int | None = None
    worse: tuple[int, ...] = ()
    better: tuple[int, ...] = ()


def answers_alone(entry: StoredCell) -> Answers:
    """A cell's answers under its own names, without their questions."""
    cell = entry.cell
    return Answers(encodable(cell.id), encodable(cell.model_at), cell, entry.samples)


def _number(tokens: Tokens, text: str) -> int:
    return tokens.setdefault(text[:PIECE], len(tokens))


def is_wrong(cell: CellRecord, sample: SampleRecord) -> bool | None:
    """Whether an answer is wrong by its task's headline score; None if that was not measured."""
    score = sample.scores.get(cell.headline)
    return None if score is None else is_wrong_score(cell.headline, score)


def verdicts(cell: CellRecord, samples: Sequence[SampleRecord]) -> list[list[Any]]:
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


def packed(cell: CellRecord, sample: SampleRecord, tokens: Tokens) -> list[Any]:
    """An answer for the page's script."""
    text = (cell.conditions.options.get("official_text") and sample.official_text) or sample.text
    why, found, kinds = (sample.details.get(name) for name in ("why", "matches", "failure"))
    pieces = (
        None
        if sample.tokens is None
        else [token_digits(_number(tokens, piece)) for piece in sample.tokens]
    )
    former = [
        [one.at, _number(tokens, one.token), one.step, one.until, round(one.confidence, 4)]
        for one in sample.former or ()
    ]
    return [
        sample.index,
        sample.seed,
        [round(sample.scores[name], 4) if name in sample.scores else None for name in cell.scores],
        sample.nfe,
        0 if text == _answer(sample) else text[:LONGEST],
        None if pieces is None else "".join(pieces),
        digits(sample.steps),
        "".join(confidence_digits(value) for value in sample.confidences),
        str(why)[:LONGEST] if why else 0,
        _matches(cell, found, text) if isinstance(found, list) else 0,
        former or 0,
        len(text) if len(text) > LONGEST else 0,
        0 if sample.served is None else dump_json(sample.served)[:LONGEST],
        (
            [_number(tokens, str(kind)) for kind in (kinds if isinstance(kinds, list) else [kinds])]
            if kinds
            else 0
        ),
    ]


def _answer(sample: SampleRecord) -> str | None:
    """The text that the tokens before the first EOS make; the page's script joins them likewise."""
    if sample.tokens is None or any(len(piece) > PIECE for piece in sample.tokens):
        return None
    end = sample.tokens.index(EOS) if EOS in sample.tokens else len(sample.tokens)
    if end == len(sample.tokens) < len(sample.steps):
        return None  # the last token repeats to the end
    return "".join(sample.tokens[:end])


def digits(steps: Sequence[int]) -> str | list[int]:
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


def _matches(cell: CellRecord, found: Iterable[Any], text: str) -> list[list[Any]]:
    """Grammar matches as (first character, length, rule, message), by the characters of the whole
    text. LanguageTool was given the stripped text, or of one with steps its final answer: its
    offsets start there.
    """
    options = cell.conditions.options
    marked = options.get("cot") and options.get("cot_answer") != "whole"
    offset = text.rfind((final_answer(text) or "" if marked else text).strip())
    keys = {"offset", "length", "rule", "message"}
    return [
        [one["offset"] + offset, one["length"], str(one["rule"]), str(one["message"])]
        for one in found
        if isinstance(one, dict) and one.keys() >= keys and isinstance(one["offset"], int)
    ]


def chosen(cells: Sequence[Answers], room: int) -> tuple[list[list[Any]], list[str]]:
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
    kept: list[list[tuple[int, Any]]] = [[] for _ in cells]
    for _, _, number, position in sorted(order):
        before = len(tokens)
        answer = packed(cells[number].cell, cells[number].samples[position], tokens)
        added = (as_json(one) for one in (answer, *islice(tokens, before, None)))
        room -= sum(len(text.encode("utf-8", "replace")) + 1 for text in added)
        if room < 0:
            break
        kept[number].append((position, answer))
    return [[answer for _, answer in sorted(one, key=itemgetter(0))] for one in kept], list(tokens)


def page_data(
    cells: Sequence[Answers], run: str, room: int, remote: bool
) -> tuple[dict[str, Any], list[list[Any]]]:
    """The page's data, and the answers of each cell, if they are part of it (not `remote`): all in
    about `room` bytes of JSON, but at least `LEAST` of them for answers.
    """
    pools, numbers = _pools(cells)
    data: dict[str, Any] = {
        "run": printable(run, NAME),
        "remote": remote,
        "cells": [_cell(one, number) for one, number in zip(cells, numbers, strict=True)],
        "tokens": [],
        "questions": [] if remote else [packed_questions(pool) for pool in pools],
    }
    if remote:
        return data, [[] for _ in cells]
    room -= len(as_json(data).encode()) + AROUND * len(cells)
    answers, tokens = chosen(cells, max(room, LEAST))
    for number, pool in enumerate(pools):
        wanted = {
            answer[0]
            for one, at in zip(answers, numbers, strict=True)
            if at == number
            for answer in one
        }
        data["questions"][number] = packed_questions(
            {at: asked for at, asked in pool.items() if at in wanted}
        )
    return data | {"tokens": tokens}, answers


def cell_data(one: Answers) -> str:
    """All answers of one cell as JSON, for a page that asks for them."""
    answers, tokens = chosen([one], 1 << 62)
    return as_json(
        {"answers": answers[0], "tokens": tokens, "questions": packed_questions(one.questions)}
    )


def _cell(one: Answers, questions: int) -> dict[str, Any]:
    cell = one.cell
    judged = [is_wrong(cell, sample) for sample in one.samples]
    extra: dict[str, Any] = {}
    if one.side:
        extra = {"side": one.side, "flips": {"worse": one.worse, "better": one.better}}
        extra |= {} if one.pair is None else {"pair": one.pair}
    return {
        "id": printable(one.id, NAME),
        "model": printable(one.model, NAME),
        "task": printable(cell.task, NAME),
        "sampler": printable(cell.sampler, NAME),
        "headline": cell.headline,
        "graded": cell.headline in GRADED,
        "metrics": list(cell.scores),
        "scores": {
            name: [round(value, 6) for value in (score.mean, score.low, score.high)]
            for name, score in cell.scores.items()
        },
        "n": len(one.samples),
        "verdicts": verdicts(cell, one.samples),
        "kinds": [printable(kind, NAME) for kind in cell.failures],
        "facts": [[name, printable(value, NAME)] for name, value in _facts(cell, judged) if value],
        "questions": questions,
        **extra,
    }


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


def _pools(cells: Iterable[Answers]) -> tuple[list[dict[int, StoredQuestion]], list[int]]:
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


def packed_questions(pool: Mapping[int, StoredQuestion]) -> dict[str, Any]:
    """Questions for the page's script; what all prompts of a task begin and end with stands
    once.
    """
    prompts = [one.prompt[:LONGEST] for one in pool.values()]
    before = _common(prompts)
    rests = [prompt[len(before) :] for prompt in prompts]
    after = _common([rest[::-1] for rest in rests])[::-1]
    of = {
        index: [
            rest[: len(rest) - len(after)],
            None if one.answer is None else one.answer[:LONGEST],
            one.only,
            one.length,
            len(one.prompt) if len(one.prompt) > LONGEST else 0,
        ]
        for (index, one), rest in zip(pool.items(), rests, strict=True)
    }
    return {
        "before": before,
        "after": after,
        "shots": max((one.shots for one in pool.values()), default=0),
        "of": of,
    }


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first = min(texts, default="")
    last = max(texts, default="")
    return next((first[:i] for i, sign in enumerate(first) if sign != last[i]), first)
