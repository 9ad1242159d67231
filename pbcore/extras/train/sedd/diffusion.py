"""Noise, graphs and predictors of SEDD (arXiv 2310.16834, Section 4 and Appendix B): from scores to
the distribution of the next tokens.

M positions, N columns. All in the scores' float32, as the authors compute it. The predictors'
probabilities can be negative; `draw_tokens` takes those as 0. Beyond σ of about 16 (geometric noise
up to σ = 20) the mask's probability is a difference of numbers that float32 can't tell apart, and
about half of the masks stay a step longer than they should.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

EARLIEST = 1e-5  # the time at which the reverse process ends and the denoiser takes over
LOGLINEAR = 1 - 1e-3  # the share of tokens that are corrupted at time 1


@dataclass(frozen=True, slots=True)
class Noise:
    """Total noise σ(t) and its rate σ′(t) at a time t in [0, 1]."""

    kind: str
    low: float = 0.0
    high: float = 0.0

    def total(self, t: float) -> float:
        if self.kind == "loglinear":
            return -math.log1p(-LOGLINEAR * t)
        return float(self.low ** (1 - t) * self.high**t)

    def rate(self, t: float) -> float:
        if self.kind == "loglinear":
            return LOGLINEAR / (1 - LOGLINEAR * t)
        return self.total(t) * math.log(self.high / self.low)


@dataclass(frozen=True, slots=True)
class Graph:
    """How noise changes tokens: `absorb` into the mask (the last column), `uniform` into any
    token.
    """

    kind: str
    columns: int

    @property
    def mask_id(self) -> int | None:
        return self.columns - 1 if self.kind == "absorb" else None

    def open(self, tokens: Tensor) -> Tensor:
        """Which tokens a step back in time may change: masks, or with uniform noise all."""
        return (
            torch.ones_like(tokens, dtype=torch.bool)
            if self.mask_id is None
            else tokens == self.mask_id
        )

    def staggered(self, score: Tensor, dsigma: float) -> Tensor:
        """The scores (M, N) at a noise level lower by `dsigma`, from those at the present one."""
        grown = math.exp(dsigma)
        total = score.sum(-1, keepdim=True)
        if self.mask_id is None:
            return grown * score + (1 - grown) / self.columns * total
        result = grown * score
        result[:, self.mask_id] += (1 - grown) * total[:, 0]
        return result

    def transposed_transition(self, tokens: Tensor, dsigma: float) -> Tensor:
        """The probability (M, N) of each token to become the present one (M,) by noise of
        `dsigma`.
        """
        kept = math.exp(-dsigma)
        own = torch.nn.functional.one_hot(tokens, self.columns).float()
        if self.mask_id is None:
            return own * kept + (1 - kept) / self.columns
        return own * kept + (1 - kept) * (tokens == self.mask_id)[:, None]

    def reverse_rate(self, tokens: Tensor, score: Tensor) -> Tensor:
        """The rate (M, N) at which each token takes the present one's place in reverse time; each
        row's sum is 0.
        """
        rates = (
            score / self.columns
            if self.mask_id is None
            else score * (tokens == self.mask_id)[:, None]
        )
        rates = rates.scatter(-1, tokens[:, None], 0.0)
        return rates.scatter(-1, tokens[:, None], -rates.sum(-1, keepdim=True))


def analytic(
    graph: Graph, noise: Noise, tokens: Tensor, score: Tensor, t: float, step: float
) -> Tensor:
    """The analytic predictor (Tweedie's formula for one step): probabilities (M, N) of the tokens
    at
    t − step.

    Args:
        graph: how noise changes tokens.
        noise: σ over t.
        tokens: the present tokens (M,).
        score: (M, N).
        t: the time.
        step: how far it goes back.
    """
    dsigma = noise.total(t) - noise.total(t - step)
    return graph.staggered(score, dsigma) * graph.transposed_transition(tokens, dsigma)


def euler(
    graph: Graph, noise: Noise, tokens: Tensor, score: Tensor, t: float, step: float
) -> Tensor:
    """The Euler predictor: probabilities (M, N) of the tokens at t − step, linear in the step.

    Args:
        graph: how noise changes tokens.
        noise: σ over t.
        tokens: the present tokens (M,).
        score: (M, N).
        t: the time.
        step: how far it goes back.
    """
    own = torch.nn.functional.one_hot(tokens, graph.columns).float()
    return own + step * noise.rate(t) * graph.reverse_rate(tokens, score)


def denoised(graph: Graph, noise: Noise, tokens: Tensor, score: Tensor, t: float) -> Tensor:
    """The last step, to time 0: probabilities (M, N) without the mask's column.

    Args:
        graph: how noise changes tokens.
        noise: σ over t.
        tokens: the present tokens (M,).
        score: (M, N).
        t: the time.
    """
    sigma = noise.total(t)
    result = graph.staggered(score, sigma) * graph.transposed_transition(tokens, sigma)
    return result if graph.mask_id is None else result[:, :-1]


PREDICTORS = {"analytic": analytic, "euler": euler}


def draw_tokens(probabilities: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (M,) by inverting the distribution function at uniforms (M,), and their probabilities
    (M,); negative ones count as 0, and the rest is divided by its sum.
    """
    clamped = probabilities.clamp(min=0)
    cdf = clamped.double().cumsum(-1)  # (M, N)
    total = cdf[:, -1:]
    token = torch.searchsorted(cdf / total, uniforms[:, None], right=True).clamp(
        max=cdf.shape[-1] - 1
    )
    return token.squeeze(-1), (clamped.gather(-1, token) / total).squeeze(-1)
