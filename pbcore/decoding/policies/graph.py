"""What samplers share that read attention as a graph of dependence. R rows, C slots."""

from collections.abc import Callable

from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


def symmetric(step: Step) -> Tensor:
    """(A + Aᵀ) / 2 (R, C, C) between candidates; 0 on the diagonal and at all other pairs."""
    assert step.attention is not None
    weights = step.attention.weights.to(step.confidence.dtype)
    both = (weights + weights.transpose(1, 2)) / 2
    pairs = step.masked[:, :, None] & step.masked[:, None, :]
    return both.masked_fill(~pairs, 0.0) * ~torch.eye(both.shape[-1], dtype=torch.bool, device=both.device)


def among_slots(step: Step) -> tuple[Tensor, Tensor]:
    """Weights (R, C, C) between the slots, of a policy that reads the prompt's columns, too, and what each slot
    receives on average (R, C).
    """
    assert step.attention is not None
    assert step.attention.sinks is not None
    own = step.column + step.attention.prompt  # (R, C): the slots' columns
    weights = step.attention.weights
    return weights.gather(-1, own[:, None, :].expand(-1, own.shape[1], -1)), step.attention.sinks.gather(-1, own)


def independent(order: Tensor, among: Tensor, joins: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A greedy independent set (R, C) of the slots `among` (R, C), taken in `order` (R, C), slot indices.

    `joins(slot, taken)` says for one slot of each row (R,), given those taken (R, C), whether it may be added.
    """
    taken = torch.zeros_like(among)
    for slot in order.unbind(-1):  # (R,)
        add = among.gather(-1, slot[:, None]).squeeze(-1) & joins(slot, taken)
        taken = taken.scatter(-1, slot[:, None], (taken.gather(-1, slot[:, None]).squeeze(-1) | add)[:, None])
    return taken


def at_columns(matrix: Tensor, slot: Tensor) -> Tensor:
    """Column `slot` (R,) of each matrix (R, C, C): (R, C)."""
    return matrix.gather(2, slot[:, None, None].expand(-1, matrix.shape[1], 1)).squeeze(2)


def at_rows(matrix: Tensor, slot: Tensor) -> Tensor:
    """Row `slot` (R,) of each matrix (R, C, C): (R, C)."""
    return matrix.gather(1, slot[:, None, None].expand(-1, 1, matrix.shape[-1])).squeeze(1)
