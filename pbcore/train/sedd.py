"""Training of SEDD: noisy batches at random noise levels, and the score entropy (arXiv 2310.16834, Section 3).

R rows, T positions, M noisy positions, N columns.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pbcore.models.sedd.diffusion import EARLIEST, Graph, Noise
from pbcore.models.sedd.network import SeddNetwork
from pbcore.train.noise import ANSWER, PAD, WEIGHTS, Batch, Row, padded


def noisy_batch(rows: Sequence[Row], eos_id: int, graph: Graph, noise: Noise, rng: torch.Generator) -> Batch:
    """Rows padded on the right. Each draws t ~ U(0, 1), evenly spread over the batch, and its answer is corrupted with
    total noise σ(t). The loss is taken at answers, with the absorbing graph only at masks.

    With the absorbing graph every row has at least one mask. EOS tokens after the first one weigh less.
    """
    clean, kinds = padded(rows, eos_id, "right")
    count, answer = len(rows), kinds >= ANSWER  # (R, T)
    time = (torch.rand(1, generator=rng) + torch.randperm(count, generator=rng) / count) % 1  # (R,)
    time = time.clamp(min=EARLIEST)
    kept = torch.tensor([-noise.total(float(t)) for t in time]).exp()[:, None]  # (R, 1)
    draws = torch.rand(clean.shape, generator=rng)
    hit = answer & (draws > kept)
    hit |= answer & (draws == draws.masked_fill(~answer, -1.0).amax(1, keepdim=True))
    if graph.mask_id is None:
        ids = torch.where(hit, torch.randint(graph.columns, clean.shape, generator=rng), clean)
    else:
        ids = clean.masked_fill(hit, graph.mask_id)
    judged = answer & graph.open(ids)
    weights, tasks = WEIGHTS[kinds[judged]], tuple(row.task for row in rows)
    return Batch(ids, kinds > PAD, judged, clean[judged], weights, tasks, time)


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


class ScoreLoss(nn.Module):
    """The score entropy of noisy answer tokens times σ′(t)·t, as one module, which `accelerate` can spread over GPUs.

    The bound's own weight is σ′(t), under which few rows with t near 0 would decide.
    """

    def __init__(self, network: SeddNetwork) -> None:
        super().__init__()
        self.network = network
        self._graph, self._noise = process(network)

    def forward(self, ids: Tensor, seen: Tensor, judged: Tensor, clean: Tensor, time: Tensor) -> Tensor:
        """The loss (M,) of each position `judged` (R, T), in row-major order."""
        sigma = torch.tensor([self._noise.total(float(t)) for t in time], device=ids.device)  # (R,)
        rate = torch.tensor([self._noise.rate(float(t)) * float(t) for t in time], device=ids.device)
        row = judged.nonzero()[:, 0]
        log_score = self.network(ids, sigma, judged, None if bool(seen.all()) else seen)  # (M, N)
        return score_entropy(self._graph, log_score, ids[judged], clean, sigma[row]) * rate[row]


def process(network: SeddNetwork) -> tuple[Graph, Noise]:
    """The graph and the noise schedule of a network."""
    config = network.config
    return Graph(config.graph, config.columns), Noise(config.noise, config.sigma_min, config.sigma_max)
