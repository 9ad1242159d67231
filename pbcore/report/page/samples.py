"""Samples as compact JSON for the page's script, and the choice of those that a page has room for.

An answer is a list: index, seed, scores, NFE, text (or 0 if its tokens say it), tokens, steps, confidences, why it is
wrong, grammar matches, former tokens, the length of a text that was cut, what a server told, and kinds of failure.
Tokens (numbers of a table of texts, as kinds are), steps and confidences are strings of digits to the base 62."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

from pbcore.report.answer_trace import wrong
from pbcore.report.page.html import as_json
from pbcore.results.check import dump_json
from pbcore.results.questions import Question
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.tasks.cot import final_answer

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FINEST = len(DIGITS) ** 2 - 1  # confidences are kept in this many parts
LONGEST = 20_000  # characters of one text on a page
PIECE = 200  # of one token
EOS = "<eos>"
Tokens = dict[str, int]  # the text of every token on a page → its number, in their order


@dataclass(frozen=True, slots=True)
class Answers:
    """A cell as the page shows it, under its `id` and `model` there, with its answers and their questions. In a
    comparison also the run's letter (`side`), the number of the other run's cell and the samples that flipped."""

    id: str
    model: str
    cell: CellRecord
    samples: Sequence[SampleRecord]
    questions: Mapping[int, Question] = field(default_factory=dict)
    side: str = ""
    pair: int | None = None
    worse: tuple[int, ...] = ()
    better: tuple[int, ...] = ()

    def order(self) -> list[tuple[int, int, int]]:
        """(rank of its kind, number among its kind, position) of each answer: flips, wrong ones, right ones."""
        counts = [0, 0, 0]
        ranked = []
        for position in sorted(range(len(self.samples)), key=lambda i: self.samples[i].place):
            sample = self.samples[position]
            flipped = sample.index in self.worse or sample.index in self.better
            kind = 0 if flipped else 2 if is_wrong(self.cell, sample) is False else 1
            ranked.append((kind, counts[kind], position))
            counts[kind] += 1
        return ranked


def _number(tokens: Tokens, text: str) -> int:
    return tokens.setdefault(text[:PIECE], len(tokens))


def is_wrong(cell: CellRecord, sample: SampleRecord) -> bool | None:
    """Whether an answer is wrong by its task's headline score; None if that was not measured."""
    score = sample.scores.get(cell.headline)
    return None if score is None else wrong(cell.headline, score)


def packed(cell: CellRecord, sample: SampleRecord, tokens: Tokens) -> list[Any]:
    """An answer for the page's script."""
    whole = bool(cell.conditions.options.get("official_text")) and sample.official_text
    text = sample.official_text if whole and sample.official_text else sample.text
    why, found, kinds = (sample.details.get(name) for name in ("why", "matches", "failure"))
    pieces = None if sample.tokens is None else [token_digits(_number(tokens, piece)) for piece in sample.tokens]
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
        _matches(found, text, _checked(cell, text)) if isinstance(found, list) else 0,
        former or 0,
        len(text) if len(text) > LONGEST else 0,
        0 if sample.served is None else dump_json(sample.served)[:LONGEST],
        [_number(tokens, str(kind)) for kind in (kinds if isinstance(kinds, list) else [kinds])] if kinds else 0,
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
    """A digit for each step, `-` for tokens that were not decoded; the list itself where steps are too many."""
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


def _checked(cell: CellRecord, text: str) -> str:
    """What LanguageTool was given of an answer: the stripped text; of one with steps, its final answer."""
    options = cell.conditions.options
    marked = options.get("cot") and options.get("cot_answer") != "whole"
    return (final_answer(text) or "" if marked else text).strip()


def _matches(found: Iterable[Any], text: str, checked: str) -> list[list[Any]]:
    """Grammar matches as (first character, length, rule, message), by the characters of the whole text."""
    offset = text.rfind(checked)
    keys = {"offset", "length", "rule", "message"}
    return [
        [one["offset"] + offset, one["length"], str(one["rule"]), str(one["message"])]
        for one in found
        if isinstance(one, dict) and one.keys() >= keys and isinstance(one["offset"], int)
    ]


def chosen(cells: Sequence[Answers], room: int) -> tuple[list[list[Any]], list[str]]:
    """For each cell its packed answers, as far as `room` (bytes of JSON) goes, and the texts of their tokens: flips,
    then wrong ones, then the others, in turn from all cells and by index, so that cells of one task have the same
    samples."""
    tokens: Tokens = {}
    order = sorted((*place[:2], number, place[2]) for number, one in enumerate(cells) for place in one.order())
    kept: list[list[tuple[int, Any]]] = [[] for _ in cells]
    for _, _, number, position in order:
        before = len(tokens)
        answer = packed(cells[number].cell, cells[number].samples[position], tokens)
        added = (as_json(one) for one in (answer, *islice(tokens, before, None)))
        room -= sum(len(text.encode("utf-8", "replace")) + 1 for text in added)
        if room < 0:
            break
        kept[number].append((position, answer))
    return [[answer for _, answer in sorted(one, key=itemgetter(0))] for one in kept], list(tokens)
