"""What changes when one factor of a run changes and all else stays (the question of arXiv
2604.13413): runs with equal means can still differ in many answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from pbcore.analysis.order import natural
from pbcore.analysis.paired import Paired, on_common
from pbcore.base.grouping import grouped
from pbcore.results.record import CellRecord, SampleRecord, Score
from pbcore.results.stats import score_of

SEED = "seed"
DTYPE = "dtype"
CellNames = tuple[str, str, str, str]  # model, task, sampler, metric


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
    `metric` changes; `paired` compares the scores. The unit is the sample: what other levels and
    seeds say of the same one is averaged first.
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
    paired: Paired


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of a cell, and the level of each factor under which it was given, its seed among
    them.
    """

    cell: CellNames
    levels: Mapping[str, Any]
    sample: int
    text: str
    score: float


def factor_changes(cells: Iterable[CellWithAnswers]) -> list[FactorChange]:
    """The changes of every cell by every factor of a run (`--factor`), and by the seed where each
    sample was answered with several (the first against each of the others); by cell, then factor.
    Cells that failed, or lack scores, are left out; of runs side by side the last counts. Where the
    dtype varies, the other factors stand by dtype: `batch-size in float32`.
    """
    seen: dict[tuple[Any, ...], CellWithAnswers] = {}
    for entry in cells:
        cell = entry.cell
        if cell.status == "ok" and cell.headline in cell.scores:
            # Runs side by side may differ in more than the factors.
            seen[_names(cell), *_level(cell).items()] = entry
    if not any(_varies(entry) for entry in seen.values()):
        return []
    answers = []
    factors: dict[str, None] = {}
    for entry in seen.values():
        level = _level(entry.cell)
        names = _names(entry.cell)
        for sample in entry.samples:
            if entry.cell.headline in sample.scores:
                score = sample.scores[entry.cell.headline]
                levels = {**level, SEED: sample.seed}
                answers.append(_Answer(names, levels, sample.index, sample.text, score))
                factors |= dict.fromkeys(level)
    changes: list[FactorChange] = []
    for factor in (*factors, SEED):
        others = [name for name in (*factors, SEED) if name != factor]
        changes.extend(_by_factor(answers, factor, others))
    return sorted(changes, key=lambda change: (change.task, change.model, natural(change.sampler)))


def _names(cell: CellRecord) -> CellNames:
    sampler = cell.sampler.removesuffix(f"+x{cell.conditions.at_once}")
    return cell.model, cell.task, sampler, cell.headline


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
    answers: Iterable[_Answer], factor: str, others: Sequence[str]
) -> Iterator[FactorChange]:
    """The changes by one factor, cell by cell: from its first value to each of the later ones, of
    seeds to all of them together.
    """
    known = [answer for answer in answers if answer.levels.get(factor) is not None]
    # What float32 leaves alone may change in bfloat16.
    apart = DTYPE in others
    cells = grouped(known, lambda each: (each.cell, each.levels.get(DTYPE) if apart else None))
    dtypes = list(dict.fromkeys(dtype for _, dtype in cells))
    for names, dtype in sorted(cells, key=lambda key: (key[0], dtypes.index(key[1]))):
        by_value = grouped(cells[names, dtype], lambda each: each.levels[factor])
        first, *later = sorted(by_value, key=_as_given)
        for heads in [later] if factor == SEED else [[value] for value in later]:
            after = [answer for value in heads for answer in by_value[value]]
            pairs = _pairs(by_value[first], after, others)
            if pairs:
                paired_with = {answer.levels[factor] for _, answer in pairs}
                head = ",".join(str(value) for value in heads if value in paired_with)
                name = factor if dtype is None else f"{factor} in {dtype}"
                yield _change(names, (name, str(first), head), pairs)


def _pairs(
    before: Iterable[_Answer], after: Iterable[_Answer], others: Sequence[str]
) -> list[tuple[_Answer, _Answer]]:
    """The answers of a cell to the same sample at the same levels of the other factors."""

    def place(answer: _Answer) -> tuple[Any, ...]:
        return (answer.sample, *(answer.levels.get(name) for name in others))

    partners = grouped(after, place)
    return [(answer, other) for answer in before for other in partners.get(place(answer), [])]


def _change(
    names: CellNames, values: tuple[str, str, str], pairs: Sequence[tuple[_Answer, _Answer]]
) -> FactorChange:
    """The change of a cell.

    Args:
        names: of the cell.
        values: the factor, and its values before and after.
        pairs: the answers before and after.
    """
    texts = []
    flips = []
    then = {}
    now = {}
    for sample, of_sample in grouped(pairs, lambda pair: pair[0].sample).items():
        texts.append(fmean(before.text != after.text for before, after in of_sample))
        flips.append(fmean(before.score != after.score for before, after in of_sample))
        then[sample] = fmean(before.score for before, _ in of_sample)
        now[sample] = fmean(after.score for _, after in of_sample)
    model, task, sampler, metric = names
    shares = score_of("answers", texts), score_of("scores", flips)
    return FactorChange(model, task, sampler, *values, metric, *shares, on_common(now, then))


def _as_given(value: Any) -> tuple[int, Any]:
    """Numbers by size; of dtypes the widest first."""
    if isinstance(value, int | float):
        return 0, value
    widths = ("float64", "float32", "bfloat16", "float16")
    return (1, widths.index(value)) if value in widths else (2, str(value))
