"""Compares two runs cell by cell: difference with interval, verdict (`analysis.verdict`) and
flipped answers, as data for tables and pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np

from pbcore.analysis.paired import Paired, compare, cost_changes, fell, interval
from pbcore.analysis.pairs import Names, Pair, differing, pair_cells, unpaired
from pbcore.analysis.tradeoff import mean_interval
from pbcore.analysis.verdict import NOTHING, Judgement, Pooled, Verdict, counts_of, verdict_on
from pbcore.base.grouping import grouped
from pbcore.base.printable import first_line
from pbcore.results.baseline import BaselineCell, rows_by_id
from pbcore.results.measures import shown_in
from pbcore.results.rundir import StoredCell
from pbcore.results.table_row import cell_rate

RATES = tuple(measure.key for measure in shown_in("differences"))
# Settings that may differ between compared cells → their names in tables.
NOTED = {
    "seeds": "seeds",
    "dtype": "dtype",
    "device": "device",
    "length": "length",
    "options": "options",
}
# What a table calls a cell's verdict, where it isn't the verdict's own word.
WORDS = {"passed": "no clear change", "lost": "lost, not shown"}
Rates = Mapping[str, tuple[float | None, float | None]]  # name → B's and A's
RED = ("worse", "changed", "slower")
UNTESTED = Pooled()
NOTHING_JUDGED = Verdict((), 0.05)


@dataclass(frozen=True, slots=True)
class Flip:
    """An answer whose score fell or rose. `seed` is None where the two sides have other seeds, or
    where only means over seeds are known (a baseline file).
    """

    index: int
    seed: int | None
    base: float
    head: float


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One cell of run A (`head`) beside the same cell of run B (`base`), or the one that the given
    names join it with.

    `status`: compared; refused (other questions, no common score, see `reason`); missing (in B
    only); new (in A only); error (could not be run in A or B). `paired` compares the score `metric`
    and the costs of compared cells; `judgement` is the cell's by the rule. `worse` and `better` are
    the flipped answers, in the order of the samples. `rates`: name of `RATES` → (base, head), None
    where not measured.
    """

    pair: Pair
    status: str
    reason: str = ""
    metric: str = ""
    paired: Paired = NOTHING
    judgement: Judgement | None = None
    worse: tuple[Flip, ...] = ()
    better: tuple[Flip, ...] = ()
    rates: Rates = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A's cell, or B's where A has none."""
        return self.pair.id

    @property
    def n(self) -> int:
        """The samples that were compared."""
        return self.paired.n

    @property
    def base(self) -> float:
        """B's mean score in [0, 1], of its own headline where the cell was not compared; NaN: not
        known.
        """
        return self.paired.base if self.n else _mean(self.pair.base)

    @property
    def head(self) -> float:
        """The same of A."""
        return self.paired.head if self.n else _mean(self.pair.head)

    @property
    def change(self) -> float:
        """A's mean less B's over the compared samples; NaN without."""
        return self.paired.change

    @property
    def low(self) -> float:
        """The lower end of its 95 % interval."""
        return self.paired.limits[0]

    @property
    def high(self) -> float:
        """The upper end."""
        return self.paired.limits[1]

    @property
    def differs(self) -> list[str]:
        """The noted settings that differ, as tables tell them: `dtype float32 → bfloat16`."""
        if self.pair.head is None or self.pair.base is None:
            return []
        notes = []
        for name, new, old in differing(self.pair.head, self.pair.base):
            if name in NOTED:
                notes.append(f"{NOTED[name]} {_shown(old)} → {_shown(new)}")
        return notes

    @property
    def nfe_differs(self) -> int:
        """How many samples have another NFE, other rows or, where both sides count them, other
        tokens forwarded; all where only one side knows its NFE.
        """
        rows = [row for row in (self.pair.head, self.pair.base) if row is not None]
        if len({bool(row.nfe) for row in rows}) > 1:
            return self.n
        changes = cost_changes(self.paired).values()
        return len({index for change in changes for index in (*change.more, *change.fewer)})

    @property
    def p(self) -> float | None:
        """The one-sided p of the change in its direction, by Holm's procedure; None where nothing
        was tested.
        """
        if self.judgement is None or not self.judgement.tested:
            return None
        return self.judgement.p.get("score" if self.change < 0 else "gain")

    @property
    def unchanged(self) -> bool:
        """Whether every sample has the same counts in both runs, and no score fell or changed."""
        judgement = self.judgement
        if judgement is not None and (judgement.texts or judgement.others):
            return False
        return self.status == "compared" and not (self.worse or self.better or self.nfe_differs)


@dataclass(frozen=True, slots=True)
class Overall:
    """Mean scores of both runs over `cells` cells, which weigh the same, and `change` = head − base
    with its 95 % interval. All are NaN without a cell.
    """

    cells: int = 0
    base: float = nan
    head: float = nan
    change: float = nan
    low: float = nan
    high: float = nan


@dataclass(frozen=True, slots=True)
class NamedPair:
    """What was measured of one pair of given names over all its compared cells. `model` and
    `sampler` are (A's, B's), None where only the other was named; `mean` is the pooled difference,
    `worse` and `better` count the answers whose score fell or rose; `binary`: all these scores are
    0 or 1, so that such answers turned wrong or right; `pooled` is the test of all of them.
    `forwards` and `rows` are B's divided by A's, of the means of all cells added up; None where not
    counted, `rows` also where they are the forwards.
    """

    model: Names
    sampler: Names
    mean: Overall
    worse: int = 0
    better: int = 0
    binary: bool = True
    pooled: Pooled = UNTESTED
    forwards: float | None = None
    rows: float | None = None

    @property
    def verdict(self) -> str:
        """`worse` or `better` where the test of all answers finds it, else `no clear difference`;
        `not compared` without a cell that was judged.
        """
        if not self.pooled.cells:
            return "not compared"
        return self.pooled.status or "no clear difference"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cells of two runs, sorted by id, and the `verdict` on them; `level` is the chance of any
    false alarm among them. `models` and `samplers` are the given names, A's → B's; `left_out`
    counts the cells of A and of B under other names, `lacking` are ids that A never had. `named`
    has the pooled verdict on each pair of given names.
    """

    cells: tuple[CellComparison, ...]
    level: float
    models: Mapping[str, str] = field(default_factory=dict)
    samplers: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[int, int] = (0, 0)
    lacking: Sequence[str] = ()
    overall: Overall = Overall()
    named: tuple[NamedPair, ...] = ()
    verdict: Verdict = NOTHING_JUDGED

    def of(self, *statuses: str) -> list[CellComparison]:
        return [cell for cell in self.cells if cell.status in statuses]

    def word(self, cell: CellComparison) -> str:
        """The rule's word for a compared cell: `worse`, `better`, `changed`, `slower`, `faster`,
        `refused`; `the same`, `no clear change` or `lost, not shown`; a cell that was not compared
        has its status.
        """
        if cell.status != "compared" or cell.judgement is None:
            return cell.status
        status = cell.judgement.status
        if cell.unchanged and status == "passed":
            return "the same"
        return WORDS.get(status, status)

    def worst_first(self) -> list[CellComparison]:
        """Red cells, then those that could not be compared, then the others by their change; new
        ones last.
        """

        def rank(cell: CellComparison) -> tuple[int, float, str]:
            compared = cell.status == "compared"
            place = len(RED) + 1 if compared else len(RED)
            word = self.word(cell)
            if word in RED:
                place = RED.index(word)
            elif cell.status == "new":
                place = len(RED) + 2
            return place, cell.change if compared else 0.0, cell.id

        return sorted(self.cells, key=rank)


def compare_runs(
    head: Sequence[StoredCell] | Mapping[str, BaselineCell],
    base: Sequence[StoredCell] | Mapping[str, BaselineCell],
    level: float = 0.05,
    *,
    exact: bool = False,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
    whole: bool = False,
) -> Comparison:
    """Run A beside run B, cell by cell:

        comparison = compare_runs(load_stored("reports/new"), load_stored("reports/old"))

    Samples are paired by their index; of several seeds a sample counts once, by its mean. The
    verdict is that of `analysis.verdict`. Cells whose questions differ have no difference; with
    other seeds or options they have one, but no verdict.

    Args:
        head: the cells of A, or their rows by id.
        base: the cells of B, or their rows, as `read_baseline` gives those of a file.
        level: the chance of any false alarm among the cells that are tested.
        exact: every answer counts with other weights, too.
        models: names of A → names of B, for cells that are paired by name instead of id, as in
            `pairs.pair_cells`; then A and B may be the same run.
        samplers: likewise.
        whole: whether cells that A lacks count against it, as they do in a gate.

    Raises:
        InputError: for names that a run lacks, and if nothing has a partner.
    """
    pairing = pair_cells(rows_by_id(head), rows_by_id(base), models, samplers)
    verdict = verdict_on(
        pairing.pairs, level, exact=exact, by_model=bool(models), by_sampler=bool(samplers)
    )
    judgements = {id(judgement.pair): judgement for judgement in verdict.judgements}
    cells = [_compared(pair, judgements[id(pair)]) for pair in pairing.pairs]
    return Comparison(
        tuple(cells),
        level,
        models or {},
        samplers or {},
        pairing.left_out,
        pairing.lacking,
        _pooled(cells),
        _named_pairs(cells, bool(models), bool(samplers), verdict.pooled),
        verdict if whole else verdict.of_the_run(),
    )


def _pooled(cells: Sequence[CellComparison]) -> Overall:
    """The mean over the compared cells."""
    return overall([(cell.pair.task, cell.paired) for cell in cells if cell.status == "compared"])


def _named_pairs(
    cells: Sequence[CellComparison],
    by_model: bool,
    by_sampler: bool,
    tests: Sequence[Pooled],
) -> tuple[NamedPair, ...]:
    """The pooled verdicts on the given names that differ, in the order of the cells.

    Args:
        cells: all cells of the comparison.
        by_model: whether models were named.
        by_sampler: whether samplers were named.
        tests: of all cells of each pair of names.
    """
    tested = {(pooled.model, pooled.sampler): pooled for pooled in tests}
    renamed = [cell for cell in cells if cell.pair.renamed]
    groups = grouped(renamed, lambda cell: cell.pair.given(by_model, by_sampler))
    pairs = []
    for (model, sampler), members in groups.items():
        worse = [flip for cell in members for flip in cell.worse]
        better = [flip for cell in members for flip in cell.better]
        binary = all(flip.base in (0, 1) and flip.head in (0, 1) for flip in worse + better)
        pooled = tested.get((model, sampler), Pooled())
        counts = len(worse), len(better), binary
        rates = [cell.rates for cell in members if cell.status == "compared"]
        apart = any(rate["rows"] != rate["nfe"] for rate in rates)
        ratios = _ratio(rates, "nfe"), _ratio(rates, "rows") if apart else None
        pairs.append(NamedPair(model, sampler, _pooled(members), *counts, pooled, *ratios))
    return tuple(pairs)


def _ratio(rates: Sequence[Rates], name: str) -> float | None:
    """B's mean costs divided by A's, each added up over cells; None where one lacks them."""
    sides = [cell[name] for cell in rates]
    base = [before for before, _ in sides if before is not None]
    head = [after for _, after in sides if after is not None]
    if len(base) < len(sides) or len(head) < len(sides) or not sum(head):
        return None
    return sum(base) / sum(head)


def overall(cells: Sequence[tuple[str, Paired]]) -> Overall:
    """The mean over cells, each with its task. Cells of one task ask the same questions: a sample
    counts once, by its mean over them. Tasks are independent: their intervals make that of the mean
    (`tradeoff.mean_interval`), weighted by their cells.
    """
    if not cells:
        return Overall()
    changes = []
    groups = grouped(cells, lambda cell: (cell[0], cell[1].indices))
    for group in groups.values():
        columns = zip(*(paired.differences for _, paired in group), strict=True)
        differences = [float(np.mean(column)) for column in columns]
        binary = len(group) == 1 and group[0][1].binary
        changes.append((float(np.mean(differences)), *interval(differences, binary)))
    change, low, high = mean_interval(changes, [len(group) for group in groups.values()])
    return Overall(
        cells=len(cells),
        base=float(np.mean([paired.base for _, paired in cells])),
        head=float(np.mean([paired.head for _, paired in cells])),
        change=change,
        low=low,
        high=high,
    )


def _compared(pair: Pair, judgement: Judgement) -> CellComparison:
    head = pair.head
    base = pair.base
    rows = [row for row in (head, base) if row is not None]
    for run, row in (("A", head), ("B", base)):
        if row is not None and row.failed is not None:
            reason = f"could not be run in {run}: {first_line(row.failed, 300)}"
            return CellComparison(pair, "error", reason, judgement=judgement)
    cell = CellComparison(
        pair,
        "refused",
        metric=rows[0].headline,
        rates={name: (_rate(base, name), _rate(head, name)) for name in RATES},
        judgement=judgement,
    )
    if base is None:
        return replace(cell, status="new", reason="in A only")
    if head is None:
        return replace(cell, status="missing", reason="in B only")
    metric = _common_metric(head, base)
    reason = _refusal(head, base)
    if not reason and not metric:
        reason = "no score was measured in both runs"
    if reason:
        return replace(cell, metric=metric, reason=reason)
    costs = counts_of(head, True), counts_of(base, True)
    flips = _flips(head, base, metric)
    return replace(
        cell,
        status="compared",
        metric=metric,
        paired=compare(head.by_sample(metric), base.by_sample(metric), costs),
        worse=tuple(flip for flip in flips if fell(flip.head - flip.base)),
        better=tuple(flip for flip in flips if fell(flip.base - flip.head)),
    )


def _common_metric(head: BaselineCell, base: BaselineCell) -> str:
    """The score that both have, best the headline of `base`; empty without."""
    for name in (base.headline, *base.scores):
        if name in base.scores and name in head.scores:
            return name
    return ""


def _flips(head: BaselineCell, base: BaselineCell, metric: str) -> list[Flip]:
    """The answers with another score: by sample and seed where both sides know them, else by
    sample.
    """
    head_scores = _by_place(head, metric)
    base_scores = _by_place(base, metric)
    if head_scores and head_scores.keys() == base_scores.keys():
        flips = [
            Flip(*place, base_scores[place], head_scores[place]) for place in sorted(head_scores)
        ]
    else:
        seed = head.seeds[0] if len(head.seeds) == 1 and head.seeds == base.seeds else None
        rows = zip(head.indices, base.scores[metric], head.scores[metric], strict=True)
        flips = [Flip(index, seed, old, new) for index, old, new in rows]
    return [flip for flip in flips if flip.head != flip.base]


def _by_place(row: BaselineCell, metric: str) -> dict[tuple[int, int], float]:
    """The scores by sample and seed; empty for a cell of a baseline file."""
    if row.stored is None:
        return {}
    return {sample.place: sample.scores[metric] for sample in row.stored.samples}


def _refusal(head: BaselineCell, base: BaselineCell) -> str:
    """Why two cells can't be paired: other questions, or other samples of them."""
    why = unpaired(head, base, ("task", "data_hash", "indices"))
    if why is None:
        return ""
    if why[0] != "indices":
        return (
            f"other questions: A has {_questions(head)}, B {_questions(base)}; give both runs the"
            " same data, n and limit"
        )
    if not (head.indices and base.indices):
        run = "B" if head.indices else "A"
        return f"no answers in {run}: results.json alone has none; give the run directory"
    return f"other samples: A has {len(head.indices)}, B {len(base.indices)}"


def _questions(row: BaselineCell) -> str:
    return f"{len(row.indices)} samples of digest {row.data_hash[:8] or 'unknown'}"


def _shown(value: Any) -> str:
    """A setting as tables tell it."""
    if isinstance(value, Mapping):
        value = tuple(f"{name}={setting}" for name, setting in value.items())
    if value is None or value in ("", ()):
        return "–"
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return first_line(text, 40)


def _mean(row: BaselineCell | None) -> float:
    values = row.scores.get(row.headline) if row else None
    return sum(values) / len(values) if values else nan


def _rate(row: BaselineCell | None, name: str) -> float | None:
    if row is None:
        return None
    if row.stored is not None:
        return cell_rate(row.stored.cell, name)
    if name in ("nfe", "rows", "tokens_forwarded"):
        counts = row.forwarded if name == "rows" else getattr(row, name)
        return sum(counts) / len(counts) / max(1, len(row.seeds)) if counts else None
    if name == "tokens_per_step" or (name == "tokens_per_row" and not row.rows):
        return row.tokens_per_step
    return None
