"""The candidates with what a forward says of them. Policies only read it; the functions are the
loop's.

R rows, C slots of the active block, M candidates, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pbcore.base.errors import InputError
from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.candidates import ABSENT, Candidates
from pbcore.decoding.prediction import NUMBERS, Law, Prediction, predict, rowwise, scattered
from pbcore.models.base import Attention
from pbcore.models.counter_rng import RandomSource, uniform


@dataclass(frozen=True, slots=True)
class Decoding:
    """What a policy may know of the decoding: the same at every step, for all rows."""

    seed: int = 0
    mask_id: int = -1  # the mask token
    law: Law = field(default_factory=Law)  # what tokens are drawn from, and what ranks places
    frequencies: Tensor | None = None  # (V,) float: the tokens' background probabilities, if known
    reach: str = "block"  # the policy's `reach`
    reads: str = "distributions"  # the policy's `reads`
    draw: RandomSource = uniform


@dataclass(frozen=True, slots=True)
class Review:
    """The model's new predictions for the active block's revealed tokens; 0 in all other slots.
    `token` is the prediction, `confidence` its probability, and `support` the probability of the
    token that stands there. `mask` is the probability of the mask token, if the policy needs it.
    """

    token: Tensor  # (R, C) long
    confidence: Tensor  # (R, C) float
    support: Tensor  # (R, C) float
    mask: Tensor | None = None  # (R, C) float


class Ends(NamedTuple):
    """What ends an answer at once: the likeliest token of each of its masks, (R, A) each."""

    column: Tensor  # long: index in the canvas
    masked: Tensor  # bool
    token: Tensor  # long
    confidence: Tensor  # float


@dataclass(slots=True, kw_only=True)
class Predicted(Candidates):
    """What the model says of the candidates, as logits or, where a store answered, as numbers."""

    token: Tensor  # (R, C) long: predicted token of a candidate, present token of a revealed slot
    # (R, C) float: probability of a candidate's `token` under the softmax of `logits`, else 0
    confidence: Tensor
    # (R, C) float: probability of the mask token at a candidate, if the policy needs it
    mask: Tensor | None = None
    # (R,) float: mean gap between the two highest logits in the region of a policy with `gaps`
    gap: Tensor | None = None
    attention: Attention = ABSENT  # weights of the slots, if the policy needs them, else None
    review: Review = ABSENT  # if the policy declares `review`, else None
    key: Tensor  # (R,) long: identifies the row in random draws
    nfe: Tensor  # (R,) long: earlier forwards of the row
    decoding: Decoding = Decoding()
    _logits: Tensor | None = None  # (M, V) float; None if a store answered
    _ends: Ends | None = None  # of a policy with `gaps`
    _numbers: Mapping[str, Tensor] = field(default_factory=dict)  # (R, C) each, if a store answered

    @property
    def seed(self) -> int:
        """The decoding's seed."""
        return self.decoding.seed

    @property
    def mask_id(self) -> int:
        """The mask token."""
        return self.decoding.mask_id

    @property
    def temperature(self) -> float:
        """The sampler's temperature; 0: greedy."""
        return self.decoding.law.temperature

    @property
    def frequencies(self) -> Tensor | None:
        """The tokens' background probabilities (V,), if the model has a table."""
        return self.decoding.frequencies

    @property
    def reach(self) -> str:
        """The policy's `reach`: whose slots the step has."""
        return self.decoding.reach

    @property
    def reads(self) -> str:
        """The policy's `reads`: whether it may use `logits`."""
        return self.decoding.reads

    @property
    def logits(self) -> Tensor:
        """Logits (M, V) of the candidates, in row-major order; -inf for the mask token. Of
        families whose places are ranked by what tokens are drawn from, these are that
        distribution's. Raises InputError for a policy that declares to read numbers alone.
        """
        if self.decoding.reads == "numbers" or self._logits is None:
            raise InputError(
                "this policy declares reads = 'numbers' and so has no step.logits, step.log_probs()"
                " or step.rowwise(); use step.confidence, step.margin() and step.entropy(), or"
                " leave the declaration out"
            )
        return self._logits

    def log_probs(self) -> Tensor:
        """Log-probabilities of the candidates (M, V)."""
        return torch.log_softmax(self.logits, dim=-1)

    def rowwise(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """`function`, log-probabilities (m, V) → (m,), of the candidates (R, C), in chunks of
        bounded memory.
        """
        return self.scatter(rowwise(function, self.logits))

    def margin(self) -> Tensor:
        """The gap (R, C) between the probabilities of the two likeliest tokens of each candidate; 0
        elsewhere.
        """
        return self._number("margin")

    def entropy(self) -> Tensor:
        """The entropy −Σ p ln(p + 1e-10) (R, C) of each candidate's distribution, in nats; 0
        elsewhere.
        """
        return self._number("entropy")

    def predict(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Token and confidence (R, C) from changed logits (M, V), with the random draws of the
        step's own.
        """
        seen = prediction_of(self, logits)
        return self.token.masked_scatter(self.masked, seen.token), self.scatter(seen.confidence)

    def uniform(self, salt: int = 0) -> Tensor:
        """A uniform number in (0, 1) for each slot (R, C), new at each step, whatever the batch;
        `salt` ≥ 0 gives further draws.
        """
        decoding = self.decoding
        return decoding.draw(decoding.seed, self.key, self.nfe, self.position, salt + 1)

    def _number(self, name: str) -> Tensor:
        if self._logits is None:
            return self._numbers[name].where(self.masked, 0.0)
        return self.scatter(rowwise(NUMBERS[name], self._logits))


def prediction_of(step: Predicted, logits: Tensor) -> Prediction:
    """What logits (M, V) of the candidates predict, by the step's own random draws."""
    draws = step.of_candidates(step.uniform(-1)) if step.temperature else None
    return Prediction(*predict(logits, step.decoding.law, draws), logits)


def see(step: Predicted, prediction: Prediction) -> None:
    """Gives the step what a forward says of its candidates."""
    step.token = step.token.masked_scatter(step.masked, prediction.token)
    step.confidence = scattered(step.masked, prediction.confidence)
    step._logits = prediction.logits
    step._numbers = {
        name: scattered(step.masked, values) for name, values in prediction.numbers.items()
    }


def review_within(review: Review, slots: Tensor) -> Review:
    """The review of some slots (R, C) bool; 0 in the others."""
    token, confidence, support = (
        part.where(slots, torch.zeros_like(part))
        for part in (review.token, review.confidence, review.support)
    )
    mask = None if review.mask is None else review.mask.masked_fill(~slots, 0.0)
    return Review(token, confidence, support, mask)


def hide(step: Predicted, slots: Tensor) -> None:
    """Takes these slots (R, C) from the step's candidates."""
    if step._logits is not None:
        step._logits = step._logits[~step.of_candidates(slots)]
    step.masked = step.masked & ~slots
