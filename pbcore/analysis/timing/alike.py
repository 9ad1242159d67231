"""Whether two cells were timed alike, so that their seconds can be compared."""

from pbcore.results.record import CellRecord

CONDITIONS = ("device", "dtype", "batch_size", "threads", "seeds", "wait_policy")


def timed_otherwise(head: CellRecord, base: CellRecord) -> str:
    """Why the seconds of two cells can't be compared: other conditions, other numbers of samples,
    or a device that workers shared; empty if they can.
    """
    if head.conditions.shared_device or base.conditions.shared_device:
        return "workers shared a device; run without -n"
    sides = [("n_samples", head.n_samples, base.n_samples)]
    for name in CONDITIONS:
        sides.append((name, getattr(head.conditions, name), getattr(base.conditions, name)))
    for name, ours, theirs in sides:
        if ours != theirs:
            return f"timed under other conditions: {name} is {ours!r}, the baseline's {theirs!r}"
    return ""
