"""What changes when one factor of a run changes and all else stays (the question of arXiv
2604.13413): runs with equal means can still differ in many answers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any, Protocol

import pandas as pd

from pbcore.analysis.order import natural
from pbcore.analysis.paired import interval
from pbcore.results.record import CellRecord, SampleRecord, Score
from pbcore.results.stats import score_of

SEED = "seed"
DTYPE = "dtype"
CELL = ["model", "task", "sampler", "metric"]


class CellWithAnswers(Protocol):
    """A record with its answers."""

    @property
    def cell(self) -> CellRecord: ...
    @property
    def samples(self) -> Sequence[SampleRecord]: ...


@dataclass(frozen=True, slots=True)
class FactorChange:
    """One cell's answers when `factor` goes from its first value `base` to `head`, all other
    factors alike. `answers` is the share of answers whose text changes, `scores` the share whose
    `metric` changes; `before` and `after` are the mean scores, `low` to `high` the 95 % interval of
    their difference. The unit is the sample: what other levels and seeds say of the same one is
    averaged first.
    """

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


def factor_changes(cells: Iterable[CellWithAnswers]) -> list[FactorChange]:
    """The changes of every cell by every factor of a run (`--factor`), and by the seed where each
    sample was answered with several (the first against each of the others); by cell, then factor.
    Cells that failed, or lack scores, are left out; of runs side by side the last counts. Where the
    dtype varies, the other factors stand by dtype: `batch-size in float32`.
    """
    seen: dict[tuple[Any, ...], tuple[dict[str, Any], CellWithAnswers]] = {}
    for entry in cells:
        cell = entry.cell
        metric = entry.cell.headline
        if cell.status == "ok" and metric in cell.scores:
            sampler = cell.sampler.removesuffix(f"+x{cell.conditions.at_once}")
            names = {
                "model": cell.model,
                "task": cell.task,
                "sampler": sampler,
                "metric": metric,
                **_level(cell),
            }
            # Runs side by side may differ in more than the factors.
            seen[tuple(names.items())] = names, entry
    if not any(_varies(entry) for _, entry in seen.values()):
        return []
    rows = []
    for names, entry in seen.values():
        for sample in entry.samples:
            if names["metric"] in sample.scores:
                answer = {
                    SEED: sample.seed,
                    "sample": sample.index,
                    "text": sample.text,
                    "score": sample.scores[names["metric"]],
                }
                rows.append(names | answer)
    if not rows:
        return []
    answers = pd.DataFrame(rows, dtype=object)
    no_factors = (*CELL, SEED, "sample", "text", "score")
    factors = [str(name) for name in answers if name not in no_factors]
    factors.append(SEED)
    changes: list[FactorChange] = []
    for factor in factors:
        changes.extend(_by_factor(answers, factor, factors))
    return sorted(changes, key=lambda change: (change.task, change.model, natural(change.sampler)))


def _varies(entry: CellWithAnswers) -> bool:
    """Whether a cell was measured at a level of a factor, or with several seeds."""
    return bool(_level(entry.cell)) or len({sample.seed for sample in entry.samples}) > 1


def _level(cell: CellRecord) -> dict[str, Any]:
    """A cell's factors: how many rows or requests at a time (`+x8`), and those of --factor."""
    level: dict[str, Any] = {}
    at_once = cell.conditions.at_once
    if at_once is not None:
        level["batch-size" if cell.served is None else "concurrency"] = at_once
    level.update(cell.conditions.level or {})
    return level


def _by_factor(
    answers: pd.DataFrame, factor: str, factors: Sequence[str]
) -> Iterator[FactorChange]:
    """The changes by one factor; `answers` has a row per answer: its cell, factors, seed, sample,
    text and score.
    """
    others = [name for name in factors if name != factor]
    known = answers[answers[factor].notna()]
    values = sorted(known[factor].unique(), key=_as_given)
    # What float32 leaves alone may change in bfloat16.
    within, dtypes = (
        pd.factorize(known[DTYPE], use_na_sentinel=False) if DTYPE in others else (0, [None])
    )
    known = known.assign(rank=known[factor].map(values.index).astype(int), within=within)
    cell = [*CELL, "within"]
    first = known["rank"] == known.groupby(cell)["rank"].transform("min")
    both = known[first].merge(known[~first], on=[*cell, *others, "sample"], suffixes=("", "_after"))
    both = both.assign(
        texts=(both["text"] != both["text_after"]).astype(float),
        flips=(both["score"] != both["score_after"]).astype(float),
        **{name: both[name].astype(float) for name in ("score", "score_after")},
    )
    pair = [*cell, "rank"]
    if factor != SEED:
        pair.append("rank_after")
    heads = both.groupby(pair)["rank_after"].unique().to_dict()
    means = both.groupby([*pair, "sample"], sort=False)[
        ["texts", "flips", "score", "score_after"]
    ].mean()
    rows = means.reset_index().sort_values(pair, kind="stable").itertuples(index=False, name=None)
    for key, part in groupby(rows, key=lambda row: row[: len(pair)]):  # a row per sample
        model, task, sampler, metric, at, rank = key[:6]
        name = factor if pd.isna(dtypes[at]) else f"{factor} in {dtypes[at]}"
        after = ",".join(str(values[head]) for head in sorted(heads[key]))
        texts, flips, then, now = zip(*(row[-4:] for row in part), strict=True)
        binary = all(value in (0, 1) for value in (*then, *now))
        limits = interval([new - old for old, new in zip(then, now, strict=True)], binary)
        shares = score_of("answers", texts), score_of("scores", flips)
        names = (model, task, sampler, name, str(values[rank]), after, metric)
        yield FactorChange(*names, *shares, fmean(then), fmean(now), *limits)


def _as_given(value: Any) -> tuple[int, Any]:
    """Numbers by size; of dtypes the widest first."""
    if isinstance(value, int | float):
        return 0, value
    widths = ("float64", "float32", "bfloat16", "float16")
    return (1, widths.index(value)) if value in widths else (2, str(value))
