"""The search for the step that broke an answer, one answer at a time: it asks for endings of
canvases and ends with a verdict. `together` advances many searches, so that each round of all of
them is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import comb
from typing import Literal, NamedTuple

from pbcore.blame.taken import Canvas, Revealed, Taken, first_stop
from pbcore.results.record import CERTAIN, Blame, BlamedToken, Continued, SampleRecord

MOST_ALONE = 8  # tokens of a step that are tried alone
# Canvases that say which of them clash: their pairs, all of them, and all without one of them.
MOST_CLASHES = comb(MOST_ALONE, 2) + 1 + MOST_ALONE
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
class WrongAnswer:
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


def search(question: WrongAnswer) -> Search:
    """Asks for endings of canvases, a list at a time, until it knows what to blame.

    At most ⌈log₂ steps⌉ + `MOST_ALONE` canvases with `which` any, else at most steps +
    `MOST_ALONE`: the empty canvas and the answer itself are known. At most `MOST_CLASHES` more
    where the step revealed three tokens or more of which none breaks the answer alone.
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


def _by_halves(question: WrongAnswer) -> Generator[list[Canvas], Endings, int]:
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


def _of_all(question: WrongAnswer) -> Generator[list[Canvas], Endings, int]:
    """The first or the last such step."""
    steps = range(1, question.taken.count)
    endings = yield [question.taken.canvas(step) for step in steps]
    question.known.update(zip(steps, endings, strict=True))
    breaking = []
    for before, after in pairwise(sorted(question.known)):
        if question.known[before].right and not question.known[after].right:
            breaking.append(before)
    return breaking[0] if question.which == "first" else breaking[-1]


def _verdict(question: WrongAnswer, step: int) -> Search:
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
    broken = [token for token in tried if not alone[token.at]]
    if broken:
        return Blame("token", "", step, revealed, rest, [broken[0].at])
    clash: Sequence[Revealed] = tried
    if not len(tried) == len(fresh) == 2:
        clash = yield from _clash(before, tried)
    return Blame("together", "", step, revealed, rest, sorted(token.at for token in clash))


def _clash(
    before: Canvas, tried: Sequence[Revealed]
) -> Generator[list[Canvas], Endings, Sequence[Revealed]]:
    """The smallest set of a step's tokens from which an answer ends wrong, each of which alone ends
    right: a pair, else one none of whose tokens can be left out. Empty where all of them still end
    right.

    Args:
        before: the canvas before the step.
        tried: the tokens, the least sure first. Those that are certain don't clash, unless all are.
    """
    unsure = [token for token in tried if token.confidence < CERTAIN]
    pool = unsure if len(unsure) > 1 else list(tried)
    if len(pool) < 2:
        return ()
    sets: list[tuple[Revealed, ...]] = [*combinations(pool, 2)]
    sets.sort(key=lambda pair: pair[0].token != pair[1].token)  # first what was written twice
    if len(pool) > 2:
        sets.append(tuple(pool))
    endings = yield [_with(before, *tokens) for tokens in sets]
    wrong = [tokens for tokens, ending in zip(sets, endings, strict=True) if not ending.right]
    if not wrong:
        return ()
    clash = wrong[0]
    if len(clash) == 2:
        return clash
    for token in reversed(pool):
        fewer = tuple(other for other in clash if other is not token)
        (ending,) = yield [_with(before, *fewer)]
        if not ending.right:
            clash = fewer
    return clash


def _rest(question: WrongAnswer, step: int) -> Continued | None:
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


def _with(canvas: Canvas, *tokens: Revealed) -> Canvas:
    """A canvas with further tokens."""
    places = list(canvas)
    for token in tokens:
        places[token.at] = token.token
    return tuple(places)


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
