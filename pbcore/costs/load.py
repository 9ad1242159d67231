"""How busy the machine is beside this process, and whether what was timed on it can be believed."""

from collections.abc import Callable
from os import cpu_count
from time import perf_counter, process_time
from typing import NamedTuple

from pbcore.costs.measured import Measurement

CROWDED = 0.25  # cores that others may use beyond those that are free
SCATTERED = 0.10  # of a call's seconds, from which on its median isn't one to go by
NOT_COMPUTING = ("idle", "iowait", "guest", "guest_nice")  # guests are part of user and nice


class CpuSeconds(NamedTuple):
    """Seconds so far: of the clock, of all processes on all cores, and of this process alone."""

    wall: float
    everyone: float
    own: float


CpuClock = Callable[[], CpuSeconds]


def cpu_seconds() -> CpuSeconds:
    """The machine's now."""
    import psutil

    times = psutil.cpu_times()._asdict()
    everyone = sum(times[name] for name in times if name not in NOT_COMPUTING)
    return CpuSeconds(perf_counter(), everyone, process_time())


def used_by_others(before: CpuSeconds, after: CpuSeconds) -> float:
    """The cores that other processes used in between, in the mean."""
    wall = after.wall - before.wall
    if wall <= 0:
        return 0.0
    others = (after.everyone - before.everyone) - (after.own - before.own)
    return max(0.0, others / wall)


def free_cores(threads: int) -> int:
    """The cores that so many threads of this process leave to others."""
    return max(0, (cpu_count() or 1) - threads)


def unsteady(measurement: Measurement) -> str:
    """Why a measurement can't be believed, in words; empty if it can."""
    reasons = []
    busiest = max(measurement.busy, default=0.0)
    if _crowded(measurement):
        reasons.append(f"other processes used {busiest:.1f} cores (free: {measurement.free:g})")
    scatter = measurement.scatter
    if scatter is not None and scatter > SCATTERED:
        reasons.append(f"repeated calls lie {100 * scatter:.0f} % from their median")
    return " and ".join(reasons)


def worst_round(measurement: Measurement) -> int:
    """The round to time again: the busiest where others took cores, else the slowest."""
    if _crowded(measurement):
        return measurement.busy.index(max(measurement.busy))
    factors = measurement.round_factors()
    return factors.index(max(factors))


def _crowded(measurement: Measurement) -> bool:
    if measurement.free is None:
        return False
    return max(measurement.busy, default=0.0) > measurement.free + CROWDED
