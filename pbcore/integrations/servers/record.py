"""What a server reported of its answers, and what was measured of its requests, in records and in
reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from pbcore.printable import counted
from pbcore.text import name

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
)
_Count = Annotated[int, Interval(ge=0, le=10**15)]
_Amount = Annotated[float, Interval(ge=0, le=1e15)]


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
    server's own counters rose by in that time. `settings` is how the server says that it decodes,
    `sent` the fields of the requests that said the sampler, with their values.
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


def served_part(samples: Sequence[SampleRecord], **session: Any) -> Served:
    """The record's part for these samples, whose `served` says what was reported of each; `session`
    are the fields that are of all requests together.
    """
    rows = [sample.served or {} for sample in samples]
    known = {name: [row[name] for row in rows if row.get(name) is not None] for name in REPORTED}
    whole = {
        name: known[name]
        for name in ("tokens_in", "tokens_out", "cost")
        if len(known[name]) == len(rows)
    }
    return Served(
        models=_counts(known["model"]),
        first_asked=min(known["asked"], default=None),
        last_asked=max(known["asked"], default=None),
        first_token=float(median(known["first_token"])) if known["first_token"] else None,
        request=float(median(known["seconds"])) if known["seconds"] else None,
        finish=_counts(known["finish"]),
        outcomes=_counts(outcome for outcomes in known["outcomes"] for outcome in outcomes),
        first_tokens=_percentiles(known["first_token"]),
        requests=_percentiles(known["seconds"]),
        **{
            name: sum(values) for name, values in whole.items()
        },  # None if an answer lacks the number
        **session,
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90 and p99 (the nearest rank); empty without values."""
    ranked = sorted(map(float, values))
    return (
        {f"p{share}": ranked[-(-share * len(ranked) // 100) - 1] for share in PERCENTILES}
        if ranked
        else {}
    )


class ServerSection:
    """The section of reports (`report.cells.Section`)."""

    title = "Models behind servers"
    note = (
        "Their seconds are wall-clock time of concurrent requests; cells with kept answers have"
        " none."
    )

    def lines(self, cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """A line per model, from (model, `served` of a record) of each cell."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for model, told in cells:
            groups.setdefault(model, []).append(told)
        return [f"{name(model)}: {'; '.join(_facts(group))}" for model, group in groups.items()]


SECTION = ServerSection()


def _facts(cells: list[Mapping[str, Any]]) -> list[str]:
    servers = sorted({_server(told) for told in cells})
    ids = sorted({model for told in cells for model in told["models"]})
    dates = sorted(
        {
            str(told[key])[:10]
            for told in cells
            for key in ("first_asked", "last_asked")
            if told[key]
        }
    )
    asked, kept = (sum(told[key] for told in cells) for key in ("asked", "kept"))
    ends = sum((Counter(told["outcomes"]) for told in cells), Counter[str]())
    first = [told["first_token"] for told in cells if told["first_token"] is not None]
    return [
        (
            f"{', '.join(map(name, ids)) or 'model id not reported'} at"
            f" {', '.join(map(name, servers))}"
        ),
        *([f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else dates[0]] if dates else []),
        f"{counted(asked, 'request')}, up to {max(told['concurrency'] for told in cells)} at once"
        + (f", {counted(kept, 'answer')} kept from an earlier run" if kept else ""),
        f"tokens {_total(cells, 'tokens_in')} in, {_total(cells, 'tokens_out')} out",
        *([f"first token after {median(first):.2f} s (median)"] if first else []),
        *(
            [f"{_total(cells, 'cost', '.4f')} USD"]
            if any(told["cost"] is not None for told in cells)
            else []
        ),
        *[f"{word} {ends[kind]:,}" for kind, word in ENDS.items() if ends[kind]],
    ]


def _server(told: Mapping[str, Any]) -> str:
    version = f" {told['version']}" if told["version"] else ""
    return f"{told['provider']} ({told['kind']}{version})"


def _total(cells: list[Mapping[str, Any]], key: str, form: str = ",") -> str:
    """The sum over cells; `–` if one of them doesn't have it."""
    values = [told[key] for told in cells]
    return "–" if any(value is None for value in values) else format(sum(values), form)
