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
from pbcore.results.baseline import BaselineCell, baseline_cell
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
    error (could not be run in A or B). Scores are means in [0, 1]; `change` = head − base with its 95 % interval `low`
    to `high` (`analysis.paired.interval`), over `n` samples; `p` is two-sided, `p_adjusted` Holm's over all compared
    cells. `worse` and `better` are the flipped answers, in the order of the samples; `differs` names conditions that
    differ, e.g. the dtype, though the questions are the same. `rates`: name of `RATES` → (base, head), None where not
    measured; `nfe_differs` counts the samples with another NFE or other rows.
    """

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
    A never had. `overall` has the mean of the compared cells."""

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
    are refused, other settings and models of the same name are only reported. Binary scores: exact McNemar test;
    others: `paired.graded_drop`; both two-sided.

    Cells are paired by id, or by `models` and `samplers`, names of A → names of B: then only cells of the named models
    and samplers are compared, and A and B may be the same run. Raises InputError for names that a run lacks, and if
    nothing has a partner.

        comparison = compare_runs(load_stored("reports/new"), load_stored("reports/old"))
        [(cell.id, cell.change, [flip.index for flip in cell.worse]) for cell in comparison.worst_first()]
        compare_runs(run, run, samplers={"my_sampler-k2": "confidence-k2"})
    """
    heads, bases = _sides(head), _sides(base)
    rows, others = ({name: side.row for name, side in sides.items()} for sides in (heads, bases))
    pairs = pair_cells(rows, others, models, samplers)
    cells = [_compared(pair, heads.get(pair.head or ""), bases.get(pair.base or "")) for pair in pairs.pairs]
    tested = [i for i, cell in enumerate(cells) if cell.p is not None]
    adjusted = dict(zip(tested, holm([cells[i].p or 0.0 for i in tested]), strict=True))
    final = tuple(replace(cell, p_adjusted=adjusted.get(i)) for i, cell in enumerate(cells))
    both = [
        (pair.task, rows[pair.head or ""].by_sample(cell.metric), others[pair.base or ""].by_sample(cell.metric))
        for pair, cell in zip(pairs.pairs, final, strict=True)
        if cell.status == "compared"
    ]
    return Comparison(final, level, models or {}, samplers or {}, pairs.left_out, pairs.lacking, overall(both))


def overall(pairs: Sequence[tuple[str, Mapping[int, float], Mapping[int, float]]]) -> Overall:
    """The mean over pairs (task, head's and base's scores by sample), all in [0, 1].

    Cells of one task ask the same questions, so that their differences belong together: a sample counts once, by its
    mean over them. Tasks are independent: their intervals (`paired.interval`) make that of the mean
    (`tradeoff.mean_interval`), weighted by their cells.
    """
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


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a pair: its row, and what was stored where it comes from a run."""

    row: BaselineCell
    stored: StoredCell | None = None


def _sides(cells: Sequence[StoredCell] | Mapping[str, BaselineCell]) -> dict[str, _Side]:
    if isinstance(cells, Mapping):
        return {name: _Side(row) for name, row in cells.items()}
    return {entry.cell.id: _Side(baseline_cell(entry), entry) for entry in cells}


def _compared(pair: Pair, head: _Side | None, base: _Side | None) -> CellComparison:
    facts: dict[str, Any] = {"rates": {name: (_rate(base, name), _rate(head, name)) for name in RATES}}
    for run, side in (("A", head), ("B", base)):
        if side is not None and side.stored is not None and side.stored.cell.status != "ok":
            cause = first_line(side.stored.cell.error or "no cause recorded", 300)
            return CellComparison(pair, "error", f"could not be run in {run}: {cause}")
    for side, column in ((base, "base"), (head, "head")):
        if side is not None:
            facts |= _scored(side.row, column)
    if head is None or base is None:
        status, run = ("new", "A") if base is None else ("missing", "B")
        return CellComparison(pair, status, f"in {run} only", **facts)
    both = [
        name for name in (base.row.headline, *base.row.scores) if name in base.row.scores and name in head.row.scores
    ]
    facts |= {"metric": both[0] if both else "", "differs": tuple(_differing(head.row, base.row))}
    reason = _refusal(head.row, base.row) or ("" if both else "no score was measured in both runs")
    if reason:
        return CellComparison(pair, "refused", reason, **facts)
    return CellComparison(pair, "compared", **{**facts, **_difference(head, base, both[0])})


def _scored(row: BaselineCell, side: str) -> dict[str, Any]:
    """The mean headline score of a cell without a partner."""
    values = row.scores.get(row.headline)
    return {"metric": row.headline, "n": len(row.indices), side: sum(values) / len(values) if values else None}


def _difference(head: _Side, base: _Side, metric: str) -> dict[str, Any]:
    """The scores, their difference with interval and test, and the flips, of a pair that can be compared."""
    paired = compare(head.row.by_sample(metric), base.row.by_sample(metric))
    low, high = interval(paired.differences, paired.binary)
    flips = _flips(head, base, metric)
    counts = [list(zip(row.nfe, row.forwarded, strict=True)) for row in (head.row, base.row)]
    forwards = zip(*counts, strict=True) if all(counts) else ()
    return {
        **{name: getattr(paired, name) for name in ("n", "base", "head", "change")},
        "low": low,
        "high": high,
        "p": two_sided(paired.differences, paired.binary),
        "worse": tuple(flip for flip in flips if flip.head < flip.base),
        "better": tuple(flip for flip in flips if flip.head > flip.base),
        "nfe_differs": sum(new != old for new, old in forwards),
    }


def _flips(head: _Side, base: _Side, metric: str) -> list[Flip]:
    """The answers with another score: by sample and seed where both sides know them, else by sample."""
    scores, others = (
        {one.place: one.scores[metric] for one in side.stored.samples} if side.stored else {} for side in (head, base)
    )
    if scores and scores.keys() == others.keys():
        return [
            Flip(*place, others[place], scores[place]) for place in sorted(scores) if scores[place] != others[place]
        ]
    seeds = head.row.seeds
    seed = seeds[0] if len(seeds) == 1 and seeds == base.row.seeds else None
    rows = zip(head.row.indices, base.row.scores[metric], head.row.scores[metric], strict=True)
    return [Flip(index, seed, old, new) for index, old, new in rows if old != new]


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


def _rate(side: _Side | None, name: str) -> float | None:
    if side is None:
        return None
    if side.stored is not None:
        return rate(side.stored.cell, name)
    row = side.row
    if name in ("nfe", "rows"):
        counts = row.nfe if name == "nfe" else row.forwarded
        return sum(counts) / len(counts) / max(1, len(row.seeds)) if counts else None
    known = name == "tokens_per_step" or (name == "tokens_per_row" and not row.rows)
    return row.tokens_per_step if known else None
