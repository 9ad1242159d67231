"""Top-k: the k best candidates by one score."""

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.registry import NotNegative, Positive, Ranged, register_policy
from pbcore.decoding.step import Step


@register_policy("random", look=1)
class Random:
    """Reveals k masked positions drawn uniformly, anew at each step (LLaDA, arXiv 2502.09992)."""

    k: int | None = None
    reads = "numbers"
    chooses = "positions"
    reveals = "k"

    def select(self, step: Step) -> Tensor:
        return step.best(step.uniform(), self.k)


@register_policy("left_to_right", look=6)
class LeftToRight:
    """Reveals the k leftmost masked positions; equal to blocks of k with one step each.

    No paper tells the rule.
    """

    k: int | None = None
    reads = "numbers"
    chooses = "positions"
    reveals = "k"

    def select(self, step: Step) -> Tensor:
        return step.best(-step.position.to(step.confidence.dtype), self.k)


@register_policy("confidence", look=0)
class Confidence:
    """Reveals the k positions whose predicted token is most probable (LLaDA's low-confidence
    remasking, arXiv 2502.09992).
    """

    k: int | None = None
    reads = "numbers"
    chooses = "tokens"
    reveals = "k"

    def select(self, step: Step) -> Tensor:
        return step.best(step.confidence, self.k)


@register_policy("margin", look=5)
class Margin:
    """Reveals the k positions with the widest gap p₁ − p₂ between the two likeliest tokens (Kim et
    al., arXiv 2502.06768).
    """

    k: int | None = None
    reads = "numbers"
    chooses = "positions"
    reveals = "k"

    def select(self, step: Step) -> Tensor:
        return step.best(step.margin(), self.k)


@register_policy("entropy", look=3)
class Entropy:
    """Reveals the k positions of lowest entropy, i.e. highest Σ p ln(p + 1e-10) (Dream 7B, arXiv
    2508.15487).
    """

    k: int | None = None
    reads = "numbers"
    chooses = "positions"
    reveals = "k"

    def select(self, step: Step) -> Tensor:
        return step.best(-step.entropy(), self.k)


@register_policy("pc", look=17)
class PositionCalibrated(Ranged):
    """Reveals the k positions of highest e^(−λ·pos) · min(−p ln(f(x) + 1e-9), α) (PC-Sampler, arXiv
    2508.13021).

    p is the confidence, f(x) the background frequency of the predicted token, so frequent words are
    revealed later; pos counts from the block's start. λ .25, α 10. The frequencies belong to the
    model; `pbcore list samplers --frequencies` counts them in a corpus.
    """

    k: int | None = None
    lam: NotNegative = 0.25
    alpha: Positive = 10.0
    needs = frozenset({"frequencies"})
    reads = "numbers"
    chooses = "tokens"
    reveals = "k"

    def select(self, step: Step) -> Tensor:
        assert step.frequencies is not None
        background = step.frequencies.to(step.confidence.device)[step.token].double()  # (R, C)
        surprise = (-step.confidence.double() * (background + 1e-9).log()).clamp(max=self.alpha)
        place = step.column - step.column[:, :1]
        return step.best(torch.exp(-self.lam * place) * surprise, self.k)
