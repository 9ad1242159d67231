"""Checks that a record's aggregates are those of its samples: nobody edited one without the other."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pbcore.printable import printable
from pbcore.results.check import LoadError
from pbcore.results.record import TOLERANCE, CellRecord, SampleRecord


def check_aggregates(cell: CellRecord, samples: Sequence[SampleRecord], where: str) -> None:
    """Raises LoadError, which begins with `where` and names the field, if an aggregate of an evaluated cell differs
    from what its samples give. Intervals are not computed again."""
    if cell.status != "ok":
        return
    try:
        aggregates = list(_aggregates(cell, samples))
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise LoadError(f"{where}: cell {printable(cell.id)}: its samples don't go together ({error})") from error
    for name, told, computed in aggregates:
        same = told == computed or (
            isinstance(told, (int, float))
            and isinstance(computed, (int, float))
            and math.isclose(told, computed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        )
        if not same:
            raise LoadError(
                f"{where}: cell {printable(cell.id)}: field {name} is {_short(told)}, its samples give "
                f"{_short(computed)}: edited or damaged"
            )


def _aggregates(cell: CellRecord, samples: Sequence[SampleRecord]) -> Iterator[tuple[str, Any, Any]]:
    """(field, what the record says, what the samples give)."""
    from pbcore.results.build import failure_counts, forward_rates
    from pbcore.results.record import by_index

    answers = by_index(samples)
    for name, score in cell.scores.items():
        measured = [[one.scores[name] for one in same if name in one.scores] for same in answers.values()]
        means = [fmean(values) for values in measured if values]
        yield f"scores.{printable(name, 40)}.n", score.n, len(means)
        yield f"scores.{printable(name, 40)}.mean", score.mean, fmean(means) if means else None
    if any(sample.nfe is not None for sample in samples):
        for name, value in forward_rates(cell.id, samples).items():
            told = getattr(cell, name)
            if told is not None:  # records written before there was such a field have none
                yield name, told, value
    yield "failures", cell.failures, failure_counts(samples)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value), 120)
