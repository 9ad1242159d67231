"""What a server reported of its answers, and what was measured of its requests, in records and in
reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from pbcore.base.check import RecordedAmount, RecordedCount
from pbcore.base.printable import counted
from pbcore.base.text import name
from pbcore.extras.servers.field_states import notes

if TYPE_CHECKING:
    from pbcore.results.record import SampleRecord


PERCENTILES = (50, 90, 99)
ENDS = {"empty": "empty", "length": "cut off", "refusal": "refused", "content_filter": "filtered"}
# What a sample's record keeps of its reply.
REPORTED = (
    "seconds",
    "first_token",
    "tokens_in",
    "tokens_out",
    "cost",
    "model",
    "finish",
    "outcomes",
    "asked",
    "engine_seconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The answers of a model behind a server. None means not reported.

    `provider` is the server's host, `kind` and `version` the server's; `models` the model ids that
    it returned with their number of answers; `first_asked` and `last_asked` when (ISO 8601, UTC). A
    cell's seconds are wall-clock time of up to `concurrency` requests at once: `asked` were sent,
    `kept` answers had come in an earlier run, and with those the cell has no time. Tokens are the
    server's counts, `cost` USD by the declared prices, both of all answers; `first_token` and
    `request` are medians over the requests, in seconds, and `first_tokens` and `requests` their
    percentiles (p50, p90, p99). `finish` has the server's own words for the ends of answers,
    `outcomes` how many were empty, cut off (`length`), refused or filtered; `counters` what the
    server's own counters rose by in that time; `engine_seconds` is the median of the seconds of an
    answer that it counts itself. `settings` is how the server says that it decodes,
    `sent` the fields of the requests that said the sampler, with their values, `fields` whether a
    check saw an effect of them (`field_states`).
    """

    provider: str
    kind: str
    concurrency: RecordedCount
    asked: RecordedCount
    kept: RecordedCount
    version: str | None = None
    models: dict[str, RecordedCount] = field(default_factory=dict)
    first_asked: str | None = None
    last_asked: str | None = None
    tokens_in: RecordedCount | None = None
    tokens_out: RecordedCount | None = None
    first_token: RecordedAmount | None = None
    request: RecordedAmount | None = None
    cost: RecordedAmount | None = None
    finish: dict[str, RecordedCount] = field(default_factory=dict)
    outcomes: dict[str, RecordedCount] = field(default_factory=dict)
    counters: dict[str, RecordedAmount] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, list[Any]] = field(default_factory=dict)
    first_tokens: dict[str, RecordedAmount] = field(default_factory=dict)
    requests: dict[str, RecordedAmount] = field(default_factory=dict)
    engine_seconds: RecordedAmount | None = None
    fields: dict[str, str] = field(default_factory=dict)
    COLUMNS: ClassVar[tuple[str, ...]] = ("first_token_seconds", "tokens_in", "tokens_out", "cost")

    def columns(self) -> tuple[float | None, ...]:
        """The values of COLUMNS."""
        return self.first_token, self.tokens_in, self.tokens_out, self.cost


def served_part(samples: Sequence[SampleRecord], **session: Any) -> Served:
    """The record's part for these samples, whose `served` says what was reported of each; `session`
    are the fields that are of all requests together.
    """
    rows = [sample.served or {} for sample in samples]
    asked = _reported(rows, "asked")
    seconds = _reported(rows, "seconds")
    first_tokens = _reported(rows, "first_token")
    return Served(
        models=_counts(_reported(rows, "model")),
        first_asked=min(asked, default=None),
        last_asked=max(asked, default=None),
        tokens_in=_sum_of_all(row.get("tokens_in") for row in rows),
        tokens_out=_sum_of_all(row.get("tokens_out") for row in rows),
        first_token=_median(first_tokens),
        request=_median(seconds),
        cost=_sum_of_all(row.get("cost") for row in rows),
        finish=_counts(_reported(rows, "finish")),
        outcomes=_counts(chain.from_iterable(_reported(rows, "outcomes"))),
        first_tokens=_percentiles(first_tokens),
        requests=_percentiles(seconds),
        engine_seconds=_median(_reported(rows, "engine_seconds")),
        **session,
    )


def _reported(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The values of a field, of the answers that have one."""
    return [row[name] for row in rows if row.get(name) is not None]


def _sum_of_all(values: Iterable[Any]) -> Any:
    """The sum; None if one of the values is None."""
    numbers = list(values)
    return None if None in numbers else sum(numbers)


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _median(values: Sequence[float]) -> float | None:
    return float(median(values)) if values else None


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90 and p99 (the nearest rank); empty without values."""
    ranked = sorted(map(float, values))
    if not ranked:
        return {}
    percentiles = {}
    for share in PERCENTILES:
        rank = -(-share * len(ranked) // 100)  # rounded up; the first value has rank 1
        percentiles[f"p{share}"] = ranked[rank - 1]
    return percentiles


class ServerSection:
    """The section of reports (`report.cells.Section`)."""

    title = "Models behind servers"
    note = (
        "Their seconds are wall-clock time of concurrent requests; cells with kept answers have"
        " none."
    )

    def notes(self, cells: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
        """Which samplers are declared and not verified, from (model, sampler, `served`)."""
        return notes((model, sampler, served.get("fields", {})) for model, sampler, served in cells)

    def lines(self, cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """A line per model, from (model, `served` of a record) of each cell."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for model, served in cells:
            groups.setdefault(model, []).append(served)
        return [f"{name(model)}: {'; '.join(_facts(group))}" for model, group in groups.items()]


SECTION = ServerSection()


def _facts(cells: list[Mapping[str, Any]]) -> list[str]:
    """What a model's line says, from `served` of each of its cells."""
    tokens_in = _total(cells, "tokens_in", ",")
    tokens_out = _total(cells, "tokens_out", ",")
    facts = [_models_and_servers(cells)]
    dates = _dates(cells)
    if dates:
        facts.append(dates)
    facts.append(_requests(cells))
    facts.append(f"tokens {tokens_in} in, {tokens_out} out")
    first_tokens = _reported(cells, "first_token")
    if first_tokens:
        facts.append(f"first token after {median(first_tokens):.2f} s (median)")
    own = _reported(cells, "engine_seconds")
    if own:
        facts.append(f"{median(own):.2f} s an answer by its own clock (median)")
    if _reported(cells, "cost"):
        facts.append(f"{_total(cells, 'cost', '.4f')} USD")
    outcomes = Counter[str]()
    for cell in cells:
        outcomes.update(cell["outcomes"])
    for kind, word in ENDS.items():
        if outcomes[kind]:
            facts.append(f"{word} {outcomes[kind]:,}")
    return facts


def _models_and_servers(cells: list[Mapping[str, Any]]) -> str:
    models: set[str] = set()
    servers: set[str] = set()
    for cell in cells:
        models.update(cell["models"])
        version = f" {cell['version']}" if cell["version"] else ""
        servers.add(f"{cell['provider']} ({cell['kind']}{version})")
    model_ids = ", ".join(map(name, sorted(models))) or "model id not reported"
    return f"{model_ids} at {', '.join(map(name, sorted(servers)))}"


def _dates(cells: list[Mapping[str, Any]]) -> str:
    """The first and the last day of requests; empty without requests."""
    days: set[str] = set()
    for cell in cells:
        days.update(str(cell[key])[:10] for key in ("first_asked", "last_asked") if cell[key])
    if not days:
        return ""
    first, last = min(days), max(days)
    return first if first == last else f"{first} to {last}"


def _requests(cells: list[Mapping[str, Any]]) -> str:
    asked = sum(cell["asked"] for cell in cells)
    kept = sum(cell["kept"] for cell in cells)
    at_once = max(cell["concurrency"] for cell in cells)
    text = f"{counted(asked, 'request')}, up to {at_once} at once"
    if kept:
        text += f", {counted(kept, 'answer')} kept from an earlier run"
    return text


def _total(cells: list[Mapping[str, Any]], key: str, form: str) -> str:
    """The sum over cells; `–` if one of them doesn't have it."""
    total = _sum_of_all(cell[key] for cell in cells)
    return "–" if total is None else format(total, form)
