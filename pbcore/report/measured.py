"""Accuracies measured by decoding, with their 95 % intervals: on questions with one token per item
and known valid answers, as `pbcore.theory` assumes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from matplotlib.axes import Axes

from pbcore.base.errors import InputError
from pbcore.decoding import decode
from pbcore.models.base import Model
from pbcore.report.looks import LineStyle
from pbcore.report.style import draw_points
from pbcore.results.stats import wilson
from pbcore.tasks.base import Sample
from pbcore.tasks.lists import MASK, NEW_SYMBOL, formatted, symbols
from pbcore.tasks.registry import all_task_names, load_task
from pbcore.theory.answers import DETERMINISTIC, answer_table, check_operation, positions

LISTED = ("insert_random", "remove_random", "latin_square")
BATCH = 256
PlottedPoint = tuple[float, float, float, float]  # x, y, low, high
ROOM = 1e-9  # the interval of all right or all wrong ends at 1 or 0, up to rounding


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The same question many times, with other random numbers each time, or different ones. `right`
    scores the text of an answer to the sample of that number.
    """

    op: str
    n: int
    samples: tuple[Sample, ...]
    right: Callable[[int, str], bool]


def question_set(op: str, n: int, count: int, different: bool = False) -> QuestionSet:
    """`count` times a list operation on n symbols, or a Latin square of side n, with only the items
    masked.

    Args:
        op: the operation, or `latin_square`.
        n: the length, or the side.
        count: how many questions.
        different: whether the lists differ, as for trained models, whose greedy answer to one list
            is always the same.

    Raises:
        InputError: for operations without infilling questions, for squares beyond side 3, and where
            there aren't as many different ones.
    """
    check_operation(op, n)
    name = f"list_ops/{op}"
    if name in all_task_names():
        task = load_task(name, n=n, limit=count if different else 1)
        samples = task.samples if different else _copies(task.samples[0], count)

        def right(number: int, text: str) -> bool:
            return task.score(text, samples[number])["accuracy"] == 1

        return QuestionSet(op, n, samples, right)
    if different:
        raise InputError(
            f"{op} has one question only; choose from copy, replace_index, replace_random, shuffle"
        )
    if op not in LISTED:
        names = ", ".join((*DETERMINISTIC[:1], *LISTED))
        raise InputError(f"{op} has no infilling questions; choose from {names}")
    if op == "latin_square" and n > 3:
        raise InputError(f"latin_square, n = {n}: the answers are listed up to side 3")
    texts = frozenset(_text(op, n, row) for row in answer_table(op, n).tolist())
    canvas = _text(op, n, None)
    message = {"role": "user", "content": f"{op} of {n}"}
    sample = Sample(f"theory/{op}", 0, (message,), {}, {"answers": sorted(texts)}, 0, n, canvas)
    return QuestionSet(op, n, _copies(sample, count), lambda number, text: text in texts)


def _copies(sample: Sample, count: int) -> tuple[Sample, ...]:
    return tuple(replace(sample, index=i) for i in range(count))


def _text(op: str, n: int, row: list[int] | None) -> str:
    """A row of the answers' table as text; None: the canvas."""
    names = [*symbols(n)[:n], NEW_SYMBOL]
    items = [MASK] * positions(op, n) if row is None else [names[token] for token in row]
    if op != "latin_square":
        return formatted(items)
    return "\n".join(",".join(items[start : start + n]) for start in range(0, n * n, n))


@dataclass(frozen=True, slots=True)
class MeasuredAccuracy:
    """The accuracy of one sampler with Wilson's interval, and its mean number of forwards."""

    accuracy: float
    low: float
    high: float
    count: int
    steps: float

    def shares(self) -> dict[str, float]:
        """The columns of a CSV."""
        return {"accuracy": self.accuracy, "low": self.low, "high": self.high}

    def at(self, x: float) -> PlottedPoint:
        """The point of a figure, in %."""
        return x, 100 * self.accuracy, 100 * self.low, 100 * self.high

    def holds(self, predicted: float) -> bool:
        """Whether a predicted accuracy lies in the interval."""
        return self.low - ROOM <= predicted <= self.high + ROOM


def measure_accuracy(
    model: Model, asked: QuestionSet, sampler: str, seed: int = 0
) -> MeasuredAccuracy:
    """Decodes all questions with one sampler.

    Random numbers follow from the seed, the operation, n and the sampler, so that points don't
    share them.

    Args:
        model: what decodes.
        asked: the questions.
        sampler: the sampler's name.
        seed: of the draws.

    Raises:
        The errors of `decode`.
    """
    own_seed = crc32(f"{seed}/{asked.op}/{asked.n}/{sampler}".encode())
    out = decode(model, asked.samples, sampler, seed=own_seed, batch_size=BATCH)
    right = sum(asked.right(number, generation.text) for number, generation in enumerate(out))
    count = len(out)
    low, high = wilson(right, count)
    forwards = sum(generation.nfe or 0 for generation in out)
    return MeasuredAccuracy(right / count, low, high, count, forwards / count)


def draw_measured(axis: Axes, data: Sequence[PlottedPoint], look: LineStyle, name: str) -> None:
    """Draws measured points with their intervals.

    Args:
        axis: where.
        data: the points.
        look: matplotlib's arguments for their marks.
        name: their name in the legend.
    """
    x, accuracy, low, high = zip(*data, strict=True)
    draw_points(
        axis,
        x,
        accuracy,
        low,
        high,
        **look,
        linestyle="",
        markersize=4,
        elinewidth=0.9,
        capsize=2,
        label=name,
    )


def within(pairs: Iterable[tuple[float, MeasuredAccuracy]]) -> str:
    """How many measured points agree with what is predicted; of exact predictions about 5 %
    don't.
    """
    held = [point.holds(predicted) for predicted, point in pairs]
    return f"{sum(held)} of {len(held)} points have the predicted value within their 95 % interval"
