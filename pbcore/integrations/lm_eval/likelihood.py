"""The likelihood of a continuation under a masked diffusion model: a Monte Carlo estimate of its lower bound.

With L tokens, l drawn from 1 … L and l of the tokens masked at random, the expected value of L / l times the sum of the
masked tokens' log-probabilities bounds the log-likelihood from below (LLaDA, arXiv 2502.09992, Section 2.4). It is the
expected log-likelihood over all orders of decoding one token at a time. The mask token itself, which no answer holds,
has probability 0, as in decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor

from pbcore.errors import InputError
from pbcore.models.base import Denoiser, Query, Request


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of a log-likelihood in nats, its standard error, and the forwards that it took.

    The error is 0 where all mask patterns were computed. Otherwise it is that of independent draws, which is at least
    the true one: the numbers of masked tokens are spread evenly over 1 … L.
    """

    value: float
    error: float
    forwards: int


@torch.inference_mode()
def bounds(
    model: Denoiser, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], draws: int, seeds: Sequence[int], size: int
) -> list[Bound]:
    """The bound of each continuation, given as (prompt ids, continuation ids), from `draws` mask patterns each, in
    forwards of `size` rows.

    Where there are no more than `draws` patterns, all are computed and the bound is exact. Pairs with equal seeds and
    lengths share their patterns. Raises InputError for an empty continuation and fewer than two draws.
    """
    if type(draws) is not int or draws < 2:
        raise InputError(f"mc {draws!r}: give the number of draws per likelihood, a whole number of at least 2")
    if any(not answer for _, answer in pairs):
        raise InputError("a continuation has no tokens, so it has no likelihood; give a text")
    patterns = [_patterns(len(answer), draws, seed) for (_, answer), seed in zip(pairs, seeds, strict=True)]
    rows = [(i, one) for i, (masked, _, _) in enumerate(patterns) for one in masked]
    terms: list[list[float]] = [[] for _ in pairs]
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        values = _log_probabilities(model, [pairs[i] for i, _ in batch], [masked for _, masked in batch])
        for (i, masked), value in zip(batch, values.tolist(), strict=True):
            terms[i].append(len(masked) / int(masked.sum()) * value)
    found = []
    for each, (_, weight, exact) in zip(terms, patterns, strict=True):
        values = torch.tensor(each, dtype=torch.float64)
        error = 0.0 if exact else float(values.std()) / len(each) ** 0.5
        found.append(Bound(float((values * weight).sum()), error, len(each)))
    return found


def _patterns(length: int, draws: int, seed: int) -> tuple[Tensor, Tensor, bool]:
    """Which tokens are masked, (D, L) bool, the weight (D,) of each pattern's term (they sum to 1), and whether these
    are all patterns with at least one mask: if there are no more than `draws`; else that many random ones.
    """
    if length < 60 and 2**length - 1 <= draws:
        numbers = torch.arange(1, 2**length)  # (D,)
        masked = (numbers[:, None] >> torch.arange(length)) & 1 == 1  # (D, L)
        counts = masked.sum(-1).tolist()
        return masked, torch.tensor([1 / (length * comb(length, n)) for n in counts]).double(), True
    generator = torch.Generator().manual_seed(seed)
    start = torch.rand((), generator=generator, dtype=torch.float64)
    counted = 1 + ((torch.arange(draws) + start) / draws * length).long().clamp(max=length - 1)  # (D,)
    rank = torch.rand(draws, length, generator=generator).argsort(-1).argsort(-1)  # (D, L)
    return rank < counted[:, None], torch.full((draws,), 1 / draws, dtype=torch.float64), False


def _log_probabilities(
    model: Denoiser, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], masked: Sequence[Tensor]
) -> Tensor:
    """The sum (R,) of the masked tokens' log-probabilities, given the prompt and the other tokens."""
    requests = [Request(tuple(prompt), (model.mask_id,) * len(answer), 0) for prompt, answer in pairs]
    width = max(len(answer) for _, answer in pairs)
    tokens = torch.full((len(pairs), width), model.eos_id)  # (R, L)
    want = torch.zeros(len(pairs), width, dtype=torch.bool)  # (R, L)
    for row, ((_, answer), pattern) in enumerate(zip(pairs, masked, strict=True)):
        tokens[row, : len(answer)] = torch.tensor(answer)
        want[row, : len(answer)] = pattern
    tokens, want = tokens.to(model.device), want.to(model.device)
    context = model.prepare(requests, cache=None, seed=0)
    canvas = tokens.masked_fill(want, model.mask_id)
    logits = context.logits(
        Query(canvas, want, torch.zeros(len(pairs), dtype=torch.long, device=model.device))
    )  # (M, V)
    logits = logits.float()
    logits[:, model.mask_id] = -torch.inf
    chosen = logits.log_softmax(-1).gather(-1, tokens[want][:, None])[:, 0]  # (M,)
    sums = torch.zeros(len(pairs), dtype=torch.float64, device=model.device)
    return sums.index_add_(0, want.nonzero()[:, 0], chosen.double())
