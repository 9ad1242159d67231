"""The gate: judges each cell of a run against its baseline row. It must fail a worse or slower model, but not on
noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbcore.analysis.paired import compare, detectable_drop, detectable_shift, graded_drop, holm
from pbcore.analysis.pairs import Pair, pair_cells
from pbcore.errors import InputError
from pbcore.gates.floors import Floor, broken_floors
from pbcore.names import SamplerNameError, parse
from pbcore.printable import counted, first_line
from pbcore.results.baseline import BaselineCell, rows_by_id
from pbcore.results.record import id_order
from pbcore.results.rundir import StoredCell

RATE_TOLERANCE = 1e-6
TESTS = ("p", "p_forwards", "p_rows")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One cell's verdict. `status`: passed, worse (quality), slower (NFE, rows or tokens per step), refused (can't be
    compared), missing (in the baseline, not in the run), error (could not be run), new (no baseline row), floor
    (violated). p-values are Holm-adjusted; `change` is the change of the judged score, in its own units."""

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
    spread: float | None = None  # of the differences of graded scores and means over seeds; None for 0/1

    @property
    def ok(self) -> bool:
        return self.status in ("passed", "new")


@dataclass(frozen=True, slots=True)
class Verdict:
    """All judgements, sorted by id. `ok` false means exit code 1.

    `detectable` is the smallest true drop in score (share) that is detectable with 80 % power in the cell with the
    fewest samples, assuming no answer improves; `detectable_churn` assumes this run's rate of two-way flips, `churn`.
    Both are at Holm's strictest level for `judged` tests; None: no drop is. `detectable_graded` is the same for means
    over seeds and graded scores, in the cell where it is largest; None without such cells."""

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
    forwards. Rows are judged as NFE is where the baseline has some that aren't its forwards. Holm's correction covers
    all tests, so the chance of any false alarm in the run is at most `level`. Baseline rows missing in the run fail;
    cells that differ in data, model, sampler, seed, precision or samples are refused.

    `models` and `samplers` (names of the run → names of the baseline) join cells of other names, as in
    `analysis.compare.compare_runs`. Two names are judged by their scores alone: their NFE may differ, and a joined
    model's identity and dtype. Raises InputError for a level outside (0, 1), unknown names, and if nothing has a
    partner.

        verdict = judge(open_run(path).read_cells(), read_baseline(file), floors=[parse_floor(text) for text in texts])
        print(gate_text(verdict)); exit_code = 0 if verdict.ok else 1
    """
    if not 0 < level < 1:
        raise InputError(f"level {level}: give the probability of a false alarm per run, between 0 and 1, e.g. 0.05")
    rows = rows_by_id(run)
    pairs = pair_cells(rows, baseline, models, samplers).pairs
    judged = [_judge_cell(pair, rows.get(pair.head or ""), baseline.get(pair.base or "")) for pair in pairs]
    broken = [Judgement(name, "floor", reason) for name, reason in broken_floors(floors, [entry.cell for entry in run])]
    return _with_power(sorted([*_decided(judged, level), *broken], key=lambda one: id_order(one.id)), level)


def difference(cell: BaselineCell, base: BaselineCell, renamed: bool = False) -> str | None:
    """The first setting that differs and so prevents a comparison of two rows; None if they can be compared. `renamed`:
    rows of other names were joined, so these may differ, and what belongs to a model of another name."""
    if cell.seeds != base.seeds:
        seeds, others = (", ".join(map(str, row.seeds)) for row in (cell, base))
        return f"seeds {seeds}, the baseline has {others}"
    if len(cell.indices) != len(base.indices):
        wanted = len(base.indices)
        return (
            f"{counted(len(cell.indices), 'sample')}, the baseline has {wanted}: add --limit {wanted}, "
            "or the --profile of the baseline's run"
        )
    other_model = renamed and cell.model != base.model
    joined = {"model", "sampler", *(["dtype"] if other_model else [])} if renamed else set()
    for name in ("task", "model", "sampler", "dtype", "length", "headline", "official_text", "whole_cot"):
        own, theirs = getattr(cell, name), getattr(base, name)
        if name not in joined and own != theirs:
            return f"{name.replace('_', ' ')} is {own!r}, the baseline's {theirs!r}"
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
    """Whether a sampler decodes without temperature, so that its NFE must repeat exactly; False for unreadable
    names."""
    try:
        return parse(sampler).greedy
    except SamplerNameError:
        return False


def _judge_cell(pair: Pair, cell: BaselineCell | None, base: BaselineCell | None) -> Judgement:
    """The judgement before Holm's correction: raw p-values, and the exact comparison of a greedy sampler's forwards."""
    name = pair.id
    if cell is None:
        lacks = "in the baseline but not in the run: renamed, dropped or deselected?"
        return Judgement(name, "missing", f"the run has no {pair.wanted} to join it with" if pair.renamed else lacks)
    if cell.failed is not None:
        return Judgement(name, "error", first_line(cell.failed, 400))
    if base is None:
        return Judgement(name, "new", "no baseline row yet")
    metric = base.headline if base.headline in base.scores else next(iter(base.scores), "")
    reason = difference(cell, base, pair.renamed)
    if reason is None and metric not in cell.scores:
        why = (cell.stored.cell.absent if cell.stored else {}).get(metric, "no reason recorded")
        measured = f"{metric} was measured in the baseline but not in the run: {why}"
        reason = measured if metric else "no score was measured in the baseline"
    if reason is not None:
        return Judgement(name, "refused", reason, metric)
    paired = compare(cell.by_sample(metric), base.by_sample(metric))
    judgement = Judgement(
        name,
        "passed",
        metric=metric,
        n=paired.n,
        change=paired.change,
        p=paired.p,
        newly_wrong=paired.worse,
        newly_right=paired.better,
        spread=None if paired.binary else paired.spread,
    )
    if pair.renamed:
        return judgement
    if bool(cell.nfe) != bool(base.nfe):
        has, lacks = ("the run", "the baseline") if cell.nfe else ("the baseline", "the run")
        return replace(judgement, status="refused", p=None, reason=f"{has} has forwards, {lacks} doesn't report them")
    counts = [(cell.nfe, base.nfe), *([(cell.forwarded, base.rows)] if base.rows else [])]
    if cell.nfe and not greedy(cell.sampler):
        rises = [graded_drop([old - new for new, old in zip(*kind, strict=True)]) for kind in counts]
        return replace(judgement, p_forwards=rises[0], p_rows=rises[1] if base.rows else None)
    slower = abs((cell.tokens_per_step or 0) - (base.tokens_per_step or 0)) > RATE_TOLERANCE
    if cell.nfe and (slower or any(new != old for new, old in counts)):
        return replace(judgement, status="slower", reason=_forwards(cell, base, counts))
    return judgement


def _forwards(cell: BaselineCell, base: BaselineCell, counts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> str:
    """How a greedy sampler's forwards differ; `counts`: the run's and the baseline's forwards, then rows."""
    pairs = [list(zip(*kind, strict=True)) for kind in counts]
    changed = [i for i, *both in zip(cell.indices, *pairs, strict=True) if any(new != old for new, old in both)]
    means = [f"{np.mean(old):.4g} → {np.mean(new):.4g}" for new, old in counts]
    rises = [sum(new) - sum(old) for new, old in counts]
    intended = min(rises) < 0 and max(rises) <= 0
    return (
        f"greedy decoding must repeat exactly: NFE {', rows '.join(means)}, "
        f"tokens per step {base.tokens_per_step:.4g} → {cell.tokens_per_step:.4g}, changed at samples {changed[:5]}"
        f"{'; if the speed-up is intended, update the baseline' if intended else ''}"
    )


def _decided(judgements: Sequence[Judgement], level: float) -> list[Judgement]:
    """The judgements with all p-values of the run adjusted together; cells with significant ones fail."""
    adjusted = iter(holm([p for one in judgements for kind in TESTS if (p := getattr(one, kind)) is not None]))
    decided = []
    for raw in judgements:
        p, forwards, rows = (None if getattr(raw, kind) is None else next(adjusted) for kind in TESTS)
        one = replace(raw, p=p, p_forwards=forwards, p_rows=rows)
        if p is not None and p <= level:
            flips = f"{len(raw.newly_wrong)} worse, {len(raw.newly_right)} better of {raw.n}"
            slower = f"; also {raw.reason}" if raw.status == "slower" else ""
            change = f"{raw.metric} {100 * (raw.change or 0):+.1f} points"
            one = replace(one, status="worse", reason=f"{change} ({flips}, one-sided p = {p:.2g}){slower}")
        else:
            more = [(what, p) for what, p in (("forwards", forwards), ("rows", rows)) if p is not None and p <= level]
            for what, p in more[:1]:
                reason = f"more {what} than the baseline (one-sided p = {p:.2g})"
                one = replace(one, status="slower", reason=reason)
        decided.append(one)
    return decided


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
