"""The settings of how a run is judged, a part of Settings: gates, floors and the baseline to write."""

# ruff: noqa: RUF009  as in settings.py

from dataclasses import dataclass
from pathlib import Path

from pbcore.grid import values
from pbcore.grid.option import Role, option

BASELINE = Path("reports/baselines/embedded-cpu.json")


@dataclass(frozen=True, slots=True)
class Judging:
    """What a run's cells are held against; none of it changes an answer."""

    gate: tuple[Path, ...] = option(
        Role.JUDGES,
        "judge cells against their rows in BASELINE, a run directory or a baseline file (repeatable)",
        Path,
        many=True,
        metavar="BASELINE",
    )
    gate_level: float = option(
        Role.JUDGES,
        "probability that a gate fails although nothing changed, over all its cells (default: 0.05)",
        values.level,
        0.05,
        metavar="P",
    )
    gate_time: float | None = option(
        Role.JUDGES,
        "fail cells slower than the gate's baseline by more than this share, e.g. 10%%",
        values.share,
        metavar="SHARE",
    )
    against: str | None = option(
        Role.JUDGES,
        "revision or checkout whose code is timed interleaved with this one for --gate-time",
        metavar="REV|PATH",
    )
    floor: tuple[str, ...] = option(
        Role.JUDGES, "absolute demand, e.g. 'tiny/copy/* accuracy>=0.98' (repeatable)", many=True, metavar="RULE"
    )
    update_baseline: Path | None = option(
        Role.JUDGES,
        f"write the run's rows to FILE (default: {BASELINE}) as the new baseline",
        Path,
        metavar="FILE",
        const=BASELINE,
    )

    @property
    def gated(self) -> bool:
        """Whether the run is judged, so that every cell has to be measured whole."""
        return bool(self.gate or self.floor or self.update_baseline or self.gate_time is not None)
