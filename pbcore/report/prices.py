"""Seconds per answer by price lists (`--price`), beside the counts that a run measured.

A run's facts name the lists (`price`) and the answers decoded together (`price_batch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from statistics import fmean
from typing import Any, Protocol, cast

from pbcore.analysis.tradeoff import pareto
from pbcore.base.errors import PbcoreError
from pbcore.base.printable import fixed
from pbcore.base.text import name
from pbcore.costs.price_list import PriceList
from pbcore.names import parse
from pbcore.report.axes import PRICED
from pbcore.report.cells import NONE, or_dash
from pbcore.report.columns import words
from pbcore.report.rows import CellRow, or_nan
from pbcore.report.scopes import Scope, overview
from pbcore.report.sections import Section
from pbcore.results.record import CellRecord
from pbcore.results.rundir import RunFacts
from pbcore.results.seconds import list_or_why, priced_seconds

NO_CALLS = "the record has no counts of calls (written before they were counted, or by a server)"
FRONT = "*"  # marks what no other sampler of the model beats in seconds and score


class HasCell(Protocol):
    """A cell with its name on the page."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def cell(self) -> CellRecord: ...


@dataclass(slots=True)
class Prices:
    """One `--price`: its lists, one for each model, made when they are needed, and why a cell has
    no seconds by it.
    """

    text: str
    batch: int = 1
    latest: PriceList | None = None  # once a cell has one
    reasons: dict[str, None] = field(default_factory=dict)
    samplers: dict[str, None] = field(default_factory=dict)  # those that have seconds
    _lists: dict[tuple[str, str | None], PriceList | str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The list's name and basis, as a column's head."""
        if self.latest is None:
            return name(self.text)
        return f"{name(self.latest.name)}, {self.latest.basis_text}"

    @property
    def unsteady(self) -> str:
        """Why the list can't be believed; empty if it can."""
        return "" if self.latest is None else self.latest.unsteady

    def seconds(self, cell: CellRecord) -> float | None:
        """Mean seconds of an answer of a cell; None where there is no price or no count."""
        if cell.status != "ok":
            return None
        priced = self._priced(cell)
        if isinstance(priced, str):
            self.reasons[priced] = None
            return None
        return priced

    def why(self, cell: CellRecord) -> str:
        """Why an answer of a cell has no seconds, for a line about its sampler; empty where it has
        them.
        """
        priced = self._priced(cell)
        return f"no seconds by {name(self.text)}: {priced}" if isinstance(priced, str) else ""

    def _priced(self, cell: CellRecord) -> float | str | None:
        """The seconds of an answer, or why there are none."""
        if not cell.calls or not cell.n_samples:
            return NO_CALLS
        prices = self._list(cell.model, cell.conditions.dtype)
        if isinstance(prices, str):
            return prices
        try:
            seconds = priced_seconds(cell, prices, self.batch)
        except PbcoreError as error:
            return str(error)
        self.samplers[cell.sampler] = None
        return seconds

    @property
    def assumed(self) -> str:
        """What the lists assume of the samplers that have seconds, in words; empty if nothing."""
        told = []
        for prices in self._lists.values():
            if not isinstance(prices, str):
                told.append(prices.assumed(map(parse, self.samplers)))
        return "; ".join(filter(None, dict.fromkeys(told)))

    def _list(self, model: str, dtype: str | None) -> PriceList | str:
        """The price list of a model, or why there is none."""
        key = model, dtype
        if key not in self._lists:
            # A device's computed prices are for bfloat16, whatever the run computed in.
            prices = list_or_why(self.text, model, dtype)
            self._lists[key] = prices
            if isinstance(prices, PriceList):
                self.latest = prices
        return self._lists[key]


def prices_of(facts: RunFacts) -> list[Prices]:
    """The price lists that a run's facts name."""
    batch = facts.get("price_batch") or 1
    return [Prices(str(text), int(batch)) for text in facts.get("price") or ()]


def price_section(whole: Scope, answers: Iterable[HasCell], facts: RunFacts) -> Section:
    """A row per model and sampler: mean score, calls, and milliseconds of an answer by each price
    list; no rows without lists.

    Args:
        whole: all tasks of the run.
        answers: its cells' records.
        facts: of run.json.
    """
    lists = prices_of(facts)
    title = "Seconds of an answer"
    if not lists:
        return Section(title, title, "", [], [])
    rows = list(overview(whole))
    lines: list[dict[str, str]] = []
    for means in rows:
        score = or_dash(means["score"])
        lines.append({"model": means["model"], "sampler": means["sampler"], "mean score %": score})
    priced = [(answer.model, answer.cell) for answer in answers]
    for prices in lists:
        by_sampler = seconds_by_sampler(prices, priced)
        front = _front(rows, by_sampler)
        for line in lines:
            names = line["model"], line["sampler"]
            seconds = by_sampler.get(names)
            text = NONE if seconds is None else milliseconds(seconds)
            line[f"ms, {prices.head}"] = f"{text}{FRONT}" if names in front else text
    heads = list(lines[0]) if lines else []
    return Section(title, title, _note(lists), [words(head, head) for head in heads], lines)


def milliseconds(seconds: float) -> str:
    """`12.3`, `1,234`."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else fixed(value, 1)


def seconds_by_sampler(
    prices: Prices, cells: Iterable[tuple[str, CellRecord]]
) -> dict[tuple[str, str], float]:
    """(model, sampler) → mean seconds of an answer over the tasks of cells, each beside its model's
    name; without those of which a cell has none.
    """
    seconds: dict[tuple[str, str], list[float | None]] = {}
    for model, cell in cells:
        if cell.status == "ok":
            seconds.setdefault((model, cell.sampler), []).append(prices.seconds(cell))
    means = {}
    for names, values in seconds.items():
        priced = [value for value in values if value is not None]
        if len(priced) == len(values):
            means[names] = fmean(priced)
    return means


def with_prices(
    cells: Sequence[CellRow], answers: Iterable[HasCell], facts: RunFacts
) -> list[CellRow]:
    """The cells with the seconds per answer by each price list, under `price_seconds:NAME`, by
    which the page's plots can be drawn; NaN where a list doesn't price a cell.

    Args:
        cells: those of a report.
        answers: their records.
        facts: of run.json, which name the lists.

    Returns:
        The cells, without lists that price none of them.
    """
    answers = list(answers)
    priced = list(cells)
    for prices in prices_of(facts):
        seconds = {answer.id: prices.seconds(answer.cell) for answer in answers}
        if any(value is not None for value in seconds.values()):
            key = f"{PRICED}{prices.head}"
            rows = [{**row, key: or_nan(seconds.get(row["id"]))} for row in priced]
            priced = cast(list[CellRow], rows)
    return priced


def _front(rows: Sequence[Any], seconds: Mapping[tuple[str, str], float]) -> set[tuple[str, str]]:
    """(model, sampler) of the Pareto front of seconds and score, of each model."""
    points: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for row in rows:
        names = row["model"], row["sampler"]
        if seconds.get(names) and not isnan(row["score"]):
            points.setdefault(row["model"], {})[names] = seconds[names], row["score"]
    front = set()
    for own in points.values():
        best = set(pareto(own.values(), fewer=True))
        front |= {names for names, point in own.items() if point in best}
    return front


def _note(lists: Sequence[Prices]) -> str:
    together = "alone" if lists[0].batch == 1 else f"with {lists[0].batch} decoded together"
    sentences = [
        f"Milliseconds of an answer {together}, its sampler's own work included: counted calls at"
        f" each list's prices, means over tasks. {FRONT} no other sampler of the model has both"
        " less time and a higher score."
    ]
    for prices in lists:
        if prices.unsteady:
            sentences.append(_warning(prices))
        if prices.reasons:
            sentences.append(f"{NONE} by {name(prices.text)}: {'; '.join(prices.reasons)}.")
        if prices.assumed:
            sentences.append(f"Assumed by {name(prices.text)}: {prices.assumed}.")
    return " ".join(sentences)


def _warning(prices: Prices) -> str:
    return (
        f"{name(prices.text)} was measured on a busy machine ({prices.unsteady}), so its seconds"
        " may be far off."
    )


def comparison_prices(
    head: Sequence[Any], base: Any, price: Sequence[str], batch: int | None
) -> list[str]:
    """A line per price list and model and sampler of both runs: milliseconds of an answer before
    and after, and why there are none.

    Args:
        head: stored cells of the run that is judged.
        base: those that it is judged against; a baseline file has no counts of calls.
        price: the lists.
        batch: answers decoded together.
    """
    lines = []
    for text in price:
        if isinstance(base, Mapping):
            lines.append(
                f"{NONE} by {name(text)}: a baseline file has no counts of calls; give a run"
            )
            continue
        prices = Prices(text, batch or 1)
        before = seconds_by_sampler(prices, ((entry.cell.model, entry.cell) for entry in base))
        after = seconds_by_sampler(prices, ((entry.cell.model, entry.cell) for entry in head))
        for model, sampler in after.keys() & before.keys():
            old = before[model, sampler]
            new = after[model, sampler]
            lines.append(
                f"{name(model)} {name(sampler)}, ms an answer on {prices.head}:"
                f" {milliseconds(old)} → {milliseconds(new)} ({new / old:.2f} times)"
            )
        if prices.unsteady:
            lines.append(_warning(prices))
        if prices.reasons:
            lines.append(f"{NONE} by {name(text)}: {'; '.join(prices.reasons)}")
        if prices.assumed:
            lines.append(f"assumed by {name(text)}: {prices.assumed}")
    return sorted(lines)
