"""What changes when one factor of a run changes and all else stays (the question of arXiv 2604.13413): runs with equal
means can still differ in many answers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from pbcore.analysis.order import natural
from pbcore.analysis.paired import interval
from pbcore.results.record import CellRecord, SampleRecord, Score
from pbcore.results.stats import score_of

SEED, DTYPE = "seed", "dtype"
Cell = tuple[str, str, str, str]  # model, task, sampler, metric


class Entry(Protocol):
    """A record with its answers."""

    @property
    def cell(self) -> CellRecord: ...
    @property
    def samples(self) -> Sequence[SampleRecord]: ...


@dataclass(frozen=True, slots=True)
class FactorChange:
    """One cell's answers when `factor` goes from its first value `base` to `head`, all other factors alike.

    `answers` is the share of answers whose text changes, `scores` the share whose `metric` changes; `before` and
    `after` are the mean scores, `low` to `high` the 95 % interval of their difference. The unit is the sample: what
    other levels and seeds say of the same one is averaged first."""

    model: str
    task: str
    sampler: str
    factor: str
    base: str
    head: str
    metric: str
    answers: Score
    scores: Score
    before: float
    after: float
    low: float
    high: float

    @property
    def change(self) -> float:
        return self.after - self.before


def factor_changes(cells: Iterable[Entry]) -> list[FactorChange]:
    """The changes of every cell by every factor of a run (`--factor`), and by the seed where each sample was answered
    with several (the first against each of the others); by cell, then factor. Cells that failed, or lack scores, are
    left out. Where the dtype varies, the other factors stand by dtype: `batch-size in float32`."""
    answers: defaultdict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for entry in cells:
        cell, metric = entry.cell, entry.cell.headline
        if cell.status == "ok" and metric in cell.scores:
            sampler = cell.sampler.removesuffix(f"+x{cell.conditions.at_once}")
            answers[cell.model, cell.task, sampler, metric] += [
                {**_level(cell), SEED: one.seed, "sample": one.index, "text": one.text, "score": one.scores[metric]}
                for one in entry.samples
                if metric in one.scores
            ]
    found = [change for cell, rows in answers.items() for change in _of_cell(*cell, pd.DataFrame(rows, dtype=object))]
    return sorted(found, key=lambda one: (one.task, one.model, natural(one.sampler)))


def _level(cell: CellRecord) -> dict[str, Any]:
    """A cell's factors: how many rows or requests at a time (`+x8`), and those of --factor."""
    at_once, level = cell.conditions.at_once, cell.conditions.level or {}
    return ({} if at_once is None else {"batch-size" if cell.served is None else "concurrency": at_once}) | level


def _of_cell(model: str, task: str, sampler: str, metric: str, answers: pd.DataFrame) -> Iterator[FactorChange]:
    """The changes of one cell; `answers` has a row per answer: its factors, seed, sample, text and score."""
    factors = [*(str(name) for name in answers if name not in (SEED, "sample", "text", "score")), SEED]
    for factor in factors if len(answers) else ():
        same = [*(name for name in factors if name != factor), "sample"]
        parts: Iterable[tuple[Any, pd.DataFrame]] = [(None, answers)]
        if DTYPE in same:  # what float32 leaves alone may change in bfloat16
            parts = answers.groupby(DTYPE, sort=False, dropna=False)
        for dtype, part in parts:
            base, *others = sorted(part[factor].dropna().unique(), key=_as_given) or [None]
            for head in [others] if factor == SEED else [[other] for other in others]:
                both = part[part[factor] == base].merge(part[part[factor].isin(head)], on=same, suffixes=("", "_after"))
                if len(both):
                    name = factor if pd.isna(dtype) else f"{factor} in {dtype}"
                    names = model, task, sampler, name, str(base), ",".join(map(str, head)), metric
                    yield _change(names, both)


def _as_given(value: Any) -> tuple[int, Any]:
    """Numbers by size; of dtypes the widest first."""
    if isinstance(value, int | float):
        return 0, value
    widths = ("float64", "float32", "bfloat16", "float16")
    return (1, widths.index(value)) if value in widths else (2, str(value))


def _change(names: tuple[str, str, str, str, str, str, str], both: pd.DataFrame) -> FactorChange:
    """The change over pairs of answers to the same sample, a row each."""
    pairs = both[["score", "score_after"]].assign(
        texts=both["text"] != both["text_after"], flips=both["score"] != both["score_after"]
    )
    means = pairs.astype(float).groupby(both["sample"], sort=False).mean()
    before, after = means["score"], means["score_after"]
    binary = bool(means[["score", "score_after"]].isin([0, 1]).all(axis=None))
    shares = score_of("answers", means["texts"].tolist()), score_of("scores", means["flips"].tolist())
    limits = interval((after - before).tolist(), binary)
    return FactorChange(*names, *shares, float(before.mean()), float(after.mean()), *limits)
