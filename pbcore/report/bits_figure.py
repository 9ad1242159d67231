"""Least bits lost in T steps, L*_T of ParallelBench's Theorem 1, as a picture."""

from __future__ import annotations

from pbcore.report.looks import number_look
from pbcore.report.style import CsvRow, CurveEnd, Drawing, finish, label, name_ends, panels
from pbcore.theory.bounds import optimal_bound

OPERATIONS = ("shuffle", "replace_random", "replace_index", "copy")


def bits_drawing(n: int) -> Drawing:
    """L*_T over T from 1 to n, a curve per operation: what no choice of steps avoids losing.

    Args:
        n: length of the lists.

    Raises:
        InputError: for lengths without a closed form.
    """
    y = "bits lost at least (L*_T)"
    figure, (axis,) = panels([1], 0, "steps T", y, size=(6.4, 3.2))
    axis.set_xscale("log")
    axis.set_xlim(0.94, n * 1.06)
    axis.set_xticks(range(1, n + 1), [str(T) if _is_shown(T, n) else "" for T in range(1, n + 1)])
    axis.set_xticks([], minor=True)
    rows: list[CsvRow] = []
    starts = []
    for number, op in enumerate(OPERATIONS):
        bits = [optimal_bound(op, n, T) for T in range(1, n + 1)]
        look = number_look(number)
        axis.plot(range(1, n + 1), bits, ms=4, linewidth=1.3, **look)
        rows += [{"operation": op, "n": n, "steps": T, "bits": b} for T, b in enumerate(bits, 1)]
        starts.append(CurveEnd(n, bits[-1], label(op), look["color"]))
    finish(axis, f"lists of {n}: revealed in T steps, chosen as well as can be")
    name_ends(axis, starts, room=0.3)
    return Drawing("bits", figure, rows)


def _is_shown(step: int, n: int) -> bool:
    """Whether the axis has room for this number."""
    return step <= 5 or step == n or step % 5 == 0
