"""How torch's threads wait for each other: chosen before torch is imported, since OpenMP reads it
once.

OpenMP's threads spin while they wait. On an idle machine that is fastest. Beside other busy
processes a spinning thread keeps the core that the thread it waits for needs, and two threads
become many times slower than one.
"""

import os
import sys

import pytest

# A user who sets one of these has chosen.
OPENMP = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
BUSY = 0.5  # cores that others use from which on the machine counts as shared
LOOK = 0.2  # seconds


def choose_waiting(config: pytest.Config) -> None:
    """Sets OMP_WAIT_POLICY=PASSIVE where others compute, before torch is imported, unless the user
    has chosen.
    """
    if "torch" in sys.modules or any(name in os.environ for name in OPENMP):
        return
    # Other workers, a CI's other jobs, or what runs now.
    if hasattr(config, "workerinput") or os.environ.get("CI") or _busy_cores() >= BUSY:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def _busy_cores() -> float:
    """How many cores are in use while this process waits."""
    import psutil

    return psutil.cpu_percent(interval=LOOK) / 100 * (psutil.cpu_count() or 1)
