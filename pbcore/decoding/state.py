"""What a policy keeps from step to step. R rows, R' rows that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pbcore.lazy_torch import Tensor, torch


@dataclass(slots=True)
class State:
    """A tensor with the row first.

    `over` is its lifetime: `block` (set back to `fill` when the row enters a block) or `answer`.
    """

    value: Tensor  # (R, …)
    fill: float
    over: str

    def select(self, rows: Tensor) -> State:
        """Only the given rows; `rows` (R',) are indices."""
        return replace(self, value=self.value[rows])


def clear(states: Mapping[str, State], rows: Tensor) -> None:
    """Sets the states of a block back to `fill` in the marked rows (R,)."""
    ending = [state for state in states.values() if state.over == "block"]
    if ending and bool(rows.any()):
        for state in ending:
            state.value[rows] = state.fill


def join(parts: Sequence[Mapping[str, State]], sizes: Sequence[int], order: Tensor) -> dict[str, State]:
    """Joins the answer states of a batch's parts, of `sizes` rows each, and sorts the rows by `order` (R,); the block's
    states end.

    A part without a state that another part has gets it as `fill`.
    """
    models = {name: state for part in parts for name, state in part.items() if state.over == "answer"}
    joined = {}
    for name, model in models.items():
        values = [
            part[name].value if name in part else model.value.new_full((size, *model.value.shape[1:]), model.fill)
            for part, size in zip(parts, sizes, strict=True)
        ]
        joined[name] = replace(model, value=torch.cat(values)[order])
    return joined
