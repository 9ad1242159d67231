"""What changes when one factor of a run changes and all else stays (the question of arXiv 2604.13413): runs with equal
means can still differ in many answers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from pbcore.analysis.order import natural
from pbcore.analysis.paired import interval
from pbcore.results.record import CellRecord, SampleRecord, Score
from pbcore.results.stats import score_of

SEED, DTYPE = "seed", "dtype"
Level = tuple[tuple[str, Any], ...]  # factor and value
Answers = dict[tuple[int, int], SampleRecord]  # index and seed → answer
Cell = tuple[str, str, str]  # model, task, sampler


class Entry(Protocol):
    """A record with its answers."""

    @property
    def cell(self) -> CellRecord: ...
    @property
    def samples(self) -> Sequence[SampleRecord]: ...


@dataclass(frozen=True, slots=True)
class FactorChange:
    """One cell's answers when `factor` goes from its first value `base` to `head`, all other factors alike.

    `answers` is the share of answers whose text changes, `scores` the share whose `metric` changes; `before` and
    `after` are the mean scores, `low` to `high` the 95 % interval of their difference. The unit is the sample: what
    other levels and seeds say of the same one is averaged first."""

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


def factor_changes(cells: Iterable[Entry]) -> list[FactorChange]:
    """The changes of every cell by every factor of a run (`--factor`), and by the seed where each sample was answered
    with several (the first against each of the others); by cell, then factor. Cells that failed, or lack scores, are
    left out. Where the dtype varies, the other factors stand by dtype: `batch-size in float32`."""
    levels: defaultdict[Cell, dict[Level, Entry]] = defaultdict(dict)
    for entry in cells:
        one = entry.cell
        if one.status == "ok" and one.headline in one.scores:
            levels[one.model, one.task, _alone(one)][_level(one)] = entry
    found = [change for cell, stored in levels.items() for change in _of_cell(cell, stored)]
    return sorted(found, key=lambda one: (one.task, one.model, natural(one.sampler)))


def _level(cell: CellRecord) -> Level:
    """A cell's factors: how many rows or requests at a time (`+x8`), and those of --factor."""
    at_once, level = cell.conditions.at_once, cell.conditions.level or {}
    rows = {} if at_once is None else {"batch-size" if cell.served is None else "concurrency": at_once}
    return tuple((rows | level).items())


def _alone(cell: CellRecord) -> str:
    """The sampler without how many rows it decodes at a time, the end of its name."""
    return cell.sampler.removesuffix(f"+x{cell.conditions.at_once}")


def _of_cell(cell: Cell, stored: dict[Level, Entry]) -> Iterator[FactorChange]:
    metric = next(iter(stored.values())).cell.headline
    known = {
        level: {one.place: one for one in entry.samples if metric in one.scores} for level, entry in stored.items()
    }
    for factor in dict.fromkeys(name for level in known for name in dict(level)):
        for within, of in _by_dtype(known).items() if factor != DTYPE else [("", known)]:
            base, *others = sorted({dict(level)[factor] for level in of if factor in dict(level)}, key=_as_given)
            for head in others:
                pairs = [
                    (answers, of[other])
                    for level, answers in of.items()
                    if dict(level).get(factor) == base and (other := _moved(level, factor, head)) in of
                ]
                both = [(one[place], two[place]) for one, two in pairs for place in one.keys() & two.keys()]
                if both:
                    yield _change((*cell, factor + within, str(base), str(head)), metric, both)
    for within, of in _by_dtype(known).items():
        first, *rest = sorted({seed for answers in of.values() for _, seed in answers}) or [0]
        both = [
            (answers[index, first], one)
            for answers in of.values()
            for (index, seed), one in sorted(answers.items())
            if seed != first and (index, first) in answers
        ]
        if both:
            yield _change((*cell, SEED + within, str(first), ",".join(map(str, rest))), metric, both)


def _by_dtype(known: dict[Level, Answers]) -> dict[str, dict[Level, Answers]]:
    """` in float32` → the levels of this dtype: what float32 leaves alone may change in bfloat16. Without the factor,
    all of them.
    """
    found: defaultdict[str, dict[Level, Answers]] = defaultdict(dict)
    for level, answers in known.items():
        dtype = dict(level).get(DTYPE)
        found[f" in {dtype}" if dtype else ""][level] = answers
    return found


def _moved(level: Level, factor: str, value: Any) -> Level:
    return tuple((name, value if name == factor else own) for name, own in level)


def _as_given(value: Any) -> tuple[int, Any]:
    """Numbers by size; of dtypes the widest first."""
    if isinstance(value, int | float):
        return 0, value
    widths = ("float64", "float32", "bfloat16", "float16")
    return (1, widths.index(value)) if value in widths else (2, str(value))


def _change(
    names: tuple[str, str, str, str, str, str], metric: str, both: Sequence[tuple[SampleRecord, SampleRecord]]
) -> FactorChange:
    """The change over pairs of answers to the same sample."""
    pairs: defaultdict[int, list[tuple[SampleRecord, SampleRecord]]] = defaultdict(list)
    for one, two in both:
        pairs[one.index].append((one, two))
    texts = [fmean(one.text != two.text for one, two in same) for same in pairs.values()]
    flips = [fmean(one.scores[metric] != two.scores[metric] for one, two in same) for same in pairs.values()]
    means = [
        (fmean(one.scores[metric] for one, _ in same), fmean(two.scores[metric] for _, two in same))
        for same in pairs.values()
    ]
    differences = [after - before for before, after in means]
    binary = all(value in (0, 1) for pair in means for value in pair)
    before, after = (fmean(side) for side in zip(*means, strict=True))
    shares = score_of("answers", texts), score_of("scores", flips)
    return FactorChange(*names, metric, *shares, before, after, *interval(differences, binary))
