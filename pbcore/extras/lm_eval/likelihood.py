"""The likelihood of a continuation under a masked diffusion model: a Monte Carlo estimate of its
lower bound.

With L tokens, l drawn from 1 … L and l of the tokens masked at random, the expected value of L / l
times the sum of the masked tokens' log-probabilities bounds the log-likelihood from below (LLaDA,
arXiv 2502.09992, Section 2.4). It is the expected log-likelihood over all orders of decoding one
token at a time. The mask token itself, which no answer holds, has probability 0, as in decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pbcore.base.errors import InputError
from pbcore.base.torch_states import own_states
from pbcore.models.base import Denoiser, Query, Request


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of a log-likelihood in nats, its standard error, and the forwards that it took.
    The error is 0 where all mask patterns were computed. Otherwise it is that of independent draws,
    which is at least the true one: the numbers of masked tokens are spread evenly over 1 … L.
    """

    value: float
    error: float
    forwards: int


@own_states()
@torch.inference_mode()
def bounds(
    model: Denoiser,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    draws: int,
    seeds: Sequence[int],
    size: int,
) -> list[Bound]:
    """Bounds from below on the log-likelihood of continuations, each a mean over random mask
    patterns.

    Where a continuation has no more than `draws` patterns, all of them are computed and the bound
    is exact. Pairs with equal seeds and lengths share their patterns.

    Args:
        model: predicts the masked tokens.
        pairs: prompt ids and continuation ids.
        draws: mask patterns of each pair, at least 2.
        seeds: of the patterns, one per pair.
        size: rows of a forward.

    Returns:
        One bound per pair, in nats.

    Raises:
        InputError: for an empty continuation, or fewer than two draws.
    """
    if type(draws) is not int or draws < 2:
        raise InputError(
            f"mc {draws!r}: give the number of draws per likelihood, a whole number of at least 2"
        )
    if any(not answer for _, answer in pairs):
        raise InputError("a continuation has no tokens, so it has no likelihood; give a text")
    patterns = [
        _patterns(len(answer), draws, seed) for (_, answer), seed in zip(pairs, seeds, strict=True)
    ]
    if not patterns:
        return []
    rows: list[tuple[tuple[Sequence[int], Sequence[int]], Tensor]] = []
    for pair, of_pair in zip(pairs, patterns, strict=True):
        rows.extend((pair, masked) for masked in of_pair.masked)
    batches = [
        _log_probabilities(model, rows[start : start + size]).cpu()
        for start in range(0, len(rows), size)
    ]
    sums = torch.split(torch.cat(batches), [len(of_pair.masked) for of_pair in patterns])
    return [
        _bound(of_pair, of_patterns) for of_pair, of_patterns in zip(patterns, sums, strict=True)
    ]


class _Patterns(NamedTuple):
    """The mask patterns of a continuation.

    `masked` (D, L), bool, says which tokens are masked; `weight` (D,) is that of each pattern's
    term, and these sum to 1; `exact` whether these are all patterns with at least one mask.
    """

    masked: Tensor
    weight: Tensor
    exact: bool


def _patterns(length: int, draws: int, seed: int) -> _Patterns:
    """All patterns if there are no more than `draws`, else that many random ones."""
    if length < 60 and 2**length - 1 <= draws:
        numbers = torch.arange(1, 2**length)  # (D,)
        masked = (numbers[:, None] >> torch.arange(length)) & 1 == 1  # (D, L)
        counts = masked.sum(-1).tolist()
        weight = torch.tensor([1 / (length * comb(length, n)) for n in counts]).double()  # (D,)
        return _Patterns(masked, weight, exact=True)
    generator = torch.Generator().manual_seed(seed)
    start = torch.rand((), generator=generator, dtype=torch.float64)
    spread = (torch.arange(draws) + start) / draws * length  # (D,), evenly over 0 … L
    masks = 1 + spread.long().clamp(max=length - 1)  # (D,)
    rank = torch.rand(draws, length, generator=generator).argsort(-1).argsort(-1)  # (D, L)
    weight = torch.full((draws,), 1 / draws, dtype=torch.float64)  # (D,)
    return _Patterns(rank < masks[:, None], weight, exact=False)


def _bound(patterns: _Patterns, sums: Tensor) -> Bound:
    """The bound from the sum (D,) of the masked tokens' log-probabilities by each pattern."""
    # L / l of a plain number is rounded twice.
    length = torch.tensor(patterns.masked.shape[1], dtype=torch.float64)
    terms = length / patterns.masked.sum(-1) * sums  # (D,)
    error = 0.0 if patterns.exact else float(terms.std()) / len(terms) ** 0.5
    return Bound(float((terms * patterns.weight).sum()), error, len(terms))


def _log_probabilities(
    model: Denoiser, rows: Sequence[tuple[tuple[Sequence[int], Sequence[int]], Tensor]]
) -> Tensor:
    """The sum (R,) of the masked tokens' log-probabilities, given the prompt and the other
    tokens.
    """
    requests = [
        Request(tuple(prompt), (model.mask_id,) * len(answer), 0) for (prompt, answer), _ in rows
    ]
    answers = [torch.tensor(answer) for (_, answer), _ in rows]
    patterns = [masked for _, masked in rows]
    tokens = pad_sequence(answers, batch_first=True, padding_value=model.eos_id)  # (R, L)
    tokens = tokens.to(model.device)
    want = pad_sequence(patterns, batch_first=True).to(model.device)  # (R, L)
    context = model.prepare(requests, cache=None, seed=0)
    canvas = tokens.masked_fill(want, model.mask_id)
    present = torch.zeros(len(rows), dtype=torch.long, device=model.device)
    logits = context.logits(Query(canvas, want, present)).float()  # (M, V)
    logits[:, model.mask_id] = -torch.inf
    chosen = logits.log_softmax(-1).gather(-1, tokens[want][:, None])[:, 0]  # (M,)
    sums = torch.zeros(len(rows), dtype=torch.float64, device=model.device)
    return sums.index_add_(0, want.nonzero()[:, 0], chosen.double())
