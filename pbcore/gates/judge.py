"""The gate: judges each cell of a run against its baseline row.

It must fail a worse or slower model, but not on noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbcore.analysis.paired import Paired, compare, detectable_drop, detectable_shift, graded_drop, holm
from pbcore.analysis.pairs import Pair, pair_cells
from pbcore.errors import InputError
from pbcore.gates.floors import Floor, broken_floors
from pbcore.names import SamplerNameError, parse
from pbcore.printable import counted, first_line
from pbcore.results.baseline import BaselineCell, baseline_cell
from pbcore.results.record import id_order
from pbcore.results.rundir import StoredCell

RATE_TOLERANCE = 1e-6
TESTS = ("p", "p_forwards", "p_rows")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One cell's verdict. `status`: passed, worse (quality), slower (NFE, rows or tokens per step), refused (can't be
    compared), missing (in the baseline, not in the run), error (could not be run), new (no baseline row), floor
    (violated).

    `p`, `p_forwards` and `p_rows` are Holm-adjusted; `change` is the change of the judged score, in its own units.
    """

    id: str
    status: str
    reason: str = ""
    metric: str = ""
    n: int = 0
    change: float | None = None
    p: float | None = None
    p_forwards: float | None = None
    p_rows: float | None = None  # only against a row of the baseline with rows of its own
    newly_wrong: tuple[int, ...] = ()
    newly_right: tuple[int, ...] = ()
    spread: float | None = (
        None  # standard deviation of the differences, for graded scores and means over seeds; None for 0/1
    )

    @property
    def ok(self) -> bool:
        return self.status in ("passed", "new")


@dataclass(frozen=True, slots=True)
class Verdict:
    """All judgements, sorted by id. `ok` false means exit code 1.

    `detectable` is the smallest true drop in score (share) that is detectable with 80 % power in the cell with the
    fewest samples, assuming no answer improves; `detectable_churn` assumes this run's rate of two-way flips, `churn`.
    Both are at Holm's strictest level for `judged` tests; None: no drop is detectable. `detectable_graded` is the same
    for means over seeds and graded scores, in the cell where it is largest; None without such cells.
    """

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
    *,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> Verdict:
    """Judges a run against a baseline (`results.baseline.read_baseline`; empty to check floors only).

    Quality: the headline score sample by sample, by the exact one-sided McNemar test, or `paired.graded_drop` for
    graded scores. NFE and tokens per step must be equal for greedy samplers; for others `graded_drop` looks for more
    forwards. Where a baseline row has rows that aren't its forwards, they are judged as NFE is. Holm's
    correction covers all tests, so the chance of any false alarm in the run is at most `level`.
    Baseline rows missing in the run fail; cells that differ in data, model, sampler, seed, precision or samples are
    refused.

    `models` and `samplers` (names of the run → names of the baseline) join cells of other names, as in
    `analysis.compare.compare_runs`; other cells are left out. Two names are judged by their scores alone: their NFE may
    differ, and a joined model's identity and dtype; all else must be equal, and every row of the named ones must have
    its partner. Raises InputError for a level outside (0, 1), unknown names, and if nothing has a partner.

        verdict = judge(open_run(path).read_cells(), read_baseline(file), floors=[parse_floor(text) for text in texts])
        print(gate_text(verdict)); exit_code = 0 if verdict.ok else 1
    """
    if not 0 < level < 1:
        raise InputError(f"level {level}: give the probability of a false alarm per run, between 0 and 1, e.g. 0.05")
    cells = {entry.cell.id: entry for entry in run}
    pairs = pair_cells({name: entry.cell for name, entry in cells.items()}, baseline, models, samplers).pairs
    judged = [_judge_cell(pair, cells.get(pair.head or ""), baseline.get(pair.base or "")) for pair in pairs]
    decided = _apply_holm(judged, level)
    broken = [Judgement(name, "floor", reason) for name, reason in broken_floors(floors, [entry.cell for entry in run])]
    return _with_power(sorted([*decided, *broken], key=lambda judgement: id_order(judgement.id)), level)


def difference(cell: BaselineCell, base: BaselineCell, renamed: bool = False) -> str | None:
    """The first setting that differs and so prevents a comparison of two rows; None if they can be compared.

    `renamed`: rows of other names were joined, so these may differ, and what belongs to a model of another name.
    """
    if cell.seeds != base.seeds:
        seeds, others = (", ".join(map(str, row.seeds)) for row in (cell, base))
        return f"seeds {seeds}, the baseline has {others}"
    if len(cell.indices) != len(base.indices):
        wanted = len(base.indices)
        return (
            f"{counted(len(cell.indices), 'sample')}, the baseline has {wanted}: add --limit {wanted}, "
            "or the --profile of the baseline's run"
        )
    joined = {"model", "sampler"} if renamed else set()
    other_model = renamed and cell.model != base.model
    if other_model:
        joined.add("dtype")
    for name in ("task", "model", "sampler", "dtype", "length", "headline", "official_text", "whole_cot"):
        if name not in joined and getattr(cell, name) != getattr(base, name):
            return f"{name.replace('_', ' ')} is {getattr(cell, name)!r}, the baseline's {getattr(base, name)!r}"
    if cell.data_hash != base.data_hash:
        return (
            f"other data than the baseline's (digest {cell.data_hash[:8]}, there {base.data_hash[:8]}): give the same "
            "--data-dir, --data-seed and --n"
        )
    for name in [] if other_model else sorted(cell.model_identity.keys() | base.model_identity.keys()):
        actual, expected = cell.model_identity.get(name), base.model_identity.get(name)
        if actual != expected:
            return f"model {name} is {actual!r}, the baseline's {expected!r}"
    if cell.indices != base.indices:
        unshared = sorted(set(cell.indices) ^ set(base.indices))
        return f"other samples than the baseline's (e.g. {unshared[:3]} in one only)"
    return None


def greedy(sampler: str) -> bool:
    """Whether a sampler decodes without temperature, so that its NFE must repeat exactly.

    False for names that can't be parsed.
    """
    try:
        return parse(sampler).greedy
    except SamplerNameError:
        return False


def _judge_cell(pair: Pair, stored: StoredCell | None, base: BaselineCell | None) -> Judgement:
    name = pair.id
    if stored is None:
        lacks = "in the baseline but not in the run: renamed, dropped or deselected?"
        return Judgement(name, "missing", f"the run has no {pair.wanted} to join it with" if pair.renamed else lacks)
    if stored.cell.status != "ok":
        return Judgement(name, "error", first_line(stored.cell.error or "no cause recorded", 400))
    if base is None:
        return Judgement(name, "new", "no baseline row yet")
    cell = baseline_cell(stored)
    reason = difference(cell, base, pair.renamed)
    metric = base.headline if base.headline in base.scores else next(iter(base.scores), "")
    if reason is None and metric not in cell.scores:
        why = stored.cell.absent.get(metric, "no reason recorded")
        reason = f"{metric} was measured in the baseline but not in the run: {why}"
    if reason is not None:
        return Judgement(name, "refused", reason, metric)
    judgement = _by_score(cell, base, metric)
    return judgement if pair.renamed else _with_forwards(judgement, cell, base)


def _by_score(cell: BaselineCell, base: BaselineCell, metric: str) -> Judgement:
    """The judgement by the score before Holm's correction: a raw p-value."""
    if not metric:
        paired = Paired(0.0, 0.0, True, (), (), (0.0,) * len(cell.indices))
    else:
        paired = compare(cell.by_sample(metric), base.by_sample(metric))
    return Judgement(
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


def _with_forwards(judgement: Judgement, cell: BaselineCell, base: BaselineCell) -> Judgement:
    """The judgement with the forwards': the exact comparison of NFE and rows for greedy samplers, else raw p-values."""
    if bool(cell.nfe) != bool(base.nfe):
        has, lacks = ("the run", "the baseline") if cell.nfe else ("the baseline", "the run")
        return replace(judgement, status="refused", p=None, reason=f"{has} has forwards, {lacks} doesn't report them")
    if not cell.nfe:
        return judgement
    if not greedy(cell.sampler):
        rows = _rise(base.rows, cell.forwarded) if base.rows else None
        return replace(judgement, p_forwards=_rise(base.nfe, cell.nfe), p_rows=rows)
    if base.rows and cell.forwarded != base.rows:
        return replace(judgement, status="slower", reason=_forwards(cell, base))
    if cell.nfe != base.nfe or abs((cell.tokens_per_step or 0) - (base.tokens_per_step or 0)) > RATE_TOLERANCE:
        return replace(judgement, status="slower", reason=_forwards(cell, base))
    return judgement


def _rise(before: Sequence[int], now: Sequence[int]) -> float:
    """The one-sided p of more forwards, or rows, per sample than before."""
    return graded_drop([old - new for old, new in zip(before, now, strict=True)])


def _forwards(cell: BaselineCell, base: BaselineCell) -> str:
    kinds = [(cell.nfe, base.nfe), *([(cell.forwarded, base.rows)] if base.rows else [])]
    pairs = [list(zip(*kind, strict=True)) for kind in kinds]
    changed = [i for i, *counts in zip(cell.indices, *pairs, strict=True) if any(new != old for new, old in counts)]
    means = [f"{np.mean(old):.4g} → {np.mean(new):.4g}" for new, old in kinds]
    text = (
        f"greedy decoding must repeat exactly: NFE {', rows '.join(means)}, "
        f"tokens per step {base.tokens_per_step:.4g} → {cell.tokens_per_step:.4g}, changed at samples {changed[:5]}"
    )
    faster = [sum(new) - sum(old) for new, old in kinds]
    intended = min(faster) < 0 and max(faster) <= 0
    return text + ("; if the speed-up is intended, update the baseline" if intended else "")


def _apply_holm(judgements: Sequence[Judgement], level: float) -> list[Judgement]:
    """Adjusts all p-values of the run together and fails the cells with significant ones."""
    tests = [
        (i, kind) for i, judgement in enumerate(judgements) for kind in TESTS if getattr(judgement, kind) is not None
    ]
    adjusted = dict(zip(tests, holm([getattr(judgements[i], kind) for i, kind in tests]), strict=True))
    out = []
    for i, raw in enumerate(judgements):
        quality, forwards, rows = (adjusted.get((i, kind)) for kind in TESTS)
        judgement = replace(raw, p=quality, p_forwards=forwards, p_rows=rows)
        if quality is not None and quality <= level:
            flips = f"{len(raw.newly_wrong)} worse, {len(raw.newly_right)} better of {raw.n}"
            slower = f"; also {raw.reason}" if raw.status == "slower" else ""
            reason = (
                f"{raw.metric} {100 * (raw.change or 0):+.1f} points ({flips}, one-sided p = {quality:.2g}){slower}"
            )
            judgement = replace(judgement, status="worse", reason=reason)
        elif forwards is not None and forwards <= level:
            reason = f"more forwards than the baseline (one-sided p = {forwards:.2g})"
            judgement = replace(judgement, status="slower", reason=reason)
        elif rows is not None and rows <= level:
            reason = f"more rows than the baseline (one-sided p = {rows:.2g})"
            judgement = replace(judgement, status="slower", reason=reason)
        out.append(judgement)
    return out


def _with_power(judgements: Sequence[Judgement], level: float) -> Verdict:
    """The verdict: the judgements with the drops that these tests can detect."""
    compared = [judgement for judgement in judgements if judgement.p is not None]
    tests = sum(getattr(judgement, kind) is not None for judgement in judgements for kind in TESTS)
    if not compared:
        return Verdict(tuple(judgements), level, 0, 0, 0.0, None, None)
    n, strictest = min(judgement.n for judgement in compared), level / tests
    binary = [judgement for judgement in compared if judgement.spread is None]
    flips = sum(min(len(judgement.newly_wrong), len(judgement.newly_right)) for judgement in binary)
    churn = min(0.45, flips / max(1, sum(judgement.n for judgement in binary)))
    shifts = [detectable_shift(one.n, one.spread, level=strictest) for one in compared if one.spread is not None]
    return Verdict(
        tuple(judgements),
        level,
        tests,
        n,
        churn,
        detectable_drop(n, level=strictest),
        detectable_drop(n, churn=churn, level=strictest),
        max((shift for shift in shifts if shift is not None), default=None),
    )
