"""Why a run's tokens per step and its TPF differ, in a sentence with its own numbers."""

from math import isnan

from pbcore.base.printable import fixed
from pbcore.base.text import name
from pbcore.report.scopes import MeansRow, Scope, overview

ALIKE = 0.05  # a share by which the two rates may differ without a word


def rates_note(whole: Scope) -> str:
    """The sentence, about the sampler whose rates lie furthest apart; empty where they are about
    the same, or not known.

    Args:
        whole: all tasks of the run.
    """
    rows = [row for row in overview(whole) if _distance(row)]
    if not rows:
        return ""
    most = max(rows, key=_distance)
    rates = f"{fixed(most['tokens_per_step'])} and {fixed(most['tokens_per_forward'])}"
    return (
        "tokens/step is a mean over answers and counts the whole canvas, TPF divides sums and stops"
        f" at the first EOS: {rates} of {name(most['model'])} with {name(most['sampler'])}"
    )


def _distance(row: MeansRow) -> float:
    """How far the two rates lie apart; 0 where that is not worth a word, or one isn't known."""
    step = row["tokens_per_step"]
    forward = row["tokens_per_forward"]
    if isnan(step) or isnan(forward):
        return 0.0
    distance = abs(step - forward)
    return distance if distance > ALIKE * step else 0.0
