"""Training of SEDD: noisy batches at random noise levels, and the score entropy (arXiv 2310.16834, Section 3).

R rows, T positions, M noisy positions, N columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.models.sedd.config import SeddConfig
from pbcore.models.sedd.diffusion import EARLIEST, Graph, Noise
from pbcore.models.sedd.network import SeddNetwork
from pbcore.train.noise import PADDING_WEIGHT, Row

LENGTH = 256  # positions of a trained network


@dataclass(frozen=True, slots=True)
class NoisyBatch:
    """R rows of T tokens, padded on the right; answers are noisy, prompts are not."""

    ids: Tensor  # (R, T) long, noisy
    clean: Tensor  # (R, T) long
    seen: Tensor  # (R, T) bool, false at padding
    judged: Tensor  # (R, T) bool: where the loss is taken: answers, with the absorbing graph only masks
    weights: Tensor  # (R, T) float
    time: Tensor  # (R,) float
    tasks: tuple[str, ...]  # of each row


def noisy_batch(rows: Sequence[Row], eos_id: int, graph: Graph, noise: Noise, rng: torch.Generator) -> NoisyBatch:
    """Each row draws t ~ U(0, 1), evenly spread over the batch, and its answer is corrupted with total noise σ(t).

    With the absorbing graph every row has at least one mask. EOS tokens after the first one weigh less.
    """
    length, count = max(map(len, rows)), len(rows)
    clean = torch.full((count, length), eos_id)  # (R, T)
    for number, row in enumerate(rows):
        clean[number, : len(row)] = torch.tensor([*row.prompt, *row.canvas])
    place = torch.arange(length)[None].expand(count, -1)
    start, stop = (torch.tensor(ends)[:, None] for ends in zip(*((len(r.prompt), len(r)) for r in rows), strict=True))
    answer = (place >= start) & (place < stop)
    for number, row in enumerate(rows):
        if row.holes is not None:
            answer[number, len(row.prompt) : len(row)] = torch.tensor(row.holes)
    end = start + torch.tensor([row.answer for row in rows])[:, None]
    time = (torch.rand(1, generator=rng) + torch.randperm(count, generator=rng) / count) % 1  # (R,)
    time = time.clamp(min=EARLIEST)
    kept = torch.tensor([-noise.total(float(t)) for t in time]).exp()[:, None]  # (R, 1)
    draws = torch.rand(count, length, generator=rng)
    hit = answer & (draws > kept)
    hit |= answer & (draws == draws.masked_fill(~answer, -1.0).amax(1, keepdim=True))
    if graph.mask_id is None:
        ids = torch.where(hit, torch.randint(graph.columns, (count, length), generator=rng), clean)
    else:
        ids = clean.masked_fill(hit, graph.mask_id)
    weights = torch.where(place > end, PADDING_WEIGHT, 1.0)
    judged = answer & graph.open(ids)
    return NoisyBatch(ids, clean, place < stop, judged, weights, time, tuple(row.task for row in rows))


def score_entropy(graph: Graph, log_score: Tensor, tokens: Tensor, clean: Tensor, sigma: Tensor) -> Tensor:
    """The score entropy (M,) of log-scores (M, N) at noisy tokens (M,) whose clean ones are known, at noise σ (M,).

    Σ over y ≠ x of Q(x, y)·(s_y − r_y log s_y + r_y (log r_y − 1)), where r_y = p(y | clean) / p(x | clean) is the true
    ratio, so it is 0 for the true scores and positive for all others.
    """
    ratio, rate = ratios(graph, tokens, clean, sigma)
    constant = torch.where(ratio > 0, ratio * (ratio.clamp(min=1e-30).log() - 1), 0.0)
    terms = log_score.exp() - ratio * log_score + constant  # (M, N)
    return (rate * terms.scatter(-1, tokens[:, None], 0.0)).sum(-1)


def ratios(graph: Graph, tokens: Tensor, clean: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """The true ratios r (M, N), and the rates Q (M, N) with which the present token would be reached from each y."""
    own = torch.nn.functional.one_hot(clean, graph.columns).float()  # (M, N)
    kept = (-sigma).exp()[:, None]  # (M, 1)
    if graph.mask_id is None:
        later = own * kept + (1 - kept) / graph.columns  # p(y at σ | clean)
        return later / later.gather(-1, tokens[:, None]), torch.full_like(own, 1 / graph.columns)
    rate = torch.ones_like(own)
    rate[:, graph.mask_id] = 0.0
    return own * kept / (1 - kept), rate


def losses(network: SeddNetwork, batch: NoisyBatch, graph: Graph, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    """The loss (M,) of each judged position, its row (M,) and its weight (M,).

    The score entropy times σ′(t)·t: the bound's own weight is σ′(t), under which few rows with t near 0 would decide.
    """
    device = next(network.parameters()).device
    judged, clean = batch.judged.to(device), batch.clean.to(device)
    values = position_losses(
        network, graph, noise, batch.ids.to(device), batch.seen.to(device), judged, clean[judged], batch.time
    )
    return values, judged.nonzero()[:, 0], batch.weights.to(device)[judged]


def position_losses(
    network: torch.nn.Module,
    graph: Graph,
    noise: Noise,
    ids: Tensor,
    seen: Tensor,
    judged: Tensor,
    clean: Tensor,
    time: Tensor,
) -> Tensor:
    """The loss (M,) of each position `judged` (R, T) of noisy `ids` (R, T) at `time` (R,), whose clean tokens are
    `clean` (M,).
    """
    sigma = torch.tensor([noise.total(float(t)) for t in time], device=ids.device)  # (R,)
    rate = torch.tensor([noise.rate(float(t)) * float(t) for t in time], device=ids.device)
    row = judged.nonzero()[:, 0]
    log_score = network(ids, sigma, judged, None if bool(seen.all()) else seen)  # (M, N)
    return score_entropy(graph, log_score, ids[judged], clean, sigma[row]) * rate[row]


def sedd_network(
    words: int, *, width: int, layers: int, heads: int, condition: int, graph: str, seed: int
) -> SeddNetwork:
    """A randomly initialised network for log-linear noise, with embeddings of standard deviation 1/√width."""
    config = SeddConfig(
        tokens=words,
        graph=graph,
        noise="loglinear",
        sigma_min=1e-4,
        sigma_max=20.0,
        width=width,
        condition=condition,
        blocks=layers,
        heads=heads,
        length=LENGTH,
        scale_by_sigma=graph == "absorb",
    )
    torch.manual_seed(seed)
    network = SeddNetwork(config)
    torch.nn.init.normal_(network.vocab_embed.embedding, std=width**-0.5)
    return network


def process(network: SeddNetwork) -> tuple[Graph, Noise]:
    """The graph and the noise schedule of a network."""
    config = network.config
    return Graph(config.graph, config.columns), Noise(config.noise, config.sigma_min, config.sigma_max)
