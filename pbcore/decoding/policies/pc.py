"""Position-aware confidence calibration."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("pc")
@dataclass(frozen=True, slots=True)
class PositionCalibrated:
    """Reveals the k positions of highest e^(−λ·pos) · min(−p ln(f(x) + 1e-9), α) (PC-Sampler, arXiv 2508.13021).

    p is the confidence, f(x) the background frequency of the predicted token, so frequent words are revealed later; pos
    counts from the block's start. λ .25, α 10. The frequencies belong to the model; `pbcore samplers --frequencies`
    counts them in a corpus.
    """

    k: int | None = None
    lam: float = 0.25
    alpha: float = 10.0
    needs: ClassVar[frozenset[str]] = frozenset({"frequencies"})
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if self.lam < 0 or self.alpha <= 0:
            raise ValueError(f"pc takes λ of at least 0 and a positive α, not lam {self.lam} and alpha {self.alpha}")

    def select(self, step: Step) -> Tensor:
        assert step.frequencies is not None
        background = step.frequencies.to(step.confidence.device)[step.token].double()  # (R, C)
        surprise = (-step.confidence.double() * (background + 1e-9).log()).clamp(max=self.alpha)
        place = step.column - step.column[:, :1]
        return step.best(torch.exp(-self.lam * place) * surprise, self.k)
