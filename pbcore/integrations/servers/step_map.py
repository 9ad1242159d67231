"""The decoding order that a server reports: the step at which each token of an answer was revealed."""

from collections.abc import Sequence
from itertools import pairwise


def decoding_order(reported: Sequence[int], block: int | None) -> tuple[tuple[int, ...], int]:
    """The 0-based steps of an answer's tokens over all its blocks, and its forwards: Σ over blocks of the largest step.

    `reported` are 1-based steps, counted within each block of so many tokens (None: one block), or on and on over the
    answer; the last block may be cut. Raises ValueError for steps that are neither.
    """
    if any(type(step) is not int or step < 1 for step in reported):
        raise ValueError("its steps are no whole numbers from 1")
    size = block or max(1, len(reported))
    blocks = [list(reported[start : start + size]) for start in range(0, len(reported), size)]
    later = [one for one in blocks[1:] if len(one) == size]
    if later and all(min(after) > max(before) for before, after in pairwise(blocks)):
        return tuple(step - 1 for step in reported), max(reported)
    if any(min(one) != 1 for one in later):
        raise ValueError(f"its steps don't begin at 1 in each block of {size}; declare the server's block length (+b)")
    steps: list[int] = []
    forwards = 0
    for one in blocks:
        steps += [forwards + step - 1 for step in one]
        forwards += max(one)
    return tuple(steps), forwards
