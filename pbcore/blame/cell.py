"""The blame of a cell's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pbcore.blame.continuing import AnswerKey, Continuing, reference_of, why_not
from pbcore.blame.search import (
    CantContinue,
    Ending,
    Endings,
    Search,
    Which,
    WrongAnswer,
    search,
    together,
)
from pbcore.blame.taken import Canvas, NoCanvases, taken
from pbcore.decoding.samplers import Sampler
from pbcore.models.base import Model
from pbcore.models.tokenizer import pieces
from pbcore.results.build import blame_shares
from pbcore.results.record import Blame, BlameShares, SampleRecord
from pbcore.results.stats import is_wrong_score

AnswersByKey = Mapping[AnswerKey, SampleRecord]


def blamed(
    continuing: Continuing, sampler: Sampler, records: Sequence[SampleRecord], which: Which = "any"
) -> tuple[list[SampleRecord], BlameShares]:
    """A cell's answers with the step that broke each wrong one.

    Args:
        continuing: the cell's model with its questions, and the reference's answers as far as they
            are known.
        sampler: the cell's.
        records: its answers, with the ids of their tokens.
        which: the step to look for where several broke an answer: any, the first or the last; the
            latter two look at all steps.

    Returns:
        The answers, and what their blame adds up to.

    Raises:
        InputError: for an answer to a sample that the task lacks.
    """
    forwards = continuing.forwards
    seconds = continuing.seconds
    reference = reference_of(sampler)
    known: AnswersByKey | None = None
    try:
        if reference == sampler:
            known = {record.place: record for record in records}
        else:
            known = continuing.reference(reference, [record.place for record in records])
        blames = _blames(continuing, reference, known, records, which)
    except CantContinue as error:
        blames = _undecided(records, continuing.is_wrong, str(error))
    answers = [replace(record, blame=blames.get(record.place)) for record in records]
    shares = _shares(answers, continuing.score, None if known is None else str(reference))
    return answers, replace(
        shares,
        forwards=continuing.forwards - forwards,
        seconds=continuing.seconds - seconds,
    )


def not_blamed(
    model: Model, score: str, records: Sequence[SampleRecord]
) -> tuple[list[SampleRecord], BlameShares] | None:
    """The answers of a model that can't continue them, each wrong one undecided; None for other
    models.

    Args:
        model: what answered.
        score: the score by which an answer is right or wrong.
        records: the answers.
    """
    reason = why_not(model)
    if not reason:
        return None

    def is_wrong(record: SampleRecord) -> bool:
        return score in record.scores and is_wrong_score(score, record.scores[score])

    blames = _undecided(records, is_wrong, reason)
    answers = [replace(record, blame=blames.get(record.place)) for record in records]
    return answers, _shares(answers, score, None)


def _undecided(
    records: Sequence[SampleRecord], is_wrong: Callable[[SampleRecord], bool | None], why: str
) -> dict[AnswerKey, Blame]:
    """The wrong answers, all undecided for one reason."""
    return {record.place: Blame("undecided", why) for record in records if is_wrong(record)}


def _blames(
    continuing: Continuing,
    reference: Sampler,
    known: AnswersByKey,
    records: Sequence[SampleRecord],
    which: Which,
) -> dict[AnswerKey, Blame]:
    """The blame of each wrong answer, and of each right one that the reference hasn't.

    Args:
        continuing: the model.
        reference: the sampler that continues canvases.
        known: its own answers.
        records: the answers.
        which: the step to look for.
    """
    blames: dict[AnswerKey, Blame] = {}
    searches: list[Search] = []
    places: list[AnswerKey] = []
    for record in records:
        wrong = continuing.is_wrong(record)
        by_reference = continuing.is_wrong(known[record.place])
        if wrong is False and by_reference:
            blames[record.place] = Blame("gained")
        if not wrong:
            continue
        begin = Ending(by_reference is False, known[record.place])
        try:
            question = _question(continuing, record, begin, which)
        except NoCanvases as error:
            blames[record.place] = Blame("undecided" if begin.right else "model", str(error))
            continue
        searches.append(search(question))
        places.append(record.place)

    def endings(wanted: list[tuple[int, Canvas]]) -> Endings:
        own = [places[number] for number, _ in wanted]
        return continuing.endings(reference, own, [canvas for _, canvas in wanted])

    blames.update(zip(places, together(searches, endings), strict=True))
    return blames


def _question(
    continuing: Continuing, record: SampleRecord, begin: Ending, which: Which
) -> WrongAnswer:
    """What the search for one answer's step needs. Raises NoCanvases."""
    model = continuing.model
    piece = pieces(model)
    assert piece is not None
    steps = taken(record, continuing.empty(record.index), model.mask_id)
    return WrongAnswer(steps, begin, model.stop_ids, piece, which)


def _shares(records: Sequence[SampleRecord], score: str, reference: str | None) -> BlameShares:
    """What the blame of some answers adds up to, without what it took."""
    return BlameShares(score, reference, **blame_shares(records), forwards=0, seconds=0.0)
