"""Compares two runs cell by cell: difference with interval, Holm-adjusted test and flipped answers, as data for tables
and pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np

from pbcore.analysis.paired import compare, holm, interval, two_sided
from pbcore.analysis.pairs import Pair, pair_cells
from pbcore.analysis.tradeoff import mean_interval
from pbcore.printable import first_line
from pbcore.results.baseline import BaselineCell, rows_by_id
from pbcore.results.rundir import StoredCell
from pbcore.results.table_row import rate

RATES = (
    *("nfe", "rows", "tokens_per_step", "tokens_per_row", "tokens_per_forward"),
    *("samples_per_second", "tokens_per_second"),
)


@dataclass(frozen=True, slots=True)
class Flip:
    """An answer whose score fell or rose. `seed` is None where the two sides have other seeds, or where only means over
    seeds are known (a baseline file)."""

    index: int
    seed: int | None
    base: float
    head: float


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One cell of run A (`head`) beside the same cell of run B (`base`), or the one that the given names join it with.

    `status`: compared; refused (other questions, no common score, see `reason`); missing (in B only); new (in A only);
    error (could not be run in A or B). Scores are means in [0, 1]; `change` = head − base over `n` samples with its 95
    % interval; `p` is two-sided, `p_adjusted` Holm's over all compared cells. `worse` and `better` are the flipped
    answers, in the order of the samples; `differs` names conditions that differ, e.g. the dtype. `rates`: name of
    `RATES` → (base, head), None where not measured; `nfe_differs` counts the samples with another NFE or other rows."""

    pair: Pair
    status: str
    reason: str = ""
    metric: str = ""
    n: int = 0
    base: float | None = None
    head: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    worse: tuple[Flip, ...] = ()
    better: tuple[Flip, ...] = ()
    differs: tuple[str, ...] = ()
    rates: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    nfe_differs: int = 0

    @property
    def id(self) -> str:
        """A's cell, or B's where A has none."""
        return self.pair.id

    @property
    def name(self) -> str:
        """The cell's id; for a pair of other names `tiny/shuffle/confidence-k2→random-k2`, B's before A's."""
        return self.pair.name if self.pair.renamed else self.id

    @property
    def unchanged(self) -> bool:
        """Whether every sample has the same score, the same NFE and the same rows in both runs."""
        return self.status == "compared" and not (self.worse or self.better or self.nfe_differs)


@dataclass(frozen=True, slots=True)
class Overall:
    """Mean scores of both runs over `cells` cells, which weigh the same, and `change` = head − base with its 95 %
    interval. All are NaN without a cell."""

    cells: int
    base: float
    head: float
    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cells of two runs, sorted by id; `level` is the chance of any false alarm among them. `models` and `samplers`
    are the given names, A's → B's; `left_out` counts the cells of A and of B under other names, `lacking` are ids that
    A never had."""

    cells: tuple[CellComparison, ...]
    level: float
    models: Mapping[str, str] = field(default_factory=dict)
    samplers: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[int, int] = (0, 0)
    lacking: tuple[str, ...] = ()
    overall: Overall = field(default_factory=lambda: overall([]))

    def of(self, *statuses: str) -> list[CellComparison]:
        return [cell for cell in self.cells if cell.status in statuses]

    def significant(self, cell: CellComparison) -> bool:
        """Whether the cell's change is significant among all tests of the comparison."""
        return cell.p_adjusted is not None and cell.p_adjusted <= self.level

    def worst_first(self) -> list[CellComparison]:
        """Significantly worse cells, then those that could not be compared, then the others by their change; new ones
        last."""

        def rank(cell: CellComparison) -> tuple[int, float, str]:
            change = cell.change or 0.0
            if cell.status == "compared":
                return (0 if change < 0 and self.significant(cell) else 2), change, cell.id
            return (3 if cell.status == "new" else 1), 0.0, cell.id

        return sorted(self.cells, key=rank)


def compare_runs(
    head: Sequence[StoredCell],
    base: Sequence[StoredCell] | Mapping[str, BaselineCell],
    level: float = 0.05,
    *,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> Comparison:
    """Run A (`head`) beside run B (`base`, its cells or a baseline file as `read_baseline` gives it), cell by cell.

    Samples are paired by their index; of several seeds a sample counts once, by its mean. Cells whose questions differ
    are refused, other settings and models of the same name are only reported. Cells are paired by id, or by `models`
    and `samplers`, names of A → names of B, as in `pairs.pair_cells`; then A and B may be the same run. Raises
    InputError for names that a run lacks, and if nothing has a partner.

        comparison = compare_runs(load_stored("reports/new"), load_stored("reports/old"))
        [(cell.id, cell.change, [flip.index for flip in cell.worse]) for cell in comparison.worst_first()]
    """
    rows, others = rows_by_id(head), rows_by_id(base)
    pairs = pair_cells(rows, others, models, samplers)
    cells = [_compared(pair, rows.get(pair.head or ""), others.get(pair.base or "")) for pair in pairs.pairs]
    adjusted = iter(holm([cell.p for cell in cells if cell.p is not None]))
    final = tuple(cell if cell.p is None else replace(cell, p_adjusted=next(adjusted)) for cell in cells)
    compared = [(cell, cell.pair.head or "", cell.pair.base or "") for cell in final if cell.status == "compared"]
    both = [
        (cell.pair.task, rows[a].by_sample(cell.metric), others[b].by_sample(cell.metric)) for cell, a, b in compared
    ]
    return Comparison(final, level, models or {}, samplers or {}, pairs.left_out, pairs.lacking, overall(both))


def overall(pairs: Sequence[tuple[str, Mapping[int, float], Mapping[int, float]]]) -> Overall:
    """The mean over pairs (task, head's and base's scores by sample), all in [0, 1].

    Cells of one task ask the same questions: a sample counts once, by its mean over them. Tasks are independent: their
    intervals make that of the mean (`tradeoff.mean_interval`), weighted by their cells."""
    if not pairs:
        return Overall(0, nan, nan, nan, nan, nan)
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[Mapping[int, float], Mapping[int, float]]]] = {}
    for task, head, base in pairs:
        groups.setdefault((task, tuple(sorted(base))), []).append((head, base))
    parts, sizes = [], []
    for (_, indices), cells in groups.items():
        differences = [float(np.mean([head[i] - base[i] for head, base in cells])) for i in indices]
        binary = len(cells) == 1 and all(value in (0, 1) for side in cells[0] for value in side.values())
        parts.append((float(np.mean(differences)), *interval(differences, binary)))
        sizes.append(len(cells))
    before = float(np.mean([np.mean(list(base.values())) for _, _, base in pairs]))
    after = float(np.mean([np.mean(list(head.values())) for _, head, _ in pairs]))
    return Overall(len(pairs), before, after, *mean_interval(parts, sizes))


def _compared(pair: Pair, head: BaselineCell | None, base: BaselineCell | None) -> CellComparison:
    for run, row in (("A", head), ("B", base)):
        if row is not None and row.failed is not None:
            return CellComparison(pair, "error", f"could not be run in {run}: {first_line(row.failed, 300)}")
    facts: dict[str, Any] = {"rates": {name: (_rate(base, name), _rate(head, name)) for name in RATES}}
    for row, side in ((base, "base"), (head, "head")):
        if row is not None:
            values = row.scores.get(row.headline)
            facts |= {"metric": row.headline, "n": len(row.indices)}
            facts[side] = sum(values) / len(values) if values else None
    if head is None or base is None:
        status, run = ("new", "A") if base is None else ("missing", "B")
        return CellComparison(pair, status, f"in {run} only", **facts)
    metric = next((name for name in (base.headline, *base.scores) if name in base.scores and name in head.scores), "")
    facts |= {"metric": metric, "differs": tuple(_differing(head, base))}
    reason = _refusal(head, base) or ("" if metric else "no score was measured in both runs")
    if reason:
        return CellComparison(pair, "refused", reason, **facts)
    paired, flips = compare(head.by_sample(metric), base.by_sample(metric)), _flips(head, base, metric)
    low, high = interval(paired.differences, paired.binary)
    counts = [list(zip(row.nfe, row.forwarded, strict=True)) for row in (head, base)]
    facts |= {name: getattr(paired, name) for name in ("n", "base", "head", "change")}
    return CellComparison(
        pair,
        "compared",
        low=low,
        high=high,
        p=two_sided(paired.differences, paired.binary),
        worse=tuple(flip for flip in flips if flip.head < flip.base),
        better=tuple(flip for flip in flips if flip.head > flip.base),
        nfe_differs=sum(new != old for new, old in zip(*counts, strict=True)) if all(counts) else 0,
        **facts,
    )


def _flips(head: BaselineCell, base: BaselineCell, metric: str) -> list[Flip]:
    """The answers with another score: by sample and seed where both sides know them, else by sample."""
    scores, others = (
        {one.place: one.scores[metric] for one in row.stored.samples} if row.stored else {} for row in (head, base)
    )
    if scores and scores.keys() == others.keys():
        flips = [Flip(*place, others[place], scores[place]) for place in sorted(scores)]
    else:
        seed = head.seeds[0] if len(head.seeds) == 1 and head.seeds == base.seeds else None
        rows = zip(head.indices, base.scores[metric], head.scores[metric], strict=True)
        flips = [Flip(index, seed, old, new) for index, old, new in rows]
    return [flip for flip in flips if flip.head != flip.base]


def _refusal(head: BaselineCell, base: BaselineCell) -> str:
    """Why two cells can't be paired: other questions, or other samples of them."""
    if head.task != base.task or head.data_hash != base.data_hash:
        a, b = (f"{len(row.indices)} samples of digest {row.data_hash[:8] or 'unknown'}" for row in (head, base))
        return f"other questions: A has {a}, B {b}; give both runs the same data, n and limit"
    if not (head.indices and base.indices):
        return f"no answers in {'B' if head.indices else 'A'}: results.json alone has none; give the run directory"
    if head.indices != base.indices:
        return f"other samples: A has {len(head.indices)}, B {len(base.indices)}"
    return ""


def _differing(head: BaselineCell, base: BaselineCell) -> list[str]:
    """Conditions that differ between two cells, each as `dtype bfloat16 → float32` (B → A)."""
    pairs = [("seeds", ",".join(map(str, base.seeds)), ",".join(map(str, head.seeds)))]
    pairs += [(name, str(getattr(base, name)), str(getattr(head, name))) for name in ("dtype", "length")]
    pairs += [("text after the first EOS scored", str(base.official_text), str(head.official_text))]
    pairs += [("steps scored", str(base.whole_cot), str(head.whole_cot))]
    known = head.model_identity.keys() | base.model_identity.keys()
    pairs += [(name, base.model_identity.get(name, "–"), head.model_identity.get(name, "–")) for name in sorted(known)]
    return [f"{name} {first_line(old, 40)} → {first_line(new, 40)}" for name, old, new in pairs if old != new]


def _rate(row: BaselineCell | None, name: str) -> float | None:
    if row is None:
        return None
    if row.stored is not None:
        return rate(row.stored.cell, name)
    if name in ("nfe", "rows"):
        counts = row.nfe if name == "nfe" else row.forwarded
        return sum(counts) / len(counts) / max(1, len(row.seeds)) if counts else None
    known = name == "tokens_per_step" or (name == "tokens_per_row" and not row.rows)
    return row.tokens_per_step if known else None
