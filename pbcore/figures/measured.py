"""Accuracies measured by decoding, with their 95 % intervals, and whether a predicted value lies within."""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from pbcore.decoding import decode
from pbcore.figures.figure_io import Point
from pbcore.figures.questions import Questions
from pbcore.models.base import Model
from pbcore.results.stats import wilson

BATCH = 256
ROOM = 1e-9  # the interval of all right or all wrong ends at 1 or 0, up to rounding


@dataclass(frozen=True, slots=True)
class Measured:
    """The accuracy of one sampler with Wilson's interval, and its mean number of forwards."""

    accuracy: float
    low: float
    high: float
    count: int
    steps: float

    def at(self, x: float) -> Point:
        """The point of a figure, in %."""
        return x, 100 * self.accuracy, 100 * self.low, 100 * self.high

    def holds(self, predicted: float) -> bool:
        """Whether a predicted accuracy lies in the interval."""
        return self.low - ROOM <= predicted <= self.high + ROOM


def measure(model: Model, asked: Questions, sampler: str, seed: int = 0) -> Measured:
    """Decodes all questions with one sampler. Raises the errors of `decode`.

    Random numbers follow from the seed, the operation, n and the sampler, so that points don't share them.
    """
    own = crc32(f"{seed}/{asked.op}/{asked.n}/{sampler}".encode())
    out = decode(model, asked.samples, sampler, seed=own, batch_size=BATCH)
    right, count = sum(asked.right(number, one.text) for number, one in enumerate(out)), len(out)
    low, high = wilson(right, count)
    return Measured(right / count, low, high, count, sum(one.nfe or 0 for one in out) / count)


def within(pairs: Iterable[tuple[float, Measured]]) -> str:
    """How many measured points agree with what is predicted; of exact predictions about 5 % don't."""
    held = [point.holds(predicted) for predicted, point in pairs]
    return f"{sum(held)} of {len(held)} points have the predicted value within their 95 % interval"
