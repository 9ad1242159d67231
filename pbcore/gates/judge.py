"""The gate: judges each cell of a run against its baseline row. It must fail a worse or slower
model, but not on noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pbcore.analysis.paired import (
    Paired,
    compare,
    graded_drop,
    holm,
)
from pbcore.analysis.pairs import Pair, differing, pair_cells, weights_of
from pbcore.errors import InputError
from pbcore.gates.floors import Floor, broken_floors
from pbcore.names import SamplerNameError, parse
from pbcore.printable import counted, first_line, fixed
from pbcore.results.baseline import BaselineCell, rows_by_id
from pbcore.results.record import id_order
from pbcore.results.rundir import StoredCell

RATE_TOLERANCE = 1e-6
NOTHING = Paired()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One cell's verdict. `status`: passed, worse (quality), slower (more forwards, rows or tokens
    forwarded, or fewer tokens per step), changed (a greedy decoding that doesn't repeat: one of
    these counts differs, and some scores do, too, or some counts fell), refused (can't be
    compared), missing (in the baseline, not in the run), error (could not be run), new (no baseline
    row), floor (violated). `paired` compares the judged score, `metric`; `p` has the Holm-adjusted
    one-sided p of each test: score, and of sampled decodings forwards and rows.
    """

    id: str
    status: str
    reason: str = ""
    metric: str = ""
    paired: Paired = NOTHING
    p: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status in ("passed", "new")


@dataclass(frozen=True, slots=True)
class Verdict:
    """All judgements, sorted by id; `level` is the chance of any false alarm. `ok` false means exit
    code 1. `weights` says in words whether the models are the baseline's.
    """

    judgements: tuple[Judgement, ...]
    level: float
    weights: str = ""

    @property
    def ok(self) -> bool:
        return all(judgement.ok for judgement in self.judgements)

    @property
    def tests(self) -> int:
        """How many tests Holm's correction covers."""
        return sum(len(judgement.p) for judgement in self.judgements)

    def of(self, *statuses: str) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.status in statuses]

    def of_the_run(self) -> "Verdict":
        """The verdict on the run's own cells: without the baseline's that the run lacks."""
        of_cells = tuple(
            judgement for judgement in self.judgements if judgement.status != "missing"
        )
        return Verdict(of_cells, self.level, self.weights)


def judge(
    run: Sequence[StoredCell],
    baseline: Mapping[str, BaselineCell],
    level: float = 0.05,
    floors: Sequence[Floor] = (),
    *,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> Verdict:
    """Judges a run against a baseline.

    Quality: the headline score sample by sample, by the exact one-sided McNemar test, or
    `paired.graded_drop` for graded scores. NFE and tokens per step must be equal for greedy
    samplers, and tokens forwarded where the baseline has them; for others `graded_drop` looks for
    more forwards. Rows are judged as NFE is where the baseline has some that aren't its forwards.
    Holm's correction covers all tests. Baseline rows missing in the run fail; cells that differ in
    data, sampler, seed, precision or samples are refused; other weights are judged.

    Two names that are joined are judged by their scores alone: their NFE may differ, and a joined
    model's dtype.

    Args:
        run: its cells (`results.open_run(path).read_cells()`).
        baseline: cells by id (`results.baseline.read_baseline(file)`); empty checks floors only.
        level: the chance of any false alarm in the run, in (0, 1).
        floors: the least scores (`gates.floors.parse_floor(text)`).
        models: names of the run → names of the baseline, to join cells of other names; None: none.
        samplers: the same for samplers.

    Raises:
        InputError: for a level outside (0, 1), unknown names, and if nothing has a partner.
    """
    if not 0 < level < 1:
        raise InputError(
            f"level {level}: give the probability of a false alarm per run, between 0 and 1, e.g."
            " 0.05"
        )
    pairing = pair_cells(rows_by_id(run), baseline, models, samplers)
    judged = [_judged(pair) for pair in pairing.pairs]
    judgements = [_decided(judgement, level) for judgement in _adjusted(judged)]
    for name, reason in broken_floors(floors, [entry.cell for entry in run]):
        judgements.append(Judgement(name, "floor", reason))
    judgements.sort(key=lambda judgement: id_order(judgement.id))
    return Verdict(tuple(judgements), level, weights_of(pairing.pairs))


def _adjusted(judgements: Sequence[Judgement]) -> list[Judgement]:
    """The judgements with p-values by Holm's correction over all their tests."""
    raw: list[float] = []
    for judgement in judgements:
        raw.extend(judgement.p.values())
    corrected = iter(holm(raw))
    adjusted = []
    for judgement in judgements:
        p = {kind: next(corrected) for kind in judgement.p}
        adjusted.append(replace(judgement, p=p))
    return adjusted


def refusal(cell: BaselineCell, base: BaselineCell, renamed: bool = False) -> str:
    """Why two rows can't be compared: the first setting that differs; empty if they can.

    Args:
        cell: of the run.
        base: of the baseline.
        renamed: True if rows of other names were joined, so that these may differ, and the dtype of
            a model of another name.
    """
    if cell.seeds != base.seeds:
        seeds = ", ".join(map(str, cell.seeds))
        others = ", ".join(map(str, base.seeds))
        return f"seeds {seeds}, the baseline has {others}"
    if len(cell.indices) != len(base.indices):
        wanted = len(base.indices)
        return (
            f"{counted(len(cell.indices), 'sample')}, the baseline has {wanted}: add --limit"
            f" {wanted}, or the --profile of the baseline's run"
        )
    other_model = renamed and cell.model != base.model
    may_differ = set()
    if renamed:
        may_differ = {"model", "sampler"}
    if other_model:
        may_differ.add("dtype")
    for name, value, theirs in differing(cell, base):
        if name == "data_hash":
            return (
                f"other data than the baseline's (digest {value[:8]}, there {theirs[:8]}): give the"
                " same --data-dir, --data-seed and --n"
            )
        if name not in may_differ:
            return f"{name.replace('_', ' ')} is {value!r}, the baseline's {theirs!r}"
    if cell.indices != base.indices:
        unshared = sorted(set(cell.indices) ^ set(base.indices))
        return f"other samples than the baseline's (e.g. {unshared[:3]} in one only)"
    return ""


def greedy(sampler: str) -> bool:
    """Whether a sampler decodes without temperature, so that its NFE must repeat exactly; False for
    unreadable names.
    """
    try:
        return parse(sampler).greedy
    except SamplerNameError:
        return False


def _judged(pair: Pair) -> Judgement:
    """The judgement before Holm's correction: raw p-values, and the exact comparison of a greedy
    sampler's forwards.
    """
    cell = pair.head
    base = pair.base
    if cell is None:
        reason = "in the baseline but not in the run: renamed, dropped or deselected?"
        if pair.renamed:
            reason = f"the run has no {pair.wanted} to join it with"
        return Judgement(pair.id, "missing", reason)
    if cell.failed is not None:
        return Judgement(pair.id, "error", first_line(cell.failed, 400))
    if base is None:
        return Judgement(pair.id, "new", "no baseline row yet")
    metric = base.headline if base.headline in base.scores else next(iter(base.scores), "")
    reason = refusal(cell, base, pair.renamed) or _not_scored(cell, metric)
    if reason:
        return Judgement(pair.id, "refused", reason, metric)
    paired = compare(cell.by_sample(metric), base.by_sample(metric))
    judgement = Judgement(pair.id, "passed", "", metric, paired, {"score": paired.p})
    if pair.renamed:
        return judgement
    if bool(cell.nfe) != bool(base.nfe):
        reason = "the baseline has forwards, the run doesn't report them"
        if cell.nfe:
            reason = "the run has forwards, the baseline doesn't report them"
        return replace(judgement, status="refused", p={}, reason=reason)
    if not cell.nfe:
        return judgement
    counts = {"forwards": (cell.nfe, base.nfe)}
    if base.rows:
        counts["rows"] = (cell.forwarded, base.rows)
    if greedy(cell.sampler):
        if base.tokens_forwarded:
            if not cell.tokens_forwarded:
                reason = "the baseline has tokens forwarded, the run doesn't report them"
                return replace(judgement, status="refused", p={}, reason=reason)
            counts["tokens forwarded"] = (cell.tokens_forwarded, base.tokens_forwarded)
        return _repeated(judgement, cell, base, counts)
    rises = {
        kind: graded_drop(np.subtract(old, new).tolist()) for kind, (new, old) in counts.items()
    }
    return replace(judgement, p={**judgement.p, **rises})


def _not_scored(cell: BaselineCell, metric: str) -> str:
    """Why a cell has no score that the baseline has; empty if it has it."""
    if metric in cell.scores:
        return ""
    if not metric:
        return "no score was measured in the baseline"
    absent = cell.stored.cell.absent if cell.stored else {}
    why = absent.get(metric, "no reason recorded")
    return f"{metric} was measured in the baseline but not in the run: {why}"


def _repeated(
    judgement: Judgement,
    cell: BaselineCell,
    base: BaselineCell,
    counts: Mapping[str, tuple[Sequence[int], Sequence[int]]],
) -> Judgement:
    """The judgement of a greedy decoding, whose forwards and rows must repeat exactly.

    Args:
        judgement: the cell's, by its scores.
        cell: the run's row.
        base: the baseline's row.
        counts: forwards, and rows and tokens forwarded where the baseline has them → (the run's,
            the baseline's), each by sample.
    """
    paired = judgement.paired
    other_rate = abs((cell.tokens_per_step or 0) - (base.tokens_per_step or 0)) > RATE_TOLERANCE
    if not other_rate and all(new == old for new, old in counts.values()):
        return judgement
    news, olds = np.array(list(counts.values())).swapaxes(0, 1)  # each (kinds, samples)
    changed = [cell.indices[i] for i in np.flatnonzero((news != olds).any(axis=0))[:5]]
    names = ["NFE" if name == "forwards" else name for name in counts]
    means = (
        f"{name} {old:.6g} → {new:.6g}"
        for name, new, old in zip(names, news.mean(axis=1), olds.mean(axis=1), strict=True)
    )
    reason = (
        f"greedy decoding must repeat exactly: {', '.join(means)}, tokens per step"
        f" {base.tokens_per_step:.4g} → {cell.tokens_per_step:.4g}, changed at samples {changed}"
    )
    if paired.worse or paired.better:
        return replace(judgement, status="changed", reason=reason)
    more = (news - olds).sum(axis=1)  # (kinds,)
    rate_fell = (cell.tokens_per_step or 0) < (base.tokens_per_step or 0) - RATE_TOLERANCE
    rose = bool(more.max() > 0) or (not changed and rate_fell)
    if rose and more.min() >= 0:
        return replace(judgement, status="slower", reason=reason)
    advice = f"no sample's {judgement.metric} differs; if this is intended, update the baseline"
    return replace(judgement, status="changed", reason=f"{reason}; {advice}")


def _decided(judgement: Judgement, level: float) -> Judgement:
    """The judgement by its adjusted p-values: significant ones fail."""
    paired = judgement.paired
    significant = {kind: p for kind, p in judgement.p.items() if p <= level}
    flips = f"{len(paired.worse)} worse, {len(paired.better)} better of {paired.n}"
    if "score" in significant:
        counts = f"; also {judgement.reason}" if judgement.status in ("slower", "changed") else ""
        change = f"{judgement.metric} {100 * paired.change:+.1f} points"
        reason = f"{change} ({flips}, one-sided p = {significant['score']:.2g}){counts}"
        return replace(judgement, status="worse", reason=reason)
    if judgement.status == "changed" and (paired.worse or paired.better):
        scores = f"{fixed(100 * paired.base)} → {fixed(100 * paired.head)} %"
        reason = f"{judgement.metric} {scores} ({flips}); {judgement.reason}"
        return replace(judgement, reason=reason)
    for kind, p in significant.items():
        return replace(
            judgement,
            status="slower",
            reason=f"more {kind} than the baseline (one-sided p = {p:.2g})",
        )
    return judgement
