"""Fits the form of `measured.Fit` to timed calls, for each candidate of the floor, and a sampler's
own price to its decodings: non-negative least squares of the relative error.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from pbcore.costs.measured import Fit, OwnTiming, Timing
from pbcore.costs.price_list import OwnPrice

FLOORS = (0, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)  # positions


def fit_calls(timings: Sequence[Timing]) -> Fit:
    """The fit with the least squared relative error. Raises ValueError without timings."""
    if not timings:
        raise ValueError("nothing was timed")
    seconds = np.array([timing.seconds for timing in timings])
    best: tuple[float, Fit] | None = None
    for floor in FLOORS:
        features = np.array([_features(timing, floor) for timing in timings])
        weights, loss = nnls(features / seconds[:, None], np.ones(len(seconds)))
        if best is not None and loss >= best[0]:
            continue
        errors = np.abs(features @ weights / seconds - 1)
        best = float(loss), _fit(weights, floor, float(np.median(errors)))
    assert best is not None
    return best[1]


def _features(timing: Timing, floor: int) -> list[float]:
    """What each number of the form is multiplied with."""
    call = timing.call
    positions = timing.batch * call.positions
    return [
        1.0,
        float(max(positions, floor)),
        float(positions if call.context else 0),
        float(positions if timing.refresh else 0),
        float(positions * (call.tokens + call.context)),
        float(timing.batch * call.rows * call.logits),
    ]


def _fit(weights: NDArray[np.float64], floor: int, error: float) -> Fit:
    call, token, cached, refresh, pair, logit = (float(weight) for weight in weights)
    return Fit(call, token, float(floor), cached, refresh, pair, logit, error)


def fit_own(timings: Sequence[OwnTiming]) -> OwnPrice:
    """A sampler's price of a call, of a position whose logits it reads, and of an answer."""
    seconds = np.array([timing.seconds for timing in timings])
    features = np.array([[timing.calls, timing.logits, timing.answers] for timing in timings])
    weights, _ = nnls(features / seconds[:, None], np.ones(len(seconds)))
    call, logit, answer = (float(weight) for weight in weights)
    return OwnPrice(call, logit, answer)
