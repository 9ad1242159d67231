"""The search for the step that broke an answer, one answer at a time: it asks for endings of
canvases and ends with a verdict. `together` advances many searches, so that each round of all of
them is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from pbcore.blame.taken import Canvas, Revealed, Taken, first_stop
from pbcore.results.record import Blame, BlamedToken, Continued, SampleRecord

MOST_ALONE = 8  # tokens of a step that are tried alone
Which = Literal["any", "first", "last"]


class CantContinue(Exception):
    """A canvas can't be continued; the text says why."""


class Ending(NamedTuple):
    """How an answer ends from a canvas, one token at a time: whether it is right, and its record,
    whose steps go on from one for each token of the canvas.
    """

    right: bool
    record: SampleRecord | None = None


Endings = Sequence[Ending]
Search = Generator[list[Canvas], Endings, Blame]


@dataclass(slots=True)
class Question:
    """What a search is about.

    - `taken`: the steps of a wrong answer.
    - `reference`: how it ends from the empty canvas.
    - `stops`: the tokens that end an answer.
    - `piece`: gives a token's text.
    - `which`: the step to look for, where several broke the answer.
    """

    taken: Taken
    reference: Ending
    stops: Collection[int]
    piece: Callable[[int], str]
    which: Which = "any"
    known: dict[int, Ending] = field(default_factory=dict)  # by step


def search(question: Question) -> Search:
    """Asks for endings of canvases, a list at a time, until it knows what to blame.

    At most ⌈log₂ steps⌉ + `MOST_ALONE` canvases with `which` any, else at most steps +
    `MOST_ALONE`: the empty canvas and the answer itself are known.
    """
    if not question.reference.right:
        return Blame("model")
    question.known = {0: question.reference, question.taken.count: Ending(False)}
    if question.which == "any":
        step = yield from _by_halves(question)
    else:
        step = yield from _of_all(question)
    verdict = yield from _verdict(question, step)
    return verdict


def _by_halves(question: Question) -> Generator[list[Canvas], Endings, int]:
    """A step whose canvas before ends right and whose canvas after ends wrong."""
    right = 0
    wrong = question.taken.count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        (question.known[middle],) = yield [question.taken.canvas(middle)]
        if question.known[middle].right:
            right = middle
        else:
            wrong = middle
    return right


def _of_all(question: Question) -> Generator[list[Canvas], Endings, int]:
    """The first or the last such step."""
    steps = range(1, question.taken.count)
    endings = yield [question.taken.canvas(step) for step in steps]
    question.known.update(zip(steps, endings, strict=True))
    breaking = []
    for before, after in pairwise(sorted(question.known)):
        if question.known[before].right and not question.known[after].right:
            breaking.append(before)
    return breaking[0] if question.which == "first" else breaking[-1]


def _verdict(question: Question, step: int) -> Search:
    """The verdict on the step that broke the answer: its tokens are tried one by one."""
    taken = question.taken
    before = taken.canvas(step)
    rest = _rest(question, step)
    if taken.took_back(step):
        reason = "the step that broke it also masked or replaced tokens"
        return Blame("undecided", reason, step, rest=rest)
    fresh = taken.revealed(step)
    end = first_stop(taken.canvas(step + 1), question.stops)
    counted = [token for token in fresh if token.at <= end] or fresh
    tried = sorted(counted, key=lambda token: token.confidence)[:MOST_ALONE]
    alone: dict[int, bool] = {}
    if len(fresh) == 1:
        alone[fresh[0].at] = False  # it is all that the step revealed
    else:
        endings = yield [_with(before, token) for token in tried]
        for token, ending in zip(tried, endings, strict=True):
            alone[token.at] = ending.right
    revealed = []
    for token in counted:
        text = question.piece(token.token)
        revealed.append(BlamedToken(token.at, text, token.confidence, alone.get(token.at)))
    together = all(alone.values())
    return Blame("together" if together else "token", "", step, revealed, rest)


def _rest(question: Question, step: int) -> Continued | None:
    """How the answer ends from the canvas before a step, with the steps that led there."""
    record = question.known[step].record
    if record is None or record.tokens is None:
        return None
    earlier = question.taken.shown(step)
    begun = question.taken.begun(step)
    steps = []
    confidences = []
    for place, (when, confidence) in enumerate(zip(record.steps, record.confidences, strict=True)):
        if when >= 0:
            when += step - begun
        elif place in earlier:
            when, confidence = earlier[place]
        steps.append(when)
        confidences.append(confidence)
    return Continued(record.text, record.tokens, steps, confidences)


def _with(canvas: Canvas, token: Revealed) -> Canvas:
    """A canvas with one more token."""
    return (*canvas[: token.at], token.token, *canvas[token.at + 1 :])


def together(
    searches: Sequence[Search], endings_of: Callable[[list[tuple[int, Canvas]]], Endings]
) -> list[Blame]:
    """The verdicts of all searches, whose canvases of a round are continued in one batch.

    Args:
        searches: not begun.
        endings_of: continues canvases, each with the number of its search; raises CantContinue.
    """
    verdicts: dict[int, Blame] = {}
    wanted: dict[int, list[Canvas]] = {}

    def advance(number: int, endings: Endings | None) -> None:
        try:
            if endings is None:
                wanted[number] = next(searches[number])
            else:
                wanted[number] = searches[number].send(endings)
        except StopIteration as end:
            verdicts[number] = end.value
            wanted.pop(number, None)

    for number in range(len(searches)):
        advance(number, None)
    while wanted:
        asked = [(number, canvas) for number, canvases in wanted.items() for canvas in canvases]
        try:
            endings = list(endings_of(asked))
        except CantContinue as error:
            for number in wanted:
                verdicts[number] = Blame("undecided", str(error))
            break
        for number, canvases in list(wanted.items()):
            advance(number, endings[: len(canvases)])
            del endings[: len(canvases)]
    return [verdicts[number] for number in range(len(searches))]
