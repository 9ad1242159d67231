"""From decoded answers and their scores to a cell's record, and the check that a record's
aggregates are theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from pbcore.base.check import LoadError, plain
from pbcore.base.printable import printable
from pbcore.costs.calls import summed
from pbcore.results.record import (
    TOLERANCE,
    VERDICTS,
    CellRecord,
    FormerToken,
    SampleRecord,
    Score,
    Statistics,
    by_index,
    question_scores,
)
from pbcore.results.stats import score_of
from pbcore.tasks.scoring import Details, Scored

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
    if indices is None:
        indices = range(len(answers))
    if seeds is None:
        seeds = [0] * len(indices)
    absent = absent or {}
    if not answers or not len(answers) == len(scored) == len(indices) == len(seeds):
        raise ValueError(
            f"cell {facts.id}: {len(answers)} answers, {len(scored)} scores, {len(indices)}"
            f" indices, {len(seeds)} seeds; give one each, at least one"
        )
    if not rounds and "seconds" not in absent:
        raise ValueError(
            f"cell {facts.id}: no round was timed; give the seconds of at least one, or why there"
            " are none"
        )
    samples: list[SampleRecord] = []
    for index, answer, result, seed in zip(indices, answers, scored, seeds, strict=True):
        samples.append(sample_record(index, answer, result, seed, pieces))
    _check_complete(facts.id, samples)
    missing = {**absent_metrics(scored), **absent}
    rates = forward_rates(facts.id, samples)
    if rates is None and facts.nfe_mean is None:
        missing.setdefault("nfe", "the model does not report its number of forwards")
    late = _text_after_eos(answers)
    if late is None:
        missing.setdefault(
            "text_after_eos", "the model does not tell what follows an answer's first EOS"
        )
    cell = replace(
        facts,
        n_samples=len(set(indices)),
        conditions=replace(facts.conditions, seeds=sorted(set(seeds))),
        scores=_scores(facts.id, samples, missing),
        absent={str(name): str(reason) for name, reason in missing.items()},
        failures=failure_counts(scored),
        text_after_eos=late,
        unclosed_think=sum(
            sample.text.rfind("<think>") > sample.text.rfind("</think>") for sample in samples
        ),
    )
    if rates is not None:
        cell = replace(cell, **rates)
    return _with_times(_with_calls(cell, answers), rounds, samples), samples


def _text_after_eos(answers: Sequence[Generation]) -> int | None:
    """How many answers have text after their first EOS; None if one doesn't tell."""
    late = 0
    for answer in answers:
        if answer.official_text is not None or answer.text_after_eos:
            late += 1
        elif answer.text_after_eos is None:
            return None
    return late


def with_scores(
    cell: CellRecord, samples: Sequence[SampleRecord], scored: Sequence[Scored]
) -> tuple[CellRecord, list[SampleRecord]]:
    """A cell with the scores of a later scoring of the same answers.

    Args:
        cell: its record.
        scored: the new score of each sample, in their order.

    Returns:
        The record and the samples with these scores; without their blame if one is right now that
        was wrong, or wrong that was right.

    Raises:
        ValueError: if the lengths differ, or a score of a sample is missing without a reason.
    """
    again = [
        replace(sample, scores=_plain_scores(result), details=_plain_details(sample.index, result))
        for sample, result in zip(samples, scored, strict=True)
    ]
    if cell.blame is not None and _judged_otherwise(cell.blame.score, samples, again):
        cell = replace(cell, blame=None)
        again = [replace(sample, blame=None) for sample in again]
    before = {name for sample in samples for name in sample.details.get("absent", {})}
    missing = {name: why for name, why in cell.absent.items() if name not in before}
    missing |= absent_metrics(scored)
    scores = _scores(cell.id, again, missing)
    return replace(cell, scores=scores, absent=missing, failures=failure_counts(scored)), again


def _judged_otherwise(
    score: str, before: Sequence[SampleRecord], after: Sequence[SampleRecord]
) -> bool:
    """Whether an answer has another score now, of two scorings of the same answers."""
    pairs = zip(before, after, strict=True)
    return any(old.scores.get(score) != new.scores.get(score) for old, new in pairs)


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
    served = answer.extra.get("served")
    # An answer may be the prefill's token.
    nfe = int(answer.nfe) if answer.nfe else answer.prefill
    ids, former = _shown_tokens(answer, pieces)
    return SampleRecord(
        index=int(index),
        text=answer.text,
        scores=_plain_scores(scored),
        nfe=nfe,
        canvas_tokens=_canvas_tokens(answer, steps),
        answer_tokens=_answer_tokens(answer, steps),
        details=_plain_details(index, scored),
        steps=steps,
        confidences=[float(value) for value in answer.confidences],
        seed=int(seed),
        official_text=answer.official_text,
        served=None if served is None else plain(served, f"what was reported of sample {index}"),
        prefill=answer.prefill,
        store=answer.store,
        tokens=None if ids is None or pieces is None else [plain(pieces(token)) for token in ids],
        former=former,
        rows=None if nfe is None else answer.rows or nfe,
        tokens_forwarded=answer.tokens_forwarded,
        tokens_prefilled=answer.tokens_prefilled,
        token_ids=ids,
    )


def _canvas_tokens(answer: Generation, steps: Sequence[int]) -> int | None:
    """How many positions were decoded; None where the model doesn't tell."""
    if answer.extra.get("served") or (answer.answer_tokens is None and not answer.token_ids):
        return None
    return _decoded(steps) if steps else len(answer.token_ids)


def _answer_tokens(answer: Generation, steps: Sequence[int]) -> int | None:
    """How many positions before the first EOS were decoded."""
    return _decoded(steps[: answer.answer_tokens]) if steps else answer.answer_tokens


def _decoded(steps: Sequence[int]) -> int:
    return sum(step >= 0 for step in steps)


def _plain_scores(scored: Scored) -> dict[str, float]:
    return {str(name): float(value) for name, value in scored.scores.items()}


def _plain_details(index: int, scored: Scored) -> Details:
    details: Details = plain(scored.details, f"details of sample {index}")
    return details


def _shown_tokens(
    answer: Generation, pieces: Callable[[int], str] | None
) -> tuple[list[int] | None, list[FormerToken] | None]:
    """The fields `token_ids` and `former` of a sample's record; None if the tokens are not
    known.
    """
    ids = [int(token) for token in answer.token_ids]
    if pieces is None or not ids:
        return None, None
    while ids[1:] and ids[-1] == ids[-2]:
        del ids[-1]
    former = [
        FormerToken(
            token.position,
            pieces(token.token),
            token.step,
            token.until,
            float(token.confidence),
            token.token,
        )
        for token in answer.former
    ]
    return ids, former


def generated(answers: Sequence[Generation]) -> Statistics:
    """For `CellRecord.decoding`, of models without a canvas: how many answers ended by themselves
    (`stop`) or at their limit (`length`), how many had which `max_new_tokens`, and the mean
    forwards of the model that drafted; empty for other models.
    """
    extras = [answer.extra for answer in answers]
    finished = Counter(extra["finish_reason"] for extra in extras if "finish_reason" in extra)
    lengths = Counter(extra["max_new_tokens"] for extra in extras if "max_new_tokens" in extra)
    statistics: Statistics = {}
    if finished:
        statistics["finish"] = {reason: finished[reason] for reason in sorted(finished)}
    if lengths:
        statistics["max_new_tokens"] = {str(most): lengths[most] for most in sorted(lengths)}
    drafted = [extra["draft_forwards"] for extra in extras if "draft_forwards" in extra]
    if drafted:
        statistics["draft_forwards"] = sum(drafted) / len(extras)
    return statistics


def _check_complete(cell_id: str, samples: Sequence[SampleRecord]) -> None:
    """Raises ValueError unless every sample has one answer for each of the same seeds."""
    answers_by_place = Counter(sample.place for sample in samples)
    (index, seed), count = answers_by_place.most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"cell {cell_id}: two answers for sample {index} and seed {seed}; give one each"
        )
    groups = by_index(samples)
    first = next(iter(groups))
    expected = [answer.seed for answer in groups[first]]
    for index, group in groups.items():
        seeds = [answer.seed for answer in group]
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
        failure = result.details.get("failure") or []
        kinds = [failure] if isinstance(failure, str) else failure
        counts.update({str(kind) for kind in kinds})
    return dict(sorted(counts.items()))


def forward_rates(cell_id: str, samples: Sequence[SampleRecord]) -> dict[str, Any] | None:
    """The fields of a cell's record that count forwards, with these samples: NFE, rows and tokens
    forwarded over samples, tokens per step and per row (means of the samples' rates) and tokens per
    forward (both summed over samples first). A value is None where it isn't known of all samples;
    all is None if the model doesn't report its forwards. Raises ValueError if it does for some of
    them.
    """
    forwards = [sample.nfe for sample in samples if sample.nfe is not None]
    if not forwards:
        return None
    if len(forwards) < len(samples):
        index = next(sample.index for sample in samples if sample.nfe is None)
        raise ValueError(
            f"cell {cell_id}: sample {index} has no NFE, others have; each takes at least one"
            " forward"
        )
    rows: list[int] = []
    for sample, nfe in zip(samples, forwards, strict=True):
        rows.append(nfe if sample.rows is None else sample.rows)
    canvases = _counts(samples, "canvas_tokens")
    rates = {
        "nfe_mean": sum(forwards) / len(forwards),
        "nfe_median": float(median(forwards)),
        "nfe_max": max(forwards),
        "prefill_mean": fmean(_counts(samples, "prefill")),
        "store_mean": fmean(_counts(samples, "store")),
        "rows_mean": sum(rows) / len(rows),
        "tokens_forwarded": fmean(_counts(samples, "tokens_forwarded")),
        "tokens_prefilled": fmean(_counts(samples, "tokens_prefilled")),
        "tokens_per_step": _mean_rate(canvases, forwards),
        "tokens_per_row": _mean_rate(canvases, rows),
        "tokens_per_forward": _rate(sum(_counts(samples, "answer_tokens")), sum(forwards)),
    }
    return {name: _or_none(value) for name, value in rates.items()}


def _counts(samples: Iterable[SampleRecord], name: str) -> list[float]:
    """A count of each sample; NaN where it isn't known."""
    counts = [getattr(sample, name) for sample in samples]
    return [math.nan if count is None else count for count in counts]


def _mean_rate(canvases: Sequence[float], counts: Sequence[int]) -> float:
    """The mean of the samples' canvas tokens per forward or row."""
    rates = [_rate(canvas, count) for canvas, count in zip(canvases, counts, strict=True)]
    return sum(rates) / len(rates)


def _rate(tokens: float, count: int) -> float:
    """Tokens in each of so many; NaN where they aren't known, also if there are none."""
    return tokens if math.isnan(tokens) else tokens / count


def _or_none(value: float) -> float | None:
    """A number as records have it: None for NaN."""
    return None if math.isnan(value) else value


def _with_calls(cell: CellRecord, answers: Sequence[Generation]) -> CellRecord:
    """The record with the sizes of the answers' calls, if they are known of all."""
    counts = [answer.calls for answer in answers if answer.calls is not None]
    if len(counts) < len(answers):
        return cell
    return replace(
        cell,
        calls=summed(counts),
        tokens_padded=fmean(answer.tokens_padded or 0 for answer in answers),
        answers_per_call=answers_per_call(answers),
    )


def answers_per_call(answers: Sequence[Generation]) -> float | None:
    """How many answers took part in a call, mean over the calls of their batches; None where that
    wasn't counted.
    """
    shares = [answer.share_of_calls for answer in answers if answer.share_of_calls]
    if len(shares) < len(answers):
        return None
    calls = sum(sum((answer.calls or {}).values()) for answer in answers)
    return calls / sum(shares)


def _with_times(
    cell: CellRecord, rounds: Sequence[float], samples: Sequence[SampleRecord]
) -> CellRecord:
    """The record with the seconds of its rounds, if there are any."""
    if not rounds:
        return cell
    seconds = float(median(rounds))
    timed = replace(cell, seconds=seconds, rounds=[float(value) for value in rounds])
    if seconds <= 0:
        return timed
    tokens = sum(_counts(samples, "answer_tokens"))
    return replace(
        timed,
        samples_per_second=len(samples) / seconds,
        tokens_per_second=_or_none(tokens / seconds),
    )


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
        scores[name] = score_of(name, list(question_scores(samples, name).values()))
    return scores


def blame_shares(samples: Sequence[SampleRecord]) -> dict[str, Score]:
    """The share of each verdict of blame among answers; those of several seeds are averaged
    first.
    """
    shares: dict[str, Score] = {}
    for verdict in VERDICTS:
        means = []
        for answers in by_index(samples).values():
            hits = [
                answer.blame is not None and answer.blame.verdict == verdict for answer in answers
            ]
            means.append(fmean(hits))
        shares[verdict] = score_of(verdict, means)
    return shares


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
    for name, recorded, computed in aggregates:
        if not _agree(recorded, computed):
            raise LoadError(
                f"{where}: cell {printable(cell.id)}: field {name} is {_shown(recorded)}, its"
                f" samples give {_shown(computed)}: edited or damaged"
            )


def _agree(recorded: Any, computed: Any) -> bool:
    """Whether two aggregates are the same, numbers up to the order of their computation."""
    if isinstance(recorded, (int, float)) and isinstance(computed, (int, float)):
        close = math.isclose(recorded, computed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return recorded == computed or close
    return bool(recorded == computed)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value), 120)


def _aggregates(
    cell: CellRecord, samples: Sequence[SampleRecord]
) -> Iterator[tuple[str, Any, Any]]:
    """(field, what the record says, what the samples give)."""
    for name, score in cell.scores.items():
        means = list(question_scores(samples, name).values())
        yield f"scores.{printable(name, 40)}.n", score.n, len(means)
        yield f"scores.{printable(name, 40)}.mean", score.mean, fmean(means) if means else None
    rates = forward_rates(cell.id, samples)
    if rates is not None:
        for name, rate in rates.items():
            recorded = getattr(cell, name)
            # Records written before there was such a field have none.
            if recorded is not None:
                yield name, recorded, rate
    yield "failures", cell.failures, failure_counts(samples)
    if cell.blame is not None:
        for verdict, share in blame_shares(samples).items():
            recorded = getattr(cell.blame, verdict).mean
            yield f"blame.{verdict}.mean", recorded, share.mean
