"""The gate: judges each cell of a run against its baseline row. A worse or slower model must not pass, noise must not fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbcore.analysis.floors import Floor, broken_floors
from pbcore.analysis.paired import Paired, compare, detectable_drop, detectable_shift, holm, permutation
from pbcore.names import SamplerNameError, parse
from pbcore.results.baseline import BaselineCell, baseline_cell
from pbcore.results.rundir import StoredCell

RATE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Judgement:
    """One cell's verdict. `status`: passed, worse (quality), slower (NFE or tokens per step), refused (can't be compared), missing
    (in the baseline, not in the run), error (could not be run), new (no baseline), floor.

    `p` and `p_forwards` are Holm-adjusted; `change` is the change of the judged score, in its own units.
    """

    id: str
    status: str
    reason: str = ""
    metric: str = ""
    n: int = 0
    change: float | None = None
    p: float | None = None
    p_forwards: float | None = None
    newly_wrong: tuple[int, ...] = ()
    newly_right: tuple[int, ...] = ()
    spread: float | None = None  # of the differences, where scores are no 0/1: graded ones, and means over seeds

    @property
    def ok(self) -> bool:
        return self.status in ("passed", "new")


@dataclass(frozen=True, slots=True)
class Verdict:
    """All judgements, sorted by id. `ok` false means exit code 1. `detectable`: the true drop in score (share) that a cell of the
    smallest sample count could have shown with 80 % power, if answers only break (`detectable`) and at the two-way flips that this
    run showed (`detectable_churn`), both at the level left by Holm for the hardest of `judged` tests. None: no drop could.
    `detectable_graded`: the same for means over seeds and graded scores, in the cell that scatters most; None where there are none."""

    judgements: tuple[Judgement, ...]
    level: float
    judged: int
    smallest_n: int
    churn: float
    detectable: float | None
    detectable_churn: float | None
    detectable_graded: float | None = None

    @property
    def ok(self) -> bool:
        return all(judgement.ok for judgement in self.judgements)

    def of(self, *statuses: str) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.status in statuses]


def judge(
    run: Sequence[StoredCell],
    baseline: Mapping[str, BaselineCell],
    level: float = 0.05,
    floors: Sequence[Floor] = (),
) -> Verdict:
    """Judges a run against a baseline (`results.baseline.read_baseline`; empty for floors alone).

    Quality: the headline score sample by sample, exact McNemar one-sided or paired permutation for graded scores. NFE and tokens per
    step: equal for greedy samplers; for sampled ones a paired permutation test of more forwards. Holm over all tests, so that the
    chance of any false alarm in the run is at most `level`. Baseline rows that the run lacks fail; cells that differ in
    data, model, sampler, seed, precision or samples are refused. Raises ValueError for a level outside (0, 1).

        verdict = judge(open_run(path).read_cells(), read_baseline(file), floors=[parse_floor(text) for text in texts])
        print(gate_text(verdict)); exit_code = 0 if verdict.ok else 1
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level}: give the chance of a false alarm per run, between 0 and 1, e.g. 0.05")
    cells = {entry.cell.id: entry for entry in run}
    judged = [_judge_cell(name, cells.get(name), baseline.get(name)) for name in sorted(cells.keys() | baseline.keys())]
    decided = _apply_holm(judged, level)
    broken = [Judgement(name, "floor", reason) for name, reason in broken_floors(floors, [entry.cell for entry in run])]
    return _with_power(sorted([*decided, *broken], key=lambda judgement: judgement.id), level)


def difference(cell: BaselineCell, base: BaselineCell) -> str | None:
    """Why two rows can't be compared: the first difference in what was asked of what; None where they can."""
    if cell.seeds != base.seeds:
        seeds, others = (", ".join(map(str, row.seeds)) for row in (cell, base))
        return f"seeds {seeds}, the baseline has {others}"
    for name in ("task", "model", "sampler", "dtype", "data_hash", "length", "official_text"):
        if getattr(cell, name) != getattr(base, name):
            return f"{name.replace('_', ' ')} is {getattr(cell, name)!r}, the baseline's {getattr(base, name)!r}"
    for name in sorted(cell.model_identity.keys() | base.model_identity.keys()):
        found, expected = cell.model_identity.get(name), base.model_identity.get(name)
        if found != expected:
            return f"model {name} is {found!r}, the baseline's {expected!r}"
    if cell.indices != base.indices:
        odd = sorted(set(cell.indices) ^ set(base.indices))
        return f"{len(cell.indices)} samples, the baseline has {len(base.indices)} (e.g. {odd[:3]} in one only)"
    return None


def greedy(sampler: str) -> bool:
    """Whether a sampler decodes without temperature, so that its NFE must repeat exactly. Unreadable names count as not."""
    try:
        return parse(sampler).greedy
    except SamplerNameError:
        return False


def _judge_cell(name: str, stored: StoredCell | None, base: BaselineCell | None) -> Judgement:
    if stored is None:
        return Judgement(name, "missing", "in the baseline but not in the run: renamed, dropped or deselected?")
    if stored.cell.status != "ok":
        return Judgement(name, "error", (stored.cell.error or "no cause recorded").splitlines()[0])
    if base is None:
        return Judgement(name, "new", "no baseline row yet")
    cell = baseline_cell(stored)
    reason = difference(cell, base)
    metric = base.headline if base.headline in base.scores else next(iter(base.scores), "")
    if reason is None and metric not in cell.scores:
        reason = f"{metric} was measured in the baseline but not here: {stored.cell.absent.get(metric, 'no reason recorded')}"
    if reason is not None:
        return Judgement(name, "refused", reason, metric)
    return _compared(cell, base, metric)


def _compared(cell: BaselineCell, base: BaselineCell, metric: str) -> Judgement:
    """The judgement before Holm: raw p-values, and what greedy decoding shows exactly."""
    if not metric:
        paired = Paired(len(cell.indices), 0.0, 0.0, 1.0, True, (), ())
    else:
        paired = compare(*(dict(zip(row.indices, row.scores[metric], strict=True)) for row in (cell, base)))
    found = Judgement(
        cell.id,
        "passed",
        "",
        metric,
        paired.n,
        paired.change,
        paired.p,
        newly_wrong=paired.worse,
        newly_right=paired.better,
        spread=None if paired.binary else paired.spread,
    )
    if not greedy(cell.sampler):
        rises = [before - after for before, after in zip(base.nfe, cell.nfe, strict=True)]
        return replace(found, p_forwards=permutation(rises))
    if cell.nfe != base.nfe or abs(cell.tokens_per_step - base.tokens_per_step) > RATE_TOLERANCE:
        return replace(found, status="slower", reason=_forwards(cell, base))
    return found


def _forwards(cell: BaselineCell, base: BaselineCell) -> str:
    changed = [i for i, new, old in zip(cell.indices, cell.nfe, base.nfe, strict=True) if new != old]
    text = (
        f"greedy decoding must repeat exactly: NFE {np.mean(base.nfe):.4g} → {np.mean(cell.nfe):.4g}, "
        f"tokens per step {base.tokens_per_step:.4g} → {cell.tokens_per_step:.4g}, changed at samples {changed[:5]}"
    )
    return text + ("; if the speed-up is meant, update the baseline" if sum(cell.nfe) < sum(base.nfe) else "")


def _apply_holm(judgements: Sequence[Judgement], level: float) -> list[Judgement]:
    """Adjusts all p-values of the run together and fails the cells they convict."""
    tests = [
        (i, kind)
        for i, found in enumerate(judgements)
        for kind in ("p", "p_forwards")
        if getattr(found, kind) is not None
    ]
    adjusted = dict(zip(tests, holm([getattr(judgements[i], kind) for i, kind in tests]), strict=True))
    out = []
    for i, found in enumerate(judgements):
        quality, forwards = adjusted.get((i, "p")), adjusted.get((i, "p_forwards"))
        found = replace(found, p=quality, p_forwards=forwards)
        if quality is not None and quality <= level:
            flips = f"{len(found.newly_wrong)} worse, {len(found.newly_right)} better of {found.n}"
            slower = f"; also {found.reason}" if found.status == "slower" else ""
            found = replace(
                found,
                status="worse",
                reason=f"{found.metric} {100 * (found.change or 0):+.1f} points ({flips}, p = {quality:.2g}){slower}",
            )
        elif forwards is not None and forwards <= level:
            found = replace(found, status="slower", reason=f"more forwards than the baseline (p = {forwards:.2g})")
        out.append(found)
    return out


def _with_power(judgements: Sequence[Judgement], level: float) -> Verdict:
    compared = [found for found in judgements if found.p is not None]
    tests = sum((found.p is not None) + (found.p_forwards is not None) for found in judgements)
    if not compared:
        return Verdict(tuple(judgements), level, 0, 0, 0.0, None, None)
    n, hardest = min(found.n for found in compared), level / tests
    flipping = [found for found in compared if found.spread is None]
    flips = sum(min(len(found.newly_wrong), len(found.newly_right)) for found in flipping)
    churn = min(0.45, flips / max(1, sum(found.n for found in flipping)))
    shifts = [detectable_shift(found.n, found.spread, level=hardest) for found in compared if found.spread is not None]
    return Verdict(
        tuple(judgements),
        level,
        tests,
        n,
        churn,
        detectable_drop(n, level=hardest),
        detectable_drop(n, churn=churn, level=hardest),
        max((shift for shift in shifts if shift is not None), default=None),
    )
