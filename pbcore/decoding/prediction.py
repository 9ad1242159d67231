"""From logits to tokens, their probabilities and other numbers, in chunks of bounded memory. M
positions, V tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.models.base import Ranks
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


@dataclass(frozen=True, slots=True)
class Law:
    """What a sampler draws tokens from, and what it ranks places by.

    Tokens are drawn from the softmax of logits ÷ `temperature`, of the likeliest tokens that make
    up `top_p`, and of the `top_k` likeliest (0: all). `ranks` is the model's (`Family.ranks`).
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    ranks: Ranks = "raw"

    @property
    def reshapes(self) -> bool:
        """Whether places are ranked by another distribution than the model's own."""
        cuts = self.top_p < 1 or self.top_k > 0
        if self.temperature == 0:
            return cuts and self.ranks == "cut"
        return self.ranks != "raw" and (cuts or self.temperature != 1)

    def ranked(self, logits: Tensor) -> Tensor:
        """The logits (M, V) that rank places, from the model's; new ones where they differ."""
        if not self.reshapes:
            return logits
        return torch.cat([self._cut(piece) for piece in pieces_of(logits)])

    def drawn(self, ranked: Tensor) -> Tensor:
        """The logits (m, V) that tokens are drawn from, from those that rank places."""
        return ranked if self.reshapes else self._cut(ranked)

    def _cut(self, logits: Tensor) -> Tensor:
        return cut(logits, self.temperature, self.top_p, self.top_k)


def cut(logits: Tensor, temperature: float, top_p: float, top_k: int) -> Tensor:
    """The logits that Dream's code draws from, at temperature 0, too (`generation_utils.py`,
    `sample_tokens`).

    Args:
        logits: (m, V).
        temperature: what they are divided by; 0: nothing.
        top_p: of the tokens sorted by probability those stay before which at most this much lies,
            so that the one that crosses it stays; 1: all.
        top_k: of these the likeliest stay, and ties with the last; 0: all.

    Returns:
        (m, V), −∞ for tokens that are left out.
    """
    if temperature not in (0, 1):
        logits = logits / temperature
    if top_p < 1:
        # Sorts stably: of equal logits the lower id stays.
        order = logits.argsort(dim=-1, descending=True, stable=True)
        share = torch.softmax(logits.gather(-1, order), dim=-1)
        before = torch.nn.functional.pad(share.cumsum(-1)[:, :-1], (1, 0))
        gone = torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, before > top_p)
        logits = logits.masked_fill(gone, -torch.inf)
    if 0 < top_k < logits.shape[-1]:
        worst = logits.topk(top_k, dim=-1).values[:, -1:]  # (m, 1)
        logits = logits.masked_fill(logits < worst, -torch.inf)
    return logits


def predict(logits: Tensor, law: Law, draws: Tensor | None) -> tuple[Tensor, Tensor]:
    """Predicted tokens and their probabilities.

    Args:
        logits: (M, V), those that rank places.
        law: of the draws.
        draws: (M,) in (0, 1), what draws each token; None: the likeliest token.

    Returns:
        Token (M,), and its probability (M,) under the softmax of the logits.
    """
    if draws is None:
        best = [torch.softmax(piece, dim=-1).max(-1) for piece in pieces_of(logits)]
        token = torch.cat([likeliest.indices for likeliest in best])
        return token, torch.cat([likeliest.values for likeliest in best])
    token = torch.cat(
        [categorical(law.drawn(piece), part) for piece, part in chunk_pairs(logits, draws)]
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


def distribution(logits: Tensor, law: Law) -> Tensor:
    """What tokens are drawn from (M, V), for few positions, from the logits that rank places; at
    temperature 0 the likeliest token has probability 1.
    """
    if law.temperature:
        return torch.softmax(law.drawn(logits.double()), dim=-1)
    return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()


def margin(log_probs: Tensor) -> Tensor:
    """p₁ − p₂ (m,) of log-probabilities (m, V), V ≥ 2."""
    top = log_probs.topk(2, dim=-1).values.exp()
    return top[:, 0] - top[:, 1]


def logit_gap(logits: Tensor) -> Tensor:
    """The gap (M,) between the two highest logits of each position (M, V), V ≥ 2."""
    tops = [piece.topk(2, dim=-1).values for piece in pieces_of(logits)]
    top = torch.cat(tops)
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
