"""What a server reported of its answers, and what was measured of its requests: a part of a cell's record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

if TYPE_CHECKING:
    from pbcore.results.record import SampleRecord

PERCENTILES = (50, 90, 99)
_Count = Annotated[int, Interval(ge=0, le=10**15)]
_Amount = Annotated[float, Interval(ge=0, le=1e15)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The answers of a model behind a server. None means not reported.

    `provider` is the server's host, `kind` and `version` the server's; `models` the model ids that it returned with
    their number of answers; `first_asked` and `last_asked` when (ISO 8601, UTC). A cell's seconds are wall-clock time
    of up to `concurrency` requests at once: `asked` were sent, `kept` answers had come in an earlier run, and with
    those the cell has no time. Tokens are the server's counts, `cost` USD by the declared prices, both of all answers;
    `first_token` and `request` are medians over the requests, in seconds, and `first_tokens` and `requests` their
    percentiles (p50, p90, p99). `finish` has the server's own words for the
    ends of answers, `outcomes` how many were empty, cut off (`length`), refused or filtered; `counters` what the
    server's own counters rose by in that time. `settings` is how the server says that it decodes, `sent` the fields
    of the requests that said the sampler, with their values.
    """

    provider: str
    kind: str
    concurrency: _Count
    asked: _Count
    kept: _Count
    version: str | None = None
    models: dict[str, _Count] = field(default_factory=dict)
    first_asked: str | None = None
    last_asked: str | None = None
    tokens_in: _Count | None = None
    tokens_out: _Count | None = None
    first_token: _Amount | None = None
    request: _Amount | None = None
    cost: _Amount | None = None
    finish: dict[str, _Count] = field(default_factory=dict)
    outcomes: dict[str, _Count] = field(default_factory=dict)
    counters: dict[str, _Amount] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, list[Any]] = field(default_factory=dict)
    first_tokens: dict[str, _Amount] = field(default_factory=dict)
    requests: dict[str, _Amount] = field(default_factory=dict)
    COLUMNS: ClassVar[tuple[str, ...]] = ("first_token_seconds", "tokens_in", "tokens_out", "cost")

    def columns(self) -> tuple[float | None, ...]:
        """The values of COLUMNS."""
        return self.first_token, self.tokens_in, self.tokens_out, self.cost


def served(
    samples: Sequence[SampleRecord],
    *,
    provider: str,
    kind: str,
    concurrency: int,
    asked: int,
    kept: int,
    version: str | None,
    counters: dict[str, float],
    settings: Mapping[str, Any],
    sent: Mapping[str, list[Any]],
) -> Served:
    """The record's part for these samples, whose `served` says what was reported of each."""
    rows = [sample.served or {} for sample in samples]
    dates = sorted(filter(None, (row.get("asked") for row in rows)))
    return Served(
        provider=provider,
        kind=kind,
        concurrency=concurrency,
        asked=asked,
        kept=kept,
        version=version,
        models=_counts(row.get("model") for row in rows),
        first_asked=dates[0] if dates else None,
        last_asked=dates[-1] if dates else None,
        tokens_in=_sum(rows, "tokens_in"),
        tokens_out=_sum(rows, "tokens_out"),
        first_token=_median(rows, "first_token"),
        request=_median(rows, "seconds"),
        cost=_sum(rows, "cost"),
        finish=_counts(row.get("finish") for row in rows),
        outcomes=_counts(outcome for row in rows for outcome in row.get("outcomes", ())),
        counters={name: max(0.0, float(value)) for name, value in counters.items()},
        settings=dict(settings),
        sent=dict(sent),
        first_tokens=_percentiles(rows, "first_token"),
        requests=_percentiles(rows, "seconds"),
    )


def _counts(words: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(word for word in words if word is not None).items()))


def _sum(rows: Sequence[dict[str, Any]], name: str) -> Any:
    """The sum over all answers; None if one of them lacks the number."""
    values = [row.get(name) for row in rows]
    return None if any(value is None for value in values) else sum(value for value in values if value is not None)


def _median(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """The median over those that were measured; None if none was."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(median(values)) if values else None


def _percentiles(rows: Sequence[dict[str, Any]], name: str) -> dict[str, float]:
    """p50, p90 and p99 over those that were measured (the nearest rank); empty if none was."""
    values = sorted(float(row[name]) for row in rows if row.get(name) is not None)
    return {f"p{share}": values[-(-share * len(values) // 100) - 1] for share in PERCENTILES} if values else {}
