"""Checks that a record's aggregates are those of its samples: nobody edited one without the other."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pbcore.printable import printable
from pbcore.results.check import LoadError
from pbcore.results.record import TOLERANCE, CellRecord, SampleRecord, by_index


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
        numbers = isinstance(told, (int, float)) and isinstance(computed, (int, float))
        if told != computed and not (numbers and math.isclose(told, computed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)):
            values = [f"{one:.6g}" if isinstance(one, float) else printable(str(one), 120) for one in (told, computed)]
            raise LoadError(
                f"{where}: cell {printable(cell.id)}: field {name} is {values[0]}, its samples give {values[1]}: "
                "edited or damaged"
            )


def _aggregates(cell: CellRecord, samples: Sequence[SampleRecord]) -> Iterator[tuple[str, Any, Any]]:
    """(field, what the record says, what the samples give)."""
    from pbcore.results.build import failure_counts, forward_rates

    for name, score in cell.scores.items():
        measured = by_index(sample for sample in samples if name in sample.scores)
        means = [fmean(one.scores[name] for one in same) for same in measured.values()]
        yield f"scores.{printable(name, 40)}.n", score.n, len(means)
        yield f"scores.{printable(name, 40)}.mean", score.mean, fmean(means) if means else None
    for name, value in forward_rates(cell.id, samples).items():
        if (told := getattr(cell, name)) is not None:  # records written before there was such a field have none
            yield name, told, value
    yield "failures", cell.failures, failure_counts(samples)
