"""KL-adaptive stability sampling."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("klass")
@dataclass(frozen=True, slots=True)
class Klass:
    """Reveals slots with confidence > γ and KL(p_t ‖ p_{t−1}) < `kl` over the last `history` steps, else the best one.

    KLASS, arXiv 2511.05664. Divergences are in nats. A position can count as stable from its prediction `history` + 1
    in the block on.

    State: each slot's last distribution and last divergences.
    """

    gamma: float = 0.9
    kl: float = 0.01
    history: int = 2
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or self.kl <= 0 or self.history < 1:
            raise ValueError(
                f"klass takes a confidence in [0, 1], a positive KL bound and a history of at least 1, not {self}"
            )

    def select(self, step: Step) -> Tensor:
        log_probs = step.log_probs()  # (M, V)
        probs = log_probs.exp()
        before = step.state("klass before", -torch.inf, shape=log_probs.shape[-1:], dtype=log_probs.dtype)  # (R, C, V)
        drifts = step.state("klass drifts", torch.inf, shape=(self.history,), dtype=log_probs.dtype)  # (R, C, history)
        terms = probs * (log_probs - before[step.masked]).masked_fill(probs == 0, 0.0)
        drift = step.scatter(terms.sum(-1), torch.inf)  # (R, C); inf without a prediction at the last step
        drifts.copy_(torch.cat([drifts[..., 1:], drift[..., None]], dim=-1))
        before.fill_(-torch.inf)
        before[step.masked] = log_probs
        stable = (drifts < self.kl).all(-1)
        return step.at_least_best(stable & (step.confidence > self.gamma), step.confidence)
