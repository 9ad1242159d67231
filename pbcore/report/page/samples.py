"""Samples as compact JSON for the page's script, and the choice of those that a page has room for.

An answer is a list: index, seed, scores, NFE, text (or 0 if its tokens say it), tokens, steps, confidences, why it is
wrong, grammar matches, former tokens, the length of a text that was cut, what a server told, and kinds of failure.
Tokens (numbers of a table of texts, as kinds are), steps and confidences are strings of digits to the base 62.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pbcore.report.answer_trace import wrong
from pbcore.report.page.html import as_json
from pbcore.results.json_values import dump_json
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.tasks.cot import final_answer

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FINEST = len(DIGITS) ** 2 - 1  # confidences are kept in this many parts
LONGEST = 20_000  # characters of one text on a page
PIECE = 200  # of one token
EOS = "<eos>"


@dataclass(slots=True)
class Tokens:
    """The table of all tokens' texts on a page."""

    texts: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def is_wrong(cell: CellRecord, sample: SampleRecord) -> bool | None:
    """Whether an answer is wrong by its task's headline score; None if that was not measured."""
    score = sample.scores.get(cell.headline)
    return None if score is None else wrong(cell.headline, score)


def packed(cell: CellRecord, sample: SampleRecord, tokens: Tokens) -> list[Any]:
    """An answer for the page's script."""
    whole = bool(cell.conditions.options.get("official_text")) and sample.official_text
    text = sample.official_text if whole and sample.official_text else sample.text
    why, found, kinds = (sample.details.get(name) for name in ("why", "matches", "failure"))
    return [
        sample.index,
        sample.seed,
        [round(sample.scores[name], 4) if name in sample.scores else None for name in cell.scores],
        sample.nfe,
        0 if text == _answer(sample) else shortened(text),
        None
        if sample.tokens is None
        else "".join(token_digits(tokens.number(piece[:PIECE])) for piece in sample.tokens),
        digits(sample.steps),
        "".join(confidence_digits(value) for value in sample.confidences),
        shortened(str(why)) if why else 0,
        _matches(found, text, _checked(cell, text)) if isinstance(found, list) else 0,
        [
            [one.at, tokens.number(one.token[:PIECE]), one.step, one.until, round(one.confidence, 4)]
            for one in sample.former
        ]
        if sample.former
        else 0,
        len(text) if len(text) > LONGEST else 0,
        0 if sample.served is None else shortened(dump_json(sample.served)),
        [tokens.number(str(kind)[:PIECE]) for kind in (kinds if isinstance(kinds, list) else [kinds])] if kinds else 0,
    ]


def _answer(sample: SampleRecord) -> str | None:
    """The text that the tokens before the first EOS make; the page's script joins them likewise."""
    if sample.tokens is None or any(len(piece) > PIECE for piece in sample.tokens):
        return None
    end = sample.tokens.index(EOS) if EOS in sample.tokens else len(sample.tokens)
    if end == len(sample.tokens) < len(sample.steps):
        return None  # the last token repeats to the end
    return "".join(sample.tokens[:end])


def shortened(text: str) -> str:
    """A text as far as the page shows it."""
    return text if len(text) <= LONGEST else text[:LONGEST]


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


@dataclass(frozen=True, slots=True)
class Lot:
    """A cell's answers to choose from; those to samples of `first` are wanted most."""

    cell: CellRecord
    samples: Sequence[SampleRecord]
    first: frozenset[int] = frozenset()

    def order(self) -> list[tuple[int, int, int]]:
        """(rank of its kind, number among its kind, position) of each answer."""
        counts = [0, 0, 0]
        ranked = []
        for position in sorted(range(len(self.samples)), key=lambda i: self.samples[i].place):
            sample = self.samples[position]
            kind = 0 if sample.index in self.first else 2 if is_wrong(self.cell, sample) is False else 1
            ranked.append((kind, counts[kind], position))
            counts[kind] += 1
        return ranked


def chosen(lots: Sequence[Lot], room: int) -> tuple[list[list[Any]], Tokens]:
    """For each lot its packed answers, as far as `room` (bytes of JSON) goes: those wanted most, then wrong ones, then
    the others, in turn from all lots and by index, so that cells of one task have the same samples.
    """
    tokens = Tokens()
    order = sorted((*place[:2], number, place[2]) for number, lot in enumerate(lots) for place in lot.order())
    kept: list[list[tuple[int, Any]]] = [[] for _ in lots]
    for _, _, number, position in order:
        lot, before = lots[number], len(tokens.texts)
        answer = packed(lot.cell, lot.samples[position], tokens)
        room -= _bytes(as_json(answer)) + 1 + sum(_bytes(as_json(text)) + 1 for text in tokens.texts[before:])
        if room < 0:
            break
        kept[number].append((position, answer))
    return [[answer for _, answer in sorted(one, key=lambda pair: pair[0])] for one in kept], tokens


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
