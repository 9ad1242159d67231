"""The rule for better and worse: a run's cells beside a baseline's. Gates, comparisons, reports and
JUnit all judge by it.

Conditions are of two kinds. Answers can't be compared without the same questions and prompts,
samples, sampler, seeds, lengths and scoring: such cells are *refused*, with what differs. Another
kind of device, another dtype, other versions, another processor or other threads may move an answer
by rounding: with another device or dtype scores are tested, the rest is named beside a red verdict.
Other weights are what a gate judges.

*Repeatable* cells (the same weights, or `exact`; greedy; one seed; float32 or float64; decoded
here, on the same kind of device) are compared answer by answer. Scores and forwards are judged each
by themselves, and the first of these that holds is the verdict:

===================================================  ========  =====
answers                                              verdict   gate
===================================================  ========  =====
some newly wrong, none newly right                   worse     red
some newly wrong, some newly right                   changed   red
forwards of one side not known                       refused   red
more forwards in some, fewer in none                 slower    red
more forwards in some, fewer in others               changed   red
some newly right                                     better    green
other texts with equal scores, forwards not fewer    changed   red
fewer forwards only                                  faster    green
===================================================  ========  =====

Forwards are the NFE, and the rows and tokens forwarded where the baseline has them.

*All others* are tested, one-sided: the sums over a question's answers, of all cells together, at
half of the level; and each cell's scores and forwards, by Holm's procedure at the other half, at
all of it once the test of all cells has found a loss. Conditionally on the sizes of all
differences, answers without any difference decide nothing, so a test without one is not counted. A
single cell has no other test of all cells and takes the whole level.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pbcore.analysis.paired import (
    CostChange,
    Costs,
    Paired,
    compare,
    cost_changes,
    drop,
    fell,
    graded_drop,
    holm,
)
from pbcore.analysis.pairs import SETTINGS, Names, Pair, differing, pair_cells, unpaired, weights_of
from pbcore.base.errors import InputError
from pbcore.base.grouping import grouped
from pbcore.base.printable import counted, first_line
from pbcore.costs.kinds import Cost
from pbcore.names import recorded
from pbcore.results.baseline import BaselineCell, rows_by_id
from pbcore.results.record import id_order
from pbcore.results.rundir import StoredCell
from pbcore.results.weights import same_weights

REPEATABLE_DTYPES = ("float32", "float64")
GREEN = ("passed", "better", "faster", "lost", "new")
POOLED_SHARE = 0.5  # of the level; the rest is the cells'
NOTHING = Paired()
# Conditions that may move an answer by rounding.
ROUNDING = ("dtype", "device")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One cell's verdict.

    `status`: passed, better, faster, lost (lower scores, but not significantly), worse, slower,
    changed, refused (can't be compared), missing (in the baseline, not in the run), error (could
    not be run), new (no baseline row), floor (violated). `reason` says why of those that were not
    judged. `paired` compares the judged score, `metric`, and the counts that are judged; `exact`
    says whether every answer counts; `texts` are the answers of an exact cell whose text differs.
    `p` has Holm's one-sided p of each test: `score`, `calls`, `rows`, and `gain` of a higher score.
    `others` are the scores beside the judged one that fell, which decide nothing: in any answer of
    an exact cell, else in the mean. `unmeasured` are those that the run lacks.
    """

    id: str
    status: str
    reason: str = ""
    metric: str = ""
    paired: Paired = NOTHING
    exact: bool = False
    texts: tuple[int, ...] = ()
    others: Mapping[str, Paired] = field(default_factory=dict)
    unmeasured: tuple[str, ...] = ()
    p: Mapping[str, float] = field(default_factory=dict)
    pair: Pair | None = None

    @property
    def ok(self) -> bool:
        return self.status in GREEN

    @property
    def changes(self) -> Mapping[Cost, CostChange]:
        """The counts that differ, by kind."""
        return cost_changes(self.paired)

    @property
    def judged(self) -> bool:
        """Whether scores were compared."""
        return self.paired.n > 0

    @property
    def tested(self) -> bool:
        """Whether it was judged by tests."""
        return self.judged and not self.exact


@dataclass(frozen=True, slots=True)
class Pooled:
    """The test of all tested cells together, or of those of one pair of given names.

    `answers` to `questions` in `cells`; `broke` and `mended` count answers whose score fell or
    rose, `broken_questions` the questions with such a fall; `binary`: all scores are 0 or 1. `p` is
    one-sided, of a loss, `p_gain` of a gain; `status` is `worse`, `better`, or empty where neither
    is significant.
    """

    model: Names = None
    sampler: Names = None
    cells: int = 0
    questions: int = 0
    answers: int = 0
    broke: int = 0
    broken_questions: int = 0
    mended: int = 0
    binary: bool = True
    p: float = 1.0
    p_gain: float = 1.0
    status: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All judgements, sorted by id. `level` is the chance of any false alarm among those that were
    tested, `cells_level` the part of it that Holm's procedure over the cells' tests has, of which
    there are `tests`. `weights` says in words whether the models are the baseline's; `conditions`
    what else differs, `rounding` that of it because of which scores were tested.
    """

    judgements: tuple[Judgement, ...]
    level: float
    pooled: tuple[Pooled, ...] = ()
    cells_level: float = 0.0
    tests: int = 0
    weights: str = ""
    rounding: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a gate passes: False means exit code 1."""
        all_cells = all(judgement.ok for judgement in self.judgements)
        return all_cells and not any(pooled.status == "worse" for pooled in self.pooled)

    @property
    def judged(self) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.judged]

    @property
    def judged_score(self) -> str:
        """The score by which cells are judged; `judged score` where they have several."""
        names = {judgement.metric for judgement in self.judged}
        return names.pop() if len(names) == 1 else "judged score"

    def of(self, *statuses: str) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.status in statuses]

    def of_the_run(self) -> "Verdict":
        """The verdict on the run's own cells: without the baseline's that the run lacks."""
        own = tuple(each for each in self.judgements if each.status != "missing")
        return replace(self, judgements=own)

    def with_floors(self, broken: Sequence[tuple[str, str]]) -> "Verdict":
        """With a judgement for each broken floor, (cell id or pattern, reason)."""
        floors = [Judgement(name, "floor", reason) for name, reason in broken]
        return replace(self, judgements=_sorted([*self.judgements, *floors]))


def judge(
    run: Sequence[StoredCell] | Mapping[str, BaselineCell],
    baseline: Mapping[str, BaselineCell],
    level: float = 0.05,
    *,
    exact: bool = False,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> Verdict:
    """Judges a run against a baseline by the rule of this module.

    Baseline rows missing in the run fail. Two names that are joined are judged by their scores
    alone: their forwards may differ, and a joined model's dtype.

    Args:
        run: its cells (`results.open_run(path).read_cells()`), or their rows by id.
        baseline: cells by id (`results.baseline.read_baseline(file)`).
        level: the chance of any false alarm in the run, in (0, 1).
        exact: every answer counts with other weights, too.
        models: names of the run → names of the baseline, to join cells of other names; None: none.
        samplers: the same for samplers.

    Raises:
        InputError: for a level outside (0, 1), unknown names, and if nothing has a partner.
    """
    pairing = pair_cells(rows_by_id(run), baseline, models, samplers)
    return verdict_on(
        pairing.pairs, level, exact=exact, by_model=bool(models), by_sampler=bool(samplers)
    )


def verdict_on(
    pairs: Sequence[Pair],
    level: float = 0.05,
    *,
    exact: bool = False,
    by_model: bool = False,
    by_sampler: bool = False,
) -> Verdict:
    """The verdict on pairs of cells.

    Args:
        pairs: as of `pairs.pair_cells`.
        level: the chance of any false alarm among those that are tested, in (0, 1).
        exact: every answer counts with other weights, too.
        by_model: whether models were named, so that each pair of names has a test of its own.
        by_sampler: the same for samplers.

    Raises:
        InputError: for a level outside (0, 1).
    """
    if not 0 < level < 1:
        raise InputError(
            f"level {level}: give the probability of a false alarm per run, between 0 and 1, e.g."
            " 0.05"
        )
    judgements = [_judged(pair, exact) for pair in pairs]
    tested = [judgement for judgement in judgements if judgement.tested]
    groups = grouped(
        tested,
        lambda each: each.pair.given(by_model, by_sampler) if each.pair else (None, None),
    )
    pooled, cells_level = _pooled_tests(groups, level, len(tested))
    losses, tests = _corrected(judgements, _losses)
    gains, _ = _corrected(judgements, _gains)
    decided = []
    for judgement, p, gain in zip(judgements, losses, gains, strict=True):
        decided.append(_decided(replace(judgement, p={**p, **gain}), cells_level))
    if len(tested) == 1:
        (of_cell,) = [cell.status for cell in decided if cell.tested]
        status = of_cell if of_cell in ("worse", "better") else ""
        pooled = (replace(pooled[0], status=status),)
    return Verdict(
        _sorted(decided),
        level,
        pooled,
        cells_level,
        tests,
        weights_of(cell.pair for cell in decided if cell.pair and cell.status != "error"),
        *_conditions(decided),
    )


def greedy(sampler: str) -> bool:
    """Whether a sampler decodes without temperature; False for unreadable names."""
    name = recorded(sampler)
    return name is not None and name.greedy


def repeatable(head: BaselineCell, base: BaselineCell, exact: bool = False) -> bool:
    """Whether every answer of two cells must repeat.

    Args:
        head: the run's.
        base: the baseline's.
        exact: with other weights, too.
    """
    same = exact or same_weights(head.model_identity, base.model_identity)
    return bool(
        same
        and greedy(head.sampler)
        and head.sampler == base.sampler
        and len(head.seeds) == 1
        and head.dtype == base.dtype
        and head.dtype in REPEATABLE_DTYPES
        and head.device == base.device
        and head.device
    )


def refusal(head: BaselineCell, base: BaselineCell, renamed: bool = False) -> str:
    """Why two rows can't be compared, and what to do; empty if they can.

    Args:
        head: of the run.
        base: of the baseline.
        renamed: True if rows of other names were joined.
    """
    may_differ = {*ROUNDING, *(("model", "sampler") if renamed else ())}
    alike = [name for name in SETTINGS if name not in may_differ]
    why = unpaired(head, base, [*alike, "indices"])
    if why is None:
        return ""
    for row, side in ((head, "run"), (base, "baseline")):
        if not row.indices:
            return f"the {side} has no answers: results.json alone has none; give the run directory"
    name, value, theirs = why
    if name == "seeds":
        wanted = ", ".join(map(str, theirs))
        return (
            f"seeds {', '.join(map(str, value))}, the baseline has {wanted}: add --seed"
            f" {wanted.replace(' ', '')}"
        )
    if len(head.indices) != len(base.indices):
        number = len(base.indices)
        return (
            f"{counted(len(head.indices), 'sample')}, the baseline has {number}: add --limit"
            f" {number}, or the --profile of the baseline's run"
        )
    if name == "data_hash":
        return (
            f"other questions than the baseline's (digest {value[:8]}, there {theirs[:8]}):"
            " give the same data, --data-seed, --n, --shots and --cot"
        )
    if name == "options":
        return _other_option(value, theirs)
    if name == "indices":
        unshared = sorted(set(value) ^ set(theirs))
        return f"other samples than the baseline's (e.g. {unshared[:3]} in one only)"
    return f"{name.replace('_', ' ')} is {value!r}, the baseline's {theirs!r}"


def _other_option(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The first option that differs, and how to set it."""
    name = next(key for key in (*ours, *theirs) if ours.get(key) != theirs.get(key))
    flag = f"--{name.replace('_', '-')}"
    value = theirs.get(name)
    if value is None and ours[name] == "True":
        return f"the baseline was made without {flag}: leave it out"
    if value is None:
        return f"{flag} is {ours[name]}, the baseline has none: leave it out"
    if value == "True":
        return f"the baseline was made with {flag}: add it"
    return f"{flag} is {ours.get(name, 'not given')}, the baseline's {value}: give {flag} {value}"


def _judged(pair: Pair, exact: bool) -> Judgement:
    """The judgement before the tests."""
    head = pair.head
    base = pair.base
    if head is None:
        reason = "in the baseline but not in the run: renamed, dropped or deselected?"
        if pair.renamed:
            reason = f"the run has no {pair.wanted} to join it with"
        return Judgement(pair.id, "missing", reason, pair=pair)
    if head.failed is not None:
        return Judgement(pair.id, "error", first_line(head.failed, 400), pair=pair)
    if base is None:
        return Judgement(pair.id, "new", "no baseline row yet", pair=pair)
    if base.failed is not None:
        reason = f"could not be run in the baseline: {first_line(base.failed, 300)}"
        return Judgement(pair.id, "new", reason, pair=pair)
    metric = base.headline if base.headline in base.scores else next(iter(base.scores), "")
    reason = refusal(head, base, pair.renamed) or _not_scored(head, metric)
    if reason:
        return Judgement(pair.id, "refused", reason, metric, pair=pair)
    return _with_answers(pair, head, base, metric, exact)


def _with_answers(
    pair: Pair, head: BaselineCell, base: BaselineCell, metric: str, exact: bool
) -> Judgement:
    """The judgement before the tests of cells whose answers can be compared.

    Args:
        pair: of both.
        head: the run's.
        base: the baseline's.
        metric: the score by which they are judged.
        exact: every answer counts with other weights, too.
    """
    every_answer = not pair.renamed and repeatable(head, base, exact)
    uncounted = ""
    costs: tuple[Costs, Costs] = ({}, {})
    if not pair.renamed:
        uncounted = _uncounted(head, base, every_answer)
        if not uncounted:
            costs = counts_of(head, bool(base.rows)), counts_of(base, bool(base.rows))
    judgement = Judgement(
        pair.id,
        "passed",
        uncounted,
        metric,
        paired=compare(head.by_sample(metric), base.by_sample(metric), costs),
        exact=every_answer,
        others=_other_scores(head, base, metric, every_answer),
        unmeasured=tuple(sorted(base.scores.keys() - head.scores.keys())),
        pair=pair,
    )
    return _compared_exactly(judgement, head, base) if every_answer else judgement


def _other_scores(
    head: BaselineCell, base: BaselineCell, metric: str, exact: bool
) -> dict[str, Paired]:
    """The scores beside the judged one that fell, in any answer (`exact`) or in the mean."""
    fallen = {}
    for name in sorted((head.scores.keys() & base.scores.keys()) - {metric}):
        paired = compare(head.by_sample(name), base.by_sample(name))
        if paired.worse and (exact or fell(paired.change)):
            fallen[name] = paired
    return fallen


def _not_scored(head: BaselineCell, metric: str) -> str:
    """Why a cell has no score that the baseline has; empty if it has it."""
    if metric in head.scores:
        return ""
    if not metric:
        return "no score was measured in the baseline"
    absent = head.stored.cell.absent if head.stored else {}
    why = absent.get(metric, "no reason recorded")
    return f"{metric} was measured in the baseline but not in the run: {why}"


def _uncounted(head: BaselineCell, base: BaselineCell, exact: bool) -> str:
    """Why forwards can't be compared, though one side has them; empty if they can."""
    if base.nfe and not head.nfe:
        return "the baseline has forwards, the run doesn't report them"
    if head.nfe and not base.nfe:
        return "the run has forwards, the baseline doesn't report them"
    if exact and base.tokens_forwarded and not head.tokens_forwarded:
        return "the baseline has tokens forwarded, the run doesn't report them"
    return ""


def counts_of(row: BaselineCell, rows: bool) -> Costs:
    """What a row's questions cost, over all seeds, of the kinds that were counted; `rows` that are
    its forwards are told only where they are asked for.
    """
    columns: dict[Cost, Sequence[int]] = {"calls": row.nfe}
    if rows:
        columns["rows"] = row.forwarded
    columns["tokens"] = row.tokens_forwarded
    counted = [(kind, counts) for kind, counts in columns.items() if counts]
    return {kind: dict(zip(row.indices, counts, strict=True)) for kind, counts in counted}


def _compared_exactly(judgement: Judgement, head: BaselineCell, base: BaselineCell) -> Judgement:
    """The judgement of a repeatable cell."""
    texts: tuple[int, ...] = ()
    if head.texts and base.texts:
        triples = zip(head.indices, head.texts, base.texts, strict=True)
        texts = tuple(index for index, new, old in triples if new != old)
    paired = judgement.paired
    changes = judgement.changes.values()
    more = any(change.more for change in changes)
    fewer = any(change.fewer for change in changes)
    status = "passed"
    if paired.worse:
        status = "changed" if paired.better else "worse"
    elif judgement.reason:
        status = "refused"
    elif more:
        status = "changed" if fewer else "slower"
    elif paired.better:
        status = "better"
    elif fewer:
        status = "faster"
    elif texts:
        status = "changed"
    return replace(judgement, status=status, texts=texts)


def _pooled_tests(
    groups: Mapping[tuple[Names, Names], Sequence[Judgement]], level: float, n_tested: int
) -> tuple[tuple[Pooled, ...], float]:
    """The tests of groups of cells, and the level that they leave to the cells' own tests.

    Args:
        groups: given names → their cells, (None, None) → those of all others.
        level: what both share.
        n_tested: the number of cells.
    """
    pooled = [_pooled(*names, cells) for names, cells in groups.items()]
    losses = holm([each.p for each in pooled])
    gains = holm([each.p_gain for each in pooled])
    share, cells_level = shares(level, n_tested)
    tests = []
    for each, loss, gain in zip(pooled, losses, gains, strict=True):
        status = ""
        if loss <= share:
            status = "worse"
        elif gain <= share:
            status = "better"
        tests.append(replace(each, status=status))
    freed = bool(tests) and all(each.status == "worse" for each in tests)
    return tuple(tests), level if freed else cells_level


def shares(level: float, cells: int) -> tuple[float, float]:
    """The parts of a level that the test of all cells and the cells' own tests have; a single cell
    has no other test of all cells, and takes the whole level.
    """
    if cells == 1:
        return level, level
    return POOLED_SHARE * level, (1 - POOLED_SHARE) * level


def _pooled(model: Names, sampler: Names, cells: Sequence[Judgement]) -> Pooled:
    """A group's answers, and the tests of their sums by question."""
    sums: dict[tuple[str, str, int], float] = {}
    broken = set()
    for cell in cells:
        base = cell.pair.base if cell.pair is not None else None
        if base is None:
            continue
        for index, change in zip(sorted(base.indices), cell.paired.differences, strict=True):
            question = (base.task, base.data_hash, index)
            sums[question] = sums.get(question, 0.0) + change
            if fell(change):
                broken.add(question)
    changes = list(sums.values())
    binary = all(cell.paired.binary for cell in cells) and set(changes) <= {-1, 0, 1}
    return Pooled(
        model,
        sampler,
        cells=len(cells),
        questions=len(sums),
        answers=sum(cell.paired.n for cell in cells),
        broke=sum(len(cell.paired.worse) for cell in cells),
        broken_questions=len(broken),
        mended=sum(len(cell.paired.better) for cell in cells),
        binary=all(cell.paired.binary for cell in cells),
        p=drop(changes, binary),
        p_gain=drop([-change for change in changes], binary),
    )


def _losses(judgement: Judgement) -> dict[str, float]:
    """The one-sided p of each test for a worse cell; none where nothing differs."""
    tests: dict[str, float] = {}
    if any(judgement.paired.differences):
        tests["score"] = judgement.paired.p
    kinds: tuple[Cost, ...] = ("calls", "rows")
    for kind in kinds:
        if kind in judgement.changes:
            ours, theirs = judgement.paired.costs[kind]
            tests[kind] = graded_drop(np.subtract(theirs, ours).tolist())
    return tests


def _gains(judgement: Judgement) -> dict[str, float]:
    """The one-sided p of a higher score."""
    differences = judgement.paired.differences
    if not any(differences):
        return {}
    return {"gain": drop([-change for change in differences], judgement.paired.binary)}


def _corrected(
    judgements: Sequence[Judgement], tests: Callable[[Judgement], dict[str, float]]
) -> tuple[list[dict[str, float]], int]:
    """Each judgement's p-values by Holm's correction over all tests of tested cells, and how many
    there are.
    """
    raw = [tests(judgement) if judgement.tested else {} for judgement in judgements]
    corrected = iter(holm([p for each in raw for p in each.values()]))
    adjusted = [{kind: next(corrected) for kind in each} for each in raw]
    return adjusted, sum(map(len, raw))


def _decided(judgement: Judgement, level: float) -> Judgement:
    """The judgement by its adjusted p-values."""
    if not judgement.tested:
        return judgement
    p = judgement.p
    status = "passed"
    if p.get("score", 1.0) <= level:
        status = "worse"
    elif judgement.reason:
        status = "refused"
    elif min(p.get("calls", 1.0), p.get("rows", 1.0)) <= level:
        status = "slower"
    elif p.get("gain", 1.0) <= level:
        status = "better"
    elif sum(judgement.paired.differences) < 0 and judgement.paired.worse:
        status = "lost"
    return replace(judgement, status=status)


def _conditions(judgements: Sequence[Judgement]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What differs between the judged cells and their baseline, each once: that because of which
    scores were tested, and all else (`torch 2.9.1 → 2.10.0`).
    """
    rounding: dict[str, None] = {}
    others: dict[str, None] = {}
    for judgement in judgements:
        pair = judgement.pair
        if not judgement.judged or pair is None or pair.head is None or pair.base is None:
            continue
        for name, ours, theirs in differing(pair.head, pair.base):
            if name in ROUNDING:
                rounding[f"{name} {theirs or 'unknown'} → {ours or 'unknown'}"] = None
        made = pair.base.made_with
        for name, ours in pair.head.made_with.items():
            if made.get(name, ours) != ours:
                others[f"{name} {made[name]} → {ours}"] = None
    return tuple(rounding), tuple(others)


def _sorted(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    return tuple(sorted(judgements, key=lambda judgement: id_order(judgement.id)))
