"""From logits to tokens, their probabilities and other numbers, in chunks of bounded memory. M
positions, V tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.models.counter_rng import categorical

PIECE = 1 << 24  # numbers of logits that are worked on at once on a GPU


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of M positions: token, its probability, and `logits` (M, V), or without
    these the `numbers` of NUMBERS (M,) that were worked out from them earlier.
    """

    token: Tensor  # (M,)
    confidence: Tensor  # (M,)
    logits: Tensor | None = None  # (M, V)
    numbers: Mapping[str, Tensor] = field(default_factory=dict)  # (M,) each


def predict(logits: Tensor, temperature: float, draws: Tensor | None) -> tuple[Tensor, Tensor]:
    """Predicted tokens and their probabilities.

    Args:
        logits: (M, V).
        temperature: of the draws.
        draws: (M,) in (0, 1), what draws each token; None: the likeliest token.

    Returns:
        Token (M,), and its probability (M,) under the softmax at temperature 1.
    """
    if draws is None:
        best = [torch.softmax(piece, dim=-1).max(-1) for piece in pieces_of(logits)]
        token = torch.cat([likeliest.indices for likeliest in best])
        return token, torch.cat([likeliest.values for likeliest in best])
    token = torch.cat(
        [categorical(piece / temperature, part) for piece, part in chunk_pairs(logits, draws)]
    )
    return token, probability(logits, token)


def scattered(slots: Tensor, values: Tensor, fill: float = 0.0) -> Tensor:
    """Values put into their slots: (R, C).

    Args:
        slots: (R, C) bool, M of them set.
        values: (M,) in row-major order.
        fill: the other slots' value.
    """
    return values.new_full(slots.shape, fill).masked_scatter(slots, values)


def running_numbers(marked: Tensor) -> Tensor:
    """The place of each marked entry (R, B) among all, counted row by row; -1 for the others."""
    return (marked.flatten().cumsum(0) - 1).view_as(marked).masked_fill(~marked, -1)


def probability(logits: Tensor, token: Tensor) -> Tensor:
    """The probability (M,) of given tokens (M,)."""
    parts = [
        torch.softmax(piece, dim=-1).gather(-1, given[:, None])
        for piece, given in chunk_pairs(logits, token)
    ]
    return torch.cat(parts).squeeze(-1)


def distribution(logits: Tensor, temperature: float) -> Tensor:
    """What tokens are drawn from (M, V), for few positions; at temperature 0 the likeliest token
    has probability 1.
    """
    if temperature:
        return torch.softmax(logits.double() / temperature, dim=-1)
    return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()


def margin(log_probs: Tensor) -> Tensor:
    """p₁ − p₂ (m,) of log-probabilities (m, V), V ≥ 2."""
    top = log_probs.topk(2, dim=-1).values.exp()
    return top[:, 0] - top[:, 1]


def entropy_nats(log_probs: Tensor) -> Tensor:
    """−Σ p ln(p + 1e-10) (m,) of log-probabilities (m, V), in nats."""
    probs = log_probs.exp()
    return -(probs * (probs + 1e-10).log()).sum(-1)


# Beside token and confidence, what a policy may know of a position without its distribution.
NUMBERS: Mapping[str, Callable[[Tensor], Tensor]] = {"margin": margin, "entropy": entropy_nats}


def rowwise(function: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """`function`, from log-probabilities (m, V) to (m,), of all positions (M,), in chunks."""
    return torch.cat([function(torch.log_softmax(piece, dim=-1)) for piece in pieces_of(logits)])


def pieces_of(logits: Tensor, budget: int | None = None) -> Iterator[Tensor]:
    """Rows of (M, V) in chunks of at most `budget` numbers, as float32 or float64; without rows one
    empty chunk. By default 2²² on a CPU, whose allocator maps larger blocks anew each time, and 2²⁴
    on other devices. Only one chunk at a time takes memory of its own.
    """
    budget = budget or (1 << 22 if logits.device.type == "cpu" else PIECE)
    size = max(1, budget // max(1, logits.shape[-1]))
    for start in range(0, max(1, len(logits)), size):
        piece = logits[start : start + size]
        yield piece if piece.dtype in (torch.float32, torch.float64) else piece.float()


def chunk_pairs(logits: Tensor, values: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of logits (M, V), each with its part of `values` (M,)."""
    start = 0
    for piece in pieces_of(logits):
        yield piece, values[start : start + len(piece)]
        start += len(piece)
