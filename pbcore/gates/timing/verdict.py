"""The timing gate: reports a slow-down only between comparable measurements, and otherwise the reason why it did not
judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pbcore.errors import InputError

LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class TimingVerdict:
    """`judged` false: the timings are not comparable, `reason` says why.

    `ratio`: median head seconds / median base seconds.
    """

    judged: bool
    ok: bool
    reason: str
    ratio: float | None = None


def judge_timing(
    head: Sequence[float],
    base: Sequence[float],
    margin: float,
    *,
    head_machine: Mapping[str, Any],
    base_machine: Mapping[str, Any],
    shared: bool = False,
) -> TimingVerdict:
    """Judges the seconds of head's rounds against base's (interleaved where possible).

    Slower means that the fastest head round took longer than the slowest base round by more than `margin` (0.1 for 10
    %). Not judged: different machines, a device shared between workers, fewer than three rounds on a side. Raises
    InputError for a negative margin.
    """
    if margin < 0:
        raise InputError(f"margin {margin}: give a share >= 0, e.g. 0.1 for 10 %")
    reason = _obstacle(head, base, head_machine, base_machine, shared)
    if reason is not None:
        return TimingVerdict(False, True, f"timing not judged: {reason}")
    ratio = median(head) / median(base)
    text = (
        f"median {median(base):.3g} s → {median(head):.3g} s ({100 * (ratio - 1):+.1f} %), "
        f"fastest head round {min(head):.3g} s, slowest base round {max(base):.3g} s"
    )
    if min(head) > max(base) * (1 + margin):
        return TimingVerdict(True, False, f"slower by more than {100 * margin:g} %: {text}", ratio)
    return TimingVerdict(True, True, text, ratio)


def _obstacle(
    head: Sequence[float],
    base: Sequence[float],
    head_machine: Mapping[str, Any],
    base_machine: Mapping[str, Any],
    shared: bool,
) -> str | None:
    if not head_machine or not base_machine:
        return "a run has no record of the machine it was timed on"
    differing = sorted(
        key for key in head_machine.keys() | base_machine.keys() if head_machine.get(key) != base_machine.get(key)
    )
    if differing:
        key = differing[0]
        return f"different machines: {key} is {head_machine.get(key)!r}, the baseline's {base_machine.get(key)!r}"
    if shared:
        return "workers shared a device; run without -n"
    if not head or not base:
        return "a cell has no time of its own (its forwards were shared, or its answers kept)"
    if min(len(head), len(base)) < LEAST_ROUNDS:
        return (
            f"{len(head)} and {len(base)} rounds; at least {LEAST_ROUNDS} per side are needed (--rounds {LEAST_ROUNDS})"
        )
    if min(*head, *base) <= 0:
        return "a round has no measured time"
    return None
