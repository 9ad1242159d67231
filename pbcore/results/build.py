"""From decoded answers and their scores to a cell's record, and the check that a record's
aggregates are theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from pbcore.printable import printable
from pbcore.results.check import LoadError, plain
from pbcore.results.record import (
    TOLERANCE,
    CallCount,
    CellRecord,
    FormerToken,
    SampleRecord,
    Score,
    by_index,
)
from pbcore.results.stats import score_of
from pbcore.tasks.scoring import Scored

if TYPE_CHECKING:
    from pbcore.models.base import Generation


def length_text(lengths: Sequence[int]) -> str:
    """The values of n as `15`, `3-6` or `5,10,20`: a range only where none is left out."""
    ordered = sorted(lengths)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))


def build_cell(
    facts: CellRecord,
    answers: Sequence[Generation],
    scored: Sequence[Scored],
    *,
    rounds: Sequence[float],
    indices: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
    absent: Mapping[str, str] | None = None,
    pieces: Callable[[int], str] | None = None,
) -> tuple[CellRecord, list[SampleRecord]]:
    """Fills in a cell's scores, rates and counts.

    Args:
        facts: a record with everything known beforehand: id, model, task, sampler, headline,
            conditions.
        answers: one or more decoded answers, of each sample at most one per seed.
        scored: the score of each answer.
        rounds: the seconds of each timed decoding of all samples; none if `absent` says why under
            `seconds`.
        indices: the number of each answer's sample (default 0, 1, …).
        seeds: the seed of each answer (default 0).
        absent: metrics that were not measured at all → the reason.
        pieces: gives a token's text by its id, if tokens are to be recorded.

    Returns:
        The record with its samples.

    Raises:
        ValueError: if the lengths of the lists differ, or a score of a sample or the rounds are
            missing without a reason.
    """
    numbers = list(range(len(answers))) if indices is None else list(indices)
    draws = [0] * len(numbers) if seeds is None else list(seeds)
    if not answers or not len(answers) == len(scored) == len(numbers) == len(draws):
        raise ValueError(
            f"cell {facts.id}: {len(answers)} answers, {len(scored)} scores, {len(numbers)}"
            f" indices, {len(draws)} seeds; give one each, at least one"
        )
    if not rounds and "seconds" not in (absent or {}):
        raise ValueError(
            f"cell {facts.id}: no round was timed; give the seconds of at least one, or why there"
            " are none"
        )
    samples = [
        sample_record(*each, pieces) for each in zip(numbers, answers, scored, draws, strict=True)
    ]
    _check_complete(facts.id, samples)
    missing = {**absent_metrics(scored), **(absent or {})}
    counted = forward_rates(facts.id, samples)
    if not counted and facts.nfe_mean is None:
        missing.setdefault("nfe", "the model does not report its number of forwards")
    sizes = _call_sizes(answers)
    late = [answer.official_text is not None or answer.text_after_eos for answer in answers]
    if None in late:
        missing.setdefault(
            "text_after_eos", "the model does not tell what follows an answer's first EOS"
        )
    cell = replace(
        facts,
        n_samples=len(set(numbers)),
        conditions=replace(facts.conditions, seeds=sorted(set(draws))),
        scores=_scores(facts.id, samples, missing),
        absent={str(name): str(reason) for name, reason in missing.items()},
        **counted,
        **sizes,
        **_times(rounds, samples),
        failures=failure_counts(scored),
        text_after_eos=None if None in late else sum(map(bool, late)),
    )
    return cell, samples


def with_scores(
    cell: CellRecord, samples: Sequence[SampleRecord], scored: Sequence[Scored]
) -> tuple[CellRecord, list[SampleRecord]]:
    """A cell with the scores of a later scoring of the same answers.

    Args:
        cell: its record.
        samples: its samples.
        scored: the new score of each sample, in their order.

    Returns:
        The record and the samples with these scores.

    Raises:
        ValueError: if the lengths differ, or a score of a sample is missing without a reason.
    """
    each = zip(samples, scored, strict=True)
    again = [replace(sample, **_scoring(sample.index, result)) for sample, result in each]
    before = {name for sample in samples for name in sample.details.get("absent", {})}
    missing = {
        name: why for name, why in cell.absent.items() if name not in before
    } | absent_metrics(scored)
    scores = _scores(cell.id, again, missing)
    return replace(cell, scores=scores, absent=missing, failures=failure_counts(scored)), again


def error_cell(facts: CellRecord, error: BaseException | str) -> CellRecord:
    """The record of a cell that could not be run: status `error` with its cause, no scores."""
    cause = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return replace(facts, status="error", error=cause, scores={})


def sample_record(
    index: int,
    answer: Generation,
    scored: Scored,
    seed: int = 0,
    pieces: Callable[[int], str] | None = None,
) -> SampleRecord:
    """One sample's record.

    Given positions (infilling; `steps` −1) count as neither canvas nor answer tokens, as they were
    not decoded.

    Args:
        index: the sample's number in its task.
        answer: what was decoded.
        scored: its scores and their details.
        seed: that of its decoding.
        pieces: gives a token's text by its id; without it, tokens are not recorded.
    """
    steps = [int(step) for step in answer.steps]
    told = answer.extra.get("served")
    unknown = told or (answer.answer_tokens is None and not answer.token_ids)
    nfe = int(answer.nfe) if answer.nfe else answer.prefill  # an answer may be the prefill's token
    return SampleRecord(
        index=int(index),
        text=answer.text,
        nfe=nfe,
        rows=None if nfe is None else answer.rows or nfe,
        tokens_forwarded=answer.tokens_forwarded,
        tokens_prefilled=answer.tokens_prefilled,
        canvas_tokens=(
            None
            if unknown
            else sum(step >= 0 for step in steps)
            if steps
            else len(answer.token_ids)
        ),
        answer_tokens=(
            sum(step >= 0 for step in steps[: answer.answer_tokens])
            if steps
            else answer.answer_tokens
        ),
        steps=steps,
        confidences=[float(value) for value in answer.confidences],
        seed=int(seed),
        prefill=answer.prefill,
        store=answer.store,
        official_text=answer.official_text,
        served=None if told is None else plain(told, f"what was reported of sample {index}"),
        **_scoring(index, scored),
        **_tokens_told(answer, pieces),
    )


def _scoring(index: int, scored: Scored) -> dict[str, Any]:
    scores = {str(name): float(value) for name, value in scored.scores.items()}
    return {"scores": scores, "details": plain(scored.details, f"details of sample {index}")}


def _tokens_told(answer: Generation, pieces: Callable[[int], str] | None) -> dict[str, Any]:
    """The fields `tokens` and `former` of a sample's record; empty if the tokens are not known."""
    ids = list(answer.token_ids)
    if pieces is None or not ids:
        return {}
    while ids[1:] and ids[-1] == ids[-2]:
        del ids[-1]
    former = [
        FormerToken(one.position, pieces(one.token), one.step, one.until, float(one.confidence))
        for one in answer.former
    ]
    return {"tokens": [plain(pieces(token)) for token in ids], "former": former}


def generated(answers: Sequence[Generation]) -> dict[str, Any]:
    """For `CellRecord.decoding`, of models without a canvas: how many answers ended by themselves
    (`stop`) or at their limit (`length`), how many had which `max_new_tokens`, and the mean
    forwards of the model that drafted; empty for other models.
    """
    told = [answer.extra for answer in answers]
    names = (("finish", "finish_reason"), ("max_new_tokens", "max_new_tokens"))
    counts = {key: Counter(extra[name] for extra in told if name in extra) for key, name in names}
    found: dict[str, Any] = {
        key: {str(value): number for value, number in sorted(of.items())}
        for key, of in counts.items()
        if of
    }
    drafted = [extra["draft_forwards"] for extra in told if "draft_forwards" in extra]
    return found | ({"draft_forwards": sum(drafted) / len(told)} if drafted else {})


def _check_complete(cell_id: str, samples: Sequence[SampleRecord]) -> None:
    (place, count), *_ = Counter(sample.place for sample in samples).most_common(1)
    if count > 1:
        raise ValueError(
            f"cell {cell_id}: two answers for sample {place[0]} and seed {place[1]}; give one each"
        )
    seeds_of = {index: [one.seed for one in same] for index, same in by_index(samples).items()}
    first, expected = next(iter(seeds_of.items()))
    for index, seeds in seeds_of.items():
        if seeds != expected:
            raise ValueError(
                f"cell {cell_id}: sample {first} has seeds {expected}, sample {index} {seeds}; give"
                " all the same"
            )


def absent_metrics(scored: Sequence[Scored]) -> dict[str, str]:
    """Metric → why it was not measured, over all samples (the first reason given)."""
    reasons: dict[str, str] = {}
    for result in scored:
        for name, reason in result.details.get("absent", {}).items():
            reasons.setdefault(str(name), str(reason))
    return reasons


def failure_counts(scored: Sequence[Scored | SampleRecord]) -> dict[str, int]:
    """Failure kind → number of samples with it. A sample's `failure` detail is one kind or a list
    of kinds.
    """
    counts: Counter[str] = Counter()
    for result in scored:
        kinds: Any = result.details.get("failure") or []
        counts.update({str(kinds)} if isinstance(kinds, str) else {str(kind) for kind in kinds})
    return dict(sorted(counts.items()))


def forward_rates(cell_id: str, samples: Sequence[SampleRecord]) -> dict[str, Any]:
    """NFE, rows and tokens forwarded over samples, tokens per step and per row (means of the
    samples' rates) and tokens per forward (both summed over samples first); empty if the model
    doesn't report its forwards.
    """
    forwards = [sample.nfe for sample in samples if sample.nfe is not None]
    if not forwards:
        return {}
    if len(forwards) < len(samples):
        index = next(sample.index for sample in samples if sample.nfe is None)
        raise ValueError(
            f"cell {cell_id}: sample {index} has no NFE, others have; each takes at least one"
            " forward"
        )
    rows = [
        nfe if one.rows is None else one.rows for one, nfe in zip(samples, forwards, strict=True)
    ]
    known = {
        name: _of_all(samples, name)
        for name in (
            "canvas_tokens",
            "answer_tokens",
            "prefill",
            "store",
            "tokens_forwarded",
            "tokens_prefilled",
        )
    }
    canvases = known["canvas_tokens"]
    tokens = known["answer_tokens"]

    def mean_rate(counts: Sequence[int]) -> float | None:
        rates = (
            [canvas / count for canvas, count in zip(canvases, counts, strict=True)]
            if canvases
            else []
        )
        return sum(rates) / len(rates) if rates else None

    return {
        "nfe_mean": sum(forwards) / len(forwards),
        "nfe_median": float(median(forwards)),
        "nfe_max": max(forwards),
        **{
            f"{name}_mean": fmean(known[name]) if known[name] else None
            for name in ("prefill", "store")
        },
        "rows_mean": sum(rows) / len(rows),
        **{
            name: fmean(known[name]) if known[name] else None
            for name in ("tokens_forwarded", "tokens_prefilled")
        },
        "tokens_per_step": mean_rate(forwards),
        "tokens_per_row": mean_rate(rows),
        "tokens_per_forward": sum(tokens) / sum(forwards) if tokens else None,
    }


def _call_sizes(answers: Sequence[Generation]) -> dict[str, Any]:
    """A cell's fields `calls`, `tokens_padded` and `answers_per_call`; empty if not all answers'
    calls are known.
    """
    known = [answer.calls for answer in answers if answer.calls is not None]
    if len(known) < len(answers):
        return {}
    from pbcore.models.call_shape import summed  # a report needs no models

    padded = [answer.tokens_padded or 0 for answer in answers]
    calls = [CallCount(**asdict(shape), times=times) for shape, times in summed(known).items()]
    return {
        "calls": calls,
        "tokens_padded": fmean(padded),
        "answers_per_call": answers_per_call(answers),
    }


def answers_per_call(answers: Sequence[Generation]) -> float | None:
    """How many answers took part in a call, mean over the calls of their batches; None where that
    wasn't counted.
    """
    shares = [answer.share_of_calls for answer in answers if answer.share_of_calls]
    if len(shares) < len(answers):
        return None
    calls = sum(sum((answer.calls or {}).values()) for answer in answers)
    return calls / sum(shares)


def _of_all(samples: Sequence[SampleRecord], name: str) -> list[int]:
    """A count of each sample; empty if it isn't known of all."""
    counts = [getattr(sample, name) for sample in samples]
    return [] if None in counts else counts


def _times(rounds: Sequence[float], samples: Sequence[SampleRecord]) -> dict[str, Any]:
    if not rounds:
        return {}
    seconds = float(median(rounds))
    tokens = _of_all(samples, "answer_tokens")
    times: dict[str, Any] = {"seconds": seconds, "rounds": [float(value) for value in rounds]}
    if seconds > 0:
        times["samples_per_second"] = len(samples) / seconds
        times["tokens_per_second"] = sum(tokens) / seconds if tokens else None
    return times


def _scores(
    cell_id: str, samples: Sequence[SampleRecord], absent: Mapping[str, str]
) -> dict[str, Score]:
    """Every score's mean over samples: answers of several seeds are averaged first, not counted as
    more samples.
    """
    scores: dict[str, Score] = {}
    for name in dict.fromkeys(name for sample in samples for name in sample.scores):
        missing = sum(name not in sample.scores for sample in samples)
        if missing and name not in absent:
            raise ValueError(
                f"cell {cell_id}: {name!r} is missing for {missing} of {len(samples)} samples and"
                " no reason is given"
            )
        scores[name] = score_of(name, _means(name, samples))
    return scores


def _means(name: str, samples: Sequence[SampleRecord]) -> list[float]:
    """A score's mean over seeds, of each sample that has it."""
    groups = by_index(sample for sample in samples if name in sample.scores)
    return [fmean(one.scores[name] for one in same) for same in groups.values()]


def check_aggregates(cell: CellRecord, samples: Sequence[SampleRecord], where: str) -> None:
    """Checks that an evaluated cell's aggregates are those of its samples.

    Intervals are not computed again.

    Args:
        cell: its record.
        samples: its answers, all of them.
        where: the file, with which an error begins.

    Raises:
        LoadError: naming the first field that differs.
    """
    try:
        aggregates = list(_aggregates(cell, samples))
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise LoadError(
            f"{where}: cell {printable(cell.id)}: its samples don't go together ({error})"
        ) from error
    for name, told, computed in aggregates:
        numbers = isinstance(told, (int, float)) and isinstance(computed, (int, float))
        if told != computed and not (
            numbers and math.isclose(told, computed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        ):
            values = [
                f"{one:.6g}" if isinstance(one, float) else printable(str(one), 120)
                for one in (told, computed)
            ]
            raise LoadError(
                f"{where}: cell {printable(cell.id)}: field {name} is {values[0]}, its samples give"
                f" {values[1]}: edited or damaged"
            )


def _aggregates(
    cell: CellRecord, samples: Sequence[SampleRecord]
) -> Iterator[tuple[str, Any, Any]]:
    """(field, what the record says, what the samples give)."""
    for name, score in cell.scores.items():
        means = _means(name, samples)
        yield f"scores.{printable(name, 40)}.n", score.n, len(means)
        yield f"scores.{printable(name, 40)}.mean", score.mean, fmean(means) if means else None
    for name, value in forward_rates(cell.id, samples).items():
        if (
            told := getattr(cell, name)
        ) is not None:  # records written before there was such a field have none
            yield name, told, value
    yield "failures", cell.failures, failure_counts(samples)
