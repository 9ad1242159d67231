"""Whether an engine's answers are the expected ones. Doesn't import torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pbcore.base.printable import shown
from pbcore.extras.check.engine.material import Case, ExpectedAnswer

NONE_FITS = "none fits"
CaseVerdict = Literal["equal", "fault", "not tried", "failed"]


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """The first difference of an answer: the prompt and the place in the answer, both from 0, the
    step from 1 at which the token is revealed, what is expected and what came (None: nothing), and
    the margin of that step's decision (None: it has no alternative).
    """

    prompt: int
    place: int
    step: int
    expected: int | None
    token: int | None
    margin: float | None


@dataclass(slots=True)
class CaseResult:
    """What came of a case. `equal` of `of` answers are the expected ones; `answers` are the
    engine's, up to the first EOS; `text` says why a case failed, or wasn't tried, or which forwards
    differ; `diagnosis` are the deviations that give the engine's answers.
    """

    case: Case
    verdict: CaseVerdict
    equal: int = 0
    of: int = 0
    first: AnswerDifference | None = None
    text: str = ""
    answers: list[list[int]] = field(default_factory=list)
    diagnosis: list[str] = field(default_factory=list)


class _Wrong(Exception):
    """Answers that can't be compared, in a sentence."""


class _Untold(Exception):
    """Answers that don't tell what the case is about, in a sentence."""


def read_answers(
    given: Any, rows: Sequence[ExpectedAnswer], eos_ids: Sequence[int]
) -> tuple[list[list[int]], list[int | None]]:
    """The ids of each answer, and its forwards where the engine tells them.

    Args:
        given: what the engine returned: lists of ids, or mappings with `ids` and `forwards`, and
            `ended` where an EOS that isn't told ends the answer.
        rows: what is expected.
        eos_ids: the tokens that end an answer.

    Raises:
        _Wrong: for anything else.
        _Untold: for an end that can't be seen.
    """
    if not isinstance(given, list):
        raise _Wrong(f"returned {shown(given)}; a list with the ids of each answer is expected")
    if len(given) != len(rows):
        few = "few" if len(given) < len(rows) else "many"
        raise _Wrong(f"returned too {few} answers: {len(given)} for {len(rows)} prompts")
    answers = []
    forwards: list[int | None] = []
    for number, answer in enumerate(given):
        told = None
        ended = False
        if isinstance(answer, dict) and "ids" in answer:
            told = answer.get("forwards")
            ended = answer.get("ended") is True
            answer = answer["ids"]
        whole = isinstance(answer, list) and all(type(token) is int for token in answer)
        if not whole:
            raise _Wrong(f"returned {shown(answer)} for prompt {number}; a list of ids is expected")
        if told is not None and type(told) is not int:
            raise _Wrong(f"told {shown(told)} forwards for prompt {number}; a number is expected")
        if ended:
            answer = [*answer, _untold_eos(rows[number], answer, eos_ids)]
        answers.append(answer)
        forwards.append(told)
    return answers, forwards


def _untold_eos(row: ExpectedAnswer, answer: Sequence[int], eos_ids: Sequence[int]) -> int:
    """The EOS of an answer that doesn't tell which it is: the expected one, where one is. Raises
    _Untold for an answer that is right up to there and goes on.
    """
    *before, end = row.answer
    if end not in eos_ids or list(answer[: len(before)]) != before:
        return eos_ids[0]
    if len(answer) > len(before):
        raise _Untold(
            "answers come without the token that ends them, and go on behind it, so that nobody"
            " can see where that is"
        )
    return end


def up_to_eos(answer: Sequence[int], eos_ids: Sequence[int]) -> list[int]:
    """Tokens up to and with the first one that ends an answer."""
    for place, token in enumerate(answer):
        if token in eos_ids:
            return list(answer[: place + 1])
    return list(answer)


def judge(case: Case, given: Any) -> CaseResult:
    """The result of a case without its diagnosis.

    Args:
        case: prompts and what is expected.
        given: what the engine returned.
    """
    of = len(case.rows)
    setting = case.setting
    try:
        answers, forwards = read_answers(given, case.rows, setting.eos_ids)
        cut = [up_to_eos(answer, setting.eos_ids) for answer in answers]
        for number, answer in enumerate(cut):
            _check_length(number, answer, case)
    except _Wrong as error:
        return CaseResult(case, "failed", of=of, text=str(error))
    except _Untold as error:
        return CaseResult(case, "not tried", of=of, text=str(error))
    if case.property == "forwards":
        return _forwards(case, cut, forwards)
    return _compared(case, cut)


def _compared(case: Case, answers: list[list[int]]) -> CaseResult:
    pairs = list(zip(case.rows, answers, strict=True))
    equal = sum(row.answer == answer for row, answer in pairs)
    result = CaseResult(case, "equal", equal, len(pairs), answers=answers)
    for number, (row, answer) in enumerate(pairs):
        if row.answer != answer:
            result.verdict = "fault"
            result.first = difference(number, row, answer)
            return result
    return result


def _check_length(number: int, answer: Sequence[int], case: Case) -> None:
    length = case.setting.gen_length
    ended = bool(answer) and answer[-1] in case.setting.eos_ids
    if len(answer) > length:
        raise _Wrong(
            f"returned too many tokens for prompt {number}: {len(answer)}, gen_length is {length}"
        )
    if len(answer) < length and not ended:
        raise _Wrong(
            f"returned too few tokens for prompt {number}: {len(answer)} without one that ends an"
            f" answer, gen_length is {length}"
        )


def difference(number: int, row: ExpectedAnswer, answer: Sequence[int]) -> AnswerDifference:
    """The difference of an answer that is revealed first.

    Args:
        number: of the prompt.
        row: what is expected.
        answer: what came, another one.
    """
    places = []
    for place in range(max(len(row.answer), len(answer))):
        expected = row.answer[place] if place < len(row.answer) else None
        token = answer[place] if place < len(answer) else None
        if expected != token:
            step = row.steps[min(place, len(row.steps) - 1)]
            places.append((step, place, expected, token))
    step, place, expected, token = min(places, key=lambda each: each[:2])
    margins = []
    for kind in (row.margins.token, row.margins.place):
        margins += [value for value in kind[step - 1 : step] if value is not None]
    return AnswerDifference(number, place, step, expected, token, min(margins, default=None))


def _forwards(case: Case, answers: list[list[int]], forwards: list[int | None]) -> CaseResult:
    """Whether the engine's numbers of forwards are ours, with or without those that only store."""
    if all(number is None for number in forwards):
        return CaseResult(case, "not tried", of=len(case.rows), text="tells no forwards")
    result = CaseResult(case, "equal", of=len(case.rows), answers=answers)
    for number, (row, told) in enumerate(zip(case.rows, forwards, strict=True)):
        allowed = {
            row.forwards,
            row.forwards + row.store,
            row.forwards + row.prefill,
            row.forwards + row.store + row.prefill,
        }
        if told in allowed:
            result.equal += 1
        elif not result.text:
            result.verdict = "fault"
            result.text = f"prompt {number}: {told} forwards, expected {row.forwards}"
            if row.store:
                result.text += f", or {row.forwards + row.store} with those that store blocks"
    return result


def flips_of(row: ExpectedAnswer, answer: Sequence[int]) -> tuple[int, int]:
    """Whether an answer differs (0 or 1), and how many steps were decided until then: after a flip
    the canvas is another one.

    Args:
        row: what is expected.
        answer: up to its first EOS.
    """
    pairs = zip(row.answer, answer, row.steps, strict=False)
    steps = [step for expected, token, step in pairs if expected != token]
    if not steps and len(answer) != len(row.answer):
        steps = [max(row.steps)]
    return (1, min(steps)) if steps else (0, max(row.steps))
